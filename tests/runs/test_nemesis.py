"""Times, hosts and durations of faults, and their heals before the end."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from harness.clusters.sim.cluster import SimCluster
from harness.faults.pause import ServerPause
from harness.history import History
from harness.plan import FaultSpec, Plan
from harness.run import simulated
from harness.run.opening import open_simulated
from harness.run.runs import run


def history(*faults: FaultSpec, **more: Any) -> History:
    return run(Plan(lock="redis-token", faults=faults, **{"time_limit": 12.0, **more})).history


def strikes(past: History, f: str = "inject") -> list[tuple[float, str, list[str]]]:
    """Return (seconds since the start, fault, hosts) of each injection, or of each heal."""
    wanted = "invoke" if f == "inject" else "ok"
    return [
        (round((op.time - past.origin) / 1e9, 3), op.value["fault"], op.value["hosts"])
        for op in past.nemesis(f)
        if op.type == wanted
    ]


def calls(past: History, f: str, type_: str, client: str) -> list[float]:
    return [
        round((op.time - past.origin) / 1e9, 3)
        for op in past
        if (op.f, op.type, op.node) == (f, type_, client)
    ]  # fmt: skip


def test_a_fault_strikes_at_its_time_and_lasts_for_its_duration() -> None:
    past = history(FaultSpec("server-pause", at=2.0, for_=1.5))
    assert strikes(past) == [(2.0, "server-pause", ["n1"])]
    [(healed, _, _)] = strikes(past, "heal")
    assert healed == pytest.approx(3.5, abs=0.01)


def test_a_repeated_fault_does_not_strike_while_the_run_settles() -> None:
    past = history(FaultSpec("client-pause", every=2.0, for_=0.5, params={"target": "c1"}))
    assert [at for at, _, _ in strikes(past)] == pytest.approx([2.0, 4.0, 6.0], abs=0.01)
    assert len(strikes(past, "heal")) == 3


def test_a_fault_strikes_on_the_nth_event_of_a_client() -> None:
    past = history(FaultSpec("client-pause", on="acquire", client=2, nth=3, for_=0.5))
    [(at, _, hosts)] = strikes(past)
    assert hosts == ["c2"]
    assert at == calls(past, "acquire", "ok", "c2")[2]


def test_a_fault_on_an_event_strikes_before_the_next_step() -> None:
    """The client is paused right after its read, so its write comes only after the heal."""
    past = history(FaultSpec("client-pause", on="read", client=0, for_=3.0), hold=0.01)
    [(at, _, _)], [(healed, _, _)] = strikes(past), strikes(past, "heal")
    assert not [time for time in calls(past, "write", "invoke", "c0") if at <= time < healed - 0.01]
    assert [time for time in calls(past, "write", "invoke", "c0") if healed - 0.01 <= time < healed + 0.05]


def test_a_fault_strikes_several_times_with_an_interval() -> None:
    past = history(FaultSpec("client-pause", on="acquire", times=3, every=2.0, for_=0.2))
    times = [at for at, _, _ in strikes(past)]
    assert len(times) == 3
    assert all(later - earlier >= 2.0 for earlier, later in pairwise(times))


def test_a_fault_strikes_after_the_delay_from_its_event() -> None:
    past = history(FaultSpec("clock-jump", on="acquire", client=0, delay=0.05, params={"target": "n1"}))
    [(at, _, _)] = strikes(past)
    assert at == pytest.approx(calls(past, "acquire", "ok", "c0")[0] + 0.05, abs=0.002)


def test_a_fault_can_strike_on_a_request_or_on_its_reply() -> None:
    """If the client is killed before EXPIRE is sent, the key has no ttl. If it is killed after EXPIRE took effect,
    the key has one."""
    for event, invoked in (("request:EXPIRE", 1), ("reply:EXPIRE", 1)):
        past = run(
            Plan(
                lock="redis-setnx-expire",
                faults=(FaultSpec("client-crash", on=event, client=0),),
                time_limit=15.0,
                stagger=0.5,
            )
        )
        assert len(calls(past.history, "acquire", "invoke", "c0")) == invoked
        assert calls(past.history, "acquire", "ok", "c0") == []
        assert past.verdicts["liveness"].valid is (event == "reply:EXPIRE")


def test_a_crash_is_recorded_and_a_restart_gets_a_new_process() -> None:
    spec = FaultSpec("client-crash", on="acquire", client=1, for_=2.0, params={"restart": True})
    past = history(spec)
    [crash] = past.nemesis("crash")
    assert (crash.node, crash.value) == ("c1", {"host": "c1"})
    mine = [op for op in past if op.node == "c1" and op.process >= 0]
    before = {op.process for op in mine if op.time <= crash.time}
    after = {op.process for op in mine if op.time > crash.time}
    assert before == {1}
    assert after == {1_000_001}
    assert min(op.time for op in mine if op.process == 1_000_001) >= crash.time + 2_000_000_000


def test_everything_is_healed_before_the_end() -> None:
    past = history(
        FaultSpec("partition-node", at=1.0, params={"target": "n1"}),
        FaultSpec("clock-offset", at=0.0, params={"target": "n1", "seconds": 5.0}),
        FaultSpec("latency", at=0.5),
    )
    healed = {op.value["fault"]: op.value["observed"] for op in past.nemesis("heal")}
    assert healed["clock-offset"]["clock_ns"] == {"n1": 0}
    assert all(trip is not None for trip in healed["partition-node"]["probe"].values())
    assert all(trip < 0.001 for trip in healed["latency"]["probe"].values())
    last = max(op.time for op in past.nemesis("heal"))
    assert [op for op in past if op.f == "acquire" and op.type == "ok" and op.time > last]


@pytest.mark.slow
def test_a_fault_without_an_end_is_superseded_by_its_next_strike() -> None:
    past = history(FaultSpec("clock-skew", every=1.0))
    heals = past.nemesis("heal")
    assert [op.value["observed"].get("superseded", False) for op in heals[:-1]] == [True] * (len(heals) - 1)
    assert "clock_ns" in heals[-1].value["observed"]


def test_a_tolerated_fault_does_not_count_as_a_disturbance() -> None:
    [op] = [
        op
        for op in history(FaultSpec("kill", at=1.0, for_=0.5, tolerated=True)).nemesis("inject")
        if op.type == "invoke"
    ]
    assert op.value["disturbs"] is False


def test_a_fault_whose_event_never_comes_is_recorded_as_failed() -> None:
    past = history(FaultSpec("client-pause", on="extend"))
    [op] = past.nemesis("inject")
    assert (op.type, op.error) == ("fail", "never struck: its event 'extend' (number 1) did not come in time")


def test_all_clients_can_crash_and_restart() -> None:
    everybody = {"target": "clients", "restart": True}
    past = history(
        FaultSpec("client-crash", at=2.0, for_=2.0, params=everybody), FaultSpec("server-pause", at=6.0, for_=1.0)
    )
    assert [fault for _, fault, _ in strikes(past)] == ["client-crash", "server-pause"]
    [back] = [op.time for op in past.nemesis("heal") if op.value["fault"] == "client-crash"]
    assert back - past.origin >= 4_000_000_000
    assert [op for op in past if op.f == "acquire" and op.type == "ok" and op.time > back]


@pytest.mark.slow
@pytest.mark.usefixtures("in_this_process")
def test_clocks_changed_only_by_an_earlier_strike_are_healed(monkeypatch: pytest.MonkeyPatch) -> None:
    clusters: list[SimCluster] = []

    def remember(plan: Plan) -> SimCluster:
        clusters.append(open_simulated(plan))
        return clusters[-1]

    monkeypatch.setattr(simulated, "open_simulated", remember)
    jump = FaultSpec("clock-jump", every=4.0, params={"target": "one"})
    past = run(Plan(lock="redlock", time_limit=20.0, faults=(jump,))).history
    hit = sorted({op.value["hosts"][0] for op in past.nemesis("inject")})
    assert len(hit) > 1, "several hosts were hit, one after the other"
    assert [clusters[0].read_clock(host) for host in hit] == [0] * len(hit)


def test_a_client_that_hung_and_crashed_works_after_its_restart() -> None:
    past = history(
        FaultSpec("client-hang", at=1.0, params={"target": "c0"}),
        FaultSpec("client-crash", at=3.0, for_=1.0, params={"target": "c0", "restart": True}),
    )
    assert [op for op in past if op.node == "c0" and op.process >= 1_000_000 and op.type == "ok"]


@pytest.mark.usefixtures("in_this_process")
def test_an_exception_in_a_fault_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: object, scene: object) -> None:
        raise RuntimeError("a fault of the fault")

    monkeypatch.setattr(ServerPause, "inject", broken)
    with pytest.raises(RuntimeError, match="a fault of the fault"):
        history(FaultSpec("server-pause", at=1.0, for_=1.0))
