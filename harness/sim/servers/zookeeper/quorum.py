"""One server's place in a ZooKeeper ensemble: it looks for a leader, leads, or follows.

Election is abstracted: servers that look tell each other how recent their log is, and once those a server hears of are
a majority and nothing has changed for 200 ms (FastLeaderElection's finalizeWait), the one with the most recent log, and
of equal ones the highest number, leads. The real one passes votes on and counts them; what is kept is that nobody leads
without a majority, that a new leader has all that was committed, and how long it takes. A follower promises each epoch
to one leader only, so a leader of the past cannot commit anything.
"""

from __future__ import annotations

from typing import Any, Final

from ...service import Conn, ServiceHost, Timer
from .disk import Disk
from .follower import Follower
from .leader import MS, Leader, Limits
from .peers import PEER_PORT, Inbox, send
from .server import ZooKeeperServer

LOOKING, FOLLOWING, LEADING = "looking", "following", "leading"
FINALIZE_MS: Final = 200
POLL_MS: Final = 50
REDIAL_MS: Final = 500
FRESH_MS: Final = 300


class _Vote:
    """What another server last said of itself, and when."""

    def __init__(self, at: int, role: str, log: tuple[int, int, int], leader: int) -> None:
        self.at = at
        self.role = role
        self.log = log
        self.leader = leader


class _Ballot:
    """The search for a leader; a handler of the connections to the others."""

    def __init__(self, quorum: Quorum, wait_ms: int) -> None:
        self._quorum = quorum
        self._host = quorum.host
        self._heard: dict[int, _Vote] = {}
        self._links: dict[int, tuple[Conn, int]] = {}
        self._best: tuple[tuple[int, int, int], ...] = ()
        self._since = 0
        self._timer: Timer = self._host.call_later(wait_ms * MS, self._poll)

    def _now(self) -> int:
        return self._host.monotonic_ns() // MS

    def end(self) -> None:
        self._timer.cancel()
        for conn, _ in self._links.values():
            conn.close()

    def _poll(self) -> None:
        self._timer = self._host.call_later(POLL_MS * MS, self._poll)
        now = self._now()
        for number, host in self._quorum.others.items():
            conn, since = self._links.get(number, (None, 0))
            vote = self._heard.get(number)
            if conn is None or now - max(since, vote.at if vote else 0) > REDIAL_MS:
                if conn is not None:
                    conn.close()
                conn = self._host.dial(host, PEER_PORT, self)
                conn.session = Inbox()
                self._links[number] = (conn, now)
            else:
                send(conn, *self._quorum.vote())
        self._decide()

    def opened(self, conn: Conn) -> None:
        send(conn, *self._quorum.vote())

    def closed(self, conn: Conn) -> None:
        """Dial again when :data:`REDIAL_MS` are over."""

    def received(self, conn: Conn, data: bytes) -> None:
        for message in conn.session.take(data):
            self.heard(message)

    def heard(self, message: list[Any]) -> None:
        _, number, role, epoch, last, leader = message
        self._heard[number] = _Vote(self._now(), role, (epoch, last, number), leader)
        if self._quorum.ballot is self:
            self._decide()

    def _decide(self) -> None:
        quorum, now = self._quorum, self._now()
        fresh = {number: vote for number, vote in self._heard.items() if now - vote.at <= FRESH_MS}
        for number, vote in fresh.items():
            if vote.role == LEADING:
                quorum.follow(number)
                return
        logs = [vote.log for vote in fresh.values() if vote.role == LOOKING]
        logs.append((*quorum.disk.recency, quorum.number))
        best = tuple(sorted(logs))
        if best != self._best:
            self._best, self._since = best, now
        if len(logs) > quorum.size // 2 and now - self._since >= FINALIZE_MS:
            chosen = best[-1][2]
            if chosen == quorum.number:
                quorum.lead()
            else:
                quorum.follow(chosen)


class Quorum:
    """A service (:class:`harness.sim.service.Service`) for the other servers. ``others`` are their hosts by number."""

    port = PEER_PORT

    def __init__(self, server: ZooKeeperServer, others: dict[int, str], limits: Limits) -> None:
        self.server = server
        self.number = server.number
        self.others = others
        self.size = 1 + len(others)
        self.limits = limits
        self.disk = Disk()
        self.host: ServiceHost
        self.part: Leader | Follower | None = None
        self.ballot: _Ballot | None = None
        self._looked = -FINALIZE_MS
        server.ensemble = self

    def start(self, host: ServiceHost, *, wiped: bool) -> None:
        self.host = host
        if wiped:
            self.disk = Disk()
        if self.others:
            self.look("started")
        else:
            self.part = Leader(self)

    def stop(self) -> None:
        if self.part is not None:
            self.part.abandon()
        self.part = self.ballot = None

    @property
    def leading(self) -> bool:
        return isinstance(self.part, Leader) and self.part.established

    def left(self, session: int) -> int | None:
        """ns that a session has left, for observers; None where nobody counts: only who leads does."""
        return self.part.left(session) if isinstance(self.part, Leader) and self.part.established else None

    # What part to play.

    def look(self, why: str) -> None:
        self.host.log(f"LOOKING: {why}")
        self._leave()
        self.server.serve(False)
        now = self.host.monotonic_ns() // MS
        again = now - self._looked < FINALIZE_MS  # whom it found it could not follow
        self._looked = now
        self.ballot = _Ballot(self, FINALIZE_MS if again else 0)

    def lead(self) -> None:
        self.host.log("LEADING")
        self._leave()
        self.part = Leader(self)

    def follow(self, number: int) -> None:
        self.host.log(f"FOLLOWING server {number}")
        self._leave()
        self.part = Follower(self, number, self.others[number])

    def _leave(self) -> None:
        for part in (self.part, self.ballot):
            if part is not None:
                part.end()
        self.part = self.ballot = None

    def vote(self) -> tuple[Any, ...]:
        match self.part:
            case Leader():
                role, leader = LEADING, self.number
            case Follower(leader=leader):
                role = FOLLOWING
            case _:
                role, leader = LOOKING, 0
        return "vote", self.number, role, *self.disk.recency, leader

    # The others come here.

    def opened(self, conn: Conn) -> None:
        conn.session = Inbox()

    def received(self, conn: Conn, data: bytes) -> None:
        for message in conn.session.take(data):
            if message[0] == "vote":
                if self.ballot is not None:
                    self.ballot.heard(message)
                send(conn, *self.vote())
            elif isinstance(self.part, Leader):
                self.part.received(conn, message)
            else:
                conn.close()
                return

    def closed(self, conn: Conn) -> None:
        if isinstance(self.part, Leader):
            self.part.closed(conn)

    # For the server's own clients (:class:`harness.sim.servers.zookeeper.server.Ensemble`).

    def submit(self, number: int, session: int, op: int, body: bytes) -> None:
        match self.part:
            case Leader():
                self.part.submit((self.number, number), session, op, body)
            case Follower():
                self.part.submit(number, session, op, body)

    def revalidate(self, number: int, session: int, timeout: int) -> None:
        match self.part:
            case Leader():
                self.server.revalidated(number, self.part.revalidate(self.number, session, timeout))
            case Follower():
                self.part.revalidate(number, session, timeout)

    def touch(self, session: int, timeout: int) -> None:
        if self.part is not None:
            self.part.touch(session, timeout)
