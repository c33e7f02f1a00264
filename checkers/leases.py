"""Find the cause of two overlapping grants of a key: the service, a clock or the client.

The earlier grant was promised until the end of its lease, counted in true time (``CLOCK_MONOTONIC``, which no fault
moves). There are these cases at the moment at which the later grant returned:

- The lease had ended: the cause is the *client*, which continued after its lease. Leases cannot prevent this; fencing
  is the remedy (etcd 11457). A holder without a stated lease is also the cause if it was stopped meanwhile, or cut off
  from all servers, since it could not renew.
- The lease had not ended, but it had ended by the clock of a server, because that clock was moved or runs too fast: the
  cause is the *clock*. The service kept its promise by its own clock; the assumption that clocks run alike was
  violated.
- The lease had not ended, but that of the later grant had when its answer arrived: the cause is the *client*, too. For
  a grant that does not say its lease, this is possible if the client was stopped while it waited for the answer, for as
  long as the lease that the lock states: the grant may be from before. Such a lease begins with the answer, or when the
  key was written on a server, if that was recorded.
- The lease had not ended by any clock: the cause is the *service*, which granted what it had promised to another client
  (etcd 11456). It has a bug, or lost its state: a restart without its data, or a failover to a replica that lagged
  behind. A key that was written with less than a tenth of the stated lease is such a bug, too: for example, seconds
  were read as milliseconds. The stated lease counts then.

By a server's clock, the lease ends as long after the promise as the lease is long. It had ended by a clock that showed
that time at any moment from the promise to the later grant: an expired lease is gone, even if the clock is set back
afterwards. The promise was made at some moment between the invocation and the return of the call that made the lease:
the acquire, or the last successful extend. If that call was invoked after the later grant, the lock itself has said
that the lease had not ended. If the history leaves open when a clock moved (``harness.checkers.clocks``), the
possibility that excuses the service counts. Without a stated lease, a clock must have gained a third of a ``ttl``
within the last ``ttl`` before the later grant: libraries renew a lease after two thirds of it at the latest (as
python-redis-lock does), so a clock that gains less ends no lease. If a clock is the cause of the first grant during a
hold, it is the cause of all of them: the lock was lost by then.

Of several servers, one is enough. If a leader decides, only its clock counts, but a history does not show which server
it was. If a majority decides, as with Redlock, two majorities may have a single server in common. The sentence says by
how many clocks the lease had ended.

Limits:

- A service that measures leases on a monotonic clock (ZooKeeper, etcd, Consul) is not excused by a wall clock, but this
  module excuses it if a wall clock was moved far enough at the time. The same is true of a service that lost the lease
  for another reason.
- Some locks have clients that decide by their own clocks that a lease has ended. No server's clock is then the cause,
  so the service counts as the cause, since it relied on the clients.
- Each clock is compared with itself. The module does not look for an end of a lease that one server stored and another
  server judged after a failover.
- A lease is what was stated. A client that is granted a lock with nothing left of its lease counts as acting after it,
  though a better lock would have refused. If a holder does not know that its lock has a lease, and was neither hindered
  nor renewed it, the service counts as the cause.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from harness.history import SECOND, History, Op
from harness.history.lock_keys import KeyState, keys_of
from harness.wording import in_seconds

from .base import Blame
from .clocks import Clock, clocks
from .faults import STILL, faults_among
from .holds import FOREVER, Holds
from .sweep import grouped_order
from .view import Ints

BLAMES: Final[tuple[Blame, ...]] = ("service", "clock", "client")
SHORT: Final = 10
"""The stated lease divided by the longest one that is too short to be this lease. Servers that count whole seconds may
cut a lease to a half."""
UNRENEWED: Final = 3
"""The ttl divided by the part of it that is left at least when a library renews a lease."""


@dataclass(frozen=True, slots=True)
class Lease:
    """A promise to a client, in ns: made by a call from ``requested_ns`` to ``given_ns``, valid until ``end_ns``.

    FOREVER: no lease was stated.
    """

    client: str
    requested_ns: int
    given_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class Ruling:
    """The cause of an overlap.

    If it is a clock: ``host`` has the first clock by which the lease ended, ``over_ns`` says when (true time),
    ``gained_ns`` how far the clock had gained by then, and ``over`` by how many of the ``servers``' clocks the lease
    ended at last.
    """

    blame: Blame
    host: str = ""
    over_ns: int = 0
    gained_ns: int = 0
    over: int = 0
    servers: int = 0
    kept_ns: int | None = None
    """For how long the service kept a lease that is far shorter than the stated one."""
    hindered: str = ""
    """Reason why a client could not renew a lease that it did not state, or learned too late that it had one."""


class Leases:
    """Finds causes of overlaps from the entries of the nemesis (``History.nemesis()``) about clocks and pauses, and
    from the changes of keys on servers, if they were recorded."""

    def __init__(self, entries: Iterable[Op], states: Sequence[KeyState] = ()) -> None:
        ops = list(entries)
        start: dict[str, Any] = next((op.value or {} for op in ops if op.f == "start"), {})
        read = clocks(ops)
        named = start.get("servers") or sorted(read.keys() - set(start.get("clients") or ()))
        self._servers = frozenset(named)
        self._moved: dict[str, Clock] = {host: read[host] for host in named if host in read and read[host].moved}
        self._ttl = round((start.get("ttl") or 0) * SECOND)
        self._faults = [fault for fault in faults_among(ops) if fault.name in STILL or fault.cut]
        self._written: dict[tuple[str, str | None], list[tuple[int, int]]] = {}
        for state in states:
            if state.owner is not None and state.left is not None:
                self._written.setdefault((state.key, state.by), []).append((state.time, state.time + state.left))
        for times in self._written.values():
            times.sort()
        self._order: tuple[Ints, Ints] | None = None
        """The rows of the holds in the order of their beginnings, by key, and the place of each row in it."""

    @classmethod
    def of(cls, history: History) -> Leases:
        """Return the leases of a history, with the changes of keys that were recorded beside it."""
        return cls(history.nemesis(), keys_of(history) or ())

    def rule(self, lease: Lease, granted_ns: int) -> Ruling:
        """Return the cause of a grant to another client, returned at ``granted_ns``, during the first one's hold."""
        if granted_ns >= lease.end_ns:
            return Ruling("client")
        if lease.end_ns == FOREVER and (hindered := self._hindered(lease, granted_ns)):
            return Ruling("client", hindered=hindered)
        over = [(*hit, host) for host, clock in self._moved.items() if (hit := self._over(clock, lease, granted_ns))]
        if not over:
            return Ruling("service")
        over_ns, gained_ns, host = min(over)
        return Ruling("clock", host, over_ns, gained_ns, len(over), len(self._servers))

    def overlap(self, found: Holds, earlier: int, later: int) -> tuple[Lease, Ruling]:
        """Return the cause of the overlap of two holds, by their rows, and the lease that it concerns.

        That is the earlier hold's lease, or the later one's if that had ended when its grant was returned."""
        lease, own = self._lease(found, earlier), self._lease(found, later)
        granted_ns = int(found.start[later])
        ruling = self.rule(lease, granted_ns)
        if ruling.blame == "service" and lease.end_ns == FOREVER and self._moved:
            ruling = self.rule(lease, self._first_rival(found, earlier, later))
        if ruling.blame != "service":
            return lease, ruling
        if own.end_ns <= granted_ns:
            return own, Ruling("client")
        stopped_ns = self._stopped(own) if found.lease_end[later] == FOREVER and own.end_ns != FOREVER else None
        if stopped_ns is not None and stopped_ns + own.end_ns - own.given_ns <= granted_ns:
            ended_ns = stopped_ns + own.end_ns - own.given_ns
            return replace(own, end_ns=ended_ns), Ruling("client", hindered="was stopped before it got the answer")
        return lease, replace(ruling, kept_ns=self._kept_ns(found, earlier))

    def _lease(self, found: Holds, row: int) -> Lease:
        """Return the lease of a hold. If the grant does not say it, it began when the key was written on a server: the
        answer may have been late."""
        lease = lease_of(found, row)
        if found.lease_end[row] != FOREVER or lease.end_ns == FOREVER:
            return lease
        key, stated_ns = found.view.keys[found.key[row]], lease.end_ns - lease.given_ns
        end_ns = self.written_end(key, lease.client, lease.requested_ns, lease.given_ns, stated_ns)
        return lease if end_ns is None else replace(lease, end_ns=min(end_ns, lease.end_ns))

    def written_end(self, key: str, client: str, requested_ns: int, given_ns: int, stated_ns: int) -> int | None:
        """Return the end (ns) of the lease that a client's call for a key began, as the servers recorded it.

        None if they recorded none, or one that is far shorter than the lock states (``stated_ns``)."""
        written = self._during(key, client, requested_ns, given_ns)
        return None if written is None or _too_short(written, stated_ns) else written[1]

    def _during(self, key: str, client: str, requested_ns: int, given_ns: int) -> tuple[int, int] | None:
        """Return the lease (ns, from and until) that ends last among those that a client wrote during a call."""
        written = self._written.get((key, client), [])
        call = written[bisect_left(written, (requested_ns,)) : bisect_left(written, (given_ns + 1,))]
        return max(call, key=lambda lease: lease[1], default=None)

    def _kept_ns(self, found: Holds, row: int) -> int | None:
        """Return for how long (ns) the servers were to keep the key of a hold, if that is far shorter than its
        lease."""
        lease = lease_of(found, row)
        written = self._during(found.view.keys[found.key[row]], lease.client, lease.requested_ns, lease.given_ns)
        if lease.end_ns == FOREVER or written is None or not _too_short(written, lease.end_ns - lease.given_ns):
            return None
        return written[1] - written[0]

    def _first_rival(self, found: Holds, earlier: int, later: int) -> int:
        """Return when (ns) another client was first granted the key of a hold during it: its lock was lost by then."""
        if self._order is None:
            order = grouped_order(found.key, found.start, found.end)
            self._order = order, np.argsort(order)
        order, place = self._order
        after = order[place[earlier] + 1 :]
        shared = found.shared[earlier]
        rivals = (
            row for row in after if found.client[row] != found.client[earlier] and not (shared and found.shared[row])
        )
        return int(found.start[next(rivals, later)])

    def _stopped(self, lease: Lease) -> int | None:
        """Return when the client was first stopped during the call for the lease (ns)."""
        began = (fault.from_ns for fault in self._faults if fault.name in STILL and lease.client in fault.hosts)
        return min((ns for ns in began if lease.requested_ns <= ns <= lease.given_ns), default=None)

    @property
    def blames(self) -> int:
        """Return how many causes are possible: ``clock`` is impossible if every clock stayed correct."""
        return len(BLAMES) if self._moved else len(BLAMES) - 1

    def _hindered(self, lease: Lease, granted_ns: int) -> str:
        """Return what prevented the holder from renewing its lease meanwhile; empty if nothing did."""
        for fault in self._faults:
            if not fault.during(lease.given_ns, granted_ns):
                continue
            if fault.name in STILL and lease.client in fault.hosts:
                return "was stopped"
            apart = {frozenset(link.split(">")) for link in fault.cut}
            if self._servers and all(frozenset((lease.client, server)) in apart for server in self._servers):
                return "was cut off from all servers"
        return ""

    def _over(self, clock: Clock, lease: Lease, granted_ns: int) -> tuple[int, int] | None:
        """Return when the lease ended by the clock, and how far the clock had gained by then."""
        if lease.end_ns != FOREVER:
            return clock.over(lease.requested_ns, lease.given_ns, lease.end_ns, granted_ns)
        if not self._ttl:
            return None
        ends_ns = granted_ns + self._ttl // UNRENEWED
        return clock.over(max(lease.requested_ns, granted_ns - self._ttl), granted_ns, ends_ns, granted_ns)


