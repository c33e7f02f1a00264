"""The unmodified kazoo on a simulated host: the parts of the standard library that it uses, sessions, its lock."""

from __future__ import annotations

import atexit
import fcntl
import os
import select
import socket
import threading
import time
from itertools import pairwise
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.recipe.lock import Lock
from kazoo.retry import KazooRetry

from harness.clusters.base import Checkpoint
from harness.clusters.sim.cluster import SimCluster
from harness.sim.patches import virtual
from tests.clusters.bench import make, on
from tests.sim.world import TwoHostWorld

HOSTS = "n1:2181,n2:2181,n3:2181"
pytestmark = pytest.mark.usefixtures("no_kazoo_warnings")


# The standard library.


def test_socketpair_wakes_a_reader_and_closes_both_ends() -> None:
    def main() -> list[Any]:
        one, other = socket.socketpair()

        def later() -> None:
            time.sleep(2)
            one.send(b"abc")
            time.sleep(1)
            one.close()

        thread = threading.Thread(target=later)
        thread.start()
        log: list[Any] = [select.select([other], [], [], 1)[0], select.select([other], [], [])[0] == [other]]
        log += [time.monotonic(), other.recv(2), other.recv(9), other.recv(1), time.monotonic()]
        other.setblocking(False)
        with pytest.raises(BrokenPipeError):
            other.send(b"x")
        return log

    assert TwoHostWorld().run(main) == [[[], True, 1002.0, b"ab", b"c", b"", 1003.0]]


def test_socketpair_wakes_a_blocking_recv() -> None:
    def main() -> tuple[bytes, float]:
        one, other = socket.socketpair()
        thread = threading.Timer(1, other.sendall, [b"x"])
        thread.start()
        return one.recv(5), time.monotonic()

    assert TwoHostWorld().run(main) == [(b"x", 1001.0)]


def test_fcntl_works_on_a_simulated_socket() -> None:
    def main() -> list[Any]:
        sock = socket.create_connection(("b", 7))
        log = [fcntl.fcntl(sock, fcntl.F_GETFD) & fcntl.FD_CLOEXEC, fcntl.fcntl(sock, fcntl.F_SETFD, 1)]
        flags = fcntl.fcntl(sock.fileno(), fcntl.F_GETFL)
        fcntl.fcntl(sock, fcntl.F_SETFL, flags | os.O_NONBLOCK)
        with pytest.raises(BlockingIOError):
            sock.recv(1)
        return [*log, sock.getblocking(), bool(fcntl.fcntl(sock, fcntl.F_GETFL) & os.O_NONBLOCK)]

    assert TwoHostWorld().run(main) == [[1, 0, False, True]]
    assert fcntl.fcntl(0, fcntl.F_GETFD) >= 0, "outside the simulation fcntl must be the real one"


class Sleeper:
    nap = staticmethod(time.sleep)

    def rest(self, seconds: float, how: Any = time.sleep, *, clock: Any = time.monotonic) -> float:
        how(seconds)
        return float(clock())


def test_time_functions_bound_at_import_are_virtual_only_in_the_simulation() -> None:
    real = time.sleep

    def main() -> list[float]:
        Sleeper.nap(1000)
        SequentialThreadingHandler.sleep_func(1000)
        KazooRetry().sleep_func(1000)
        return [Sleeper().rest(1000)]

    for _ in range(2):
        assert TwoHostWorld().run(main) == [[5000.0]]
        assert (Sleeper.nap, SequentialThreadingHandler.sleep_func, KazooRetry().sleep_func) == (real,) * 3
        assert Sleeper.rest.__defaults__ == (real,)
        assert Sleeper.rest.__kwdefaults__ == {"clock": time.monotonic}
    with virtual():
        assert Sleeper.nap is not real


def test_atexit_registrations_of_simulated_code_leave_the_real_ones_alone() -> None:
    called: list[int] = []

    def main() -> bool:
        registered = atexit.register(called.append, 1)
        atexit.unregister(called.append)
        atexit.register(called.append, 2)
        return registered == called.append

    before = atexit._ncallbacks()
    assert TwoHostWorld().run(main) == [True]
    assert atexit._ncallbacks() == before


# kazoo.


def client(**options: Any) -> KazooClient:
    zk = KazooClient(hosts=HOSTS, timeout=4.0, **options)
    zk.start()
    return zk


def run(main: Any, *, clients: int = 3, seed: int = 0) -> Any:
    cluster = make("zookeeper", clients=clients, seed=seed)
    return on(cluster, lambda: main(cluster))


def run_on_hosts(cluster: SimCluster, *mains: Any) -> list[Any]:
    """Call each function on a client host of its own at the same time; return their results in order."""
    results: list[Any] = [None] * len(mains)

    def call(number: int, main: Any) -> None:
        results[number] = main()

    def program(number: int, main: Any) -> Any:
        return lambda checkpoint: call(number, main)

    joins = [cluster.spawn(f"c{number}", program(number, main)) for number, main in enumerate(mains)]
    assert all(join(120) for join in joins)
    return results


