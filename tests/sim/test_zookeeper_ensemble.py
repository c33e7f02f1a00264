"""An ensemble of three simulated ZooKeeper servers: elections, replication, sessions across servers.

Expected times were measured on real servers (3.8.0, tick 0.5 s): a new leader 0.25 to 0.44 s after a kill, 2.2 s after
a pause, 2.34 s after a partition.
"""

from __future__ import annotations

import time
from typing import Any

import pytest

from harness.clusters.abilities import leader_of
from harness.clusters.abilities.network import LinkShape
from harness.clusters.sim.cluster import SimCluster
from harness.fidelity.zookeeper.client import status
from harness.worker import world
from harness.worker.resource import Resource
from tests.clusters.bench import on
from tests.sim.zookeeper_world import SERVERS, alone, client, links, others, quorum, run_ensemble, run_on_hosts, server

EPHEMERAL = 1


def leader(cluster: SimCluster) -> str:
    name = leader_of(cluster)
    assert name is not None
    return name


def await_new_leader(cluster: SimCluster, not_by: str) -> float:
    """Wait until another server leads and return the seconds that took."""
    began = time.monotonic()
    while leader_of(cluster) in (None, not_by):
        time.sleep(0.01)
        assert time.monotonic() - began < 30
    return time.monotonic() - began


def servers_agree(cluster: SimCluster) -> bool:
    dumps = [server(cluster, name).tree.dump() for name in SERVERS]
    return dumps[0] == dumps[1] == dumps[2]


def test_highest_number_leads_and_all_servers_serve() -> None:
    def main(cluster: SimCluster) -> Any:
        def write_and_read() -> Any:
            one, two, three = [client(name) for name in SERVERS]
            one("create", "/a", b"x", 0)
            return [(each("sync", "/"), each("get", "/a", None)[0]) for each in (two, three)]

        return [leader(cluster), alone(cluster, write_and_read), servers_agree(cluster), cluster.key_count("n1")]

    assert run_ensemble(main) == ["n3", [("/", b"x"), ("/", b"x")], True, 1]


def test_srvr_names_the_leader() -> None:
    def main(cluster: SimCluster) -> Any:
        return alone(cluster, lambda: ["Mode: leader" in status((name, 2181)) for name in SERVERS])

    assert run_ensemble(main) == [False, False, True]


def test_standalone_server_leads_itself() -> None:
    cluster = SimCluster(
        kind="zookeeper", nodes=1, clients=1, seed=0, resource=Resource("off", {}).answer, options={},
        program=world.run,
    )  # fmt: skip
    made = on(cluster, lambda: (leader_of(cluster), alone(cluster, lambda: client("n1")("create", "/a", b"", 0))))
    assert made == ("n1", "/a")


@pytest.mark.parametrize(
    ("fault", "least", "most"), [("kill", 0.2, 0.44), ("pause", 2.0, 2.6), ("partition", 2.0, 2.6)]
)
def test_lost_leader_is_replaced_by_one_with_all_commits(fault: str, least: float, most: float) -> None:
    def main(cluster: SimCluster) -> Any:
        first = leader(cluster)
        alone(cluster, lambda: client(first)("create", "/a", b"x", 0))
        strike = {
            "kill": lambda: cluster.kill(first),
            "pause": lambda: cluster.pause(first),
            "partition": lambda: cluster.cut(links(first, *others(first))),
        }
        strike[fault]()
        took = await_new_leader(cluster, first)
        second = leader(cluster)
        epochs = quorum(cluster, second).disk.epoch
        value = alone(cluster, lambda: client(second)("set", "/a", b"y", 0).mzxid >> 32, "c1")
        heal = {
            "kill": lambda: cluster.start(first, wiped=False),
            "pause": lambda: cluster.resume(first),
            "partition": lambda: cluster.heal(links(first, *others(first))),
        }
        heal[fault]()
        time.sleep(3)
        return took, epochs, value, servers_agree(cluster), leader(cluster) == second

    took, *rest = run_ensemble(main)
    assert least <= took <= most
    assert rest == [2, 2, True, True]


def test_leader_without_majority_answers_no_write_and_closes_connections() -> None:
    def main(cluster: SimCluster) -> Any:
        first = leader(cluster)

        def cut_off() -> Any:
            old = client(first)
            old("create", "/a", b"x", 0)
            cluster.cut(links(first, *others(first)))
            began = time.monotonic()
            old.send(("get", "/a", None), ("set", "/a", b"y", -1), ("get", "/a", None))
            read = old.next()
            items = old.next()
            return [read.value[0], items, time.monotonic() - began, client(first).session]  # type: ignore[union-attr]

        found = alone(cluster, cut_off)
        await_new_leader(cluster, first)
        elsewhere = alone(cluster, lambda: client(leader(cluster))("get", "/a", None)[0], "c1")
        cluster.heal(links(first, *others(first)))
        time.sleep(3)
        return [*found, elsewhere, servers_agree(cluster), server(cluster, first).tree.nodes["/a"].data]

    read, items, took, refused, elsewhere, same, healed = run_ensemble(main)
    assert (read, items, refused, elsewhere, same, healed) == (b"x", None, 0, b"x", True, b"x")
    assert 2.0 <= took <= 2.6


