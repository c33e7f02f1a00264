"""The leader's part: sessions, proposals, the followers that acknowledge them, and commits (Zab's discovery,
synchronization and broadcast, in outline).

A leader is established once a majority follows it into a new epoch and has its history. A transaction is committed when
a majority has it in its log; commits go out, and are applied, in the order of zxids. Abstracted: the leader's own disk
takes no time, and followers that were away get either the transactions they lack or all znodes.
"""

from __future__ import annotations

from typing import Any, Final, Protocol

from ...service import Conn, ServiceHost, Timer
from .disk import Disk
from .jute import Code, Op, Reader
from .peers import send
from .prepare import Preparer
from .server import ZooKeeperServer
from .sessions import Sessions
from .tree import Txn

MS: Final = 1_000_000
Origin = tuple[int, int]
"""The server that has the client who asked, and the number it gave to the request."""


class Limits:
    """Of an ensemble, in ms; as tickTime, initLimit and syncLimit of the real server."""

    def __init__(self, tick_ms: int, init_limit: int, sync_limit: int) -> None:
        self.tick = tick_ms
        self.init = init_limit * tick_ms
        self.sync = sync_limit * tick_ms


class Member(Protocol):
    """What the leader's and the follower's part need of the server they are parts of."""

    host: ServiceHost
    server: ZooKeeperServer
    disk: Disk
    limits: Limits
    number: int
    size: int

    def look(self, why: str) -> None:
        """Give up this part, and look for a leader."""


class _Follower:
    """A server that has come to follow; ``acked`` is the last zxid known to be in its log, -1 while it has not caught
    up."""

    __slots__ = ("acked", "conn", "heard", "number", "sent")

    def __init__(self, conn: Conn, number: int, heard: int) -> None:
        self.conn = conn
        self.number = number
        self.heard = heard
        self.sent = False
        """Whether it was sent the history, and so gets all that follows."""
        self.acked = -1


