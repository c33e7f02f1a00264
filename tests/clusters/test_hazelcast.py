"""Hazelcast members in containers: configuration, leader, and recovery of a killed member."""

from __future__ import annotations

import threading
import time

import pytest
from hazelcast.errors import HazelcastClientNotActiveError

from harness.clusters.abilities import PROCESSES, leader_of
from harness.clusters.docker.cluster import DockerCluster
from harness.clusters.docker.container_needs import Clients
from harness.clusters.docker.services.hazelcast import HazelcastServers
from harness.clusters.kinds.hazelcast import HAZELCAST
from harness.clusters.server_options import completed
from harness.errors import EnvironmentLacking, UsageError
from harness.lock_impls.base import Endpoints, Indeterminate
from harness.lock_impls.hazelcast_fenced import HazelcastFencedLock

NO_STOCK = '{"fencing": "off", "stock": {}}'


def family(**options: object) -> HazelcastServers:
    found = HazelcastServers("hazelcast", 3, completed(HAZELCAST.options, options, "docker"))
    found.addresses = {f"n{number}": f"10.0.0.{number}" for number in (1, 2, 3)}
    return found


def test_the_configuration_has_the_members_and_the_session_s_times_and_nothing_phones_home() -> None:
    command, environment = family(session_ttl=8).program("n2")
    assert command[1:5] == ["/lock-harness/hazelcast-member.sh", "10.0.0.2", "10.0.0.1,10.0.0.3", "harness"]
    assert "-Dhazelcast.phone.home.enabled=false" in command
    conf = environment["CONF"]
    assert "member-list: [10.0.0.1, 10.0.0.2, 10.0.0.3]" in conf
    assert "multicast: {enabled: false}" in conf
    assert "session-time-to-live-seconds: 8\n" in conf
    assert "session-heartbeat-interval-seconds: 1\n" in conf


@pytest.mark.parametrize("options", [{"session_ttl": 1}, {"session_heartbeat": 5}, {"session_ttl": 2.5}])
def test_invalid_session_times_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(UsageError, match="session_ttl"):
        family(**options)


def test_two_members_are_too_few() -> None:
    with pytest.raises(UsageError, match="--nodes 3"):
        HazelcastServers("hazelcast", 2, {})


def test_the_last_elected_leader_of_the_locks_group_is_the_primary() -> None:
    found = family()
    assert found.leader() is None
    for host, group in (("n1", "METADATA"), ("n2", "default"), ("n3", "METADATA")):
        found.on_log_line(host, f"com.hazelcast.VoteResponseHandlerTask({group}): [10.0.0.1]:5701 We are the LEADER!")
    assert found.leader() == "n2"


class _SilentClient:
    """A client whose request for a group is answered only by its own end."""

    def __init__(self, **_settings: object) -> None:
        self.cp_subsystem = self
        self._ended = threading.Event()

    def get_atomic_long(self, _name: str) -> None:
        assert self._ended.wait(60)
        raise HazelcastClientNotActiveError("the client has ended")  # type: ignore[no-untyped-call]

    def shutdown(self) -> None:
        self._ended.set()


def test_a_request_for_the_group_that_is_not_answered_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    found = family()
    monkeypatch.setattr("harness.clusters.docker.services.hazelcast.HazelcastClient", _SilentClient)
    monkeypatch.setattr("harness.clusters.docker.services.hazelcast.MAKING", 0.01)
    monkeypatch.setattr(found, "reached", lambda host: (host, 5701))
    assert found._make_group() == "the client has ended"


@pytest.mark.parametrize("reset_helps", [True, False])
def test_members_that_exclude_each_other_are_reset(reset_helps: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    found = family()
    resets: list[None] = []
    monkeypatch.setattr("harness.clusters.docker.services.hazelcast.RESET", 0.01)
    monkeypatch.setattr(HazelcastServers, "START", 0.5)
    monkeypatch.setattr(found, "_joined", lambda host: 3)
    monkeypatch.setattr(found, "ready", lambda host: host != "n1" or (reset_helps and bool(resets)))
    monkeypatch.setattr(found, "_make_group", lambda: None)
    monkeypatch.setattr(found, "reset_cp_subsystem", lambda: resets.append(None))
    if reset_helps:
        found.await_stage(["n3"])
        assert len(resets) == 1
    else:
        with pytest.raises(EnvironmentLacking, match=r"no CP groups within 0.5 s: n1 not ready; see the servers' logs"):
            found.await_stage(["n3"])
        assert len(resets) > 1


@pytest.mark.long
def test_a_killed_member_is_promoted_again_and_the_lock_outlives_its_loss() -> None:
    cluster = DockerCluster(
        kind="hazelcast",
        nodes=0,
        clients=Clients(1),
        seed=0,
        resource=NO_STOCK,
        options={},
        needs=frozenset({PROCESSES}),
    )
    try:
        cluster.start_all()
        mine = HazelcastFencedLock.open(Endpoints("hazelcast", cluster.endpoints().addresses), "k", 1.0)
        fences = [_fence(mine)]
        cluster.kill("n1")
        fences.append(_fence(mine))
        cluster.start("n1", wiped=True)
        deadline = time.monotonic() + 120
        while not all(cluster.servers.ready(name) for name in ("n1", "n2", "n3")):
            assert time.monotonic() < deadline, "n1 was never promoted"
            time.sleep(0.2)
        fences.append(_fence(mine))
        assert fences == sorted(set(fences))
        assert leader_of(cluster) in ("n1", "n2", "n3")
    finally:
        cluster.stop_all()


def _fence(lock: HazelcastFencedLock) -> int:
    """Acquire and release the lock, and return the fence. A request through a member that died may get no answer.
    The lock then gives up its session, and another session must be able to acquire it."""
    for _ in range(3):
        try:
            grant = lock.acquire(5)
            assert grant
            lock.release()
        except Indeterminate:
            continue
        return int(str(grant.fence))
    raise AssertionError("three sessions got no answer")
