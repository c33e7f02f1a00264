"""Watching of locks' keys on simulated servers: reports are true, in order, and have no side effects."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from harness.clusters.abilities import LOCK_KEYS
from harness.clusters.base import names
from harness.clusters.kinds.redis import REDIS_PORT
from harness.clusters.sim.services.redis import RedisServers
from harness.faults.catalogue import default_specs
from harness.history import History, Op
from harness.history.lock_keys import KEYS, KeyObservation, KeyState, owner_text, read_keys
from harness.plan import FaultSpec, Plan
from harness.run.opening import open_simulated
from harness.run.plans.completion import complete
from harness.run.plans.lock_facts import find_facts
from harness.run.runner import Runner
from harness.run.runs import run
from harness.sim.hosts import SimHost
from harness.sim.kernel import Kernel
from harness.sim.network import SimNetwork
from harness.sim.service import Conn, ServiceHost

SECOND = 1_000_000_000
MS = 1_000_000
ENOUGH = {
    "redlock": 3,
    "redis-setnx": 1,
    "redis-wait": 2,
    "mysql-unique": 1,
    "mysql-for-update": 1,
    "mysql-get-lock": 1,
    "memcached-token": 1,
    "zookeeper-sequential": 2,
    "etcd-mutex": 1,
    "chubby": 3,
}
"""Lock to how many of its servers must have the key for whoever holds it: of etcd the leader, since followers hear a
moment later what is committed."""


class Seen:
    """A run with the recorded states of its servers' keys."""

    def __init__(self, plan: Plan, *, watched: bool = True) -> None:
        plan = complete(plan.check())
        cluster = open_simulated(plan)
        runner = Runner(plan, find_facts(plan.lock), cluster)
        self.states: list[KeyState] = []
        if watched:
            LOCK_KEYS.of(cluster).watch_keys(["k0"], self.states.append)
        runner.run()
        self.history: History = runner.recorder.history
        self.servers = names(cluster.hosts, "server")
        self.logs = cluster.logs(self.history.origin)

    def of(self, host: str) -> list[KeyState]:
        return [state for state in self.states if state.host == host]

    def whose(self, host: str, since: int, until: int) -> set[str | None]:
        """Return the clients for which a server had the key in that time."""
        told = [KeyState(0, host, "k0"), *self.of(host), KeyState(until + 1, host, "k0")]
        over = [state for state, after in pairwise(told) if state.time <= until and after.time > since]
        return {self.client(state) for state in over}

    def client(self, state: KeyState) -> str | None:
        """Return the client of a state. A replica's entry has no client, so use another server's entry with the same
        token."""
        if state.owner is None or state.by is not None:
            return None if state.owner is None else state.by
        return next((other.by for other in self.states if other.owner == state.owner and other.by is not None), None)


@cache
def quiet(lock: str, seed: int = 0) -> Seen:
    return Seen(Plan(lock=lock, time_limit=0.6, settle=0.3, seed=seed))


def faulty(lock: str, *faults: FaultSpec, **more: Any) -> Seen:
    return Seen(Plan(lock=lock, time_limit=more.pop("time_limit", 1.0), settle=0.3, faults=faults, **more))


def holds(history: History) -> Iterator[tuple[Op, Op]]:
    """Yield each grant with the invocation of its release."""
    open_: dict[int, Op] = {}
    for op in history:
        if (op.f, op.type) == ("acquire", "ok"):
            open_[op.process] = op
        elif (op.f, op.type) == ("release", "invoke") and op.process in open_:
            yield open_.pop(op.process), op


def holds_without_keys(seen: Seen, enough: int) -> list[str]:
    """Return the holds during which fewer than ``enough`` servers had the key for that client only."""
    found = []
    for grant, release in holds(seen.history):
        having = [host for host in seen.servers if seen.whose(host, grant.time, release.time) == {grant.node}]
        if len(having) < enough:
            found.append(f"{grant.node} from {grant.time} to {release.time}: only {having}")
    return found


@pytest.mark.parametrize("lock", ENOUGH)
def test_servers_have_the_key_of_the_holder(lock: str) -> None:
    seen = quiet(lock)
    assert len(list(holds(seen.history))) >= 3
    assert holds_without_keys(seen, ENOUGH[lock]) == []
    assert [state.time for state in seen.states] == sorted(state.time for state in seen.states)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 6))
@pytest.mark.parametrize("lock", [*ENOUGH, "redis-reentrant", "redis-watchdog", "mysql-ttl", "mysql-reentrant"])
def test_servers_have_the_holders_key_with_other_seeds(lock: str, seed: int) -> None:
    assert holds_without_keys(Seen(Plan(lock=lock, time_limit=5.0, seed=seed)), ENOUGH.get(lock, 1)) == []


