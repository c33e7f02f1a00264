"""Replication of the simulated Redis: snapshots, the stream of writes, WAIT, lost links and role changes."""

from __future__ import annotations

import pytest

from harness.sim.servers.redis.server import RedisServer
from tests.sim.redis_client import RedisCaller, ReplyError
from tests.sim.redis_stub import MS, S, StubWorld


class ReplicatedServers:
    """A primary n1, its replicas n2 and n3, and a client host c."""

    def __init__(self) -> None:
        self.world = StubWorld()
        self.servers = [RedisServer(replica_of=None if number == 0 else ("n1", 6379)) for number in range(3)]
        for number in range(3):
            self.world.host(f"n{number + 1}")
        for number, server in enumerate(self.servers):
            self.world.hosts[f"n{number + 1}"].run(server)
        self.world.host("c")
        self.world.run(0.1)

    def client(self, to: str = "n1") -> RedisCaller:
        return RedisCaller(self.world, self.world.hosts["c"], to)

    def seen(self, key: bytes) -> list[object]:
        return [server.peek(key)[0] for server in self.servers]


@pytest.fixture
def pair() -> ReplicatedServers:
    return ReplicatedServers()


def test_all_kinds_of_writes_reach_the_replicas(pair: ReplicatedServers) -> None:
    caller = pair.client()
    caller.call("SET", "k", "v", "PX", 10_000)
    caller.call("EVAL", "redis.call('incr','n') redis.call('hset','h','f',1) return 1", 0)
    caller.call("RPUSH", "l", "a", "b")
    caller.call("SELECT", 2)
    caller.call("ZADD", "z", 1.5, "m")
    pair.world.run(0.1)
    for server in pair.servers[1:]:
        assert [db.data.keys() for db in server.databases] == [db.data.keys() for db in pair.servers[0].databases]
        assert server.peek(b"k") == pair.servers[0].peek(b"k"), "expiry is the same absolute time"
        assert server.offset == pair.servers[0].offset


def test_a_restarted_replica_gets_all_data_in_a_snapshot(pair: ReplicatedServers) -> None:
    caller = pair.client()
    for words in (["SET", "s", "x"], ["HSET", "h", "a", 1], ["SADD", "m", "a", "b"], ["ZADD", "z", 0.1, "a"]):
        caller.call(*words)
    pair.world.hosts["n2"].kill()
    caller.call("RPUSH", "l", 1, 2, 3)
    pair.world.hosts["n2"].restart()
    pair.world.run(2)
    theirs = pair.client("n2")
    assert theirs.call("LRANGE", "l", 0, -1) == [b"1", b"2", b"3"]
    assert theirs.call("ZSCORE", "z", "a") == b"0.10000000000000001"
    assert theirs.call("SMEMBERS", "m") == [b"a", b"b"]


def test_replicas_refuse_writes(pair: ReplicatedServers) -> None:
    caller = pair.client("n2")
    readonly = "READONLY You can't write against a read only replica."
    assert caller.call("SET", "k", "v") == readonly
    assert caller.call("EVAL", "return redis.call('set','k','v')", 0).startswith(readonly)


def test_a_replica_hides_expired_keys_until_its_primary_deletes_them(pair: ReplicatedServers) -> None:
    caller = pair.client()
    caller.call("SET", "k", "v", "PX", 10_000)
    pair.world.run(0.05)
    pair.world.hosts["n2"].offset_ns += 60 * S
    assert pair.client("n2").call("GET", "k") is None
    assert pair.servers[1].peek(b"k")[0] == b"v"
    pair.world.run(10.3)
    assert pair.seen(b"k") == [None, None, None], "the primary's own expiry deletes it everywhere"


def test_wait_counts_acknowledging_replicas(pair: ReplicatedServers) -> None:
    caller = pair.client()
    caller.call("SET", "k", "v")
    began = pair.world.now_ns
    assert caller.call("WAIT", 2, 1000) == 2
    assert pair.world.now_ns - began < 50 * MS, "WAIT asks for acknowledgements at once, not at the next periodic check"
    pair.world.cut("n1", "n3")
    caller.call("SET", "k", "w")
    assert caller.call("WAIT", 2, 300) == 1
    assert caller.call("WAIT", 0, 0) in (1, 2)


@pytest.mark.parametrize(
    "command", [["GET", "k"], ["SET", "k", "mine", "NX"], ["EVAL", "return redis.call('GET','k')", 0]]
)
def test_wait_after_a_command_that_changes_nothing_counts_replicas_that_have_what_it_saw(
    pair: ReplicatedServers, command: list[str]
) -> None:
    other, caller = pair.client(), pair.client()
    pair.world.cut("n1", "n2")
    pair.world.cut("n1", "n3")
    other.call("SET", "k", "theirs")
    assert caller.call(*command) in (b"theirs", None)
    assert caller.call("WAIT", 1, 300) == 0


def test_wait_on_a_connection_without_a_command_waits_for_nothing(pair: ReplicatedServers) -> None:
    pair.world.cut("n1", "n2")
    pair.world.cut("n1", "n3")
    pair.client().call("SET", "k", "v")
    fresh = pair.client()
    assert [fresh.call("WAIT", 1, 300), fresh.call("WAIT", 1, 300)] == [2, 0]


