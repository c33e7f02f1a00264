"""Rules of the simulated etcd and of gRPC's channels, each broken: the test of the rule must notice."""

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

real_revoke, real_tick, real_start = Applier._revoke, Raft._tick, Raft.start


def reads_without_asking(self: Member, answer: Any) -> None:
    self.host.call_later(0, answer, None)


def finds_by_the_monotonic_clock(self: Lessor) -> list[int]:
    return [number for number, lease in self.leases.items() if self.remaining(lease) <= 0]


def looks_at_the_wall_clock_only(self: Lessor, lease: Any) -> int:
    """Whatever the queue finds has expired."""
    return -1 if self._due[lease.id] > self._clock().wall_ns() + lessor.RETRY - 1 else 1


def extends_nothing(self: Lessor, extend_ns: int) -> None:
    self._primary = True
    for lease in self.leases.values():
        self._refresh(lease, -2 * SECOND)


def votes_without_its_disk(self: Raft, *args: Any, **kwargs: Any) -> None:
    self.disk.votes = True
    real_start(self, *args, **kwargs)


def commits_alone(self: Raft) -> bool:
    before = self.disk.commit
    self._commit(len(self.disk.log))
    return self.disk.commit > before


def leads_for_ever(self: Raft) -> None:
    """No CheckQuorum."""
    self._since_check = 0
    real_tick(self)


def revokes_one_by_one(self: Applier, request: Any) -> Any:
    for key in sorted(self.store.leases.get(request.ID, ())):
        self.store.delete(self.store.range(key, b""))
        self._on_changes(self.store.commit())
    return real_revoke(self, request)


def forgets_the_past(self: WatchService) -> None:
    self._syncing = False
    self._synced.update(self._unsynced)
    self._unsynced.clear()


def never_tires(self: SimChannel) -> None:
    """Calls wait for a connection, however often it has failed."""


cluster, leases = test_etcd_cluster, test_etcd_leases
CASES: list[tuple[Any, str, Callable[..., Any], Callable[[], None]]] = [
    (Member, "read", reads_without_asking, cluster.test_a_leader_without_a_majority),
    (Raft, "_tick", leads_for_ever, cluster.test_a_leader_without_a_majority),
    (Raft, "_advance", commits_alone, cluster.test_what_is_written_at_the_moment_of_the_cut),
    (Raft, "start", votes_without_its_disk, cluster.test_a_member_without_its_disk_gives_nobody_its_vote),
    (Lessor, "_expired", finds_by_the_monotonic_clock, leases.test_a_clock_set_back_keeps_a_dead_holders_lock),
    (Lessor, "remaining", looks_at_the_wall_clock_only,
     lambda: leases.test_a_clock_set_forward_expires_nothing_early(12.0)),
    (Lessor, "promote", extends_nothing, leases.test_a_new_leader_extends_every_lease),
    (Applier, "_revoke", revokes_one_by_one, test_etcd_client.test_a_revoked_lease_takes_its_keys_in_one_revision),
    (WatchService, "_sync", forgets_the_past, test_etcd_client.test_watches_call_back_in_order_and_from_the_past),
    (SimChannel, "_fail_fast", never_tires, test_grpc.test_refused_at_once_then_after_the_back_off),
]  # fmt: skip


@pytest.mark.parametrize(("owner", "name", "broken", "test"), CASES, ids=[case[2].__name__ for case in CASES])
def test_the_test_notices(
    owner: Any, name: str, broken: Any, test: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    test()
    monkeypatch.setattr(owner, name, broken)
    with pytest.raises(AssertionError):
        test()
