"""The simulated ZooKeeper as the specification of a recorded server or ensemble.

All members of an ensemble apply the same transactions in the same order, so one simulated server stands for them: it
answers a request of any member at the place of the reply's zxid. It never ends a session by itself. A search lets it
expire one, once the session's client may not have been heard from for its time-out.
"""

from __future__ import annotations

import pickle
from collections.abc import Hashable, Iterator, Sequence
from typing import Any, Final

from harness.fidelity.simulated import SteppedConnection, SteppedHost
from harness.protocols.messages import Reply, Request
from harness.protocols.zookeeper import (
    CONNECT,
    WRITES,
    ZooKeeperParser,
    code_of,
    greeting,
    is_event,
    op_of,
    path_of,
    session_of,
    shown_request,
    without_order,
    xid_of,
    zxid_of,
)
from harness.sim.servers.zookeeper import jute
from harness.sim.servers.zookeeper.leader import MS, EnsembleLimits, Leader
from harness.sim.servers.zookeeper.quorum import QuorumPeer
from harness.sim.servers.zookeeper.server import CLIENT_PORT, ClientConnection, ZooKeeperServer
from harness.sim.servers.zookeeper.tree import CONFIG
from harness.sim.service import Conn, ServiceHost

from .clock import ServerClock
from .conversation import Conversation, Life
from .log_order import LAST, number_at
from .service import Service
from .specification import Moment, SteppedSpecification
from .zookeeper_limit import limit
from .zookeeper_order import Zxids, put_in_order
from .zookeeper_replies import answered

TICK_MS: Final = 500
"""tickTime of the servers in containers, unless a plan says another."""
_LIMITS: Final = (10, 4)
_UNKNOWN_SESSION: Final = 0x7F << 56
"""From here on are the ids of sessions whose client got no answer."""
_PASSWORD: Final = 32
"""Place of the password in the frame of a connect request."""
_SESSION_END: Final = 20
"""End of the session's id in the frame of the answer to it, which is followed by the password."""
NEW_EPOCH: Final = -1
"""What may happen without a request, beside the expiry of a session, which is named by its id."""


class _Member(SteppedConnection):
    """A connection to one of the members for which the simulated server stands."""

    def __init__(self, host: SteppedHost, peer: str, member: str) -> None:
        self.member = member
        super().__init__(host, peer)


class _Server(ZooKeeperServer):
    """Stands for all members: a session that moves to another member keeps its connection to the old one."""

    def taken_over(self, client: ClientConnection, session: int) -> list[ClientConnection]:
        return [other for other in super().taken_over(client, session) if _member(other) == _member(client)]


def _member(client: ClientConnection) -> str:
    assert isinstance(client.conn, _Member)
    return client.conn.member


class _Standalone:
    """The :class:`~harness.sim.service.Service` of the one simulated server."""

    port = CLIENT_PORT

    def __init__(self, tick_ms: int) -> None:
        self.server = _Server(1, tick_ms)
        self.quorum = QuorumPeer(self.server, {}, EnsembleLimits(tick_ms, *_LIMITS))

    @property
    def leader(self) -> Leader:
        assert isinstance(self.quorum.role, Leader)
        return self.quorum.role

    def start(self, host: ServiceHost, *, wiped: bool) -> None:
        self.server.start(host, wiped=wiped)
        self.quorum.start(host, wiped=wiped)

    def stop(self) -> None:
        self.quorum.stop()
        self.server.stop()

    def opened(self, conn: Conn) -> None:
        self.server.opened(conn)

    def received(self, conn: Conn, data: bytes) -> None:
        self.server.received(conn, data)

    def closed(self, conn: Conn) -> None:
        self.server.closed(conn)