def test_an_unreplicated_write_is_lost_with_the_primary(pair: ReplicatedServers) -> None:
    caller = pair.client()
    pair.world.cut("n1", "n2")
    pair.world.cut("n1", "n3")
    assert caller.call("SET", "lock", "me", "NX") == "OK"
    pair.world.hosts["n1"].kill()
    other = pair.client("n2")
    assert other.call("REPLICAOF", "NO", "ONE") == "OK"
    assert other.call("SET", "lock", "you", "NX") == "OK"


def test_a_restarted_old_primary_stays_primary_until_replicaof_drops_its_data(pair: ReplicatedServers) -> None:
    pair.client().call("SET", "old", 1)
    pair.world.hosts["n1"].kill()
    new = pair.client("n2")
    new.call("REPLICAOF", "NO", "ONE")
    new.call("SET", "new", 1)
    pair.world.hosts["n1"].restart()
    old = pair.client("n1")
    assert old.call("ROLE")[0] == b"master"
    old.call("SET", "stray", 1)
    assert old.call("REPLICAOF", "n2", 6379) == "OK"
    pair.world.run(2)
    assert old.call("GET", "stray") is None
    assert old.call("GET", "new") == b"1"
    assert pair.servers[0].following == ("n2", 6379)


def test_info_reports_replication_links(pair: ReplicatedServers) -> None:
    pair.world.run(1.5)
    text = pair.client().call("INFO", "replication").decode()
    assert "connected_slaves:2" in text
    assert "slave0:ip=n2,port=6379,state=online" in text
    assert "master_link_status:up" in pair.client("n3").call("INFO", "replication").decode()
    pair.world.cut("n1", "n3")
    pair.world.run(7)
    assert "master_link_status:down" in pair.client("n3").call("INFO", "replication").decode()
    assert "connected_slaves:1" in pair.client().call("INFO", "replication").decode()


def test_a_replication_link_reconnects_after_a_cut(pair: ReplicatedServers) -> None:
    pair.world.cut("n1", "n3")
    pair.world.run(8)
    pair.client().call("SET", "k", "v")
    pair.world.heal()
    pair.world.run(8)
    assert pair.seen(b"k") == [b"v", b"v", b"v"]


def test_writes_are_refused_with_too_few_good_replicas(pair: ReplicatedServers) -> None:
    caller = pair.client()
    caller.call("CONFIG", "SET", "min-replicas-to-write", 1, "min-replicas-max-lag", 2)
    assert caller.call("SET", "k", 1) == "OK"
    pair.world.cut("n1", "n2")
    pair.world.cut("n1", "n3")
    pair.world.run(4)
    assert caller.call("SET", "k", 2) == "NOREPLICAS Not enough good replicas to write."


def test_replicas_are_counted_once_a_second_and_their_lag_in_whole_seconds(pair: ReplicatedServers) -> None:
    """The real server took 0.73 to 2.76 s to refuse writes after its replica had stopped, with a limit of 1 s."""
    caller = pair.client()
    caller.call("CONFIG", "SET", "min-replicas-to-write", 1, "min-replicas-max-lag", 1, "repl-timeout", 60)
    taken = []
    for part in range(8):
        pair.world.run(2 + part / 8)
        pair.world.cut("n1", "n2")
        pair.world.cut("n1", "n3")
        taken.append(pair.world.run_until(lambda: isinstance(caller.call("SET", "k", 1), ReplyError)))
        pair.world.heal()
    assert all(0.7 < one < 3 for one in taken)
    assert max(taken) > 1.2


def test_a_lag_of_zero_turns_the_count_of_replicas_off(pair: ReplicatedServers) -> None:
    caller = pair.client()
    caller.call("CONFIG", "SET", "min-replicas-to-write", 3, "min-replicas-max-lag", 0)
    assert caller.call("SET", "k", 1) == "OK"
    caller.call("CONFIG", "SET", "min-replicas-max-lag", 1)
    assert caller.call("SET", "k", 2) == "NOREPLICAS Not enough good replicas to write."


def test_a_promoted_replica_deletes_expired_keys_by_itself(pair: ReplicatedServers) -> None:
    pair.client().call("SET", "k", "v", "PX", 3000)
    pair.world.run(0.1)
    pair.world.hosts["n1"].kill()
    new = pair.client("n2")
    new.call("REPLICAOF", "NO", "ONE")
    pair.world.run(5)
    assert new.call("DBSIZE") == 0


def test_blocked_clients_are_unblocked_when_their_server_becomes_a_replica(pair: ReplicatedServers) -> None:
    waiter, caller = pair.client(), pair.client()
    waiter.send("BLPOP", "q", 0)
    pair.world.run(0.01)
    caller.call("REPLICAOF", "n2", 6379)
    pair.world.run(0.01)
    assert waiter.data.startswith(b"-UNBLOCKED force unblock")


def test_two_runs_give_the_same_replies() -> None:
    def run() -> list[object]:
        pair = ReplicatedServers()
        caller = pair.client()
        replies = [caller.call("SET", f"k{number}", number, "PX", 100) for number in range(50)]
        pair.world.run(3)
        return [*replies, pair.client("n2").call("INFO"), pair.client().call("INFO")]

    assert run() == run()
