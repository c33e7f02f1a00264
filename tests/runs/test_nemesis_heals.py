"""Heals come when they are due, whatever else is being observed. They are verified, and a heal without effect
fails."""

from __future__ import annotations

import threading
import time
from random import Random
from typing import Any

import msgspec
import pytest
import redis

from harness.checkers.faults import FOR_EVER, faults
from harness.clusters.sim.cluster import SimCluster
from harness.documents.lock import LockFacts
from harness.faults.base import Damage, InjectionContext
from harness.faults.catalogue import fault_class
from harness.faults.clocks import Clocks
from harness.history import History, Op
from harness.plan import FaultSpec, Plan
from harness.run.nemesis import Nemesis
from harness.run.recorder import Recorder
from harness.run.runs import run
from harness.run.verdicts.fault_records import fault_records
from harness.run.verdicts.judging import Result
from harness.run.verdicts.summary import summarise
from harness.worker.workloads.inventory import InventoryWorkload
from tests.clusters.bench import make, on


def run_with(*specs: FaultSpec, **more: Any) -> Result:
    return run(Plan(**{"lock": "redis-token", "faults": specs, "time_limit": 12.0, **more}))


def entries(history: History, f: str) -> list[tuple[float, str, str]]:
    """Return (seconds since the start, fault, type) of each entry."""
    return [(round((op.time - history.origin) / 1e9, 3), op.value["fault"], op.type) for op in history.nemesis(f)]


@pytest.fixture
def undo_calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[float, str, Any]]:
    """Record (virtual seconds since the first call, method, host) of each call that undoes a fault on a simulated
    cluster."""
    calls: list[tuple[float, str, Any]] = []

    def log(name: str) -> None:
        real = getattr(SimCluster, name)

        def logging(self: SimCluster, *args: Any, **kwargs: Any) -> Any:
            calls.append((self.clock()[0] / 1e9 - 1000.5, name, args[0]))
            return real(self, *args, **kwargs)

        monkeypatch.setattr(SimCluster, name, logging)

    for name in ("resume", "heal", "start"):
        log(name)
    return calls


# At the end of a run.


@pytest.mark.usefixtures("in_this_process")
def test_every_fault_is_healed_when_the_run_begins_to_settle(undo_calls: list[tuple[float, str, Any]]) -> None:
    """One fault waits for a message that never comes, which takes ten seconds to establish."""
    result = run_with(
        FaultSpec("lost-reply", on="acquire", nth=3, params={"containing": "never sent"}),
        FaultSpec("server-pause", at=7.0),
    )
    assert [(round(at, 3), name) for at, name, _ in undo_calls] == [(8.0, "resume")]
    [(_, _, ended), (healed, _, _)] = [e for e in entries(result.history, "inject") if e[1] == "lost-reply"][1:] + [
        e for e in entries(result.history, "heal") if e[1] == "server-pause"
    ]
    assert ended == "fail", "nothing was lost, and it says so at the end"
    assert healed == pytest.approx(8.0, abs=0.01)
    assert max(op.time for op in result.history.nemesis("inject", "heal")) - result.history.origin < 8_500_000_000


@pytest.mark.slow
def test_a_failover_too_late_to_be_observed_does_not_start() -> None:
    spec = FaultSpec("failover", at=7.0, for_=6.0)
    result = run_with(spec, lock="redis-token", kind="redis-sentinel")
    [op] = result.history.nemesis("inject")
    assert (op.type, op.error) == (
        "fail",
        "never struck: its time came too late to see what it does (a longer time limit gives it room)",
    )


def test_no_fault_strikes_after_the_stop() -> None:
    """A thread that is about to strike when the nemesis stops strikes before the heals, or not at all."""
    result = run_with(*(FaultSpec("server-pause", at=8.0 - 0.6 + n / 20, for_=9.0) for n in range(12)))
    struck = {op.value["id"] for op in result.history.nemesis("inject") if op.type == "invoke"}
    assert struck
    assert struck == {op.value["id"] for op in result.history.nemesis("heal")}


@pytest.mark.timeout(30)
def test_a_fault_on_a_reply_waits_in_virtual_time() -> None:
    """No simulated thread runs at that moment, so code called then must not wait for real time."""
    lost = FaultSpec("lost-reply", on="reply:SET", client=0, params={"client": "c0", "containing": "never sent"})
    drift = FaultSpec("clock-drift", on="reply:SET", client=0, params={"target": "n1"})
    history = run_with(lost, drift).history
    assert {(op.value["fault"], op.type) for op in history.nemesis("inject")} >= {
        ("lost-reply", "fail"), ("clock-drift", "ok"),
    }  # fmt: skip


# In time.


@pytest.mark.usefixtures("in_this_process")
def test_a_heal_does_not_wait_for_the_observation_of_another(undo_calls: list[tuple[float, str, Any]]) -> None:
    """Four partitions of one server end one after the other. Probes fail while any of them is active."""
    node = {"target": "n1"}
    run_with(*(FaultSpec("partition-node", at=1.0, for_=1.0 + n / 20, params=node) for n in range(4)))
    assert [round(at, 3) for at, name, _ in undo_calls if name == "heal"] == [2.0, 2.05, 2.1, 2.15]