class Leader:
    def __init__(self, member: Member) -> None:
        self._member = member
        self._disk = member.disk
        self._server = member.server
        self._host = member.host
        self._followers: dict[Conn, _Follower] = {}
        self._promises = {member.number: member.disk.accepted}
        self.epoch: int | None = None
        self.established = False
        self._began = self._now()
        self._zxid = 0
        self._inherited = self._disk.recency
        self._sessions = Sessions(member.limits.tick, 0, {})
        self._preparer = Preparer(self._server.tree)
        self._origins: dict[int, Origin] = {}
        self._syncs: list[tuple[int, Origin]] = []
        self._timer: Timer = self._host.call_later(member.limits.tick // 2 * MS, self._beat)
        self._sweeper: Timer | None = None
        self._over = False
        if member.size == 1:  # a standalone server has no epochs
            self._establish()

    def _now(self) -> int:
        return self._member.host.monotonic_ns() // MS

    def _majority(self, count: int) -> bool:
        return count > self._member.size // 2

    def abandon(self) -> None:
        """The host died in the middle of it."""
        self._over = True

    def end(self) -> None:
        self._over = True
        self._timer.cancel()
        if self._sweeper is not None:
            self._sweeper.cancel()
        for conn in list(self._followers):
            conn.close()

    # From a crowd to an epoch.

    def received(self, conn: Conn, message: list[Any]) -> None:
        kind, *rest = message
        if kind == "follow":
            self._followed(conn, *rest)
            return
        follower = self._followers.get(conn)
        if follower is None:
            return
        follower.heard = self._now()
        match kind:
            case "epoch":
                self._send_history(follower, *rest)
            case "ack":
                self._acked(follower, *rest)
            case "pong":
                for session, timeout in rest[0]:
                    self._sessions.touch(session, timeout, self._now())
            case "request":
                number, session, op, body = rest
                self.submit((follower.number, number), session, op, body)
            case "revalidate":
                number, session, timeout = rest
                send(conn, "revalidated", number, self.revalidate(follower.number, session, timeout))

    def closed(self, conn: Conn) -> None:
        self._followers.pop(conn, None)

    def _followed(self, conn: Conn, number: int, accepted: int) -> None:
        self._followers[conn] = _Follower(conn, number, self._now())
        if self.epoch is not None:
            send(conn, "lead", self.epoch)
            return
        self._promises[number] = accepted
        if self._majority(len(self._promises)):
            self.epoch = self._disk.accepted = max(self._promises.values()) + 1
            for other in self._followers:
                send(other, "lead", self.epoch)

    def _send_history(self, follower: _Follower, epoch: int, last: int, committed: int) -> None:
        if (epoch, last) > self._inherited and not self.established:
            self._member.look(f"server {follower.number} knows more")
            return
        txns = self._disk.since(committed)
        dump = None
        if txns is None:
            dump, txns = self._server.tree.dump(), list(self._disk.proposed)
        follower.sent = True
        send(follower.conn, "history", self.epoch, dump, txns)

    def _acked(self, follower: _Follower, zxid: int) -> None:
        first = follower.acked < 0
        follower.acked = zxid
        if self.established:
            if first:
                send(follower.conn, "uptodate", self._disk.committed)
            self._advance()
        elif self._majority(1 + sum(other.acked >= 0 for other in self._followers.values())):
            self._establish()

    def _establish(self) -> None:
        """A majority has all that this server has: it is committed, and the epoch begins."""
        disk, server = self._disk, self._server
        self.established = True
        if self.epoch is not None:
            disk.epoch = self.epoch
            self._zxid = self.epoch << 32
        else:
            self._zxid = disk.last
        while disk.proposed:
            server.committed(disk.commit(), None)
        self._sessions = Sessions(self._member.limits.tick, self._now(), server.tree.sessions)
        self._preparer = Preparer(server.tree)
        for follower in self._followers.values():
            if follower.acked >= 0:
                send(follower.conn, "uptodate", disk.committed)
        server.serve(True)
        self._sweep()

    # Requests.

    def submit(self, origin: Origin, session: int, op: int, body: bytes) -> None:
        if not self.established:
            return
        owner, now = origin[0], self._now()
        if op == Op.SYNC:
            self._sync(origin)
            return
        self._zxid += 1
        zxid, time = self._zxid, self._host.wall_ns() // MS
        if op == Op.CREATE_SESSION:
            timeout = Reader(body).integer()
            self._sessions.add(session, timeout, now)
            self._sessions.own(session, owner)
            txn = Txn(zxid, time, session, op, (timeout,))
        elif op == Op.CLOSE:
            self._sessions.close(session)
            txn = self._preparer.close_session(zxid, time, session)
        elif (code := self._sessions.check(session, owner)) != Code.OK:
            txn = Txn(zxid, time, session, Op.ERROR, (code,))
        else:
            txn = self._preparer.prepare(zxid, time, session, op, body)
        self._propose(txn, origin)

    def _propose(self, txn: Txn, origin: Origin | None) -> None:
        self._disk.proposed.append(txn)
        if origin is not None:
            self._origins[txn.zxid] = origin
        for follower in self._followers.values():
            if follower.sent:
                send(follower.conn, "propose", txn, origin)
        self._advance()

    def _advance(self) -> None:
        """Commit what a majority has."""
        disk, server = self._disk, self._server
        while disk.proposed and not self._over:
            zxid = disk.proposed[0].zxid
            if not self._majority(1 + sum(follower.acked >= zxid for follower in self._followers.values())):
                return
            for follower in self._followers.values():
                if follower.sent:
                    send(follower.conn, "commit", zxid)
            txn = disk.commit()
            owner, number = self._origins.pop(zxid, (0, 0))
            if txn.op == Op.CLOSE:
                self._sessions.remove(txn.session)
            server.committed(txn, number if owner == self._member.number else None)
            self._preparer.applied(zxid)
            while self._syncs and self._syncs[0][0] <= zxid and not self._over:
                self._synced(self._syncs.pop(0)[1])

    def _sync(self, origin: Origin) -> None:
        if self._disk.proposed:
            self._syncs.append((self._disk.proposed[-1].zxid, origin))
        else:
            self._synced(origin)

    def _synced(self, origin: Origin) -> None:
        owner, number = origin
        if owner == self._member.number:
            self._server.synced(number)
        for follower in self._followers.values():
            if follower.number == owner and follower.sent:
                send(follower.conn, "synced", number)

    # Sessions.

    def revalidate(self, owner: int, session: int, timeout: int) -> bool:
        """The session's client has come to this server."""
        alive = self._sessions.touch(session, timeout, self._now())
        if alive:
            self._sessions.own(session, owner)
        return alive

    def left(self, session: int) -> int | None:
        """ns until the session is over unless its client is heard of; None if there is none."""
        ends = self._sessions.ends(session)
        return None if ends is None else max(0, ends * MS - self._host.monotonic_ns())

    def touch(self, session: int, timeout: int) -> None:
        self._sessions.touch(session, timeout, self._now())

    # Every half tick.

    def _beat(self) -> None:
        limits, now = self._member.limits, self._now()
        self._timer = self._host.call_later(limits.tick // 2 * MS, self._beat)
        if not self.established:
            if now - self._began > limits.init:
                self._member.look("no majority followed")
            return
        for follower in list(self._followers.values()):
            if now - follower.heard > (limits.sync if follower.acked >= 0 else limits.init):
                follower.conn.close()
                self.closed(follower.conn)
        if not self._majority(1 + sum(follower.acked >= 0 for follower in self._followers.values())):
            self._member.look("no majority is left")
            return
        for conn in self._followers:
            send(conn, "ping")

    def _sweep(self) -> None:
        """At every whole tick: end the sessions whose time is over."""
        tick, now = self._member.limits.tick, self._now()
        self._sweeper = self._host.call_later((tick - now % tick) * MS, self._sweep)
        for session in self._sessions.expired(now):
            if self._over:
                return
            self._host.log(f"session 0x{session:x} expired")
            self._zxid += 1
            self._propose(self._preparer.close_session(self._zxid, self._host.wall_ns() // MS, session), None)
