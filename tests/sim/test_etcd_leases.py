"""Leases of simulated etcd: who counts, by which clock, and what a new leader does to them.

The figures for moved clocks are those seen on a real 3.4.23: see :mod:`harness.sim.servers.etcd.lessor`.
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


def lives(etcd: Any, key: str = "k") -> float:
    """Seconds from now until the key is gone."""
    began = time.monotonic()
    while etcd.get(key)[0] is not None:
        time.sleep(0.05)
    return time.monotonic() - began


def left(etcd: Any, lease: int) -> int:
    return int(etcd.leasestub.LeaseTimeToLive(etcdrpc.LeaseTimeToLiveRequest(ID=lease)).TTL)


def held(etcd: Any, ttl: int) -> Any:
    lease = etcd.lease(ttl)
    etcd.put("k", "v", lease=lease)
    return lease


@pytest.mark.parametrize(("asked", "granted"), [(1, 2), (2, 2), (5, 5)])
def test_the_shortest_lease(asked: int, granted: int) -> None:
    """One and a half election time-outs, in whole seconds upwards."""

    def main() -> Any:
        etcd = client()
        return held(etcd, asked).ttl, lives(etcd)

    ttl, lived = EtcdWorld(1).run(main)[0]
    assert ttl == granted
    assert granted <= lived < granted + 0.6


def test_a_clock_set_back_keeps_a_dead_holders_lock() -> None:
    """The lease counts as overdue, ever more so, and nobody looks at it."""
    world, back = EtcdWorld(1), 12.0

    def main() -> Any:
        etcd = client()
        lease = held(etcd, 4)
        set_clocks(world, -back)
        time.sleep(10)
        overdue = left(etcd, lease.id)
        return overdue, 10 + lives(etcd)

    overdue, lived = world.run(main)[0]
    assert overdue in (-5, -6)
    assert 4 + back <= lived < 4 + back + 0.7


def test_a_clock_set_back_on_followers_does_nothing() -> None:
    world = EtcdWorld()

    def main() -> Any:
        etcd = client(world.leader())
        held(etcd, 4)
        for name in ("n1", "n2", "n3"):
            if name != world.leader():
                world.hosts[name].set_clock(-100 * SECOND)
        return lives(etcd)

    assert 4 <= world.run(main)[0] < 4.7


@pytest.mark.parametrize("forward", [12.0, 86_400.0])
def test_a_clock_set_forward_expires_nothing_early(forward: float) -> None:
    """It is looked at too early, and then every three seconds: it goes up to three seconds late."""
    world = EtcdWorld(1)

    def main() -> Any:
        etcd = client()
        held(etcd, 4)
        set_clocks(world, forward)
        return lives(etcd)

    assert 6 < world.run(main)[0] < 7.8


def test_a_renewal_after_the_expiry_waits_for_the_revocation() -> None:
    world = EtcdWorld(1)

    def main() -> Any:
        etcd = client(timeout=30)
        lease = held(etcd, 4)
        set_clocks(world, -10)
        time.sleep(5)
        began = time.monotonic()
        return [answer.TTL for answer in lease.refresh()], time.monotonic() - began

    answers, took = world.run(main)[0]
    assert answers == [0]
    assert 8.9 < took < 9.8


def test_a_new_leader_extends_every_lease() -> None:
    """To its whole ttl and an election time-out more, from when it began to lead."""
    world = EtcdWorld()

    def main() -> Any:
        etcd = client(world.follower(), timeout=20)
        lease = held(etcd, 4)
        time.sleep(3)
        first = world.leader()
        world.hosts[first].kill()
        while world.leaders() in ([], [first]):
            time.sleep(0.01)
        time.sleep(0.1)
        return left(client(world.leader()), lease.id), lives(client(world.leader()))

    remaining, lived = world.run(main)[0]
    assert remaining == 4
    assert 4.8 <= lived < 5.6


def test_an_isolated_leader_goes_on_renewing_until_it_steps_down() -> None:
    """Row etcd-old-leader: a client behind it is told that its lease lives; then nobody tells it anything."""
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


def test_followers_pass_renewals_on() -> None:
    world = EtcdWorld()

    def main() -> Any:
        etcd = client(world.follower())
        lease = held(etcd, 3)
        for _ in range(4):
            time.sleep(2)
            assert [answer.TTL for answer in lease.refresh()] == [3]
        return etcd.get("k")[0], left(etcd, lease.id), left(etcd, 77)

    assert world.run(main)[0] == (b"v", 2, -1)


def test_a_lease_survives_a_restart_of_all() -> None:
    world = EtcdWorld()

    def main() -> Any:
        held(client(), 4)
        for name in ("n1", "n2", "n3"):
            world.hosts[name].kill()
        time.sleep(10)
        for name in ("n1", "n2", "n3"):
            world.hosts[name].start(wiped=False)
        while not world.leaders():
            time.sleep(0.01)
        return lives(client(timeout=20))

    assert 4.5 < world.run(main)[0] < 5.7