class ZooKeeperSpecification(SteppedSpecification[_Member]):
    """How a search drives the simulated ZooKeeper, for lives that it puts into the order of zxids.

    ``clocks`` are those of all members.
    """

    def __init__(self, found: Sequence[Life], clocks: Sequence[ServerClock], tick_ms: int) -> None:
        super().__init__()
        self._clocks = clocks
        self._members = sorted({talk.host for life in found for talk in life.conversations})
        self._sessions = dict(_passwords(found))
        self._zxids: dict[int, Zxids] = {}
        """By the start of a life."""
        for lives in _generations(found):
            self._zxids |= dict.fromkeys([life.began_ns for life in lives], Zxids(lives))
        for life in found:
            put_in_order(life)
        self._now: Zxids = Zxids([])
        self._service = _Standalone(tick_ms)
        self._heard_ns: dict[int, int] = {}
        """Time at which the client of a session was heard from last, at the earliest."""
        self._ordered = len(self._members) == 1
        """Whether children are listed in the order of the simulated server."""

    # Driving the server.

    def start(self, life: Life, chosen: int) -> None:  # noqa: ARG002
        self._heard_ns.clear()
        self._now = self._zxids[life.began_ns]
        if self._host is not None:
            self._host.now = life.began_ns
            self._ordered &= life.how != "kept"
        self._start_host(self._service, life)

    def execute(self, talk: Conversation, request: Request, chosen: int, moment: Moment) -> None:  # noqa: ARG002
        host, server = self._running(), self._service.server
        host.wall = chosen
        self._service.quorum.number = 1 + self._members.index(talk.host)
        connection = self._talks.get(talk.number)
        if connection is None or (request.words == (CONNECT,) and request.replied_ns is None):
            connection = self._talks[talk.number] = _Member(host, talk.peer, talk.host)
        client: ClientConnection = connection.session
        data = request.data
        if request.words == (CONNECT,):
            asked, known = greeting(request), session_of(talk.replies[0].data) if talk.replies else None
            server.next_session = known.session - 1 if known else max(_UNKNOWN_SESSION, *server.tree.sessions)
            session = asked.session
            if session and self._sessions.get(session) == asked.password:
                data = data[:_PASSWORD] + server.password(session) + data[_PASSWORD + len(asked.password) :]
        else:
            session = client.session
        host.now = self._heard_ns[session] = max(self._heard_ns.get(session, 0), request.arrived_ns)
        if client.open:
            connection.ask(data)
        elif request.words != (CONNECT,):  # it was in the server's queues when the connection was closed
            self._service.quorum.submit(0, client.session, op_of(request), data[12:])

    def passing(self, before_ns: int) -> Sequence[int]:
        """Return the sessions that may expire, and :data:`NEW_EPOCH` if a new leader may begin its epoch."""
        if self._host is None:
            return ()
        zxid = self._service.server.tree.zxid
        self._host.now = self._now.latest_ns(zxid + 1)
        leader = self._service.leader
        found: list[int] = []
        if zxid + 1 not in self._now.claimed:
            sessions = self._service.server.tree.sessions
            nameless = [one for one in sessions if one > _UNKNOWN_SESSION]
            # Of those with one time-out, the first one explains all that another one explains.
            first = {timeout: one for one in reversed(nameless) for timeout in [sessions[one]]}
            found += [one for one in sessions if one not in nameless or one in first.values()]
            found = [one for one in found if leader.remaining_ns(one) == 0]
        following = next((epoch for epoch in self._now.epochs if epoch > zxid >> 32), None)
        if following is not None and (before_ns == LAST or number_at(before_ns) >> 32 >= following):
            found.append(NEW_EPOCH)
        return found

    def let_pass(self, chosen: int) -> None:
        tree, leader = self._service.server.tree, self._service.leader
        if chosen == NEW_EPOCH:
            epoch = next(epoch for epoch in self._now.epochs if epoch > tree.zxid >> 32)
            leader.begin_epoch(epoch)
            tree.zxid = epoch << 32  # what a real leader replies before its first transaction
        else:
            leader.expire(chosen)

    def sent(self) -> list[tuple[int, bytes]]:
        found = []
        for number, connection in self._talks.items():
            if connection.sent:
                found += [(number, jute.frame(body)) for body in jute.frames(connection.take())[0]]
        return found

    def choices(self, request: Request, reply: Reply | None, moment: Moment) -> Sequence[int]:
        """Return the reading of the leader's clock: what replies tell of the transaction, if it is possible. There is
        none if the next transaction is another request's."""
        del reply, moment
        zxid = self._service.server.tree.zxid + 1
        claims = request.replied_ns is not None and request.words != (CONNECT,)
        if zxid in self._now.claimed and not claims and _has_transaction(request):
            return ()
        last_ns = self._now.latest_ns(zxid)
        told = self._now.times_ms.get(zxid)
        if told is None or last_ns <= request.arrived_ns or not _has_transaction(request):
            return [MS]
        for clock in self._clocks:
            first, last = clock.interval(request.arrived_ns, last_ns)
            if first // MS - 1 <= told <= last // MS + 1:
                return [told * MS]
        return [MS]

    # Comparing.

    def same(self, request: Request, real: bytes, simulated: bytes) -> bool:
        if request.words == (CONNECT,):
            return real[:_SESSION_END] == simulated[:_SESSION_END]
        if is_event(real) or is_event(simulated):
            return False
        if path_of(request) == CONFIG:
            return code_of(real) == code_of(simulated)
        return not self._ordered and without_order(request, real) == without_order(request, simulated)

    def shown_request(self, request: Request) -> str:
        return shown_request(request)

    def shown_reply(self, data: bytes) -> str:
        if is_event(data):
            return f"event {data[20:]!r}"
        return f"xid {xid_of(data)}, zxid {zxid_of(data):#x}, code {code_of(data)}, {data[20:400]!r}"

    def digest(self) -> Hashable:
        tree = self._service.server.tree
        nodes = [(path, node.stat(), node.data) for path, node in tree.nodes.items()]
        served = tuple(number for number, connection in self._talks.items() if connection.session.open)
        return tree.zxid, frozenset(nodes), frozenset(tree.sessions.items()), served

    # Copies.

    def checkpoint(self) -> Any:
        return pickle.dumps((self._service, self._host, self._talks, self._heard_ns, self._ordered)), self._now

    def restore(self, state: Any) -> None:
        pickled, self._now = state
        self._service, self._host, self._talks, self._heard_ns, self._ordered = pickle.loads(pickled)


def _has_transaction(request: Request) -> bool:
    """Return whether a request has a zxid of its own."""
    if request.words == (CONNECT,):
        return not greeting(request).session
    return op_of(request) in WRITES


def _passwords(found: Sequence[Life]) -> Iterator[tuple[int, bytes]]:
    """Yield the sessions that real servers opened, with their passwords."""
    for talk in (talk for life in found for talk in life.conversations):
        for request, reply in answered(talk):
            if request.words == (CONNECT,):
                yield session_of(reply.data)


def _generations(found: Sequence[Life]) -> list[list[Life]]:
    """Return the lives, those with the same data together."""
    generations: list[list[Life]] = []
    for life in found:
        if life.how != "kept" or not generations:
            generations.append([])
        generations[-1].append(life)
    return generations


SERVICE: Final = Service(
    ZooKeeperParser,
    lambda found, clocks, options: ZooKeeperSpecification(found, clocks, int(options.get("tick_ms", TICK_MS))),
    limit,
    replicated=True,
)
