"""Lessor of a simulated etcd member: grants, renews and expires leases, as server/lease/lessor.go of 3.4.23 does.

Every member knows all leases, but only the leader (the "primary" lessor) knows when they expire. It uses two clocks: a
lease's expiry is in monotonic time, the queue that schedules the checks for expiry is in wall-clock time. If the wall
clock steps back, an expired lease is therefore revoked late, by the size of the step, although queries already report
it as expired. If it steps forward, nothing expires early, but a lease that was checked too early is checked again only
after three seconds. A new leader extends every lease to its full ttl plus an election time-out.

Abstracted: checkpoints of remaining ttls (off by default); spreading expiries when thousands of leases are extended.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Final

from harness.sim.grpc_wire import StatusError
from harness.sim.kernel import MILLISECOND, SECOND
from harness.sim.service import ServiceHost, Timer

EXPIRY_CHECK_NS: Final = 500 * MILLISECOND
REVOKE_RETRY_NS: Final = 3 * SECOND
"""Interval after which an expired lease is checked again, since its revocation may have failed."""
NO_LONGER_PRIMARY: Final = -1
"""Result of a renewal that was waiting when this lessor was demoted."""
MAX_TTL_S: Final = 9_000_000_000
NOT_FOUND, FAILED_PRECONDITION, OUT_OF_RANGE = 5, 9, 11


def lease_not_found() -> StatusError:
    return StatusError(NOT_FOUND, "etcdserver: requested lease not found")


class NotPrimary(Exception):
    """This lessor is not the leader's, so it cannot answer."""


@dataclass(slots=True)
class LessorLease:
    """A lease as one member's lessor knows it."""

    id: int
    ttl: int
    """Seconds."""
    expiry: int | None = None
    """Monotonic ns; None (never) where the lessor is not the primary one."""
    late_renewals: list[Callable[[bool], None]] = field(default_factory=list)
    """Renewals that came after the expiry: called with True once the lease is revoked, False if the lessor is
    demoted."""


class Lessor:
    """The leases of one member. ``min_ttl`` is the shortest ttl granted, in seconds."""

    def __init__(self, min_ttl: int) -> None:
        self.leases: dict[int, LessorLease] = {}
        self._min_ttl = min_ttl
        self._primary = False
        self._queue: list[tuple[int, int]] = []
        """Heap of (wall-clock ns of the next check, lease id)."""
        self._due_wall_ns: dict[int, int] = {}
        """Time of each lease's valid queue entry, by lease id; other entries are stale."""
        self._host: ServiceHost | None = None
        self._on_expired: Callable[[int], None] = lambda _: None
        self._timer: Timer | None = None

    def start(self, host: ServiceHost, on_expired: Callable[[int], None]) -> None:
        """Begin to check for expired leases; ``on_expired`` is called with the id of each lease to revoke."""
        self._host = host
        self._on_expired = on_expired
        self._check_expired()

    def stop(self) -> None:
        """Drop what is not on disk: expiry times and waiting renewals."""
        self._primary = False
        self._queue, self._due_wall_ns = [], {}
        for lease in self.leases.values():
            lease.expiry = None
            lease.late_renewals.clear()

    # Applied on every member.

    def grant(self, number: int, ttl: int) -> LessorLease:
        """Add a lease with id ``number`` and a ttl in seconds.

        Raises StatusError if the id is 0 or in use, or the ttl is too large.
        """
        if not number:
            raise lease_not_found()
        if ttl > MAX_TTL_S:
            raise StatusError(OUT_OF_RANGE, "etcdserver: too large lease TTL")
        if number in self.leases:
            raise StatusError(FAILED_PRECONDITION, "etcdserver: lease already exists")
        lease = self.leases[number] = LessorLease(number, max(ttl, self._min_ttl))
        if self._primary:
            self._refresh(lease)
        return lease

    def revoke(self, number: int) -> None:
        lease = self.leases.pop(number, None)
        if lease is None:
            raise lease_not_found()
        self._answer(lease, True)

    # On the primary lessor only.

    def promote(self, extend_ns: int) -> None:
        """Become the primary lessor; every lease now expires after its ttl plus ``extend_ns``."""
        self._primary = True
        for lease in self.leases.values():
            self._refresh(lease, extend_ns)

    def demote(self) -> None:
        self._primary = False
        for lease in self.leases.values():
            lease.expiry = None
            self._answer(lease, False)

    def renew(self, number: int, done: Callable[[int | None], None]) -> None:
        """Renew a lease and call ``done`` with its ttl in seconds, or None if the lease does not exist.

        A renewal after the expiry waits: ``done`` gets None once the lease is revoked, or :data:`NO_LONGER_PRIMARY` if
        this lessor is demoted first. Raises NotPrimary.
        """
        if not self._primary:
            raise NotPrimary
        lease = self.leases.get(number)
        if lease is None:
            done(None)
        elif self.remaining(lease) <= 0:
            lease.late_renewals.append(lambda revoked: done(None if revoked else NO_LONGER_PRIMARY))
        else:
            self._refresh(lease)
            done(lease.ttl)

    def remaining(self, lease: LessorLease) -> int:
        """Return the ns until the lease expires: negative if it is overdue, 2^63 - 1 if the lessor is not primary."""
        return (1 << 63) - 1 if lease.expiry is None else lease.expiry - self._clock().monotonic_ns()

    def left(self, number: int) -> int | None:
        """Return the ns until the lease expires, at least 0, for observers. None if the lessor is not primary or the
        lease does not exist."""
        lease = self.leases.get(number)
        return None if lease is None or lease.expiry is None else max(0, self.remaining(lease))

    def _clock(self) -> ServiceHost:
        assert self._host is not None
        return self._host

    def _refresh(self, lease: LessorLease, extend_ns: int = 0) -> None:
        host, left = self._clock(), lease.ttl * SECOND + extend_ns
        lease.expiry = host.monotonic_ns() + left
        self._enqueue(lease.id, host.wall_ns() + left)

    def _enqueue(self, number: int, when: int) -> None:
        self._due_wall_ns[number] = when
        heappush(self._queue, (when, number))
        if len(self._queue) > 64 + 4 * len(self._due_wall_ns):
            self._queue = [(at, lease) for lease, at in self._due_wall_ns.items()]
            heapify(self._queue)

    def _answer(self, lease: LessorLease, revoked: bool) -> None:
        late_renewals, lease.late_renewals = lease.late_renewals, []
        for done in late_renewals:
            done(revoked)

    def _check_expired(self) -> None:
        self._timer = self._clock().call_later(EXPIRY_CHECK_NS, self._check_expired)
        if self._primary:
            for number in self._expired():
                self._on_expired(number)

    def _expired(self) -> list[int]:
        host, found = self._clock(), []
        now = host.wall_ns()
        while self._queue and self._queue[0][0] <= now:
            when, number = heappop(self._queue)
            if self._due_wall_ns.get(number) != when:
                continue
            lease = self.leases.get(number)
            if lease is None:
                del self._due_wall_ns[number]
                continue
            self._enqueue(number, now + REVOKE_RETRY_NS)
            if self.remaining(lease) <= 0:
                found.append(number)
        return found
