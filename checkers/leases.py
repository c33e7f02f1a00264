"""Who broke a lease: of two grants of a key that overlap, whether the service, a clock or the client is to blame.

The earlier grant was promised until the end of its lease, counted in true time (``CLOCK_MONOTONIC``, which no fault
moves). When the later one came back,

- that end had passed: the *client* went on after its lease. This is inherent in leases, and fencing is for it
  (etcd 11457). So did a holder without a stated lease that stood still meanwhile, or was cut off from all servers: it
  could not renew;
- it had not passed, but by the clock of a server it had, as that clock had been moved, or runs too fast: the *clock*.
  The service kept its word by its own reckoning; what broke is the assumption that clocks run alike;
- it had not passed by any clock: the *service* granted what it had promised to somebody else (etcd 11456), for it has
  a fault or has lost what it knew: a restart without its data, a failover to a replica that lagged behind.

By a server's clock the lease ends as long after the promise as the lease is long. It was over on a clock that showed
that time at any moment from the promise to the later grant: what has expired once is gone, though the clock is put back
afterwards. The promise was made at some moment between the invocation and the return of the call that the lease rests
on: the acquire, or the last good extend. If that was asked for after the later grant, the lock itself has said that the
lease was not over. Where a history leaves open when a clock moved (``checkers.clocks``), the possibility
that excuses the service counts. Without a stated lease, a clock must have gained a whole ``ttl`` within the last
``ttl`` before the later grant: that ends a lease of a ttl whenever it was renewed last.

Of several servers one is enough. Where a leader decides, its clock alone counts, and nobody can say from a history
which it was; where a majority does, as with Redlock, two majorities may have a single server in common. The sentence
says by how many it was over.

Limits. Whoever counts leases on a monotonic clock (ZooKeeper, etcd, Consul) has no excuse in a wall clock, and gets it
here nevertheless if one was moved far enough at the time; so does a service that forgot the lease for another reason.
Locks whose clients decide by their own clocks that a lease is over have no clock of a server to blame: they count as
the service, which relied on them. Each clock is compared with itself: an end of a lease that one server wrote down and
another judges after a failover is not looked for. A lease is what was stated: whoever is granted a lock with nothing
left of its lease is the client that acts after it, though a better lock would have refused; and a holder who does not
know that its lock has one, and neither is hindered nor renews it, counts as the service.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from checkers.base import Blame
from checkers.clocks import Clock, clocks
from checkers.faults import STILL, faults_among
from checkers.holds import FOREVER, Holds
from harness.history import SECOND, Op

BLAMES: Final[tuple[Blame, ...]] = ("service", "clock", "client")


@dataclass(frozen=True, slots=True)
class Lease:
    """What the earlier client was promised, in ns: by a call from ``asked_ns`` to ``given_ns``, until ``end_ns``
    (FOREVER: no lease was stated)."""

    client: str
    asked_ns: int
    given_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class Ruling:
    """Who is to blame and, if it is a clock: whose (the first by which the lease was over), when that was (true time,
    ns), how far it had gained by then (ns), and by how many of the servers' clocks the lease was over in the end."""

    blame: Blame
    host: str = ""
    over_ns: int = 0
    gained_ns: int = 0
    over: int = 0
    servers: int = 0
    hindered: str = ""
    """What kept a client without a stated lease from renewing."""


class Leases:
    """What the entries of the nemesis (``History.nemesis()``) say about clocks and pauses."""

    def __init__(self, entries: Iterable[Op]) -> None:
        told = list(entries)
        start: dict[str, Any] = next((op.value or {} for op in told if op.f == "start"), {})
        read = clocks(told)
        named = start.get("servers") or sorted(read.keys() - set(start.get("clients") or ()))
        self._servers = frozenset(named)
        self._moved: dict[str, Clock] = {host: read[host] for host in named if host in read and read[host].moved}
        self._ttl = round((start.get("ttl") or 0) * SECOND)
        self._faults = [fault for fault in faults_among(told) if fault.name in STILL or fault.cut]

    def rule(self, lease: Lease, granted_ns: int) -> Ruling:
        """Who is to blame for a grant to another client, back at ``granted_ns``, while the first one held the lock."""
        if granted_ns >= lease.end_ns:
            return Ruling("client")
        if lease.end_ns == FOREVER and (hindered := self._hindered(lease, granted_ns)):
            return Ruling("client", hindered=hindered)
        over = [(*hit, host) for host, clock in self._moved.items() if (hit := self._over(clock, lease, granted_ns))]
        if not over:
            return Ruling("service")
        over_ns, gained_ns, host = min(over)
        return Ruling("clock", host, over_ns, gained_ns, len(over), len(self._servers))

    @property
    def blames(self) -> int:
        """How many blames there may be: no clock that stayed true is one."""
        return len(BLAMES) if self._moved else len(BLAMES) - 1

    def _hindered(self, lease: Lease, granted_ns: int) -> str:
        """What happened to the holder meanwhile that keeps anybody from renewing, if anything did."""
        for fault in self._faults:
            if not fault.during(lease.given_ns, granted_ns):
                continue
            if fault.name in STILL and lease.client in fault.hosts:
                return "stood still"
            apart = {frozenset(link.split(">")) for link in fault.cut}
            if self._servers and all(frozenset((lease.client, server)) in apart for server in self._servers):
                return "been cut off from all servers"
        return ""

    def _over(self, clock: Clock, lease: Lease, granted_ns: int) -> tuple[int, int] | None:
        """When the lease was over by the clock, and how far it had gained by then."""
        if lease.end_ns != FOREVER:
            return clock.over(lease.asked_ns, lease.given_ns, lease.end_ns, granted_ns)
        if not self._ttl:
            return None
        return clock.over(max(lease.asked_ns, granted_ns - self._ttl), granted_ns, granted_ns + self._ttl, granted_ns)


def classify(entries: Iterable[Op], lease: Lease, granted_ns: int) -> Ruling:
    """Who is to blame for one grant; for many of one history, keep its :class:`Leases`."""
    return Leases(entries).rule(lease, granted_ns)


def lease_of(found: Holds, row: int) -> Lease:
    """The lease of the hold in that row, as it was in the end."""
    client = found.view.name(int(found.client[row]))
    return Lease(client, int(found.asked[row]), int(found.given[row]), int(found.lease_end[row]))


def reason(lease: Lease, ruling: Ruling, at: Callable[[int], str]) -> str:
    """The end of a sentence that says what the later client did while ``lease.client`` held the lock; ``at`` words a
    time."""
    if lease.end_ns == FOREVER:
        return _unstated(ruling, at)
    if ruling.blame == "service":
        return f"and {lease.client} had been promised it until {at(lease.end_ns)}"
    if ruling.blame == "client":
        return f"though {lease.client}'s lease had ended at {at(lease.end_ns)}"
    return f"though {_clock(ruling)}, {lease.client}'s lease until {at(lease.end_ns)} had ended at {at(ruling.over_ns)}"


def _unstated(ruling: Ruling, at: Callable[[int], str]) -> str:
    if ruling.blame == "client":
        return f"having {ruling.hindered} meanwhile"
    late = f", though {_clock(ruling)}, any was over at {at(ruling.over_ns)}" if ruling.blame == "clock" else ""
    return f"having a lock without a stated lease{late}"


def _clock(ruling: Ruling) -> str:
    gained = f"had gained {ruling.gained_ns / SECOND:.3f} s"
    if ruling.servers == 1:
        return f"by {ruling.host}'s clock, which {gained}"
    return f"by {ruling.over} of {ruling.servers} servers' clocks ({ruling.host}'s, for one, {gained})"