def test_follower_may_lag_and_sync_catches_up() -> None:
    def main(cluster: SimCluster) -> Any:
        first, behind = leader(cluster), others(leader(cluster))[0]

        def look() -> Any:
            one, two = client(first), client(behind)
            one("create", "/a", b"old", 0)
            two("sync", "/a")
            cluster.shape([(first, behind)], LinkShape(latency=0.2))
            one("set", "/a", b"new", -1)
            stale = two("get", "/a", None)[0]
            synced = two("sync", "/a")
            return stale, synced, two("get", "/a", None)[0], two.zxid == one.zxid

        return alone(cluster, look)

    assert run_ensemble(main) == (b"old", "/a", b"new", True)


def test_reads_and_writes_of_a_session_are_answered_in_order() -> None:
    def main(cluster: SimCluster) -> Any:
        def ask() -> Any:
            one = client(others(leader(cluster))[0])
            one.send(*[("create", "/a", b"", 0), ("get", "/a", None), ("set", "/a", b"1", 0), ("get", "/a", None),
                       ("delete", "/a", -1), ("exists", "/a", None), ("sync", "/"), ("ping",)])  # fmt: skip
            return [(item.op, item.code) for item in one.read_replies()]  # type: ignore[union-attr]

        return alone(cluster, ask)

    assert run_ensemble(main) == [
        ("create", 0), ("get", 0), ("set", 0), ("get", 0), ("delete", 0), ("exists", -101), ("sync", 0), ("ping", 0),
    ]  # fmt: skip


def test_events_precede_the_reply_on_a_follower() -> None:
    def main(cluster: SimCluster) -> Any:
        def ask() -> Any:
            one, two = client("n1"), client("n2")
            one("create", "/a", b"", 0)
            two("sync", "/")
            two("get", "/a", "watch")
            two.send(("set", "/a", b"1", -1))
            items = [type(item).__name__ for item in two.read_replies()]
            two("get", "/a", "watch")
            one("set", "/a", b"2", -1)
            two.send(("sync", "/"), ("get", "/a", None))
            return [*items, *[type(item).__name__ for item in two.read_replies()]]

        return alone(cluster, ask)

    assert run_ensemble(main) == ["WatchEvent", "OperationReply", "WatchEvent", "OperationReply", "OperationReply"]


def test_moved_session_cannot_write_on_its_old_connection() -> None:
    def main(cluster: SimCluster) -> Any:
        def move() -> Any:
            one = client("n1")
            one("create", "/e", b"", EPHEMERAL)
            two = client("n2", session=one.session, password=one.password, seen=one.zxid)
            two("create", "/f", b"", EPHEMERAL)
            one.send(("exists", "/e", None), ("create", "/g", b"", 0))
            items = one.read_replies()
            return [two.session == one.session, items[0].code, items[1], two("exists", "/g", None),  # type: ignore[union-attr]
                    two("exists", "/e", None).owner == two.session]  # fmt: skip

        return alone(cluster, move)

    assert run_ensemble(main) == [True, 0, None, -101, True]


def test_closing_a_session_ends_its_connection_on_another_server() -> None:
    def main(cluster: SimCluster) -> Any:
        def close() -> Any:
            one = client("n1")
            one("create", "/e", b"", EPHEMERAL)
            two = client("n2", session=one.session, password=one.password, seen=one.zxid)
            two("close")
            again = client("n1", session=one.session, password=one.password)
            return [one.next(), again.timeout, client("n3")("exists", "/e", None)]

        return alone(cluster, close)

    assert run_ensemble(main) == [None, 0, -101]


@pytest.mark.parametrize("missed", [10, 600])
@pytest.mark.parametrize("wiped", [False, True])
def test_returning_follower_catches_up_by_log_or_snapshot(wiped: bool, missed: int) -> None:
    def main(cluster: SimCluster) -> Any:
        def write(count: int) -> None:
            one = client("n3")
            one.send(*[("create", "/a-", b"x", 2)] * count, ("create", "/e-", b"", 3))
            one.read_replies()

        alone(cluster, lambda: write(5))
        cluster.kill("n1")
        alone(cluster, lambda: write(missed))
        cluster.start("n1", wiped=wiped)
        time.sleep(1)
        same = servers_agree(cluster)
        cluster.kill("n3")
        time.sleep(1)
        found = alone(cluster, lambda: len(client("n1")("children", "/", None)))
        return same, found, leader(cluster)

    assert run_ensemble(main) == (True, 5 + missed + 2 + 1, "n2")


