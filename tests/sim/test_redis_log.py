"""The logs of simulated Redis servers and sentinels have the lines of the real ones."""

from __future__ import annotations

import re

from tests.sim.redis_stub import S
from tests.sim.test_redis_commands import RedisBench
from tests.sim.test_redis_replication import ReplicatedServers
from tests.sim.test_redis_sentinel import SentinelCell

FRESH = [
    "Running mode=standalone, port=6379.",
    "Creating AOF base file appendonly.aof.1.base.rdb on server start: starting empty",
    "Ready to accept connections",
]
CONNECT = ["Connecting to MASTER {}:6379", "MASTER <-> REPLICA sync started"]
RESYNC = [
    "Full resync from master: ID:OFFSET",
    "MASTER <-> REPLICA sync: Flushing old data",
    "MASTER <-> REPLICA sync: Loading DB in memory",
    "Done loading RDB, keys loaded: 1, keys expired: 0.",
    "MASTER <-> REPLICA sync: Finished with success",
]
REWRITE = "CONFIG REWRITE executed with success."
REFUSED = "Error condition on socket for SYNC: Connection refused"


def anonymous(lines: list[str]) -> list[str]:
    """Remove ids, offsets and client numbers from log lines."""
    lines = [re.sub(r"[0-9a-f]{40}:\d+", "ID:OFFSET", line) for line in lines]
    return [re.sub(r" \(user request from '.*'\)| ?[0-9a-f]{40}", "", line) for line in lines]


def connecting(to: str) -> list[str]:
    return [line.format(to) for line in CONNECT]


def replica_name(name: str, primary: str) -> str:
    return f"slave {name}:6379 {name} 6379 @ mymaster {primary} 6379"


class LoggedFailover:
    """A failover after a kill of n1. ``lines`` holds the logs of all hosts from the kill on."""

    def __init__(self) -> None:
        self.cell = cell = SentinelCell()
        cell.client("n1").call("SET", "k", "v")
        hosts = cell.world.hosts
        hosts["n1"].kill()
        for host in hosts.values():
            host.lines.clear()
        cell.world.run_until(cell.all_agree_on_new_primary)
        cell.world.run(5)
        self.new = cell.primaries()[0]
        self.other = "n2" if self.new == "n3" else "n3"
        self.lines = {name: anonymous(host.lines) for name, host in hosts.items()}
        self.leader = next(name for name in ("s1", "s2", "s3") if "+elected-leader" in " ".join(self.lines[name]))


def test_the_leader_logs_each_step_of_a_failover() -> None:
    failover = LoggedFailover()
    new, other = failover.new, failover.other
    logged = [
        line for line in failover.lines[failover.leader] if not line.startswith(("-odown", "voted for", " voted for"))
    ]
    primary = "master mymaster n1 6379"
    assert logged == [
        f"+sdown {primary}",
        f"+odown {primary} #quorum 2/2",
        "+new-epoch 1",
        f"+try-failover {primary}",
        "+vote-for-leader 1",
        f"+elected-leader {primary}",
        f"+failover-state-select-slave {primary}",
        f"+selected-slave {replica_name(new, 'n1')}",
        f"+failover-state-send-slaveof-noone {replica_name(new, 'n1')}",
        f"+failover-state-wait-promotion {replica_name(new, 'n1')}",
        f"+promoted-slave {replica_name(new, 'n1')}",
        f"+failover-state-reconf-slaves {primary}",
        f"+slave-reconf-sent {replica_name(other, 'n1')}",
        f"+slave-reconf-inprog {replica_name(other, 'n1')}",
        f"+slave-reconf-done {replica_name(other, 'n1')}",
        f"+failover-end {primary}",
        f"+switch-master mymaster n1 6379 {new} 6379",
        f"+slave {replica_name(other, new)}",
        f"+slave {replica_name('n1', new)}",
        f"+sdown {replica_name('n1', new)}",
    ]


