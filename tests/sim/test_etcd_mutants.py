"""Mutants of the simulated etcd and of gRPC channels, each breaking one rule: the test of the rule must fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness.sim.grpc_channel import SimChannel
from harness.sim.kernel import SECOND
from harness.sim.servers.etcd import lessor
from harness.sim.servers.etcd.apply import Applier
from harness.sim.servers.etcd.lessor import Lessor
from harness.sim.servers.etcd.member import Member
from harness.sim.servers.etcd.raft import Raft
from harness.sim.servers.etcd.watch import WatchService
from tests.sim import test_etcd_client, test_etcd_cluster, test_etcd_leases, test_grpc
from tests.sim.etcd_world import commits_without_majority

real_revoke, real_tick, real_start = Applier._revoke, Raft._tick, Raft.start


def reads_without_read_index(self: Member, answer: Any) -> None:
    self.host.call_later(0, answer, None)


def finds_expired_by_monotonic_clock(self: Lessor) -> list[int]:
    return [number for number, lease in self.leases.items() if self.remaining(lease) <= 0]


def expires_by_wall_clock(self: Lessor, lease: Any) -> int:
    """Report every lease that the queue returns as expired."""
    return -1 if self._due_wall_ns[lease.id] > self._clock().wall_ns() + lessor.REVOKE_RETRY_NS - 1 else 1


def does_not_extend_leases(self: Lessor, extend_ns: int) -> None:
    self._primary = True
    for lease in self.leases.values():
        self._refresh(lease, -2 * SECOND)


def votes_after_losing_its_disk(self: Raft, *args: Any, **kwargs: Any) -> None:
    self.disk.can_vote = True
    real_start(self, *args, **kwargs)


def never_steps_down(self: Raft) -> None:
    """Disable CheckQuorum."""
    self._ticks_since_check = 0
    real_tick(self)


def deletes_keys_one_by_one(self: Applier, request: Any) -> Any:
    for key in sorted(self.store.leases.get(request.ID, ())):
        self.store.delete(self.store.range(key, b""))
        self._on_changes(self.store.commit())
    return real_revoke(self, request)


def skips_past_revisions(self: WatchService) -> None:
    self._syncing = False
    self._synced.update(self._unsynced)
    self._unsynced.clear()


def never_fails_fast(self: SimChannel) -> None:
    """Make calls wait for a connection, however often it has failed."""


cluster, leases = test_etcd_cluster, test_etcd_leases
CASES: list[tuple[Any, str, Callable[..., Any], Callable[[], None]]] = [
    (Member, "read", reads_without_read_index, cluster.test_leader_without_a_majority_steps_down),
    (Raft, "_tick", never_steps_down, cluster.test_leader_without_a_majority_steps_down),
    (Raft, "_advance", commits_without_majority, cluster.test_write_of_an_isolated_leader_is_lost_and_reported_unknown),
    (Raft, "start", votes_after_losing_its_disk, cluster.test_member_that_lost_its_disk_does_not_vote),
    (Lessor, "_expired", finds_expired_by_monotonic_clock, leases.test_clock_set_back_delays_expiry_by_its_step),
    (Lessor, "remaining", expires_by_wall_clock,
     lambda: leases.test_clock_set_forward_expires_no_lease_early(12.0)),
    (Lessor, "promote", does_not_extend_leases, leases.test_new_leader_extends_every_lease),
    (Applier, "_revoke", deletes_keys_one_by_one, test_etcd_client.test_revoked_lease_deletes_its_keys_in_one_revision),
    (WatchService, "_sync", skips_past_revisions, test_etcd_client.test_watches_get_past_and_new_events_in_order),
    (SimChannel, "_fail_fast", never_fails_fast,
     test_grpc.test_a_refused_call_fails_at_once_then_reconnects_after_back_off),
]  # fmt: skip


@pytest.mark.parametrize(("owner", "name", "broken", "test"), CASES, ids=[case[2].__name__ for case in CASES])
def test_mutant_is_noticed(
    owner: Any, name: str, broken: Any, test: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    test()
    monkeypatch.setattr(owner, name, broken)
    with pytest.raises(AssertionError):
        test()
