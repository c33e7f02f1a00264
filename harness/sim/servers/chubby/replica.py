"""One replica of a Chubby cell: its copy of the database, the election of a master, and the master's lease.

Source: Burrows, "The Chubby lock service for loosely-coupled distributed systems", OSDI 2006, sections 2.1 and 2.12.
Consensus is abstracted. A replica's database *is* its log: the master numbers its changes and sends each to all, who
put it on their disks at once (disks take no time); a change is committed when a majority has it. Whoever is elected has
a database at least as new as each of its voters' and first gives the whole of it to everybody, which is what log repair
and catching up come to. What a replica was told and nobody else has may so be kept or lost, and nobody was promised
it. The election and the lease go over the simulated network, and are as good as that is:

- A replica that has heard no master for :data:`LEASE` (and a little, by chance) asks the others first whether they
  would vote for it, then for their votes. One vote an epoch, for nobody whose database is older.
- A replica that hears its master votes for nobody until :data:`LEASE` has passed, and the master serves only until
  :data:`LEASE` after it sent what a majority has answered. One that comes back after a kill has forgotten what it
  heard, and waits as long.
- A replica that has lost its disk counts for nothing, neither in votes nor in commits, until it has the database again
  and the master has committed that without it ("the replica is permitted to vote once it has processed a request that
  the current master is waiting to commit"). A cell whose majority lost its disks stands still: what the paper has
  backups for.

Left out: membership changes, DNS, proxies, snapshots on file servers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final

from ...service import Conn, ServiceHost
from .protocol import DRIFT, PORT, Message, line, lines, ns

LEASE: Final = 1.0
"""Seconds of the master's lease, and after which its silence means an election."""
BEAT: Final = 0.2
TICK: Final = 0.05
SPREAD: Final = 0.4
"""Seconds by which replicas, by chance, stand later than others."""
FIRST_SPREAD: Final = 0.15
SILENCE: Final = 1.0
"""Seconds after which a connection to another replica that answers nothing is made anew."""
REDIAL: Final = 0.1
Change = tuple[str, Any]
"""A row of the database and its new value, None to delete it."""


class Disk:
    """What survives a kill. ``rows`` is the database as of change number ``seq`` of the master of ``epoch``; a later
    ``promised`` epoch is that of a vote."""

    def __init__(self, *, voter: bool) -> None:
        self.promised = 0
        self.epoch = 0
        self.seq = 0
        self.rows: dict[str, Any] = {}
        self.voter = voter
        self.filled = 0
        """The number as of which a database that was lost has come back."""

    @property
    def version(self) -> tuple[int, int]:
        return (self.epoch, self.seq)

    def apply(self, seq: int, changes: list[Change]) -> None:
        self.seq = seq
        for key, value in changes:
            if value is None:
                self.rows.pop(key, None)
            else:
                self.rows[key] = value


class Link:
    """The connection to one other replica, by which this one asks; dialled again when it breaks or falls silent."""

    def __init__(self, replica: Replica, peer: str) -> None:
        self._replica = replica
        self.peer = peer
        self.conn: Conn | None = None
        self.up = False
        self._rest = b""
        self._heard = -ns(REDIAL)
        self.given = 0
        """The epoch in which the whole database was sent on this connection, 0 if in none."""
        self.acked = -1
        """The last change of this epoch that a voter over there has, -1 for none."""
        self.leased = -1
        """When the last beat was sent that a voter over there has answered, ns."""

    def tend(self, now: int) -> None:
        if self.conn is not None and now - self._heard > ns(SILENCE):
            conn, self.conn = self.conn, None
            conn.close()
        if self.conn is None and now - self._heard > ns(REDIAL):
            self.up, self._rest, self._heard, self.given, self.acked = False, b"", now, 0, -1
            self.conn = self._replica.host.dial(self.peer, PORT, self)

    def send(self, message: Message) -> None:
        if self.conn is not None and self.up:
            self.conn.send(line(message))

    def opened(self, conn: Conn) -> None:
        if conn is self.conn:
            self.up = True
            self._replica.met(self)

    def received(self, conn: Conn, data: bytes) -> None:
        if conn is self.conn:
            self._heard = self._replica.host.monotonic_ns()
            messages, self._rest = lines(self._rest, data)
            for message in messages:
                self._replica.answered(self, message)

    def closed(self, conn: Conn) -> None:
        if conn is self.conn:
            self.conn, self.up = None, False