def run_on_host(cluster: SimCluster, host: str, main: Any) -> None:
    assert cluster.spawn(host, lambda checkpoint: main())(120)


def test_nodes_and_watches_work() -> None:
    def main() -> list[Any]:
        zk, seen = client(), []

        def watch(event: Any) -> None:
            seen.append((event.type, event.path))

        log: list[Any] = [zk.ensure_path("/a/b"), zk.create("/a/b/s-", b"1", ephemeral=True, sequence=True)]
        data, stat = zk.get("/a/b/s-0000000000", watch=watch)
        log += [data, stat.version, stat.owner_session_id == zk.client_id[0], zk.exists("/a/c", watch=watch)]
        log += [zk.get_children("/a/b", watch=watch), zk.set("/a/b/s-0000000000", b"22").version]
        zk.create("/a/c")
        zk.delete("/a/b/s-0000000000")
        time.sleep(20)
        log += [seen, zk.connected, zk.get_children("/a")]
        zk.stop()
        zk.close()
        return log

    [got] = run(lambda cluster: run_on_hosts(cluster, main))
    assert got == [
        "/a/b", "/a/b/s-0000000000", b"1", 0, True, None, ["s-0000000000"], 1,
        [("CHANGED", "/a/b/s-0000000000"), ("CREATED", "/a/c"), ("CHILD", "/a/b")], True, ["b", "c"],
    ]  # fmt: skip


def test_broken_connection_keeps_the_session() -> None:
    def main(cluster: SimCluster) -> Any:
        def hold() -> Any:
            states: list[Any] = []
            zk = client()
            zk.add_listener(states.append)
            before = zk.client_id
            zk.create("/e", ephemeral=True)
            time.sleep(3)
            return [zk.client_id == before, [str(state) for state in states], zk.exists("/e") is not None]

        join = threading.Timer(1.0, cluster.break_streams, ["c0"])
        join.start()
        return run_on_hosts(cluster, hold)

    assert run(main) == [[True, ["SUSPENDED", "CONNECTED"], True]]


def test_session_of_a_paused_client_expires_with_its_nodes() -> None:
    states: list[str] = []
    gone: list[float] = []

    def holder(checkpoint: Checkpoint) -> None:
        zk = client()
        zk.add_listener(lambda state: states.append(str(state)))
        zk.create("/e", ephemeral=True)
        time.sleep(1000)

    def main(cluster: SimCluster) -> Any:
        cluster.spawn("c0", holder)
        time.sleep(1)
        began = time.monotonic()
        cluster.pause("c0")

        def other() -> None:
            zk = client()
            event = threading.Event()
            assert zk.exists("/e", watch=lambda _: event.set()) is not None
            event.wait()
            gone.append(time.monotonic() - began)

        run_on_host(cluster, "c1", other)
        assert states == []
        cluster.resume("c0")
        time.sleep(2)

    run(main)
    # The time-out is 4 s from when the leader last heard from the client (at most 1 s before), in ticks of 0.5 s.
    assert len(gone) == 1
    assert 3.0 <= gone[0] <= 4.6
    assert states[:3] == ["SUSPENDED", "LOST", "CONNECTED"]


def contend(seed: int) -> tuple[list[tuple[int, float, float]], list[tuple[str, str, bytes]]]:
    """Five clients acquire kazoo's lock four times each; return the holds (client, start, end) and all data sent."""
    holds: list[tuple[int, float, float]] = []
    sent: list[tuple[str, str, bytes]] = []

    def main(cluster: SimCluster) -> None:
        def contender(number: int) -> Any:
            def take() -> None:
                zk = client()
                for _ in range(4):
                    with Lock(zk, "/lock", str(number)):
                        began = time.monotonic()
                        time.sleep(0.2)
                        holds.append((number, began, time.monotonic()))
                zk.stop()

            return take

        for number in range(5):
            host = cluster._network.hosts[f"c{number}"]
            host.on_send = lambda to, data, name=host.name: sent.append((name, to, data))  # type: ignore[attr-defined]
        run_on_hosts(cluster, *[contender(number) for number in range(5)])

    run(main, clients=5, seed=seed)
    return holds, sent


def test_kazoo_lock_excludes_is_fair_and_is_deterministic() -> None:
    holds, sent = contend(7)
    assert len(holds) == 20
    assert all(before[2] <= after[1] for before, after in pairwise(holds))
    first = [number for number, _, _ in holds[:5]]
    assert sorted(first) == list(range(5)), "no client may acquire twice before all have acquired once"
    assert [number for number, _, _ in holds] == first * 4
    assert len(sent) > 100
    assert contend(7) == (holds, sent)
    assert contend(8)[1] != sent
