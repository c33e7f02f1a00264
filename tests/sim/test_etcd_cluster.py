"""Three simulated etcd members: what their clients observe when leaders, links or disks are lost.

Three real members of 3.4.23 returned the same statuses under the same faults.
"""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from tests.sim.etcd_world import EtcdWorld, client, get, put

TIMED_OUT = ("UNAVAILABLE", "etcdserver: request timed out")
LOST = ("UNAVAILABLE", "etcdserver: request timed out, possibly due to connection lost")
CHANGED = ("UNAVAILABLE", "etcdserver: leader changed")
NO_LEADER = ("UNKNOWN", "context deadline exceeded")
OK = ("OK", "")


def call_and_seconds(call: Any) -> tuple[Any, float]:
    began = time.monotonic()
    return call(), round(time.monotonic() - began, 1)


def await_leader(world: EtcdWorld, *, among: set[str]) -> str:
    while not among & set(world.leaders()):
        time.sleep(0.01)
    return next(name for name in world.leaders() if name in among)


def test_every_member_gives_the_same_answer() -> None:
    def main() -> Any:
        clients = [client(f"n{number}") for number in (1, 2, 3)]
        for number, etcd in enumerate(clients):
            etcd.put("k", str(number))
            assert [other.get("k")[0] for other in clients] == [b"%d" % number] * 3, (
                "a read must not miss an acknowledged write"
            )
        metas = [etcd.get("k")[1] for etcd in clients]
        return {(meta.mod_revision, meta.version, meta.response_header.cluster_id) for meta in metas}, {
            meta.response_header.member_id for meta in metas
        }

    [(answers, members)] = EtcdWorld().run(main)
    assert len(answers) == 1
    assert len(members) == 3


@pytest.mark.parametrize("seed", range(4))
def test_killed_leader_is_replaced_within_two_election_timeouts(seed: int) -> None:
    world = EtcdWorld(seed=seed)

    def main() -> Any:
        first, follower = world.leader(), client(world.follower(), timeout=20)
        follower.put("k", "v")
        world.hosts[first].kill()
        others = {"n1", "n2", "n3"} - {first}
        _, took = call_and_seconds(lambda: await_leader(world, among=others))
        assert world.leader() in others
        written = put(follower)
        world.hosts[first].start(wiped=False)
        time.sleep(1)
        return took, written, client(first).get("x", serializable=True)[0], world.leader() in others

    [(took, written, read, stays)] = world.run(main)
    assert 0.8 <= took <= 2.1
    assert (written, read, stays) == (OK, b"1", True)


def test_requests_while_the_leader_is_down() -> None:
    """A write that was forwarded to the dead leader is lost and times out; a read fails with "leader changed"."""
    world = EtcdWorld()

    def main() -> Any:
        etcd, written = client(world.follower(), timeout=20), []
        world.hosts[world.leader()].kill()
        writer = threading.Thread(target=lambda: written.append(call_and_seconds(lambda: put(etcd))))
        writer.start()
        read = call_and_seconds(lambda: get(etcd))
        writer.join()
        return read, written[0]

    [((read, after), (written, then))] = world.run(main)
    assert read == CHANGED
    assert 0.8 < after < 2.1
    assert (written, then) == (TIMED_OUT, 7.0)


def test_leader_without_a_majority_steps_down() -> None:
    """It confirms no request, steps down after an election time-out, and still serves stale reads."""
    world = EtcdWorld()

    def main() -> Any:
        first = world.leader()
        etcd = client(first, timeout=20)
        etcd.put("x", "0")
        world.isolate(first)
        time.sleep(0.3)
        still = first in world.leaders()
        time.sleep(2.5)
        new = await_leader(world, among={"n1", "n2", "n3"} - {first})
        assert put(client(new)) == OK
        stale = etcd.get("x", serializable=True)[0]
        return (
            still,
            first in world.leaders(),
            stale,
            call_and_seconds(lambda: get(etcd)),
            call_and_seconds(lambda: put(etcd)),
            new,
        )

    still, later, stale, read, written, _ = world.run(main)[0]
    assert (still, later, stale) == (True, False, b"0")
    assert read == (TIMED_OUT, 7.0)
    assert written == (NO_LEADER, 7.0)


