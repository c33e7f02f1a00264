"""The unmodified python-etcd3 client against a simulated etcd: the behaviour that its users rely on."""

from __future__ import annotations

import threading
import time
from itertools import pairwise
from typing import Any

import etcd3
import pytest
from etcd3 import etcdrpc, events, exceptions

from harness.sim.links import LOST, SimMessageTrap
from tests.sim.etcd_world import EtcdWorld, client, put, status_of


def run_on_one_member(main: Any, seed: int = 0) -> Any:
    return EtcdWorld(1, seed).run(main)[0]


def test_put_get_delete() -> None:
    def main() -> Any:
        etcd = client()
        assert etcd.get("k") == (None, None)
        first = etcd.put("k", "1").header.revision
        before = etcd.put("k", "2", prev_kv=True).prev_kv
        value, meta = etcd.get("k")
        gone = etcd.delete("k", return_response=True)
        return (
            first, before.value, value, meta.create_revision, meta.mod_revision, meta.version,
            gone.deleted, gone.header.revision, etcd.delete("k"), etcd.get("k"),
        )  # fmt: skip

    assert run_on_one_member(main) == (2, b"1", b"2", 2, 3, 2, 1, 4, False, (None, None))


def test_transaction_has_one_revision_and_returns_results() -> None:
    def main() -> Any:
        etcd = client()
        t = etcd.transactions
        compare = [t.create("a") == 0, t.version("b") < 1]
        done = etcd.transaction(compare, success=[t.put("a", "1"), t.put("b", "2"), t.get("a")], failure=[])
        refused = etcd.transaction(compare=[t.value("a") == "x"], success=[t.delete("a")], failure=[t.get("b")])
        return done[0], [kv.mod_revision for _, kv in done[1][2]], refused[0], refused[1][0][0][0], etcd.get("b")[1]

    succeeded, revisions, refused, value, meta = run_on_one_member(main)
    assert (succeeded, revisions, refused, value) == (True, [2], False, b"2")
    assert (meta.mod_revision, meta.response_header.revision) == (2, 2)


def test_nested_transactions_compare_before_any_change() -> None:
    def main() -> Any:
        etcd = client()
        t = etcd.transactions
        nested = t.txn([t.version("a") == 0], success=[t.put("b", "then")], failure=[t.put("b", "else")])
        etcd.transaction(compare=[], success=[t.put("a", "1"), nested], failure=[])
        return etcd.get("b")[0]

    assert run_on_one_member(main) == b"then"


def test_old_revisions_are_readable_until_compacted() -> None:
    def main() -> Any:
        etcd = client()
        for value in ("1", "2", "3"):
            etcd.put("k", value)

        def at(revision: int) -> Any:
            return etcd.kvstub.Range(etcdrpc.RangeRequest(key=b"k", revision=revision)).kvs[0].value

        seen = [at(2), at(3)]
        etcd.compact(3)
        return [*seen, at(3), status_of(lambda: at(2)), status_of(lambda: at(9))]

    assert run_on_one_member(main) == [
        b"1", b"2", b"2",
        ("OUT_OF_RANGE", "etcdserver: mvcc: required revision has been compacted"),
        ("OUT_OF_RANGE", "etcdserver: mvcc: required revision is a future revision"),
    ]  # fmt: skip


def test_expired_lease_deletes_its_keys() -> None:
    def main() -> Any:
        etcd = client()
        lease = etcd.lease(4)
        etcd.put("k", "v", lease=lease)
        time.sleep(3)
        seconds_left = lease.remaining_ttl, lease.granted_ttl, list(lease.keys)
        refreshed = [answer.TTL for answer in lease.refresh()]
        time.sleep(3.9)
        still = etcd.get("k")[0]
        time.sleep(0.7)
        late = [answer.TTL for answer in lease.refresh()]
        return seconds_left, refreshed, still, etcd.get("k")[0], late, lease.remaining_ttl

    assert run_on_one_member(main) == ((0, 4, [b"k"]), [4], b"v", None, [0], -1)


