"""Sentinel failover with three Redis servers and three sentinels, with durations compared to real ones."""

from __future__ import annotations

from typing import Any

import pytest

from harness.sim.servers.redis.sentinel import SentinelServer
from harness.sim.servers.redis.server import RedisServer
from tests.sim.redis_client import RedisCaller
from tests.sim.redis_stub import S, StubWorld


class SentinelCell:
    """Redis servers n1 (the primary), n2 and n3, sentinels s1 to s3, and a client host c."""

    def __init__(self, seed: int = 1) -> None:
        self.world = StubWorld(seed)
        names = [f"s{number}" for number in (1, 2, 3)]
        for name in ["n1", "n2", "n3", *names, "c"]:
            self.world.host(name)
        self.redis = [RedisServer(replica_of=None if number == 1 else ("n1", 6379)) for number in (1, 2, 3)]
        for number, server in enumerate(self.redis, 1):
            self.world.hosts[f"n{number}"].run(server)
        self.sentinels = []
        for name in names:
            peers = [(other, 26379) for other in names if other != name]
            sentinel = SentinelServer(primary=("n1", 6379), peers=peers)
            self.world.hosts[name].run(sentinel)
            self.sentinels.append(sentinel)
        self.world.run(3)

    def client(self, to: str, port: int = 6379) -> RedisCaller:
        return RedisCaller(self.world, self.world.hosts["c"], to, port)

    def ask(self, *words: str) -> Any:
        return self.client("s1", 26379).call(*words)

    def primaries(self) -> list[str]:
        return [sentinel.primary_host for sentinel in self.sentinels]

    def all_agree_on_new_primary(self) -> bool:
        return len(set(self.primaries())) == 1 and self.primaries()[0] != "n1"

    def isolate_primary(self) -> None:
        for other in ("n2", "n3", "s1", "s2", "s3"):
            self.world.cut("n1", other)


@pytest.mark.parametrize("seed", range(5))
def test_failover_after_a_kill_takes_as_long_as_the_real_one(seed: int) -> None:
    cell = SentinelCell(seed)
    cell.world.run(0.217 * seed)
    cell.world.hosts["n1"].kill()
    assert 1.7 < cell.world.run_until(cell.all_agree_on_new_primary) < 2.8
    new = cell.primaries()[0]
    assert cell.client(new).call("SET", "k", "v") == "OK"
    cell.world.run(4)
    assert [server.following for server in cell.redis[1:] if server.role == "slave"] == [(new, 6379)]


def test_an_old_primary_accepts_writes_for_ten_seconds_after_a_heal() -> None:
    cell = SentinelCell()
    caller = cell.client("n1")
    cell.isolate_primary()
    cell.world.run_until(cell.all_agree_on_new_primary)
    assert caller.call("SET", "lock", "a", "NX") == "OK"
    assert cell.client(cell.primaries()[0]).call("SET", "lock", "b", "NX") == "OK"
    cell.world.run(5)
    cell.world.heal()
    took = cell.world.run_until(lambda: cell.redis[0].role == "slave")
    assert 9 < took < 13
    cell.world.run(3)
    assert cell.redis[0].peek(b"lock")[0] == b"b"


def test_a_minority_of_sentinels_elects_no_leader() -> None:
    cell = SentinelCell()
    for name in ("n1", "s2", "s3"):
        cell.world.hosts[name].kill()
    cell.world.run(30)
    assert cell.primaries()[0] == "n1"
    assert [server.role for server in cell.redis[1:]] == ["slave", "slave"]


def test_a_paused_primary_is_replaced() -> None:
    cell = SentinelCell()
    cell.world.hosts["n1"].pause()
    assert 1.7 < cell.world.run_until(cell.all_agree_on_new_primary) < 3.6


def test_a_replica_with_priority_zero_is_never_promoted() -> None:
    cell = SentinelCell()
    cell.client("n2").call("CONFIG", "SET", "replica-priority", 0)
    cell.world.run(11)
    cell.world.hosts["n1"].kill()
    cell.world.run_until(cell.all_agree_on_new_primary)
    assert cell.primaries() == ["n3"] * 3


def test_a_clock_jump_puts_sentinels_into_tilt_mode() -> None:
    cell = SentinelCell()
    for name in ("s1", "s2", "s3"):
        cell.world.hosts[name].offset_ns += 60 * S
    cell.world.run(24)
    cell.world.hosts["n1"].kill()
    cell.world.run(5)
    assert cell.primaries() == ["n1"] * 3, "a sentinel in tilt mode does not act"
    cell.world.run(10)
    assert cell.all_agree_on_new_primary()


def test_sentinel_replies_have_the_fields_that_redis_py_reads() -> None:
    cell = SentinelCell()
    assert cell.ask("SENTINEL", "get-master-addr-by-name", "mymaster") == [b"n1", b"6379"]
    assert cell.ask("SENTINEL", "get-master-addr-by-name", "other") is None
    state = cell.ask("SENTINEL", "MASTERS")[0]
    fields = dict(zip(state[::2], state[1::2], strict=True))
    assert (fields[b"flags"], fields[b"num-slaves"], fields[b"num-other-sentinels"]) == (b"master", b"2", b"2")
    assert len(cell.ask("SENTINEL", "SLAVES", "mymaster")) == 2
    assert cell.ask("SENTINEL", "SENTINELS", "nope") == "ERR No such master with that name"
    assert str(cell.ask("SENTINEL", "CKQUORUM", "mymaster")).startswith("OK 3 usable Sentinels")


def test_switch_master_is_published() -> None:
    cell = SentinelCell()
    listener = cell.client("s2", 26379)
    listener.call("SUBSCRIBE", "+switch-master")
    listener.data = b""
    cell.world.hosts["n1"].kill()
    cell.world.run_until(cell.all_agree_on_new_primary)
    cell.world.run(5)
    assert b"mymaster n1 6379 " + cell.primaries()[0].encode() + b" 6379" in listener.data


def test_sentinel_failover_command_promotes_a_replica() -> None:
    cell = SentinelCell()
    assert cell.ask("SENTINEL", "FAILOVER", "mymaster") == "OK"
    cell.world.run_until(cell.all_agree_on_new_primary)
    cell.world.run(25)
    assert sorted(server.role for server in cell.redis) == ["master", "slave", "slave"]


def test_the_new_primary_and_roles_survive_kills() -> None:
    cell = SentinelCell()
    cell.world.hosts["n1"].kill()
    cell.world.run_until(cell.all_agree_on_new_primary)
    cell.world.run(5)
    new = cell.primaries()[0]
    for name in ("s1", new):
        cell.world.hosts[name].kill()
        cell.world.hosts[name].restart()
    assert cell.sentinels[0].primary_host == new
    assert cell.redis[int(new[1]) - 1].role == "master"