def _too_short(written: tuple[int, int], stated_ns: int) -> bool:
    return (written[1] - written[0]) * SHORT < stated_ns


def lease_of(found: Holds, row: int) -> Lease:
    """Return the lease of the hold in that row, after all extensions."""
    client = found.view.name(int(found.client[row]))
    return Lease(client, int(found.requested_ns[row]), int(found.given[row]), int(found.stated_end[row]))


def reason(lease: Lease, ruling: Ruling, at: Callable[[int], str]) -> str:
    """Return a clause that says why another client could get the lock while ``lease.client`` held it.

    ``at`` formats a time.
    """
    if lease.end_ns == FOREVER:
        return _unstated(lease, ruling, at)
    if ruling.blame == "service":
        kept = "" if ruling.kept_ns is None else f", but its key was written for {in_seconds(ruling.kept_ns)} only"
        return f"the service had promised the lock to {lease.client} until {at(lease.end_ns)}{kept}"
    if ruling.blame == "client":
        hindered = f"{lease.client} {ruling.hindered}, and " if ruling.hindered else ""
        may = "may have ended" if ruling.hindered else "had ended"
        return f"{hindered}{lease.client}'s lease {may} at {at(lease.end_ns)}"
    return (
        f"{lease.client}'s lease lasted until {at(lease.end_ns)}, but it ended at {at(ruling.over_ns)} {_clock(ruling)}"
    )


def _unstated(lease: Lease, ruling: Ruling, at: Callable[[int], str]) -> str:
    if ruling.blame == "client":
        return f"{lease.client} {ruling.hindered} and could not renew its lease"
    if ruling.blame == "clock":
        return f"{lease.client}'s lock stated no lease, and any lease ended by {at(ruling.over_ns)} {_clock(ruling)}"
    return (
        f"the service had granted the lock to {lease.client} without a stated lease, and {lease.client} still held it"
    )


def _clock(ruling: Ruling) -> str:
    gained = f"had gained {in_seconds(ruling.gained_ns)}"
    if ruling.servers == 1:
        return f"by {ruling.host}'s clock, which {gained}"
    return f"by {ruling.over} of {ruling.servers} servers' clocks ({ruling.host}'s {gained})"