@pytest.mark.parametrize("lock", ["redlock", "zookeeper-sequential", "etcd-mutex", "chubby", "mysql-get-lock"])
def test_the_key_has_no_owner_soon_after_a_release(lock: str) -> None:
    """After the second of two holders has acquired the lock, no server keeps the first holder's key."""
    seen = quiet(lock)
    for (_, released), (granted, again) in pairwise(holds(seen.history)):
        assert released.time < granted.time
        for host in seen.servers:
            assert seen.whose(host, granted.time + 50 * MS, again.time) <= {granted.node, None}


def test_watching_changes_nothing() -> None:
    """Reading a key deletes nothing, draws no random number and schedules no event, so logs are the same as well."""
    plan = Plan(lock="redlock", time_limit=1.5, faults=(FaultSpec("clock-jump", at=0.3), FaultSpec("kill", at=0.7)))
    alone, watched = Seen(plan, watched=False), Seen(plan)
    assert not alone.states
    assert watched.states
    assert (list(watched.history), watched.logs) == (list(alone.history), alone.logs)


FAULTS = {
    "redlock": ("clock-skew", "kill-amnesia", "server-pause"),
    "redis-wait": ("failover", "clock-drift", "eviction"),
    "memcached-token": ("eviction", "client-pause"),
    "mysql-ttl": ("clock-jump", "kill", "client-pause"),
    "mysql-for-update": ("connection-reset", "client-crash"),
    "zookeeper-sequential": ("leader-loss", "client-pause", "partition-halves"),
    "etcd-mutex": ("leader-loss", "clock-skew", "client-hang"),
    "chubby": ("leader-loss", "partition-node"),
}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("lock", "fault"), [(lock, fault) for lock, faults in FAULTS.items() for fault in faults])
def test_watching_changes_nothing_under_faults(lock: str, fault: str, seed: int) -> None:
    plan = Plan(lock=lock, time_limit=12.0, seed=seed, faults=tuple(default_specs(fault, 2.0)))
    alone, watched = Seen(plan, watched=False), Seen(plan)
    assert (list(watched.history), watched.logs) == (list(alone.history), alone.logs)
    assert [state.time for state in watched.states] == sorted(state.time for state in watched.states)


@pytest.mark.slow
def test_a_stored_run_has_the_same_keys_each_time(tmp_path: Path) -> None:
    plan = Plan(lock="redlock", time_limit=0.5, settle=0.2, keys=2)
    files = [run(plan, store=tmp_path / which).folder for which in ("a", "b")]
    first, second = [(folder / KEYS).read_bytes() for folder in files if folder is not None]
    assert first == second
    assert {state.key for state in read_keys(files[0] / KEYS)[0]} == {"k0", "k1"}  # type: ignore[operator]


@pytest.mark.parametrize("lock", ["redis-token", "mysql-ttl", "memcached-token"])
def test_a_key_that_is_not_released_expires(lock: str) -> None:
    """The expiry is recorded at its exact time, although no server deletes the key then and no client requests it."""
    pause = FaultSpec("client-pause", on="acquire", nth=2, for_=2.5)
    seen = faulty(lock, pause, time_limit=2.5, ttl=1.0)
    over = [(had, gone) for had, gone in pairwise(seen.of("n1")) if gone.owner is None and gone.by is None]
    assert len(over) == 1
    had, gone = over[0]
    assert had.left is not None
    assert gone.time == had.time + had.left
    later = [op.time for op in seen.history if (op.f, op.type) == ("acquire", "ok") and op.time > had.time + 50 * MS]
    assert gone.time < later[0] < gone.time + 200 * MS


def test_a_session_that_ends_takes_its_key_along() -> None:
    pause = FaultSpec("client-pause", on="acquire", nth=2, for_=4.0)
    seen = faulty("zookeeper-sequential", pause, time_limit=4.0)
    held = next(seen.history[at] for at, op in enumerate(seen.history) if (op.f, op.type) == ("inject", "ok"))
    paused = held.value["hosts"][0]
    for host in seen.servers:
        last = [state for state in seen.of(host) if state.by == paused and state.time <= held.time][-1]
        after = next(state for state in seen.of(host) if state.time > last.time and state.owner != last.owner)
        assert 2.0 < (after.time - held.time) / SECOND < 3.1, "the time-out, and up to a tick more"
        assert after.by not in (paused, None)


def test_a_server_that_is_killed_does_not_answer_and_then_has_nothing() -> None:
    kill = FaultSpec("kill-amnesia", on="acquire", nth=2)
    seen = faulty("redis-token", kill)
    told = seen.of("n1")
    dead = next(at for at, state in enumerate(told) if not state.answers)
    before, down, back = told[dead - 1 : dead + 2]
    assert before.owner is not None
    assert (down.owner, down.by) == (None, None)
    assert (back.owner, back.answers) == (None, True)
    assert before.time + (before.left or 0) > back.time, "it was not its time"


