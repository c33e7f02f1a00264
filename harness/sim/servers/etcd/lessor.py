"""Leases of a simulated etcd: server/lease/lessor.go as of 3.4.23.

Every member knows all leases; only the leader (the "primary" lessor) knows when they end. It keeps two clocks: a
lease's own expiry is monotonic, and the queue in which it looks for expired ones is in wall-clock time. A step of the
wall clock backwards therefore lets a lease be found late, by the size of the step, though it counts as expired to
whoever asks; a step forwards expires nothing early, but a lease that was looked at too early is looked at again only
after three seconds. A new leader extends every lease to its whole ttl and an election time-out.

Abstracted: checkpoints of remaining ttls (off by default), the spreading of expiries when thousands are extended.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Final

from ...grpc_wire import Failed
from ...kernel import MILLISECOND, SECOND
from ...service import ServiceHost, Timer

LOOK: Final = 500 * MILLISECOND
RETRY: Final = 3 * SECOND
"""When a lease that was found is looked at again: its revocation may have failed."""
NO_LONGER: Final = -1
MAX_TTL: Final = 9_000_000_000
NOT_FOUND, FAILED_PRECONDITION, OUT_OF_RANGE = 5, 9, 11


def lease_not_found() -> Failed:
    return Failed(NOT_FOUND, "etcdserver: requested lease not found")


class NotPrimary(Exception):
    """Only the leader's lessor knows."""


@dataclass(slots=True)
class Lease:
    id: int
    ttl: int
    """Seconds."""
    expiry: int | None = None
    """Monotonic ns; None, for ever, where the lessor is not the primary one."""
    waiting: list[Callable[[bool], None]] = field(default_factory=list)
    """Renewals that came after the expiry: told whether the lease was revoked or the lessor demoted."""


class Lessor:
    """The leases of one member. ``on_expired`` is told which to revoke."""

    def __init__(self, min_ttl: int) -> None:
        self.leases: dict[int, Lease] = {}
        self._min_ttl = min_ttl
        self._primary = False
        self._queue: list[tuple[int, int]] = []
        """(wall-clock ns at which to look, lease)."""
        self._due: dict[int, int] = {}
        """Lease to its valid entry of the queue."""
        self._host: ServiceHost | None = None
        self._on_expired: Callable[[int], None] = lambda _: None
        self._timer: Timer | None = None

    def start(self, host: ServiceHost, on_expired: Callable[[int], None]) -> None:
        self._host = host
        self._on_expired = on_expired
        self._look()

    def stop(self) -> None:
        """The process dies: what is left is what the disk has."""
        self._primary = False
        self._queue, self._due = [], {}
        for lease in self.leases.values():
            lease.expiry = None
            lease.waiting.clear()

    # Applied on every member.

    def grant(self, number: int, ttl: int) -> Lease:
        if not number:
            raise lease_not_found()
        if ttl > MAX_TTL:
            raise Failed(OUT_OF_RANGE, "etcdserver: too large lease TTL")
        if number in self.leases:
            raise Failed(FAILED_PRECONDITION, "etcdserver: lease already exists")
        lease = self.leases[number] = Lease(number, max(ttl, self._min_ttl))
        if self._primary:
            self._refresh(lease)
        return lease

    def revoke(self, number: int) -> None:
        lease = self.leases.pop(number, None)
        if lease is None:
            raise lease_not_found()
        self._answer(lease, True)

    # Only the primary one.

    def promote(self, extend_ns: int) -> None:
        """This member leads now: extend every lease to its ttl and ``extend_ns`` more."""
        self._primary = True
        for lease in self.leases.values():
            self._refresh(lease, extend_ns)

    def demote(self) -> None:
        self._primary = False
        for lease in self.leases.values():
            lease.expiry = None
            self._answer(lease, False)

    def renew(self, number: int, done: Callable[[int | None], None]) -> None:
        """Calls ``done`` with the ttl, or None if the lease is gone; raises NotPrimary. A renewal that comes after the
        expiry waits for the revocation to be over, or for this lessor to be :data:`NO_LONGER` the primary one."""
        if not self._primary:
            raise NotPrimary
        lease = self.leases.get(number)
        if lease is None:
            done(None)
        elif self.remaining(lease) <= 0:
            lease.waiting.append(lambda revoked: done(None if revoked else NO_LONGER))
        else:
            self._refresh(lease)
            done(lease.ttl)

    def remaining(self, lease: Lease) -> int:
        """ns; negative if it is overdue, and more than any ttl where nobody counts."""
        return (1 << 63) - 1 if lease.expiry is None else lease.expiry - self._clock().monotonic_ns()

    def left(self, number: int) -> int | None:
        """ns that a lease has left, for observers; None where nobody counts, and if there is none."""
        lease = self.leases.get(number)
        return None if lease is None or lease.expiry is None else max(0, self.remaining(lease))

    def _clock(self) -> ServiceHost:
        assert self._host is not None
        return self._host

    def _refresh(self, lease: Lease, extend_ns: int = 0) -> None:
        host, left = self._clock(), lease.ttl * SECOND + extend_ns
        lease.expiry = host.monotonic_ns() + left
        self._enqueue(lease.id, host.wall_ns() + left)

    def _enqueue(self, number: int, when: int) -> None:
        self._due[number] = when
        heappush(self._queue, (when, number))
        if len(self._queue) > 64 + 4 * len(self._due):
            self._queue = [(at, lease) for lease, at in self._due.items()]
            heapify(self._queue)

    def _answer(self, lease: Lease, revoked: bool) -> None:
        waiting, lease.waiting = lease.waiting, []
        for done in waiting:
            done(revoked)

    def _look(self) -> None:
        self._timer = self._clock().call_later(LOOK, self._look)
        if self._primary:
            for number in self._expired():
                self._on_expired(number)

    def _expired(self) -> list[int]:
        host, found = self._clock(), []
        now = host.wall_ns()
        while self._queue and self._queue[0][0] <= now:
            when, number = heappop(self._queue)
            if self._due.get(number) != when:
                continue
            lease = self.leases.get(number)
            if lease is None:
                del self._due[number]
                continue
            self._enqueue(number, now + RETRY)
            if self.remaining(lease) <= 0:
                found.append(number)
        return found
