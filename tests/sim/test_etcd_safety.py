"""Nothing acknowledged is lost and nothing is done twice, whatever befalls three members: a counter under random
faults."""

from __future__ import annotations

import time
from functools import partial
from random import Random
from typing import Any

import grpc
import pytest
from etcd3 import exceptions

from harness.sim.servers.etcd.raft import Raft
from tests.sim.etcd_world import EtcdWorld, client

NAMES = ("n1", "n2", "n3")
FAULTS_END = 40.0
SETTLED = 75.0


class Chaos:
    """Kills, freezes, cuts off and wipes one member at a time (two, where the data stays), and mends it again."""

    def __init__(self, world: EtcdWorld, seed: int) -> None:
        self._world = world
        self._rng = Random(seed)
        self.wiped = 0

    def run(self) -> None:
        while self._world.seconds() < FAULTS_END:
            time.sleep(self._rng.uniform(0.2, 2))
            self._strike(self._rng.choice([self._kill, self._pause, self._isolate, self._isolate, self._wipe]))

    def _strike(self, fault: Any) -> None:
        name = self._rng.choice([self._world.servers.primary() or "n1", *NAMES])
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
        """One at a time, and the next only when it votes again."""
        if not all(self._world.server(other).member.raft.disk.votes for other in NAMES):
            return lambda: None
        self.wiped += 1
        self._world.hosts[name].kill()
        return lambda: self._world.hosts[name].start(wiped=True)

    def _pause(self, name: str) -> Any:
        self._world.hosts[name].pause()
        return self._world.hosts[name].resume

    def _isolate(self, name: str) -> Any:
        self._world.isolate(name)
        return lambda: self._world.isolate(name, mend=True)


class Counter:
    """Clients that add one by compare and set. ``done`` counts what was acknowledged, ``unknown`` what may have been
    done besides; ``highest`` is the highest value that anybody was told of."""

    def __init__(self, world: EtcdWorld) -> None:
        self._world = world
        self.done = self.unknown = self.highest = 0

    def run(self, host: str) -> None:
        options = (("grpc.initial_reconnect_backoff_ms", 100), ("grpc.max_reconnect_backoff_ms", 300))
        etcd = client(host, timeout=1.5, grpc_options=options)
        known = None
        while self._world.seconds() < FAULTS_END + 10:
            time.sleep(0.1)
            try:
                known = self._read(etcd) if known is None else self._add(etcd, *known)
            except (exceptions.Etcd3Exception, grpc.RpcError):
                known = None

    def _read(self, etcd: Any) -> tuple[int, int]:
        before = self.highest
        value, meta = etcd.get("n")
        number = int(value or 0)
        assert number >= before, "a read missed what had been acknowledged before it began"
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


def check(seed: int) -> tuple[int, int, int]:
    """How many additions were acknowledged, how many may have been done, and how often a member was wiped."""
    world = EtcdWorld(seed=seed)
    chaos, counter = Chaos(world, seed), Counter(world)

    def final() -> Any:
        time.sleep(SETTLED)
        return {int(client(name).get("n")[0]) for name in NAMES}

    *_, values = world.run(chaos.run, *[partial(counter.run, name) for name in NAMES], final)
    done, unknown = counter.done, counter.unknown
    [value] = values
    assert done <= value <= done + unknown, (seed, done, value, unknown)
    stores = [world.server(name).member.store for name in NAMES]
    assert stores[0] == stores[1] == stores[2], seed
    assert stores[0].revision == value + 1
    return done, unknown, chaos.wiped


@pytest.mark.parametrize("seed", range(2))
def test_a_counter_under_random_faults(seed: int) -> None:
    done, _, _ = check(seed)
    assert done > 50


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 160))
def test_a_counter_under_random_faults_with_many_seeds(seed: int) -> None:
    done, _, _ = check(seed)
    assert done > 20


def commits_alone(self: Raft) -> bool:
    before = self.disk.commit
    self._commit(len(self.disk.log))
    return self.disk.commit > before


def reads_unconfirmed(self: Raft, done: Any) -> None:
    done(self.disk.commit)


def votes_for_any_log(self: Raft, peer: str, message: dict[str, Any]) -> None:
    real_vote(self, peer, {**message, "last_term": 1 << 40})


real_vote = Raft._on_vote_asked


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "broken"),
    [("_advance", commits_alone), ("_confirm", reads_unconfirmed), ("_on_vote_asked", votes_for_any_log)],
)
def test_the_counter_notices(rule: str, broken: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Raft, rule, broken)
    noticed = 0
    for seed in range(8):
        try:
            check(seed)
        except AssertionError:
            noticed += 1
    assert noticed
