"""The role of one server in a simulated ZooKeeper ensemble: looking for a leader, leading or following.

The election is simplified. Servers without a leader tell each other how recent their logs are. Once a server has heard
from a majority and nothing has changed for 200 ms (FastLeaderElection's finalizeWait), the server with the most recent
log leads; of equal logs, the one with the highest number. Real servers relay and count votes instead. Kept are the
guarantees and the duration: no leader without a majority, and a new leader has everything that was committed. A
follower promises each epoch to one leader only, so a deposed leader cannot commit anything.
"""

from __future__ import annotations

from typing import Any, Final

from harness.sim.service import Conn, ServiceHost, Timer

from .disk import ZooKeeperDisk
from .follower import Follower
from .leader import MS, EnsembleLimits, Leader
from .peers import PEER_PORT, FrameDecoder, send
from .server import ZooKeeperServer

LOOKING, FOLLOWING, LEADING = "looking", "following", "leading"
FINALIZE_WAIT_MS: Final = 200
POLL_MS: Final = 50
REDIAL_MS: Final = 500
VOTE_VALID_MS: Final = 300


class _Vote:
    """The last message of another server about itself; ``at`` is when it arrived, in ms."""

    def __init__(self, at: int, role: str, log: tuple[int, int, int], leader: int) -> None:
        self.at = at
        self.role = role
        self.log = log
        self.leader = leader


class _Election:
    """One search for a leader; the handler of the connections that it opens to the other servers."""

    def __init__(self, quorum: QuorumPeer, wait_ms: int) -> None:
        self._quorum = quorum
        self._host = quorum.host
        self._votes: dict[int, _Vote] = {}
        self._conns: dict[int, tuple[Conn, int]] = {}
        self._last_logs: tuple[tuple[int, int, int], ...] = ()
        self._unchanged_since = 0
        self._timer: Timer = self._host.call_later(wait_ms * MS, self._poll)

    def _now(self) -> int:
        return self._host.monotonic_ns() // MS

    def end(self) -> None:
        self._timer.cancel()
        for conn, _ in self._conns.values():
            conn.close()

    def _poll(self) -> None:
        self._timer = self._host.call_later(POLL_MS * MS, self._poll)
        now = self._now()
        for number, host in self._quorum.others.items():
            conn, since = self._conns.get(number, (None, 0))
            vote = self._votes.get(number)
            if conn is None or now - max(since, vote.at if vote else 0) > REDIAL_MS:
                if conn is not None:
                    conn.close()
                conn = self._host.dial(host, PEER_PORT, self)
                conn.session = FrameDecoder()
                self._conns[number] = (conn, now)
            else:
                send(conn, *self._quorum.vote())
        self._decide()

    def opened(self, conn: Conn) -> None:
        send(conn, *self._quorum.vote())

    def closed(self, conn: Conn) -> None:
        """Do nothing: :meth:`_poll` dials again after :data:`REDIAL_MS`."""

    def received(self, conn: Conn, data: bytes) -> None:
        for message in conn.session.feed(data):
            self.on_vote(message)

    def on_vote(self, message: list[Any]) -> None:
        """Record another server's vote, and choose a leader if that decides the election."""
        _, number, role, epoch, last, leader = message
        self._votes[number] = _Vote(self._now(), role, (epoch, last, number), leader)
        if self._quorum.election is self:
            self._decide()

    def _decide(self) -> None:
        quorum, now = self._quorum, self._now()
        fresh = {number: vote for number, vote in self._votes.items() if now - vote.at <= VOTE_VALID_MS}
        for number, vote in fresh.items():
            if vote.role == LEADING:
                quorum.follow(number)
                return
        logs = [vote.log for vote in fresh.values() if vote.role == LOOKING]
        logs.append((*quorum.disk.recency, quorum.number))
        best = tuple(sorted(logs))
        if best != self._last_logs:
            self._last_logs, self._unchanged_since = best, now
        if len(logs) > quorum.size // 2 and now - self._unchanged_since >= FINALIZE_WAIT_MS:
            chosen = best[-1][2]
            if chosen == quorum.number:
                quorum.lead()
            else:
                quorum.follow(chosen)


