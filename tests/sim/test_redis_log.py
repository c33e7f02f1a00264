"""What the servers log, in the real ones' words."""

from __future__ import annotations

import re

from tests.sim.redis_stub import S
from tests.sim.test_redis_commands import Bench
from tests.sim.test_redis_replication import Pair
from tests.sim.test_redis_sentinel import Cell

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
    """Without ids, offsets, client numbers."""
    lines = [re.sub(r"[0-9a-f]{40}:\d+", "ID:OFFSET", line) for line in lines]
    return [re.sub(r" \(user request from '.*'\)| ?[0-9a-f]{40}", "", line) for line in lines]


def connecting(to: str) -> list[str]:
    return [line.format(to) for line in CONNECT]


def named(name: str, primary: str) -> str:
    return f"slave {name}:6379 {name} 6379 @ mymaster {primary} 6379"


class Failover:
    """n1 is killed, another is promoted, n1 comes back with an empty disk. The logs are kept from the kill on."""

    def __init__(self) -> None:
        self.cell = cell = Cell()
        cell.client("n1").call("SET", "k", "v")
        hosts = cell.world.hosts
        hosts["n1"].kill()
        for host in hosts.values():
            host.lines.clear()
        cell.world.run_until(cell.all_name_another)
        cell.world.run(5)
        self.new = cell.named()[0]
        self.other = "n2" if self.new == "n3" else "n3"
        self.lines = {name: anonymous(host.lines) for name, host in hosts.items()}
        self.leader = next(name for name in ("s1", "s2", "s3") if "+elected-leader" in " ".join(self.lines[name]))


def test_a_kill_failover_as_its_leader_tells_it() -> None:
    story = Failover()
    new, other = story.new, story.other
    told = [line for line in story.lines[story.leader] if not line.startswith(("-odown", "voted for", " voted for"))]
    primary = "master mymaster n1 6379"
    assert told == [
        f"+sdown {primary}",
        f"+odown {primary} #quorum 2/2",
        "+new-epoch 1",
        f"+try-failover {primary}",
        "+vote-for-leader 1",
        f"+elected-leader {primary}",
        f"+failover-state-select-slave {primary}",
        f"+selected-slave {named(new, 'n1')}",
        f"+failover-state-send-slaveof-noone {named(new, 'n1')}",
        f"+failover-state-wait-promotion {named(new, 'n1')}",
        f"+promoted-slave {named(new, 'n1')}",
        f"+failover-state-reconf-slaves {primary}",
        f"+slave-reconf-sent {named(other, 'n1')}",
        f"+slave-reconf-inprog {named(other, 'n1')}",
        f"+slave-reconf-done {named(other, 'n1')}",
        f"+failover-end {primary}",
        f"+switch-master mymaster n1 6379 {new} 6379",
        f"+slave {named(other, new)}",
        f"+slave {named('n1', new)}",
        f"+sdown {named('n1', new)}",
    ]


def test_a_kill_failover_as_the_others_tell_it() -> None:
    story = Failover()
    new, other = story.new, story.other
    lost = ["Connection with master lost.", *connecting("n1"), REFUSED]
    attached = [
        f"Replica {other}:6379 asks for synchronization",
        f"Synchronization with replica {other}:6379 succeeded",
    ]
    assert story.lines[new] == [*lost, "MASTER MODE enabled", REWRITE, *attached]
    moved = [*connecting(new), f"REPLICAOF {new}:6379 enabled", REWRITE]
    assert story.lines[other] == [*lost, *moved, *RESYNC]
    follower = story.lines[next(name for name in ("s1", "s2", "s3") if name != story.leader)]
    told = [line.split()[0] for line in follower if "odown" not in line]
    expected = ["+sdown", "+new-epoch", "+vote-for-leader", "+config-update-from", "+switch-master"]
    assert sorted(told[:3]) == sorted(expected[:3])
    assert told[3:] == [*expected[3:], "+slave", "+slave", "+sdown"]


def test_a_wiped_primary_comes_back_empty_and_is_made_a_replica() -> None:
    story = Failover()
    hosts = story.cell.world.hosts
    for host in hosts.values():
        host.lines.clear()
    hosts["n1"].restart(wiped=True)
    story.cell.world.run(16)
    made_replica = [*connecting(story.new), f"REPLICAOF {story.new}:6379 enabled", REWRITE]
    assert anonymous(hosts["n1"].lines) == [*FRESH, *made_replica, *RESYNC]
    assert hosts["s1"].lines[0] == f"-sdown {named('n1', story.new)}"
    assert any(f"+convert-to-slave {named('n1', story.new)}" in hosts[name].lines for name in ("s1", "s2", "s3"))


def test_restart_tells_how_many_keys_the_disk_had() -> None:
    bench = Bench()
    bench.conn("MSET", "a", 1, "b", 2)
    assert bench.host.lines == FRESH
    assert bench.server.size() == 2
    for wiped in (False, True):
        bench.host.kill()
        bench.host.lines.clear()
        bench.host.restart(wiped=wiped)
        told = "Creating AOF base file" if wiped else "Done loading RDB, keys loaded: 2, keys expired: 0."
        assert bench.host.lines[1].startswith(told)
    assert Bench(persistence="no").host.lines[1] == "Server initialized, nothing to load: starting empty"


def test_cut_link_is_told_once_at_both_ends() -> None:
    pair = Pair()
    hosts = pair.world.hosts
    for host in hosts.values():
        host.lines.clear()
    pair.world.cut("n1", "n3")
    pair.world.run(30)
    lost = ["Disconnecting timedout replica (streaming sync): n3:6379", "Connection with replica n3:6379 lost."]
    assert hosts["n1"].lines == lost
    silent = ["MASTER timeout: no data nor PING received...", "Connection with master lost."]
    assert hosts["n3"].lines == [*silent, *connecting("n1"), "Timeout connecting to the MASTER..."]


def test_bursts_of_evictions_and_refusals_are_a_line_each() -> None:
    bench = Bench(maxmemory=900_000, maxmemory_policy="allkeys-lru")
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


def test_tilt_is_told() -> None:
    cell = Cell()
    host = cell.world.hosts["s1"]
    host.lines.clear()
    host.offset_ns += 60 * S
    cell.world.run(40)
    assert [line for line in host.lines if "tilt" in line] == ["+tilt #tilt mode entered", "-tilt #tilt mode exited"]