def test_revoked_lease_deletes_its_keys_in_one_revision() -> None:
    seen: list[Any] = []

    def main() -> Any:
        etcd = client()
        lease = etcd.lease(10)
        etcd.put("a", "1", lease=lease)
        etcd.put("b", "1", lease=lease)
        etcd.put("b", "2")  # no longer the lease's
        etcd.put("c", "1", lease=lease)
        etcd.add_watch_callback("a", seen.append, range_end="z")
        lease.revoke()
        time.sleep(0.1)
        again = status_of(lambda: etcd.leasestub.LeaseRevoke(etcdrpc.LeaseRevokeRequest(ID=lease.id)))
        return [[event.key for event in response.events] for response in seen], etcd.get("b")[0], again

    assert run_on_one_member(main) == ([[b"a", b"c"]], b"2", ("NOT_FOUND", "etcdserver: requested lease not found"))


def test_put_on_a_missing_lease_is_refused() -> None:
    assert run_on_one_member(lambda: put(client(), lease=77)) == ("NOT_FOUND", "etcdserver: requested lease not found")


def test_watches_get_past_and_new_events_in_order() -> None:
    def main() -> Any:
        etcd, seen, past = client(), [], []
        etcd.put("k", "0")
        watch = etcd.add_watch_callback("k", lambda response: seen.extend(response.events))
        etcd.put("k", "1")
        etcd.delete("k")
        etcd.add_watch_callback("k", lambda response: past.append(len(response.events)), start_revision=2)
        time.sleep(0.3)
        etcd.cancel_watch(watch)
        etcd.put("k", "2")
        time.sleep(0.1)
        return [(type(event), event.value, event.mod_revision) for event in seen], past

    assert run_on_one_member(main) == (
        [(events.PutEvent, b"1", 3), (events.DeleteEvent, b"", 4)],
        [3, 1],
    )


def test_watch_of_a_compacted_revision_is_cancelled() -> None:
    seen: list[Any] = []

    def main() -> Any:
        etcd = client()
        for _ in range(5):
            etcd.put("k", "v")
        etcd.compact(5)
        etcd.add_watch_callback("k", seen.append, start_revision=2)
        time.sleep(0.3)
        return [(type(error), error.compacted_revision) for error in seen]

    assert run_on_one_member(main) == [(exceptions.RevisionCompactedError, 5)]


def test_response_that_cancels_a_watch_of_a_compacted_revision_has_no_revision() -> None:
    def main() -> Any:
        etcd = client()
        for _ in range(3):
            etcd.put("k", "v")
        etcd.compact(3)
        create = etcdrpc.WatchCreateRequest(key=b"k", start_revision=1)
        stream = etcd.watcher._watch_stub.Watch(iter([etcdrpc.WatchRequest(create_request=create)]), timeout=5)
        created, cancelled = next(stream), next(stream)
        return created.header.revision, cancelled.header.revision, cancelled.compact_revision

    assert run_on_one_member(main) == (4, 0, 3)


def test_watch_once_times_out_on_virtual_time() -> None:
    def main() -> Any:
        etcd, began = client(), time.monotonic()
        with pytest.raises(exceptions.WatchTimedOut):
            etcd.watch_once("k", timeout=7)
        took = time.monotonic() - began
        threading.Timer(2, lambda: client().put("k", "v")).start()
        return round(took, 2), etcd.watch_once("k", timeout=7).value

    assert run_on_one_member(main) == (7.0, b"v")


def test_watcher_works_again_after_a_server_restart() -> None:
    """The callback gets the error; a new watch of the same client works once the server is back."""
    world = EtcdWorld(1)
    seen: list[Any] = []

    def main() -> Any:
        etcd = client()
        etcd.add_watch_callback("k", seen.append)
        world.hosts["n1"].kill()
        time.sleep(1)
        world.hosts["n1"].start(wiped=False)
        time.sleep(5)
        etcd.add_watch_callback("k", seen.append)
        etcd.put("k", "v")
        time.sleep(0.1)
        return [type(found).__name__ for found in seen]

    assert world.run(main) == [["RpcError", "WatchResponse"]]