def test_write_of_an_isolated_leader_is_lost_and_reported_unknown() -> None:
    """A write that did not reach a majority is gone after the cut heals; its client got an unknown outcome."""
    world = EtcdWorld()

    def main() -> Any:
        first = world.leader()
        etcd = client(first, timeout=20)
        world.isolate(first)
        written = put(etcd, value="old")
        assert put(client(world.leader(), timeout=20), key="y") == OK
        world.isolate(first, heal=True)
        time.sleep(8)
        return written, {name: client(name).get("x")[0] for name in ("n1", "n2", "n3")}

    written, values = world.run(main)[0]
    assert written in (TIMED_OUT, LOST)
    assert set(values.values()) == {None}


def test_queued_request_is_served_when_the_cut_heals() -> None:
    world = EtcdWorld()

    def main() -> Any:
        name = world.follower()
        etcd = client(name, timeout=20)
        world.isolate(name)
        time.sleep(3)  # it has no leader by now
        world.kernel.later(3_000_000_000, None, lambda: world.isolate(name, heal=True))
        return call_and_seconds(lambda: put(etcd))

    [(written, took)] = world.run(main)
    assert written == OK
    assert 3 < took < 7


def test_paused_leader_steps_down_when_resumed() -> None:
    world = EtcdWorld()

    def main() -> Any:
        first = world.leader()
        world.hosts[first].pause()
        new = await_leader(world, among={"n1", "n2", "n3"} - {first})
        assert put(client(new)) == OK
        world.hosts[first].resume()
        read = call_and_seconds(lambda: client(first, timeout=20).get("x")[0])
        return read, world.leaders() == [new]

    [((value, took), alone)] = world.run(main)
    assert (value, took < 0.5, alone) == (b"1", True, True)


def test_data_survives_a_kill_of_all_members() -> None:
    world = EtcdWorld()

    def main() -> Any:
        client("n1").put("k", "v")
        for name in ("n1", "n2", "n3"):
            world.hosts[name].kill()
        for name in ("n1", "n2", "n3"):
            world.hosts[name].start(wiped=False)
        await_leader(world, among={"n1", "n2", "n3"})
        time.sleep(0.5)
        return [client(name).get("k")[0] for name in ("n1", "n2", "n3")]

    assert world.run(main) == [[b"v"] * 3]


def lose_a_write_with_a_wiped_disk(world: EtcdWorld) -> Any:
    """One of two up-to-date members loses a write with its disk, and the third never had it.

    Returns the leaders while only the wiped member and the third are up, and the values on all members in the end.
    """
    first = world.leader()
    behind, wiped = [name for name in ("n1", "n2", "n3") if name != first]
    world.cut(first, behind)
    world.cut(wiped, behind)
    assert put(client(first)) == OK
    world.hosts[first].kill()
    world.hosts[wiped].kill()
    world.hosts[wiped].start(wiped=True)
    world.cut(wiped, behind, heal=True)
    time.sleep(6)
    lost = world.leaders()
    world.hosts[first].start(wiped=False)
    world.cut(first, behind, heal=True)
    time.sleep(6)
    return lost, [client(name, timeout=20).get("x")[0] for name in ("n1", "n2", "n3")]


def test_member_that_lost_its_disk_does_not_vote() -> None:
    """Otherwise it would elect a member that lacks an acknowledged write."""
    world = EtcdWorld()
    [(lost, values)] = world.run(lambda: lose_a_write_with_a_wiped_disk(world))
    assert lost == []
    assert values == [b"1"] * 3


def test_wiped_member_catches_up_and_votes_again() -> None:
    world = EtcdWorld()

    def main() -> Any:
        name = world.follower()
        for number in range(20):
            client("n1").put(f"k{number}", "v")
        world.hosts[name].kill()
        world.hosts[name].start(wiped=True)
        empty = world.servers.key_count[name]()
        time.sleep(1)
        full = world.servers.key_count[name]()
        world.hosts[world.leader()].kill()
        await_leader(world, among={"n1", "n2", "n3"})
        return empty, full, put(client(name, timeout=20))

    assert world.run(main) == [(0, 20, OK)]


def test_options_set_the_duration_of_an_election() -> None:
    world = EtcdWorld(heartbeat_ms=20, election_ms=200)

    def main() -> Any:
        first = world.leader()
        world.hosts[first].kill()
        took = call_and_seconds(lambda: await_leader(world, among={"n1", "n2", "n3"} - {first}))[1]
        return took, client(world.leader()).lease(1).ttl

    [(took, shortest)] = world.run(main)
    assert took <= 0.5
    assert shortest == 1
