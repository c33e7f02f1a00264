"""Leases of the simulated etcd: their expiry by the leader's clocks, renewal, and extension by a new leader.

The figures for moved clocks were observed on a real 3.4.23: see :mod:`harness.sim.servers.etcd.lessor`.
"""

from __future__ import annotations

import time
from typing import Any

import pytest
from etcd3 import etcdrpc

from harness.sim.kernel import SECOND
from tests.sim.etcd_world import EtcdWorld, client, status_of


def set_clocks(world: EtcdWorld, offset: float) -> None:
    for name in ("n1", "n2", "n3"):
        if name in world.hosts:
            world.hosts[name].set_clock(round(offset * SECOND))


def seconds_until_gone(etcd: Any, key: str = "k") -> float:
    """Wait until the key is gone and return the seconds that took."""
    began = time.monotonic()
    while etcd.get(key)[0] is not None:
        time.sleep(0.05)
    return time.monotonic() - began


def seconds_left(etcd: Any, lease: int) -> int:
    return int(etcd.leasestub.LeaseTimeToLive(etcdrpc.LeaseTimeToLiveRequest(ID=lease)).TTL)


def key_on_lease(etcd: Any, ttl: int) -> Any:
    lease = etcd.lease(ttl)
    etcd.put("k", "v", lease=lease)
    return lease


@pytest.mark.parametrize(("asked", "granted"), [(1, 2), (2, 2), (5, 5)])
def test_shortest_lease_is_one_and_a_half_election_timeouts(asked: int, granted: int) -> None:
    """It is rounded up to whole seconds."""

    def main() -> Any:
        etcd = client()
        return key_on_lease(etcd, asked).ttl, seconds_until_gone(etcd)

    ttl, lived = EtcdWorld(1).run(main)[0]
    assert ttl == granted
    assert granted <= lived < granted + 0.6


def test_clock_set_back_delays_expiry_by_its_step() -> None:
    """Queries report the lease as more and more overdue, but it is not revoked before the clock has caught up."""
    world, back = EtcdWorld(1), 12.0

    def main() -> Any:
        etcd = client()
        lease = key_on_lease(etcd, 4)
        set_clocks(world, -back)
        time.sleep(10)
        overdue = seconds_left(etcd, lease.id)
        return overdue, 10 + seconds_until_gone(etcd)

    overdue, lived = world.run(main)[0]
    assert overdue in (-5, -6)
    assert 4 + back <= lived < 4 + back + 0.7


def test_clock_set_back_on_followers_has_no_effect() -> None:
    world = EtcdWorld()

    def main() -> Any:
        etcd = client(world.leader())
        key_on_lease(etcd, 4)
        for name in ("n1", "n2", "n3"):
            if name != world.leader():
                world.hosts[name].set_clock(-100 * SECOND)
        return seconds_until_gone(etcd)

    assert 4 <= world.run(main)[0] < 4.7


@pytest.mark.parametrize("forward", [12.0, 86_400.0])
def test_clock_set_forward_expires_no_lease_early(forward: float) -> None:
    """It is checked too early and then every three seconds, so it expires up to three seconds late."""
    world = EtcdWorld(1)

    def main() -> Any:
        etcd = client()
        key_on_lease(etcd, 4)
        set_clocks(world, forward)
        return seconds_until_gone(etcd)

    assert 6 < world.run(main)[0] < 7.8


def test_renewal_after_expiry_waits_for_revocation() -> None:
    world = EtcdWorld(1)

    def main() -> Any:
        etcd = client(timeout=30)
        lease = key_on_lease(etcd, 4)
        set_clocks(world, -10)
        time.sleep(5)
        began = time.monotonic()
        return [answer.TTL for answer in lease.refresh()], time.monotonic() - began

    answers, took = world.run(main)[0]
    assert answers == [0]
    assert 8.9 < took < 9.8


def test_new_leader_extends_every_lease() -> None:
    """It expires its full ttl plus an election time-out after the election."""
    world = EtcdWorld()

    def main() -> Any:
        etcd = client(world.follower(), timeout=20)
        lease = key_on_lease(etcd, 4)
        time.sleep(3)
        first = world.leader()
        world.hosts[first].kill()
        while world.leaders() in ([], [first]):
            time.sleep(0.01)
        time.sleep(0.1)
        return seconds_left(client(world.leader()), lease.id), seconds_until_gone(client(world.leader()))

    remaining, lived = world.run(main)[0]
    assert remaining == 4
    assert 4.8 <= lived < 5.6


def test_isolated_leader_renews_leases_until_it_steps_down() -> None:
    """Row etcd-old-leader: it tells a client that its lease is alive; after it steps down, renewals fail."""
    world = EtcdWorld()

    def main() -> Any:
        first = world.leader()
        etcd = client(first, timeout=2)
        lease = etcd.lease(5)
        world.isolate(first)
        time.sleep(0.5)
        told = [answer.TTL for answer in lease.refresh()]
        time.sleep(2)
        return told, status_of(lambda: list(etcd.leasestub.LeaseKeepAlive(
            iter([etcdrpc.LeaseKeepAliveRequest(ID=lease.id)]), timeout=20)))  # fmt: skip

    assert world.run(main)[0] == ([5], ("UNAVAILABLE", "etcdserver: no leader"))


def test_followers_forward_renewals() -> None:
    world = EtcdWorld()

    def main() -> Any:
        etcd = client(world.follower())
        lease = key_on_lease(etcd, 3)
        for _ in range(4):
            time.sleep(2)
            assert [answer.TTL for answer in lease.refresh()] == [3]
        return etcd.get("k")[0], seconds_left(etcd, lease.id), seconds_left(etcd, 77)

    assert world.run(main)[0] == (b"v", 2, -1)


def test_lease_survives_restart_of_all_members() -> None:
    world = EtcdWorld()

    def main() -> Any:
        key_on_lease(client(), 4)
        for name in ("n1", "n2", "n3"):
            world.hosts[name].kill()
        time.sleep(10)
        for name in ("n1", "n2", "n3"):
            world.hosts[name].start(wiped=False)
        while not world.leaders():
            time.sleep(0.01)
        return seconds_until_gone(client(timeout=20))

    assert 4.5 < world.run(main)[0] < 5.7