def test_a_heal_hidden_by_another_fault_is_observed_again_later() -> None:
    node = {"target": "n1"}
    short, long = (FaultSpec("partition-node", at=1.0, for_=at, params=node) for at in (1.0, 3.0))
    result = run_with(short, long)
    assert [type_ for _, _, type_ in entries(result.history, "heal")] == ["ok", "ok"]
    assert result.history.nemesis("heal")[0].value["observed"]["at_work"] == ["partition-node"]
    assert result.verdicts["faults"].valid is True


# Without effect.


@pytest.mark.parametrize(
    ("method", "spec", "expected"),
    [
        ("heal", FaultSpec("partition-node", at=2.0, for_=1.0), "answers within 0.3 s on every link"),
        ("resume", FaultSpec("server-pause", at=2.0, for_=1.0), "none of them paused"),
        ("start", FaultSpec("kill", at=2.0, for_=1.0), "all of them running"),
    ],
)
@pytest.mark.usefixtures("in_this_process")
def test_a_heal_without_effect_fails_and_makes_the_run_unknown(
    method: str, spec: FaultSpec, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SimCluster, method, lambda *args, **kwargs: None)
    result = run_with(spec, time_limit=20.0)
    [heal] = result.history.nemesis("heal")
    assert (heal.type, heal.error) == ("fail", f"not undone; expected {expected}")
    assert result.valid is None, "the lock is not blamed for a cluster that stays broken"
    assert "was not healed" in result.document["summary"]
    assert {name for name, verdict in result.verdicts.items() if verdict.valid is None} >= {"faults", "liveness"}
    [record] = fault_records(result.history)
    assert record.healed_ns is None


def test_a_clock_that_stays_wrong_is_observed() -> None:
    cluster = make()

    def main() -> tuple[Any, Any]:
        damage = struck(cluster, "clock-jump", InjectionContext(cluster, Random(1), 2.0), target="n1", seconds=3.0)
        cluster.set_clock = lambda *args, **kwargs: None  # type: ignore[method-assign]
        damage.heal()
        return damage.healed(), cluster.read_clock("n1")

    seen, offset = on(cluster, main)
    assert (seen.effective, offset) == (False, 3_000_000_000)


def test_a_tolerated_fault_counts_as_a_disturbance_after_a_failed_heal() -> None:
    history = History()
    value = {"id": 0, "fault": "server-pause", "hosts": ["n1"], "disturbs": False}
    for index, (at, f, type_) in enumerate([(10, "inject", "invoke"), (11, "inject", "ok"), (20, "heal", "fail")]):
        history.append(Op(index, at, at, -1, type_, f, None, value, None, None))  # type: ignore[arg-type]
    found = [(fault.disturbs, fault.from_ns, fault.until_ns) for fault in faults(history)]
    assert found == [(False, 10, FOR_EVER), (True, 20, FOR_EVER)]


# State that remains after a heal.


def set_on(server: str) -> None:
    redis.Redis(host=server).set("k", "v")


def struck(cluster: SimCluster, name: str, scene: InjectionContext, **params: Any) -> Damage:
    damage = msgspec.convert(params, fault_class(name)).inject(scene)
    assert damage.observe().effective
    return damage


def test_healing_one_clock_fault_does_not_change_the_others() -> None:
    cluster = make()

    def main() -> list[int]:
        clocks = Clocks()
        scenes = [InjectionContext(cluster, Random(1), 2.0, clocks=clocks, schedule=number) for number in range(3)]
        offset = struck(cluster, "clock-offset", scenes[0], target="n1", seconds=5.0)
        drift = struck(cluster, "clock-drift", scenes[1], target="n1", rate=0.5)
        time.sleep(1.8)
        jump = struck(cluster, "clock-jump", scenes[2], target="n1", seconds=-20.0)
        seen = [round(cluster.read_clock("n1") / 1e8)]
        for damage in (jump, offset, drift):
            damage.heal()
            assert damage.healed().effective
            seen.append(round(cluster.read_clock("n1") / 1e8))
        return seen

    assert on(cluster, main) == [-140, 60, 10, 0], "in tenths of a second"


@pytest.mark.slow
@pytest.mark.usefixtures("in_this_process")
def test_only_clocks_of_active_faults_are_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """At any time the hosts of active faults include every host whose clock is wrong."""
    wrong: list[tuple[int, set[str]]] = []
    real = SimCluster.set_clock

    def set_clock(self: SimCluster, host: str, *args: Any) -> None:
        real(self, host, *args)
        servers = [machine.name for machine in self.hosts if machine.role == "server"]
        wrong.append((self.clock()[0], {name for name in servers if self.read_clock(name)}))

    monkeypatch.setattr(SimCluster, "set_clock", set_clock)
    result = run_with(
        FaultSpec("clock-jump", every=1.5, params={"target": "one", "by": 0.1}), lock="redlock", time_limit=20.0
    )
    lasting = [fault for fault in fault_records(result.history) if fault.seen]
    assert len({host for _, hosts in wrong for host in hosts}) > 2
    for at, hosts in wrong:
        named = {h for f in lasting if f.injected_ns <= at and (f.healed_ns or at) >= at for h in f.hosts}
        assert hosts <= named
    assert wrong[-1][1] == set()
    assert all(op.type == "ok" for op in result.history.nemesis("heal"))


