"""The v2 API of the simulated etcd."""

from __future__ import annotations

import http.client
import time

from harness.sim.servers.etcd import v2_store
from harness.sim.servers.etcd.server import CLIENT_PORT
from tests.sim.etcd_world import EtcdWorld


def test_key_expires_early_if_the_leaders_clock_is_ahead() -> None:
    """As on a real cluster, keys expire early by as much as the leader's clock is ahead of the serving member's."""
    world = EtcdWorld(3)
    seen: list[int] = []

    def requests_with_two_clocks() -> None:
        leader = world.leader()
        other = next(name for name in ("n1", "n2") if name != leader)
        connection = http.client.HTTPConnection(other, CLIENT_PORT, timeout=10)
        for ahead in (0, 60):
            world.hosts[leader].set_clock(ahead * v2_store.NS_PER_S)
            connection.request("PUT", f"/v2/keys/k{ahead}", "value=x&ttl=30")
            connection.getresponse().read()
            time.sleep(1.0)
            connection.request("GET", f"/v2/keys/k{ahead}?quorum=true")
            answer = connection.getresponse()
            answer.read()
            seen.append(answer.status)

    world.run(requests_with_two_clocks)
    assert seen == [200, 404]
