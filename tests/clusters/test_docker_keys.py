"""Polling of locks' keys on container servers: reported changes, and absence of side effects."""

from __future__ import annotations

import socket
import threading
import time
from collections import deque
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import redis

from harness.clusters import key_watch
from harness.clusters.gate import NetworkGate
from harness.clusters.key_readers.redis import RedisKeyReader
from harness.clusters.key_watch import KeyWatch, NoAnswer
from harness.history.lock_keys import KEYS, KeyObservation, KeyState, read_keys
from harness.plan import FaultSpec, Plan
from harness.reports.holds import find_holds
from harness.run.plans.completion import complete
from harness.run.runs import run

MS = 1_000_000
LONG_MS = 60
"""Holds that a look every 25 ms cannot miss."""


class Script:
    """A reader that returns the given observations in order, and then the last one for ever.

    ``seen`` is set by the second read of the last observation: by then all of them have been reported."""

    def __init__(self, *sights: KeyObservation | Exception | None) -> None:
        self.sights = deque((*sights, sights[-1]))
        self.seen = threading.Event()
        self.opened = 0

    def open(self) -> Script:
        self.opened += 1
        return self

    def look(self, key: str) -> KeyObservation | None:
        sight = self.sights.popleft() if len(self.sights) > 1 else self.sights[0]
        if len(self.sights) == 1:
            self.seen.set()
        if isinstance(sight, Exception):
            raise sight
        return sight

    def close(self) -> None: ...


def watch_observations(*sights: KeyObservation | Exception | None) -> tuple[list[KeyState], Script]:
    states: list[KeyState] = []
    script = Script(*sights)
    watch = KeyWatch(["k0"], states.append, NetworkGate())
    watch.start("n1", script.open)
    assert script.seen.wait(60)
    watch.stop()
    return states, script


def test_only_changes_are_reported() -> None:
    endless = KeyObservation("a")
    states, script = watch_observations(None, endless, endless, KeyObservation("b"), None, None)
    assert [state.owner for state in states] == ["a", "b", None]
    assert [state.time for state in states] == sorted(state.time for state in states)
    assert script.opened == 1


def test_a_renewed_lease_is_a_change_and_one_that_runs_down_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0
    monkeypatch.setattr(key_watch, "time", SimpleNamespace(monotonic_ns=lambda: now))

    class Running(Script):
        def look(self, key: str) -> KeyObservation | None:
            nonlocal now
            now += 25 * MS
            sight = super().look(key)
            assert sight is not None
            assert sight.left is not None
            return KeyObservation("a", sight.left - now)

    states: list[KeyState] = []
    lease, renewed = KeyObservation("a", 2000 * MS), KeyObservation("a", 4000 * MS)
    script = Running(lease, lease, lease, renewed, renewed)
    watch = KeyWatch(["k0"], states.append, NetworkGate())
    watch.start("n1", script.open)
    assert script.seen.wait(60)
    watch.stop()
    assert [(state.time + (state.left or 0)) // MS for state in states] == [2000, 4000]


def test_a_server_that_does_not_answer_is_reported_once_and_polled_again() -> None:
    states, script = watch_observations(
        KeyObservation("a"), NoAnswer(), ValueError("half an answer"), KeyObservation("a")
    )
    assert [(state.owner, state.answers) for state in states] == [("a", True), (None, False), ("a", True)]
    assert script.opened == 3


# On real servers.

RUNS = {
    "redis-token": (FaultSpec("client-pause", on="acquire", nth=3, for_=3.0),),
    "redis-reentrant": (),
    "memcached-token": (FaultSpec("kill", at=1.0, for_=0.5, params={"target": "n1"}),),
    "etcd-mutex": (),
    "etcd3-lock": (),
    "zookeeper-sequential": (),
    "zookeeper-herd": (),
    "chubby-zookeeper": (),
    "chubby": (),
}


def test_a_redis_that_is_down_at_the_first_poll_does_not_answer() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nobody listens there
        reader = RedisKeyReader(*taken.getsockname())
        with pytest.raises(NoAnswer):
            reader.look("k0")
        reader.close()


def test_an_owner_that_is_not_text_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=_answers, args=(listener,), daemon=True).start()
        reader = RedisKeyReader(*listener.getsockname())
        assert reader.look("k0") == KeyObservation("ff00", 2000 * MS)
        reader.close()


def _answers(listener: socket.socket) -> None:
    """Answer as a Redis that has one key, with a value of two bytes and two seconds to live."""
    connection, _ = listener.accept()
    with connection:
        while request := connection.recv(4096):
            for command in request.split(b"*")[1:]:
                known = {b"HELLO": b"%1\r\n$5\r\nproto\r\n:3\r\n", b"PTTL": b":2000\r\n", b"GET": b"$2\r\n\xff\x00\r\n"}
                connection.sendall(next((it for name, it in known.items() if name in command), b"+OK\r\n"))


@pytest.mark.docker
@pytest.mark.parametrize("lock", RUNS)
def test_a_hold_is_observed_on_the_servers(lock: str, tmp_path: Path) -> None:
    """The key of a long hold is observed on a majority of the servers that answer, until its release."""
    # Servers are polled every 25 ms, by a busy machine less often: a hold must last for many polls.
    plan = Plan(lock=lock, cluster="docker", clients=3, hold=0.5, time_limit=10.0, faults=RUNS[lock])
    result = run(complete(plan), store=tmp_path)
    assert result.folder is not None
    states, _ = read_keys(result.folder / KEYS)
    servers = result.document["cluster"]["servers"]
    holds = [hold for hold in find_holds(result.history) if hold.end and hold.end - hold.start > LONG_MS * MS]
    seen = 0
    for hold in holds:
        assert hold.end is not None
        middle = (hold.start + hold.end) // 2
        now = {host: _at(states, host, middle) for host in servers}
        answering = [state for state in now.values() if state is None or state.answers]
        if not answering:
            continue  # its only server was killed in the midst of it
        seen += 1
        assert sum(state is not None and state.owner is not None for state in answering) * 2 > len(answering), (
            hold,
            now,
        )
    assert seen > 5
    owners = {state.owner for state in states if state.owner}
    assert len(owners) >= len({hold.client for hold in holds}), "one owner's key looks like another's"
    if lock == "redis-token":
        assert all(state.left and 0 < state.left <= 2000 * MS for state in states if state.owner)
    if lock == "memcached-token":
        assert any(not state.answers for state in states), "the server was killed, and nobody noticed"


def _at(states: list[KeyState], host: str, time_ns: int) -> KeyState | None:
    before = [state for state in states if state.host == host and state.time <= time_ns]
    return before[-1] if before else None


@pytest.mark.docker
def test_polling_redis_does_not_count_as_use_of_a_key(request: pytest.FixtureRequest) -> None:
    """A server evicts keys by the time since their last use. A reader that only used GET would keep every key young."""

    def idle(cluster: Any) -> int:
        address = cluster.servers.addresses["n1"]
        reader = cluster.servers.key_reader("n1")()
        with redis.Redis(host=address, port=6379) as client:
            client.set("k0", "me", px=60_000)
            deadline = time.monotonic() + 2.6
            while time.monotonic() < deadline:
                assert reader.look("k0").owner == "me"
                time.sleep(0.025)
            found = client.object("idletime", "k0")
            client.delete("k0")
        reader.close()
        return int(found)

    assert request.getfixturevalue("_docker_bench").on("redis-single", idle) >= 2
