"""The helper's filters, pings, connections and processes, on namespaces of our own."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from harness.clusters.docker.helper import processes
from harness.clusters.docker.helper.namespaces import Namespace, NamespaceError, inode
from harness.clusters.docker.helper.network import FilterError, Network, Networks, connections

from .hosts import container, namespace, network, run, wait

pytestmark = pytest.mark.docker

Host = tuple[Network, str]
HEAL = "add table inet test\ndelete table inet test\n"
GENEROUS = 60.0
"""Seconds in which what is to arrive does, on a loaded machine too."""
NEVER = 0.3
"""Seconds to wait for what is not to arrive."""


def deny(hook: str, side: str, address: str) -> str:
    return f"table inet test {{ chain c {{ type filter hook {hook} priority 0; ip {side} {address} drop; }}; }}\n"


@pytest.fixture(scope="module")
def hosts() -> Iterator[list[Host]]:
    with network(1, 3) as made, ExitStack() as stack:
        opened = [(Network(pid), address) for pid, address in made]
        for host, _ in opened:
            stack.callback(host.close)
        yield opened


def test_a_ping_measures(hosts: list[Host]) -> None:
    (a, _), (_, to_b), _ = hosts
    trip = a.ping(to_b, GENEROUS)
    assert trip is not None
    assert 0 < trip < GENEROUS


def test_a_ping_of_oneself_is_not_mistaken_for_its_answer(hosts: list[Host]) -> None:
    """On the loopback a raw socket sees the request too."""
    a, to_a = hosts[0]
    a.filter(f"{HEAL}{deny('output', 'daddr', to_a)}".replace("drop", "icmp type echo-reply drop"))
    assert a.ping(to_a, NEVER) is None
    a.filter(HEAL)
    assert a.ping(to_a, GENEROUS) is not None


def test_a_ping_of_an_unused_address_times_out(hosts: list[Host]) -> None:
    a, _ = hosts[0]
    start = time.monotonic()
    assert a.ping("10.77.1.200", NEVER) is None
    assert time.monotonic() - start >= NEVER * 0.9


def test_a_ping_without_a_route_comes_back_at_once(hosts: list[Host]) -> None:
    a, _ = hosts[0]
    assert a.ping("192.0.2.1", 60.0) is None


def test_a_ping_that_a_rule_forbids_comes_back_at_once(hosts: list[Host]) -> None:
    (a, _), (_, to_b), _ = hosts
    a.filter(deny("output", "daddr", to_b))
    assert a.ping(to_b, 60.0) is None
    a.filter(HEAL)


def test_pings_at_once_do_not_mix(hosts: list[Host]) -> None:
    """Pings to reachable hosts are answered, pings to the host that is cut off are not."""
    (a, _), (b, to_b), (_, to_c) = hosts
    b.filter(deny("input", "saddr", hosts[0][1]))
    with ThreadPoolExecutor(24) as pool:
        cut = [pool.submit(a.ping, to_b, 1.0) for _ in range(12)]
        whole = [pool.submit(a.ping, to_c, GENEROUS) for _ in range(12)]
        assert all(future.result() is not None for future in whole)
        assert all(future.result() is None for future in cut)
    b.filter(HEAL)


def _listen(host: Network) -> socket.socket:
    """Open a socket for datagrams, which show which direction works."""
    sock = host.namespace.call(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    sock.bind(("0.0.0.0", 7000))
    return sock


def _arrives(sender: socket.socket, receiver: socket.socket, to: str, within: float) -> bool:
    receiver.settimeout(within)
    sender.sendto(b"?", (to, 7000))
    try:
        receiver.recv(10)
    except TimeoutError:
        return False
    return True


def test_a_filter_cuts_one_direction_and_heals(hosts: list[Host]) -> None:
    (a, to_a), (b, to_b), _ = hosts
    with _listen(a) as at_a, _listen(b) as at_b:
        assert _arrives(at_a, at_b, to_b, GENEROUS)
        b.filter(deny("input", "saddr", to_a))
        assert not _arrives(at_a, at_b, to_b, NEVER)
        assert _arrives(at_b, at_a, to_a, GENEROUS)
        b.filter(HEAL)
        assert _arrives(at_a, at_b, to_b, GENEROUS)


def test_a_filter_that_nft_refuses_says_why_and_changes_nothing(hosts: list[Host]) -> None:
    a, _ = hosts[0]
    with pytest.raises(FilterError, match=f"process {a.namespace.pid}: Error: syntax error"):
        a.filter("tabel inet test\n")
    with pytest.raises(FilterError, match="No such file or directory"):
        a.filter("add table inet half\ndelete table inet absent\n")
    assert "half" not in run(a.namespace.pid, "nft", "list", "tables")


def test_filters_of_several_networks_at_once(hosts: list[Host]) -> None:
    def often(host: Network, address: str) -> None:
        for _ in range(30):
            host.filter(deny("input", "saddr", address))
            host.filter(HEAL)

    with ThreadPoolExecutor(3) as pool:
        for future in [pool.submit(often, host, "10.77.1.99") for host, _ in hosts]:
            future.result()
    for host, _ in hosts:
        assert "test" not in run(host.namespace.pid, "nft", "list", "tables")


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_connections_are_counted(hosts: list[Host], family: socket.AddressFamily) -> None:
    """IPv4 connections over IPv6 sockets, as Java makes them, count too."""
    (a, to_a), (b, to_b), _ = hosts
    if family == socket.AF_INET6 and not Path(f"/proc/{a.namespace.pid}/net/tcp6").exists():
        pytest.skip("a kernel without IPv6")
    prefix = "::ffff:" if family == socket.AF_INET6 else ""
    with ExitStack() as stack:
        server = stack.enter_context(b.namespace.call(lambda: socket.create_server(("", 7001))))
        wanted = [(to_b, 7001), ("10.77.1.99", 1)]
        for count in (1, 2):
            client = stack.enter_context(a.namespace.call(lambda: socket.socket(family)))
            client.settimeout(GENEROUS)
            client.connect((prefix + to_b, 7001))
            stack.enter_context(server.accept()[0])
            assert connections(a.namespace.pid, wanted) == count
        assert connections(a.namespace.pid, [(to_b, 7002), (to_a, 7001)]) == 0
        assert connections(b.namespace.pid, wanted) == 0
    for _ in wait("connections are closed"):
        if connections(a.namespace.pid, wanted) == 0:
            break


def test_calls_run_in_the_namespace_and_pass_errors_on() -> None:
    with namespace() as pid:
        entered = Namespace(pid)
        try:
            assert entered.call(lambda: inode("thread-self", "net")) == inode(pid, "net")
            assert inode("thread-self", "net") == inode("self", "net")
            assert "eth" not in entered.call(lambda: subprocess.check_output(["ip", "link"], text=True))
            with pytest.raises(ZeroDivisionError):
                entered.call(lambda: 1 // 0)
        finally:
            entered.close()


def test_the_machines_network_and_absent_processes_are_refused() -> None:
    with pytest.raises(NamespaceError, match="machine's"):
        Namespace(os.getpid())
    with pytest.raises(NamespaceError, match="process 4999999"):
        Namespace(4_999_999)


def test_networks_are_entered_once_and_left_when_their_process_ends() -> None:
    networks = Networks()
    try:
        with namespace() as pid:
            first = networks.of(pid)
            assert networks.of(pid) is first
        before = threading.active_count()
        with namespace() as pid:
            assert networks.of(pid) is not first
            assert threading.active_count() <= before
    finally:
        assert networks.close() == []


def test_kill_takes_the_processes_of_one_container_but_its_first() -> None:
    with container("sh", "-c", "sleep 601 & sleep 602 & wait") as one, container("sleep", "603") as other:
        for _ in wait("three processes"):
            if len(processes.members(one)) == 3:
                break
        doomed = processes.members(one)
        spared = processes.members(other)
        assert set(processes.states(one).values()) <= {"S", "R", "D"}
        assert processes.kill(one) == doomed
        assert processes.members(one) == []
        assert not any(processes.runs(pid) for pid in doomed)
        assert processes.runs(one)
        assert processes.members(other) == spared != []
        assert processes.kill(one) == []


def test_states_tell_stopped_and_ended_processes() -> None:
    with container("sleep", "604") as first:
        for _ in wait("a process"):
            if processes.members(first):
                break
        (member,) = processes.members(first)
        subprocess.run(["kill", "-STOP", str(member)], check=True)
        for _ in wait("it stops"):
            if processes.states(first) == {member: "T"}:
                break
        assert processes.kill(first) == [member]
        # Its parent sleeps, and waits for no child.
        assert processes.states(first) == {member: "Z"}


def test_processes_outside_of_containers_are_not_touched() -> None:
    for operation in (processes.members, processes.states, processes.kill):
        with pytest.raises(NamespaceError, match="in no container"):
            operation(os.getpid())
        with pytest.raises(NamespaceError, match="process 4999999"):
            operation(4_999_999)
