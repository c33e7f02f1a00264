"""One replica of a Chubby cell: its copy of the database, the election of a master, and the master's lease.

Source: Burrows, "The Chubby lock service for loosely-coupled distributed systems", OSDI 2006, sections 2.1 and 2.12.
Consensus is simplified: a replica's database is also its log. The master numbers its changes and sends each to all
replicas, which store it at once (disks take no time). A change is committed when a majority has it. An elected replica
has a database at least as new as those of its voters. It first sends its whole database to all others, in place of log
repair and catching up. An uncommitted change that only one replica has may thus be kept or lost. The election and the
lease use the simulated network:

- A replica that has heard no master for :data:`MASTER_LEASE_S` plus a random delay first asks the others whether they
  would vote for it, and then for their votes. A replica votes once per epoch, for no candidate with an older database.
- A replica that hears its master does not vote until :data:`MASTER_LEASE_S` has passed. The master serves only until
  :data:`MASTER_LEASE_S` after it sent a heartbeat that a majority has answered. A replica that restarts has forgotten
  what it heard, and does not vote for as long.
- A replica that has lost its disk does not count, neither in votes nor in commits, until it has the database again and
  the master has committed that state without it ("the replica is permitted to vote once it has processed a request that
  the current master is waiting to commit"). If a majority has lost its disks, the cell stops; the paper has backups for
  this case.

Left out: membership changes, DNS, proxies, snapshots on file servers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final

from harness.sim.service import Conn, ServiceHost

from .protocol import DRIFT, PORT, Message, line, lines, ns

MASTER_LEASE_S: Final = 1.0
"""The master's lease, and the silence of the master after which an election starts."""
BEAT_S: Final = 0.2
TICK_S: Final = 0.05
ELECTION_SPREAD_S: Final = 0.4
"""Greatest random delay of an election."""
FIRST_ELECTION_SPREAD_S: Final = 0.15
SILENCE_LIMIT_S: Final = 1.0
"""Silence after which a connection to another replica is replaced."""
REDIAL_S: Final = 0.1
Change = tuple[str, Any]
"""A row of the database and its new value, None to delete it."""


class ReplicaDisk:
    """A replica's durable state: it survives a kill.

    ``rows`` is the database as of change number ``seq`` of the master of ``epoch``. ``promised`` is the latest epoch in
    which the replica has voted or followed a master. ``voter`` is False after the loss of a disk.
    """

    def __init__(self, *, voter: bool) -> None:
        self.promised = 0
        self.epoch = 0
        self.seq = 0
        self.rows: dict[str, Any] = {}
        self.voter = voter
        self.restored_at = 0
        """Number of the change as of which a lost database was restored."""

    @property
    def version(self) -> tuple[int, int]:
        return (self.epoch, self.seq)

    def apply(self, seq: int, changes: list[Change]) -> None:
        """Apply change number ``seq``, which may consist of several rows."""
        self.seq = seq
        for key, value in changes:
            if value is None:
                self.rows.pop(key, None)
            else:
                self.rows[key] = value


class ReplicaLink:
    """The connection on which a replica sends requests to one other; redialled when it breaks or falls silent."""

    def __init__(self, replica: Replica, peer: str) -> None:
        self._replica = replica
        self.peer = peer
        self.conn: Conn | None = None
        self.up = False
        self._rest = b""
        self._last_heard = -ns(REDIAL_S)
        self.state_sent_in = 0
        """The epoch in which the whole database was sent on this connection, 0 for none."""
        self.acked = -1
        """The last change of this epoch that the peer, a voter, has acknowledged; -1 for none."""
        self.lease_answered = -1
        """When the last heartbeat was sent that the peer, a voter, has answered, in monotonic ns; -1 for none."""

    def maintain(self, now: int) -> None:
        """Close a silent connection, and dial if there is none."""
        if self.conn is not None and now - self._last_heard > ns(SILENCE_LIMIT_S):
            conn, self.conn = self.conn, None
            conn.close()
        if self.conn is None and now - self._last_heard > ns(REDIAL_S):
            self.up, self._rest, self._last_heard, self.state_sent_in, self.acked = False, b"", now, 0, -1
            self.conn = self._replica.host.dial(self.peer, PORT, self)

    def send(self, message: Message) -> None:
        if self.conn is not None and self.up:
            self.conn.send(line(message))

    def opened(self, conn: Conn) -> None:
        if conn is self.conn:
            self.up = True
            self._replica.on_link_up(self)

    def received(self, conn: Conn, data: bytes) -> None:
        if conn is self.conn:
            self._last_heard = self._replica.host.monotonic_ns()
            messages, self._rest = lines(self._rest, data)
            for message in messages:
                self._replica.on_reply(self, message)

    def closed(self, conn: Conn) -> None:
        if conn is self.conn:
            self.conn, self.up = None, False


