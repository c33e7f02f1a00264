"""Faults on machines: what the run records agrees with what commands over ssh find."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import pytest

from .bench import PATIENCE_S, TTL, Bench, on_bench
from .machines import Machines

pytestmark = [pytest.mark.docker]

FAULTS = ("server-pause", "client-pause", "kill", "client-crash", "partition-node", "partition-clients", "clock-jump")
NOW = "python3 -c 'import time; print(time.time_ns())'"


def eventually(look: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + PATIENCE_S
    while not (found := look()) and time.monotonic() < deadline:
        time.sleep(0.2)
    return found


def states(hosts: Machines, machine: str, name: str) -> set[str]:
    """Return the states of all processes with this name, as ps shows them."""
    return {line[0] for line in hosts.sh(machine, f"ps -o stat= -C {name}", check=False).splitlines()}


def pids(hosts: Machines, machine: str, name: str) -> list[str]:
    return hosts.sh(machine, f"ps -o pid= -C {name}", check=False).split()


def connects(hosts: Machines, bench: Bench, source: str, target: str, *, marked: bool = True) -> bool:
    """Return whether a process with the group of the program ``source`` gets a TCP connection to ``target``'s server;
    if it is not ``marked``, with the group of nobody of the run."""
    here, there = bench.cluster._endpoints[source], bench.cluster._endpoints[target]
    code = f"import socket; socket.create_connection(({there.address!r}, {there.ports[-1]}), 2)"
    group = f"setpriv --regid {here.gid} --clear-groups " if marked else ""
    command = f'{group}python3 -c "{code}" 2>/dev/null && echo connected'
    return hosts.sh(here.machine, command, check=False) == "connected"


def server_ahead_s(hosts: Machines, bench: Bench, server: str) -> float:
    """Return how far the Redis's TIME is ahead of its machine's clock."""
    endpoint = bench.cluster._endpoints[server]
    said = hosts.sh(endpoint.machine, f"redis-cli -p {endpoint.ports[0]} TIME; {NOW}").split()
    return int(said[0]) + int(said[1]) / 1e6 - int(said[2]) / 1e9


def machine_clocks_ahead_s(hosts: Machines) -> list[float]:
    """Return how far each machine's wall clock is ahead of this one's."""
    found = []
    for name in hosts.names:
        before = time.time()
        there = int(hosts.sh(name, NOW)) / 1e9
        found.append(there - (before + time.time()) / 2)
    return found


def test_faults_on_redis_are_what_commands_over_ssh_find(hosts: Machines) -> None:
    before = machine_clocks_ahead_s(hosts)

    def check(bench: Bench) -> None:
        pause_of_servers(hosts, bench)
        pause_of_a_client(hosts, bench)
        kill_of_a_server(hosts, bench)
        crash_of_a_client(hosts, bench)
        partition_of_a_server(hosts, bench)
        jump_of_clocks(hosts, bench)

    on_bench(hosts, "redlock", check, FAULTS)
    assert all(abs(one) < 60 for one in (*before, *machine_clocks_ahead_s(hosts)))
    for name in hosts.names:
        assert hosts.remains(name) == ""


def pause_of_servers(hosts: Machines, bench: Bench) -> None:
    with bench.fault("server-pause") as record:
        assert record.seen, record
        assert len(record.hosts) == 2
        for server in bench.cluster.servers.names:
            stopped = server in record.hosts
            found = states(hosts, bench.machine(server), "redis-server")
            assert found == {"T"} if stopped else "T" not in found, (server, found)
    assert bench.record().healed_ns is not None
    for server in record.hosts:
        assert eventually(lambda server=server: "T" not in states(hosts, bench.machine(server), "redis-server"))  # type: ignore[misc]


def pause_of_a_client(hosts: Machines, bench: Bench) -> None:
    with bench.fault("client-pause", target="c1") as record:
        assert record.seen, record
        machine = bench.machine("c1")
        found = hosts.sh(machine, "ps -eo stat=,args= | grep client_agent | grep -v grep").splitlines()
        assert sorted(line[0] == "T" for line in found) == [False, True], found  # the relay goes on
    assert bench.record().healed_ns is not None


def kill_of_a_server(hosts: Machines, bench: Bench) -> None:
    machine = bench.machine("n3")
    (old,) = pids(hosts, machine, "redis-server")
    with bench.fault("kill", target="n3") as record:
        assert record.seen, record
        assert pids(hosts, machine, "redis-server") == []
    assert bench.record().healed_ns is not None
    (new,) = pids(hosts, machine, "redis-server")
    assert new != old


def crash_of_a_client(hosts: Machines, bench: Bench) -> None:
    machine = bench.machine("c2")
    assert hosts.sh(machine, "pgrep -fc client_agent") != "0"
    with bench.fault("client-crash", target="c2") as record:
        assert record.seen, record
        left = hosts.sh(machine, "ps -eo stat=,args= | grep client_agent | grep -v -e grep -e '^Z'", check=False)
        assert left == ""


def partition_of_a_server(hosts: Machines, bench: Bench) -> None:
    """c0 runs on the machine of n1, so an address alone would not tell them apart."""
    assert bench.machine("n1") == bench.machine("c0")
    with bench.fault("partition-node", target="n1") as record:
        assert record.seen, record
        for other in ("c0", "c1", "n2", "n5"):
            assert not connects(hosts, bench, other, "n1"), other
        assert not connects(hosts, bench, "n1", "n2")
        assert connects(hosts, bench, "c0", "n2")  # on the same machine as n1, and not cut off
        assert connects(hosts, bench, "c1", "n2")
        assert connects(hosts, bench, "c1", "n1", marked=False)  # other traffic of the machine is left alone
    assert bench.record().healed_ns is not None
    assert connects(hosts, bench, "c0", "n1")
    assert connects(hosts, bench, "n2", "n1")


def jump_of_clocks(hosts: Machines, bench: Bench) -> None:
    with bench.fault("clock-jump") as record:
        assert record.seen, record
        assert len(record.hosts) == 3
        for server in bench.cluster.servers.names:
            by_s = record.observed["moved_ns"].get(server, 0) / 1e9
            assert by_s == pytest.approx(1.5 * TTL if server in record.hosts else 0.0, abs=0.05)
            # the machine's own clock is read in a later command, so the difference is less by as much
            assert by_s - 2 < server_ahead_s(hosts, bench, server) <= by_s + 0.05, server
    assert bench.record().healed_ns is not None
    for server in record.hosts:
        assert server_ahead_s(hosts, bench, server) < 0.05


def test_a_partition_of_etcd_is_what_its_members_say(hosts: Machines) -> None:
    def health(bench: Bench, member: str) -> bool | None:
        endpoint = bench.cluster._endpoints[member]
        code = f"import urllib.request as u; print(u.urlopen('http://127.0.0.1:{endpoint.ports[0]}/health').read().decode())"
        said = hosts.sh(endpoint.machine, f'timeout 20 python3 -c "{code}" 2>/dev/null', check=False)
        return json.loads(said)["health"] == "true" if said else None

    def check(bench: Bench) -> None:
        assert health(bench, "n1") is True
        leader = bench.cluster.servers.leader()  # type: ignore[attr-defined]
        assert leader in bench.cluster.servers.names
        (old,) = pids(hosts, bench.machine(leader), "etcd")
        with bench.fault("partition-node", target=leader) as record:
            assert record.seen, record
            assert record.hosts == (leader,)
            assert eventually(lambda: not health(bench, leader))
            others = [name for name in bench.cluster.servers.names if name != leader]
            assert eventually(lambda: all(health(bench, name) for name in others))  # they have elected another leader
        assert bench.record().healed_ns is not None
        assert eventually(lambda: health(bench, leader) is True)
        with bench.fault("kill", target=leader):
            assert pids(hosts, bench.machine(leader), "etcd") == []
        (new,) = pids(hosts, bench.machine(leader), "etcd")
        assert new != old
        with bench.fault("server-pause", target=leader) as record:
            assert record.seen, record
            assert states(hosts, bench.machine(leader), "etcd") == {"T"}
        with bench.fault("clock-jump", target=leader) as record:
            assert record.seen, record
            assert record.observed["moved_ns"][leader] / 1e9 == pytest.approx(1.5 * TTL, abs=0.05)

    fields = {"hosts": ("h1", "h2", "h3"), "client_hosts": ("h4", "h5")}
    on_bench(hosts, "etcd-mutex", check, ("partition-node", "kill", "server-pause", "clock-jump"), **fields)
    for name in hosts.names:
        assert hosts.remains(name) == ""
