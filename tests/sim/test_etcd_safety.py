"""A counter on three etcd members under random faults: no acknowledged increment is lost, none is applied twice."""

from __future__ import annotations

import time
from functools import partial
from random import Random
from typing import Any

import grpc
import pytest
from etcd3 import exceptions

from harness.sim.servers.etcd.raft import Raft
from tests.sim.etcd_world import EtcdWorld, client, commits_without_majority

NAMES = ("n1", "n2", "n3")
FAULTS_END_S = 40.0
SETTLED_S = 75.0


class Chaos:
    """Kills, pauses, isolates or wipes one member at a time (kills up to two), and heals it again."""

    def __init__(self, world: EtcdWorld, seed: int) -> None:
        self._world = world
        self._rng = Random(seed)
        self.wiped = 0

    def run(self) -> None:
        while self._world.seconds() < FAULTS_END_S:
            time.sleep(self._rng.uniform(0.2, 2))
            self._strike(self._rng.choice([self._kill, self._pause, self._isolate, self._isolate, self._wipe]))

    def _strike(self, fault: Any) -> None:
        name = self._rng.choice([self._world.servers.leader() or "n1", *NAMES])
        undo = fault(name)
        time.sleep(self._rng.uniform(0.1, 5))
        undo()

    def _kill(self, name: str) -> Any:
        hosts = [self._world.hosts[name] for name in dict.fromkeys((name, self._rng.choice(NAMES)))]
        for host in hosts:
            host.kill()

        def undo() -> None:
            for host in hosts:
                host.start(wiped=False)

        return undo

    def _wipe(self, name: str) -> Any:
        """Wipe a member, unless another wiped member has not regained its vote."""
        if not all(self._world.server(other).member.raft.disk.can_vote for other in NAMES):
            return lambda: None
        self.wiped += 1
        self._world.hosts[name].kill()
        return lambda: self._world.hosts[name].start(wiped=True)

    def _pause(self, name: str) -> Any:
        self._world.hosts[name].pause()
        return self._world.hosts[name].resume

    def _isolate(self, name: str) -> Any:
        self._world.isolate(name)
        return lambda: self._world.isolate(name, heal=True)


class CounterClients:
    """Clients that increment a value by compare-and-set.

    ``done`` counts acknowledged increments, ``unknown`` those with an unknown outcome; ``highest`` is the highest value
    that any client has seen.
    """

    def __init__(self, world: EtcdWorld) -> None:
        self._world = world
        self.done = self.unknown = self.highest = 0

    def run(self, host: str) -> None:
        options = (("grpc.initial_reconnect_backoff_ms", 100), ("grpc.max_reconnect_backoff_ms", 300))
        etcd = client(host, timeout=1.5, grpc_options=options)
        known = None
        while self._world.seconds() < FAULTS_END_S + 10:
            time.sleep(0.1)
            try:
                known = self._read(etcd) if known is None else self._add(etcd, *known)
            except (exceptions.Etcd3Exception, grpc.RpcError):
                known = None

    def _read(self, etcd: Any) -> tuple[int, int]:
        before = self.highest
        value, meta = etcd.get("n")
        number = int(value or 0)
        assert number >= before, "a read missed an increment that was acknowledged before it began"
        self.highest = max(self.highest, number)
        return number, 0 if meta is None else meta.mod_revision

    def _add(self, etcd: Any, value: int, revision: int) -> tuple[int, int] | None:
        t = etcd.transactions
        self.unknown += 1
        added, answers = etcd.transaction([t.mod("n") == revision], success=[t.put("n", str(value + 1))], failure=[])
        self.unknown -= 1
        if not added:
            return None
        self.done += 1
        self.highest = max(self.highest, value + 1)
        return value + 1, answers[0].response_put.header.revision


def run_with_faults(seed: int) -> tuple[int, int, int]:
    """Run with one seed; return the numbers of acknowledged increments, of unknown outcomes and of wipes."""
    world = EtcdWorld(seed=seed)
    chaos, counter = Chaos(world, seed), CounterClients(world)

    def final() -> Any:
        time.sleep(SETTLED_S)
        return {int(client(name).get("n")[0]) for name in NAMES}

    *_, values = world.run(chaos.run, *[partial(counter.run, name) for name in NAMES], final)
    done, unknown = counter.done, counter.unknown
    [value] = values
    assert done <= value <= done + unknown, (seed, done, value, unknown)
    stores = [world.server(name).member.store for name in NAMES]
    assert stores[0] == stores[1] == stores[2], seed
    assert stores[0].revision == value + 1
    return done, unknown, chaos.wiped


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", range(2))
def test_counter_under_random_faults(seed: int) -> None:
    done, _, _ = run_with_faults(seed)
    assert done > 50


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 130))
def test_counter_under_random_faults_with_many_seeds(seed: int) -> None:
    done, _, _ = run_with_faults(seed)
    assert done > 20


def reads_without_read_index(self: Raft, done: Any) -> None:
    done(self.disk.commit)


def votes_for_any_log(self: Raft, peer: str, message: dict[str, Any]) -> None:
    real_vote(self, peer, {**message, "last_term": 1 << 40})


real_vote = Raft._on_vote_request


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "broken"),
    [
        ("_advance", commits_without_majority),
        ("_confirm_leadership", reads_without_read_index),
        ("_on_vote_request", votes_for_any_log),
    ],
)
def test_counter_notices_mutant(rule: str, broken: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Raft, rule, broken)
    noticed = 0
    for seed in range(8):
        try:
            run_with_faults(seed)
        except AssertionError:
            noticed += 1
    assert noticed