def test_data_and_sessions_survive_a_kill_of_all_servers() -> None:
    def main(cluster: SimCluster) -> Any:
        def write() -> Any:
            one = client("n1")
            one("create", "/e", b"x", EPHEMERAL)
            return one

        one = alone(cluster, write)
        for name in SERVERS:
            cluster.kill(name)
        time.sleep(20)
        for name in SERVERS:
            cluster.start(name, wiped=False)
        time.sleep(1)

        def back() -> Any:
            again = client("n2", session=one.session, password=one.password, seen=one.zxid)
            return again("get", "/e", None)[0], again.session == one.session

        return alone(cluster, back), servers_agree(cluster)

    assert run_ensemble(main) == ((b"x", True), True)


def test_wiped_majority_loses_the_data() -> None:
    """As on real servers: a wiped server votes, and two wiped servers are a majority."""

    def main(cluster: SimCluster) -> Any:
        seen = alone(cluster, lambda: client("n3")("create", "/a", b"x", 0))
        for name in SERVERS:
            cluster.kill(name)
        for name in ("n1", "n2"):
            cluster.start(name, wiped=True)
        time.sleep(1)
        cluster.start("n3", wiped=False)
        time.sleep(3)
        return (
            seen,
            leader(cluster),
            alone(cluster, lambda: client("n3")("exists", "/a", None)),
            servers_agree(cluster),
        )

    assert run_ensemble(main) == ("/a", "n2", -101, True)


def test_new_leader_restarts_session_timeouts() -> None:
    def main(cluster: SimCluster, kill: bool) -> float:
        def hold() -> None:
            client("n1", timeout=4000)("create", "/e", b"", EPHEMERAL)
            time.sleep(1000)

        cluster.spawn("c0", lambda checkpoint: hold())
        time.sleep(0.1)
        began = time.monotonic()
        time.sleep(3)
        if kill:
            cluster.kill(leader(cluster))
        while "/e" in server(cluster, "n1").tree.nodes:
            time.sleep(0.01)
        return time.monotonic() - began

    assert 3.9 <= run_ensemble(lambda cluster: main(cluster, kill=False)) <= 4.8
    assert 7.2 <= run_ensemble(lambda cluster: main(cluster, kill=True)) <= 8.0


def test_leaders_clocks_decide_session_expiry_and_node_times() -> None:
    def main(cluster: SimCluster) -> Any:
        first = leader(cluster)

        def hold() -> Any:
            one = client(others(first)[0], timeout=2000)
            one("create", "/e", b"", EPHEMERAL)
            cluster.set_clock(first, 86_400.0)
            cluster.set_clock(others(first)[0], -86_400.0)
            for _ in range(10):
                time.sleep(0.5)
                one("ping")
            return one("set", "/e", b"", -1)

        stat = alone(cluster, hold)
        return stat.version, stat.mtime - stat.ctime

    version, apart = run_ensemble(main)
    assert version == 1
    assert 86_405_000 <= apart <= 86_405_200


def test_tick_time_is_configurable() -> None:
    def main(cluster: SimCluster) -> Any:
        first = leader(cluster)
        timeout = alone(cluster, lambda: client(first, timeout=1).timeout)
        cluster.pause(first)
        return timeout, await_new_leader(cluster, first)

    timeout, took = run_ensemble(main, tick_ms=2000)
    assert timeout == 4000
    assert 8.0 <= took <= 9.5  # 7.7 s were measured on a real one


def test_executed_operations_are_reported_before_the_answer() -> None:
    results: list[tuple[str, ...]] = []

    def main(cluster: SimCluster) -> Any:
        def tap(*what: str) -> None:
            results.append(what)
            if what == ("reply", "c0", "n2", "CREATE"):
                cluster.kill("n2")

        def ask() -> Any:
            one = client("n2")
            one.send(("create", "/a", b"", 0))
            return one.next()

        cluster.tap(tap)
        lost = alone(cluster, ask)
        cluster.tap(None)
        return lost, alone(cluster, lambda: client("n3")("exists", "/a", None).version)

    assert run_ensemble(main) == (None, 0)
    assert results == [
        ("request", "c0", "n2", "CONNECT"), ("reply", "c0", "n2", "CONNECT"), ("request", "c0", "n2", "CREATE"),
        ("reply", "c0", "n2", "CREATE"),
    ]  # fmt: skip


def test_same_seed_gives_the_same_run() -> None:
    def main(cluster: SimCluster) -> Any:
        sent: list[Any] = []
        for name in ("c0", "c1"):
            cluster._network.hosts[name].on_send = lambda to, data, name=name: sent.append(  # type: ignore[attr-defined]
                (time.monotonic(), name, to, data)
            )

        def work(name: str) -> None:
            one = client(name, timeout=3000)
            for _ in range(20):
                one("create", "/s-", b"", 3)

        run_on_hosts(cluster, {"c0": lambda: work("n1"), "c1": lambda: work("n2")})
        cluster.kill(leader(cluster))
        time.sleep(6)
        return sent, cluster.logs(0), [server(cluster, name).tree.dump() for name in SERVERS]

    assert run_ensemble(main, seed=3) == run_ensemble(main, seed=3)
    assert run_ensemble(main, seed=3) != run_ensemble(main, seed=4)