def test_the_other_servers_and_sentinels_log_a_failover() -> None:
    failover = LoggedFailover()
    new, other = failover.new, failover.other
    lost = ["Connection with master lost.", *connecting("n1"), REFUSED]
    attached = [
        f"Replica {other}:6379 asks for synchronization",
        f"Synchronization with replica {other}:6379 succeeded",
    ]
    assert failover.lines[new] == [*lost, "MASTER MODE enabled", REWRITE, *attached]
    moved = [*connecting(new), f"REPLICAOF {new}:6379 enabled", REWRITE]
    assert failover.lines[other] == [*lost, *moved, *RESYNC]
    follower = failover.lines[next(name for name in ("s1", "s2", "s3") if name != failover.leader)]
    logged = [line.split()[0] for line in follower if "odown" not in line]
    expected = ["+sdown", "+new-epoch", "+vote-for-leader", "+config-update-from", "+switch-master"]
    assert sorted(logged[:3]) == sorted(expected[:3])
    assert logged[3:] == [*expected[3:], "+slave", "+slave", "+sdown"]


def test_a_wiped_primary_logs_an_empty_start_and_becomes_a_replica() -> None:
    failover = LoggedFailover()
    hosts = failover.cell.world.hosts
    for host in hosts.values():
        host.lines.clear()
    hosts["n1"].restart(wiped=True)
    failover.cell.world.run(16)
    made_replica = [*connecting(failover.new), f"REPLICAOF {failover.new}:6379 enabled", REWRITE]
    assert anonymous(hosts["n1"].lines) == [*FRESH, *made_replica, *RESYNC]
    assert hosts["s1"].lines[0] == f"-sdown {replica_name('n1', failover.new)}"
    assert any(
        f"+convert-to-slave {replica_name('n1', failover.new)}" in hosts[name].lines for name in ("s1", "s2", "s3")
    )


def test_a_restart_logs_how_many_keys_were_loaded() -> None:
    bench = RedisBench()
    bench.conn("MSET", "a", 1, "b", 2)
    assert bench.host.lines == FRESH
    assert bench.server.size() == 2
    for wiped in (False, True):
        bench.host.kill()
        bench.host.lines.clear()
        bench.host.restart(wiped=wiped)
        logged = "Creating AOF base file" if wiped else "Done loading RDB, keys loaded: 2, keys expired: 0."
        assert bench.host.lines[1].startswith(logged)
    assert RedisBench(persistence="no").host.lines[1] == "Server initialized, nothing to load: starting empty"


def test_a_cut_replication_link_is_logged_once_at_both_ends() -> None:
    pair = ReplicatedServers()
    hosts = pair.world.hosts
    for host in hosts.values():
        host.lines.clear()
    pair.world.cut("n1", "n3")
    pair.world.run(30)
    lost = ["Disconnecting timedout replica (streaming sync): n3:6379", "Connection with replica n3:6379 lost."]
    assert hosts["n1"].lines == lost
    silent = ["MASTER timeout: no data nor PING received...", "Connection with master lost."]
    assert hosts["n3"].lines == [*silent, *connecting("n1"), "Timeout connecting to the MASTER..."]


def test_a_burst_of_evictions_or_refusals_is_logged_as_one_line() -> None:
    bench = RedisBench(maxmemory=900_000, maxmemory_policy="allkeys-lru")
    bench.host.lines.clear()

    def fill() -> None:
        for number in range(200):
            bench.conn("SET", f"k{number}", "x" * 200)

    fill()
    assert len(bench.host.lines) == 1
    assert re.fullmatch(r"Evicted key 'k\d+' of db0, more than maxmemory in use \(allkeys-lru\)", bench.host.lines[0])
    bench.world.run(11)
    fill()
    assert len(bench.host.lines) == 2
    bench.conn("CONFIG", "SET", "maxmemory-policy", "noeviction")
    bench.host.lines.clear()
    fill()
    assert bench.host.lines == ["OOM command not allowed when used memory > 'maxmemory'."]


def test_tilt_mode_is_logged() -> None:
    cell = SentinelCell()
    host = cell.world.hosts["s1"]
    host.lines.clear()
    host.offset_ns += 60 * S
    cell.world.run(40)
    assert [line for line in host.lines if "tilt" in line] == ["+tilt #tilt mode entered", "-tilt #tilt mode exited"]