def test_a_server_that_comes_back_with_its_data_has_the_key_again() -> None:
    kill = FaultSpec("kill", on="acquire", for_=0.3, params={"target": "majority"})
    told = faulty("redis-token", kill, ttl=2.0, hold=0.6).of("n1")
    dead = next(at for at, state in enumerate(told) if not state.answers)
    before, down, back = told[dead - 1 : dead + 2]
    assert back.time - down.time >= 0.3 * SECOND
    assert back.owner == before.owner is not None
    assert before.left is not None
    assert back.left is not None
    assert back.time + back.left == before.time + before.left


def test_a_clock_that_jumps_ends_keys_before_their_time() -> None:
    seen = faulty("redlock", FaultSpec("clock-jump", on="acquire", nth=2, params={"by": 1.5}))
    jump = next(op for op in seen.history if (op.f, op.type) == ("inject", "invoke"))
    assert len(jump.value["hosts"]) == 3
    for host in seen.servers:
        had, then = next(pair for pair in pairwise(seen.of(host)) if pair[1].time >= jump.time)
        early = then.owner is None and then.by is None and then.time < had.time + (had.left or 0) - SECOND
        assert early == (host in jump.value["hosts"])


def test_a_clock_that_runs_too_fast_ends_a_key_when_that_clock_says_so() -> None:
    """The end of the lease is reported as the time at which the server's clock reaches it."""
    drift = FaultSpec("clock-drift", at=0.0, params={"rate": 0.5})
    seen = faulty("redis-token", drift, FaultSpec("client-crash", on="acquire", nth=3), ttl=1.5, time_limit=2.5)
    over = [(had, gone) for had, gone in pairwise(seen.of("n1")) if gone.owner is None and gone.by is None]
    assert [round((gone.time - had.time) / SECOND, 2) for had, gone in over] == [1.0]


def test_a_renewal_is_reported() -> None:
    told = faulty("redis-watchdog", ttl=0.6, hold=0.5).of("n1")
    renewed = [(a, b) for a, b in pairwise(told) if a.owner == b.owner is not None]
    assert renewed
    for first, second in renewed:
        assert second.by == first.by
        assert second.time + (second.left or 0) > first.time + (first.left or 0) + 100 * MS


class Quiet:
    """A program that does nothing."""

    port = 7

    def start(self, host: ServiceHost, *, wiped: bool) -> None: ...
    def stop(self) -> None: ...
    def opened(self, conn: Conn) -> None: ...
    def received(self, conn: Conn, data: bytes) -> None: ...
    def closed(self, conn: Conn) -> None: ...


def test_every_event_that_may_change_a_server_is_signalled() -> None:
    kernel = Kernel(0)
    network = SimNetwork(kernel)
    server, other = SimHost(network, "n1"), SimHost(network, "c0")
    heard: list[str | None] = []
    server.install(Quiet())
    server.on_change = heard.append

    def after(seconds: float, do: Callable[[], None]) -> None:
        kernel.at(kernel.now + round(seconds * SECOND), None, do)

    def main() -> None:
        conn = other.dial("n1", 7, Quiet())
        after(0.1, lambda: conn.send(b"x"))
        after(0.2, conn.close)
        server.call_later(round(0.3 * SECOND), lambda: None)
        after(0.4, lambda: server.set_clock(1))
        after(0.5, server.kill)
        after(0.6, lambda: server.start(wiped=True))
        after(1.0, kernel.finish)

    kernel.at(kernel.now, None, main)
    kernel.run()
    kernel.close()
    assert heard == ["c0", "c0", "c0", None, None, None, None]


def test_owners_with_arbitrary_bytes_are_distinguished() -> None:
    assert [owner_text(stored) for stored in (b"token", b"\xd1\x10", b"\xd2\x10")] == ["token", "d110", "d210"]


def test_reading_does_not_delete_an_expired_key() -> None:
    network = SimNetwork(Kernel(0))
    servers = RedisServers(lambda name, role: SimHost(network, name), "redis-single", 1, {})
    host: Any = network.hosts["n1"]
    redis = host.services[REDIS_PORT]
    redis.databases[0].put(b"k0", b"somebody", host.wall_ns() // MS + 1000)
    before = host.rng.getstate(), len(network.kernel.heap)
    assert servers.look["n1"]("k0") == KeyObservation("somebody", 1001 * MS)
    host.set_clock(1001 * MS)
    assert servers.look["n1"]("k0") is None
    assert redis.size() == 1
    assert (host.rng.getstate(), len(network.kernel.heap)) == before