def test_status_and_members() -> None:
    def main() -> Any:
        status = client("n2").status()
        return status.version, status.leader.name, [member.name for member in client("n3").members]

    world = EtcdWorld(3)
    assert world.run(main) == [("3.4.23", world.leader(), ["n1", "n2", "n3"])]


def contend(seed: int, seconds: float = 12) -> list[tuple[float, float, int]]:
    """Three clients contend for etcd3's own lock; return (start, end, client) of each hold."""
    world, holds = EtcdWorld(3, seed), []

    def work(number: int) -> None:
        lock = etcd3.Lock("x", ttl=5, etcd_client=client(f"n{number + 1}"))
        while world.seconds() < seconds:
            if lock.acquire(timeout=3):
                began = world.seconds()
                assert lock.is_acquired()
                time.sleep(0.4)
                holds.append((began, world.seconds(), number))
                assert lock.release()
                time.sleep(0.1)

    world.run(*[lambda number=number: work(number) for number in range(3)])
    return holds


def test_etcd3_lock_excludes() -> None:
    holds = contend(1)
    assert {number for _, _, number in holds} == {0, 1, 2}
    assert len(holds) > 15
    assert all(first[1] <= second[0] for first, second in pairwise(holds))


def test_same_seed_gives_the_same_run() -> None:
    assert contend(2, 6) == contend(2, 6)
    assert contend(2, 6) != contend(3, 6)


def test_event_names_of_requests_and_replies() -> None:
    """The names that plans use are found in a client's data and reported before the answer is sent."""
    world = EtcdWorld(1)
    sent: list[str] = []
    told: list[str] = []

    def main() -> None:
        etcd = client()
        etcd.get("warm")
        world.hosts["c0"].on_send = lambda _, data: sent.extend(world.servers.commands(data))
        world.servers.watch["n1"](lambda peer, name: told.append(f"{name}" if peer == "c0" else peer))
        lease = etcd.lease(5)
        etcd.put("k", "v", lease=lease)
        etcd.get("k")
        etcd.transaction([], success=[etcd.transactions.get("k")], failure=[])
        etcd.cancel_watch(etcd.add_watch_callback("k", print))
        lease.refresh()
        etcd.delete("k")
        lease.revoke()

    world.run(main)
    names = ["LEASEGRANT", "PUT", "RANGE", "TXN", "WATCH", "WATCH", "LEASEKEEPALIVE", "DELETERANGE", "LEASEREVOKE"]
    assert sent == names
    assert sorted(told) == sorted(names)


def test_write_is_applied_if_killed_before_its_answer() -> None:
    """The client gets an unknown outcome."""
    world = EtcdWorld(1)

    def main() -> Any:
        etcd = client()
        etcd.get("warm")
        world.servers.watch["n1"](lambda _, name: world.hosts["n1"].kill() if name == "PUT" else None)
        answer = put(etcd)
        world.servers.watch["n1"](None)
        world.hosts["n1"].start(wiped=False)
        time.sleep(3)
        return answer[0], client().get("x")[0]

    assert world.run(main) == [("UNAVAILABLE", b"1")]


def test_lost_packets_are_chosen_by_key() -> None:
    world = EtcdWorld(1)

    def main() -> Any:
        etcd = client(timeout=1)
        etcd.get("warm")
        link = world.network.link("n1", "c0")
        link.traps.append(SimMessageTrap(b"precious", LOST))
        etcd.put("other", "1")
        etcd.put("precious", "1")
        with pytest.raises(exceptions.ConnectionTimeoutError):
            etcd.get("precious")
        return link.traps

    assert world.run(main) == [[]]