class Replica:
    """One replica between a start and a kill. ``on_leading`` is called when it becomes (True) or ceases (False) to be
    the master. ``first``: the cell is new, so the replica need not wait for an earlier master's lease."""

    def __init__(
        self, host: ServiceHost, disk: ReplicaDisk, peers: list[str], on_leading: Callable[[bool], None], *, first: bool
    ) -> None:
        self.host = host
        self.disk = disk
        self._on_leading = on_leading
        self._links = [ReplicaLink(self, peer) for peer in peers]
        self._majority = (len(peers) + 1) // 2 + 1
        now = host.monotonic_ns()
        self.master: str | None = None
        """Host of the master that this replica knows, None if it knows none."""
        self._no_vote_until = now if first else now + ns(MASTER_LEASE_S * (1 + DRIFT))
        """Monotonic ns before which it does not vote, because a master's lease relies on that."""
        self._election_at = now + (
            self._random_delay(FIRST_ELECTION_SPREAD_S)
            if first
            else ns(MASTER_LEASE_S * (1 + DRIFT)) + self._random_delay()
        )
        self._votes: dict[str, set[str]] = {}
        self._candidate_epoch = 0
        """The epoch for which it is a candidate, 0 if it is none."""
        self._highest_promised = 0
        """The highest epoch that others have promised."""
        self._elected = False
        self.leading = False
        """True if it has become the master; :meth:`serves` also checks its lease."""
        self.committed = 0
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()
        self._beat_at = 0
        self._tick()

    def now(self) -> int:
        return self.host.monotonic_ns()

    def _random_delay(self, spread: float = ELECTION_SPREAD_S) -> int:
        return ns(self.host.rng.random() * spread)

    # Timers.

    def _tick(self) -> None:
        now = self.now()
        for link in self._links:
            link.maintain(now)
        if self._elected:
            self.serves()
            if self._elected and now >= self._beat_at:
                self._beat_at = now + ns(BEAT_S)
                self._broadcast({"k": "beat", "epoch": self.disk.epoch, "sent": now, "committed": self.committed})
        elif now >= self._election_at and self.disk.voter:
            self._election_at = now + ns(MASTER_LEASE_S / 2) + self._random_delay()
            self._request_votes("canvass", max(self.disk.promised, self._highest_promised) + 1)
        until_stands = self._election_at - now
        soon = 0 < until_stands < ns(TICK_S) and not self._elected
        self.host.call_later(until_stands if soon else ns(TICK_S), self._tick)

    def _broadcast(self, message: Message) -> None:
        for link in self._links:
            link.send(message)

    # Elections, as a candidate.

    def _request_votes(self, kind: str, epoch: int) -> None:
        self._candidate_epoch = epoch
        self._votes[kind] = {self.host.name}
        self._broadcast({"k": kind, "epoch": epoch, "version": list(self.disk.version)})
        self._tally(kind)

    def _on_vote(self, kind: str, link: ReplicaLink, message: Message) -> None:
        self._highest_promised = max(self._highest_promised, message["promised"])
        if message["epoch"] == self._candidate_epoch and not self._elected and message["yes"]:
            votes = self._votes[kind]
            if link.peer not in votes:
                votes.add(link.peer)
                self._tally(kind)

    def _tally(self, kind: str) -> None:
        if len(self._votes[kind]) != self._majority:
            return
        if kind == "canvass":
            self._request_votes("vote", self._candidate_epoch)
        elif self._candidate_epoch > self.disk.promised:  # else it has voted for another candidate meanwhile
            self._win(self._candidate_epoch)

    def _win(self, epoch: int) -> None:
        disk = self.disk
        disk.promised = disk.epoch = epoch
        disk.seq += 1
        self._elected, self.committed, self._candidate_epoch = True, 0, 0
        self._elected_at = self.now()
        self.host.log(f"elected in epoch {epoch}, at change {disk.seq}")
        for link in self._links:
            link.lease_answered = -1
            self.on_link_up(link)
        self._advance()

    # Elections and replication, as a voter and follower.

    def on_message(self, conn: Conn, message: Message) -> None:
        """Handle a request of another replica and answer it."""
        kind, epoch = message["k"], message["epoch"]
        if kind in ("canvass", "vote"):
            yes = self._would_vote(epoch, tuple(message["version"]))
            if yes and kind == "vote":
                self.disk.promised = epoch
                self._election_at = self.now() + ns(MASTER_LEASE_S) + self._random_delay()
            conn.send(line({"k": kind, "epoch": epoch, "yes": yes, "promised": self.disk.promised}))
        elif epoch < self.disk.promised:
            conn.send(line({"k": "refused", "epoch": self.disk.promised}))
        else:
            self._follow(conn.peer, epoch)
            conn.send(line(self._apply_message(kind, message)))

    def _would_vote(self, epoch: int, version: tuple[int, int]) -> bool:
        disk = self.disk
        self.serves()
        may_vote = self.now() >= self._no_vote_until and not self._elected
        return may_vote and disk.voter and epoch > disk.promised and version >= disk.version

    def _follow(self, master: str, epoch: int) -> None:
        if self._elected:  # in an older epoch, because there is one master per epoch
            self._step_down(f"{master} is the master of epoch {epoch}")
        self.disk.promised = epoch
        self.master = master
        now = self.now()
        self._no_vote_until = now + ns(MASTER_LEASE_S * (1 + DRIFT))
        self._election_at = self._no_vote_until + self._random_delay()

    def _apply_message(self, kind: str, message: Message) -> Message:
        disk, epoch = self.disk, message["epoch"]
        if kind == "beat":
            if disk.epoch == epoch and not disk.voter and message["committed"] >= disk.restored_at:
                disk.voter = True
                self.host.log("has its database again, and votes")
            return {"k": "beat", "epoch": epoch, "sent": message["sent"], "voter": disk.voter}
        late = disk.epoch == epoch and message["seq"] < disk.seq  # from a connection that was replaced
        if kind == "state" and not late:
            disk.epoch, disk.seq, disk.rows = epoch, message["seq"], message["rows"]
            disk.restored_at = message["seq"]
        elif kind == "entry" and disk.epoch == epoch and message["seq"] == disk.seq + 1:
            disk.apply(message["seq"], message["changes"])
        return {"k": "acked", "epoch": epoch, "seq": disk.seq if disk.epoch == epoch else -1, "voter": disk.voter}

    # As the master.

    def on_link_up(self, link: ReplicaLink) -> None:
        """Send the whole database on a new connection, if this replica is elected."""
        if self._elected and link.up and link.state_sent_in != self.disk.epoch:
            link.state_sent_in, link.acked = self.disk.epoch, -1
            disk = self.disk
            link.send({"k": "state", "epoch": disk.epoch, "seq": disk.seq, "rows": disk.rows})
            link.send({"k": "beat", "epoch": disk.epoch, "sent": self.now(), "committed": self.committed})

    def on_reply(self, link: ReplicaLink, message: Message) -> None:
        """Handle another replica's answer."""
        kind, epoch = message["k"], message["epoch"]
        if kind in ("canvass", "vote"):
            self._on_vote(kind, link, message)
        elif not self._elected:
            return
        elif kind == "refused":
            if epoch > self.disk.epoch:
                self.disk.promised = max(self.disk.promised, epoch)
                self._step_down(f"{link.peer} has voted in epoch {epoch}")
        elif epoch == self.disk.epoch and message["voter"]:
            if kind == "beat":
                link.lease_answered = max(link.lease_answered, message["sent"])
            else:
                link.acked = max(link.acked, message["seq"])
            self._advance()

    def _advance(self) -> None:
        self.committed = max(
            self.committed, self._majority_reached(self.disk.seq, [link.acked for link in self._links])
        )
        if not self.leading and self.committed and self._leased_until() > self.now():
            self.leading, self.master = True, self.host.name
            self.host.log(f"master of epoch {self.disk.epoch}")
            self._on_leading(True)
        while self._waiting and self._waiting[0][0] <= self.committed:
            self._waiting.popleft()[1]()

    def _majority_reached(self, own: int, others: list[int]) -> int:
        """Return the highest number that a majority of the replicas has reached."""
        return sorted([own, *others], reverse=True)[self._majority - 1]

    def _leased_until(self) -> int:
        """Return the monotonic ns before which a majority, including this replica, votes for no other."""
        sent = self._majority_reached(self.now(), [link.lease_answered for link in self._links])
        return 0 if sent < 0 else sent + ns(MASTER_LEASE_S)

    def serves(self) -> bool:
        """Return whether it is the master with a valid lease. The clock is checked here, because the process may have
        been paused since the last check."""
        if self._elected and self.now() >= max(self._leased_until(), self._elected_at + ns(MASTER_LEASE_S)):
            self._step_down("no majority answers")
        return self.leading

    def commit(self, changes: list[Change], then: Callable[[], None]) -> None:
        """Apply and replicate changes; call ``then`` when a majority has them, or never if mastership is lost first."""
        disk = self.disk
        disk.apply(disk.seq + 1, changes)
        message = {"k": "entry", "epoch": disk.epoch, "seq": disk.seq, "changes": changes}
        for link in self._links:
            if link.state_sent_in == disk.epoch:
                link.send(message)
        self._waiting.append((disk.seq, then))
        self._advance()

    def once_committed(self, then: Callable[[], None]) -> None:
        """Call ``then`` when all changes made so far are committed."""
        if self.disk.seq <= self.committed:
            then()
        else:
            self._waiting.append((self.disk.seq, then))

    def _step_down(self, why: str) -> None:
        was, self.leading, self._elected = self.leading, False, False
        self.master = None
        self._waiting.clear()
        self._election_at = self.now() + ns(MASTER_LEASE_S) + self._random_delay()
        self.host.log(f"no master any more: {why}")
        if was:
            self._on_leading(False)