class QuorumPeer:
    """One server's membership in the ensemble, and the :class:`harness.sim.service.Service` for the other servers.

    ``others`` are the hosts of the other servers, by number. Without others this is a standalone server.
    """

    port = PEER_PORT

    def __init__(self, server: ZooKeeperServer, others: dict[int, str], limits: EnsembleLimits) -> None:
        self.server = server
        self.number = server.number
        self.others = others
        self.size = 1 + len(others)
        self.limits = limits
        self.disk = ZooKeeperDisk()
        self.host: ServiceHost
        self.role: Leader | Follower | None = None
        self.election: _Election | None = None
        self._election_started = -FINALIZE_WAIT_MS
        server.ensemble = self

    def start(self, host: ServiceHost, *, wiped: bool) -> None:
        self.host = host
        if wiped:
            self.disk = ZooKeeperDisk()
        if self.others:
            self.look_for_leader("started")
        else:
            self.role = Leader(self)

    def stop(self) -> None:
        if self.role is not None:
            self.role.abandon()
        self.role = self.election = None

    @property
    def leading(self) -> bool:
        return isinstance(self.role, Leader) and self.role.established

    @property
    def mode(self) -> str:
        """Role as the four-letter word ``srvr`` names it."""
        if not self.others:
            return "standalone"
        return "leader" if self.leading else "follower"

    def remaining_ns(self, session: int) -> int | None:
        """Return the ns until a session expires, for observers; None unless this server is the established leader."""
        return self.role.remaining_ns(session) if isinstance(self.role, Leader) and self.role.established else None

    # Roles.

    def look_for_leader(self, why: str) -> None:
        """Leave the present role and start an election; ``why`` goes to the server's log."""
        self.host.log(f"LOOKING: {why}")
        self._leave_role()
        self.server.set_serving(False)
        now = self.host.monotonic_ns() // MS
        again = now - self._election_started < FINALIZE_WAIT_MS  # the chosen leader could not be followed
        self._election_started = now
        self.election = _Election(self, FINALIZE_WAIT_MS if again else 0)

    def lead(self) -> None:
        self.host.log("LEADING")
        self._leave_role()
        self.role = Leader(self)

    def follow(self, number: int) -> None:
        self.host.log(f"FOLLOWING server {number}")
        self._leave_role()
        self.role = Follower(self, number, self.others[number])

    def _leave_role(self) -> None:
        for role in (self.role, self.election):
            if role is not None:
                role.end()
        self.role = self.election = None

    def vote(self) -> tuple[Any, ...]:
        """Return the message with this server's role, the recency of its log and its leader."""
        match self.role:
            case Leader():
                role, leader = LEADING, self.number
            case Follower(leader=leader):
                role = FOLLOWING
            case _:
                role, leader = LOOKING, 0
        return "vote", self.number, role, *self.disk.recency, leader

    # Connections from the other servers.

    def opened(self, conn: Conn) -> None:
        conn.session = FrameDecoder()

    def received(self, conn: Conn, data: bytes) -> None:
        for message in conn.session.feed(data):
            if message[0] == "vote":
                if self.election is not None:
                    self.election.on_vote(message)
                send(conn, *self.vote())
            elif isinstance(self.role, Leader):
                self.role.received(conn, message)
            else:
                conn.close()
                return

    def closed(self, conn: Conn) -> None:
        if isinstance(self.role, Leader):
            self.role.closed(conn)

    # Requests of this server's clients (:class:`harness.sim.servers.zookeeper.server.Ensemble`).

    def submit(self, number: int, session: int, op: int, body: bytes) -> None:
        match self.role:
            case Leader():
                self.role.submit((self.number, number), session, op, body)
            case Follower():
                self.role.submit(number, session, op, body)

    def revalidate(self, number: int, session: int, timeout: int) -> None:
        match self.role:
            case Leader():
                self.server.revalidated(number, self.role.revalidate(self.number, session, timeout))
            case Follower():
                self.role.revalidate(number, session, timeout)

    def touch(self, session: int, timeout: int) -> None:
        if self.role is not None:
            self.role.touch(session, timeout)