class Replica:
    """One life of one replica. ``on_leading`` is called when it begins (True) or ceases (False) to be the master."""

    def __init__(
        self, host: ServiceHost, disk: Disk, peers: list[str], on_leading: Callable[[bool], None], *, first: bool
    ) -> None:
        self.host = host
        self.disk = disk
        self._on_leading = on_leading
        self._links = [Link(self, peer) for peer in peers]
        self._majority = (len(peers) + 1) // 2 + 1
        now = host.monotonic_ns()
        self.master: str | None = None
        """Who the master is, as far as this replica has heard."""
        self._bound_until = now if first else now + ns(LEASE * (1 + DRIFT))
        """It votes for nobody before: a master may count on its silence."""
        self._stands_at = now + (self._chance(FIRST_SPREAD) if first else ns(LEASE * (1 + DRIFT)) + self._chance())
        self._votes: dict[str, set[str]] = {}
        self._running = 0
        """The epoch that it stands for, 0 if it does not."""
        self._seen = 0
        """The highest epoch that others have promised."""
        self._elected = False
        self.leading = False
        """Whether it has been made the master; :meth:`serves` says whether it still is."""
        self.committed = 0
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()
        self._beat_at = 0
        self._tick()

    def now(self) -> int:
        return self.host.monotonic_ns()

    def _chance(self, spread: float = SPREAD) -> int:
        return ns(self.host.rng.random() * spread)

    # Time.

    def _tick(self) -> None:
        now = self.now()
        for link in self._links:
            link.tend(now)
        if self._elected:
            self.serves()
            if self._elected and now >= self._beat_at:
                self._beat_at = now + ns(BEAT)
                self._tell({"k": "beat", "epoch": self.disk.epoch, "sent": now, "committed": self.committed})
        elif now >= self._stands_at and self.disk.voter:
            self._stands_at = now + ns(LEASE / 2) + self._chance()
            self._ask("canvass", max(self.disk.promised, self._seen) + 1)
        until_stands = self._stands_at - now
        soon = 0 < until_stands < ns(TICK) and not self._elected
        self.host.call_later(until_stands if soon else ns(TICK), self._tick)

    def _tell(self, message: Message) -> None:
        for link in self._links:
            link.send(message)

    # Elections: what a candidate does.

    def _ask(self, kind: str, epoch: int) -> None:
        self._running = epoch
        self._votes[kind] = {self.host.name}
        self._tell({"k": kind, "epoch": epoch, "version": list(self.disk.version)})
        self._tally(kind)

    def _counted(self, kind: str, link: Link, message: Message) -> None:
        self._seen = max(self._seen, message["promised"])
        if message["epoch"] == self._running and not self._elected and message["yes"]:
            votes = self._votes[kind]
            if link.peer not in votes:
                votes.add(link.peer)
                self._tally(kind)

    def _tally(self, kind: str) -> None:
        if len(self._votes[kind]) != self._majority:
            return
        if kind == "canvass":
            self._ask("vote", self._running)
        elif self._running > self.disk.promised:  # else it has given its own vote to another meanwhile
            self._win(self._running)

    def _win(self, epoch: int) -> None:
        disk = self.disk
        disk.promised = disk.epoch = epoch
        disk.seq += 1
        self._elected, self.committed, self._running = True, 0, 0
        self._began = self.now()
        self.host.log(f"elected in epoch {epoch}, at change {disk.seq}")
        for link in self._links:
            link.leased = -1
            self.met(link)
        self._advance()

    # Elections and replication: what the others do.

    def heard(self, conn: Conn, message: Message) -> None:
        """A message of another replica, and the answer to it."""
        kind, epoch = message["k"], message["epoch"]
        if kind in ("canvass", "vote"):
            yes = self._would_vote(epoch, tuple(message["version"]))
            if yes and kind == "vote":
                self.disk.promised = epoch
                self._stands_at = self.now() + ns(LEASE) + self._chance()
            conn.send(line({"k": kind, "epoch": epoch, "yes": yes, "promised": self.disk.promised}))
        elif epoch < self.disk.promised:
            conn.send(line({"k": "refused", "epoch": self.disk.promised}))
        else:
            self._follow(conn.peer, epoch)
            conn.send(line(self._obey(kind, message)))

    def _would_vote(self, epoch: int, version: tuple[int, int]) -> bool:
        disk = self.disk
        self.serves()
        free = self.now() >= self._bound_until and not self._elected
        return free and disk.voter and epoch > disk.promised and version >= disk.version

    def _follow(self, master: str, epoch: int) -> None:
        if self._elected:  # in an older epoch: nobody is elected twice in one
            self._step_down(f"{master} is the master of epoch {epoch}")
        self.disk.promised = epoch
        self.master = master
        now = self.now()
        self._bound_until = now + ns(LEASE * (1 + DRIFT))
        self._stands_at = self._bound_until + self._chance()

    def _obey(self, kind: str, message: Message) -> Message:
        disk, epoch = self.disk, message["epoch"]
        if kind == "beat":
            if disk.epoch == epoch and not disk.voter and message["committed"] >= disk.filled:
                disk.voter = True
                self.host.log("has its database again, and votes")
            return {"k": "beat", "epoch": epoch, "sent": message["sent"], "voter": disk.voter}
        late = disk.epoch == epoch and message["seq"] < disk.seq  # from a connection that was given up
        if kind == "state" and not late:
            disk.epoch, disk.seq, disk.rows = epoch, message["seq"], message["rows"]
            disk.filled = message["seq"]
        elif kind == "entry" and disk.epoch == epoch and message["seq"] == disk.seq + 1:
            disk.apply(message["seq"], message["changes"])
        return {"k": "acked", "epoch": epoch, "seq": disk.seq if disk.epoch == epoch else -1, "voter": disk.voter}

    # The master.

    def met(self, link: Link) -> None:
        """A connection is there: whoever is elected gives the whole database first."""
        if self._elected and link.up and link.given != self.disk.epoch:
            link.given, link.acked = self.disk.epoch, -1
            disk = self.disk
            link.send({"k": "state", "epoch": disk.epoch, "seq": disk.seq, "rows": disk.rows})
            link.send({"k": "beat", "epoch": disk.epoch, "sent": self.now(), "committed": self.committed})

    def answered(self, link: Link, message: Message) -> None:
        kind, epoch = message["k"], message["epoch"]
        if kind in ("canvass", "vote"):
            self._counted(kind, link, message)
        elif not self._elected:
            return
        elif kind == "refused":
            if epoch > self.disk.epoch:
                self.disk.promised = max(self.disk.promised, epoch)
                self._step_down(f"{link.peer} has voted in epoch {epoch}")
        elif epoch == self.disk.epoch and message["voter"]:
            if kind == "beat":
                link.leased = max(link.leased, message["sent"])
            else:
                link.acked = max(link.acked, message["seq"])
            self._advance()

    def _advance(self) -> None:
        self.committed = max(self.committed, self._majority_has(self.disk.seq, [link.acked for link in self._links]))
        if not self.leading and self.committed and self._leased_until() > self.now():
            self.leading, self.master = True, self.host.name
            self.host.log(f"master of epoch {self.disk.epoch}")
            self._on_leading(True)
        while self._waiting and self._waiting[0][0] <= self.committed:
            self._waiting.popleft()[1]()

    def _majority_has(self, own: int, others: list[int]) -> int:
        """The highest of these numbers that a majority has reached."""
        return sorted([own, *others], reverse=True)[self._majority - 1]

    def _leased_until(self) -> int:
        """A majority, itself included, votes for nobody else before this time."""
        sent = self._majority_has(self.now(), [link.leased for link in self._links])
        return 0 if sent < 0 else sent + ns(LEASE)

    def serves(self) -> bool:
        """Is it the master, and surely the only one? Looks at the clock: it may have stood still since it last did."""
        if self._elected and self.now() >= max(self._leased_until(), self._began + ns(LEASE)):
            self._step_down("no majority answers")
        return self.leading

    def commit(self, changes: list[Change], then: Callable[[], None]) -> None:
        """Make changes, and call ``then`` when a majority has them, and never if this one is the master no more."""
        disk = self.disk
        disk.apply(disk.seq + 1, changes)
        message = {"k": "entry", "epoch": disk.epoch, "seq": disk.seq, "changes": changes}
        for link in self._links:
            if link.given == disk.epoch:
                link.send(message)
        self._waiting.append((disk.seq, then))
        self._advance()

    def once_committed(self, then: Callable[[], None]) -> None:
        """Call ``then`` when all changes up to now are committed."""
        if self.disk.seq <= self.committed:
            then()
        else:
            self._waiting.append((self.disk.seq, then))

    def _step_down(self, why: str) -> None:
        was, self.leading, self._elected = self.leading, False, False
        self.master = None
        self._waiting.clear()
        self._stands_at = self.now() + ns(LEASE) + self._chance()
        self.host.log(f"no master any more: {why}")
        if was:
            self._on_leading(False)