def test_a_superseded_message_fault_stops_waiting() -> None:
    """The first strike waits for a message that never comes, and is given up when the second one supersedes it."""
    result = run_with(FaultSpec("lost-reply", every=3.0, params={"containing": "never sent"}))
    assert [(at, type_) for at, _, type_ in entries(result.history, "inject") if type_ != "invoke"] == [
        (6.0, "fail"), (8.0, "fail"),
    ]  # fmt: skip


def test_data_lost_by_a_restart_is_observed() -> None:
    """The heal queries the server. Without persistence it restarts empty."""
    kill = FaultSpec("kill", on="acquire", nth=4, for_=0.1, params={"target": "n1"})
    for persistence, lost in (("no", ["n1"]), ("always", [])):
        result = run_with(kill, server_options={"persistence": persistence}, hold=0.5)
        [heal] = result.history.nemesis("heal")
        assert heal.value["observed"]["wiped"] == lost, persistence


def test_the_story_mentions_a_restart_only_after_it_happened() -> None:
    """The story of the violation uses only what was known by then."""
    result = run_with(FaultSpec("kill-amnesia", on="acquire", nth=4, for_=0.02, params={"target": "n1"}), hold=0.5)
    assert "and restarted without data" in result.document["summary"]
    history = result.history
    late = [msgspec.structs.replace(op, time=history.time[-1]) if op.f == "heal" else op for op in history]
    moved = History()
    for op in sorted(late, key=lambda op: op.time):
        moved.append(msgspec.structs.replace(op, index=len(moved)))
    told = str(summarise(result.plan, LockFacts(name=result.plan.lock), moved, result.verdicts, result.decision))
    assert "n1 was killed at" in told
    assert "restarted" not in told


@pytest.mark.slow
def test_a_later_fault_can_restart_a_crashed_client() -> None:
    result = run_with(
        FaultSpec("client-crash", at=1.0, for_=0.5, params={"target": "c0"}),
        FaultSpec("client-crash", at=3.0, for_=1.0, params={"target": "c0", "restart": True}),
    )
    assert result.verdicts["faults"].valid is True
    assert [op for op in result.history if op.node == "c0" and op.process >= 1_000_000 and op.type == "ok"]


def test_a_wipe_of_a_live_host_has_no_effect_at_a_later_restart() -> None:
    cluster = make()

    def main() -> int | None:
        cluster.spawn("c0", lambda checkpoint: set_on("n1"))(5)
        cluster.start("n1", wiped=True)
        cluster.kill("n1")
        cluster.start("n1", wiped=False)
        return cluster.key_count("n1")

    assert on(cluster, main) == 1


# Targets and events.


@pytest.mark.slow
def test_a_fault_can_wait_for_a_command_to_one_server() -> None:
    """The lock sends its command to five servers; the fault waits for the third."""
    for event in ("request:SET", "reply:SET"):
        result = run_with(FaultSpec("client-crash", on=event, client=0, node="n3"), lock="redlock")
        assert len(result.history.nemesis("crash")) == 1
    taps: list[tuple[str, ...]] = []
    cluster = make()

    def main() -> None:
        cluster.tap(lambda *told: taps.append(told))
        cluster.spawn("c0", lambda checkpoint: set_on("n3"))(5)

    on(cluster, main)
    assert ("request", "c0", "n3", "SET") in taps
    assert ("reply", "c0", "n3", "SET") in taps


def test_concurrent_events_are_counted_exactly() -> None:
    """Only a thread that holds the recorder's lock changes a trigger's count."""
    cluster = make()
    recorder = Recorder(None, cluster.clock)
    plan = Plan(lock="redlock", faults=(FaultSpec("client-pause", on="reply:SET", nth=10**6),))
    nemesis = Nemesis(plan, cluster, recorder, Random(1), lambda host: None)

    def tell_often() -> None:
        for _ in range(2000):
            nemesis._on_command("reply", "c0", "n1", "SET")

    threads = [threading.Thread(target=tell_often) for _ in range(4)]
    with recorder.lock:
        for thread in threads:
            thread.start()
        time.sleep(0.05)
        assert nemesis._triggers[0][0].seen == 0
    for thread in threads:
        thread.join()
    assert nemesis._triggers[0][0].seen == 8000


def test_the_stock_suffices_for_the_fastest_client() -> None:
    quick = Plan(lock="redis-token", hold=1.0, holds={"c0": 0.01})
    assert sum(InventoryWorkload.stock(quick, 30.0).values()) >= 3000
