"""The leader role of a simulated ZooKeeper server: proposals, acknowledgements, commits and session expiry.

Implements Zab's discovery, synchronization and broadcast in outline. A leader is established once a majority has
accepted its epoch and has its history. A transaction is committed when a majority has it in its log; commits are sent
and applied in the order of zxids. Abstracted: the leader's disk takes no time, and a follower that was away gets either
the transactions that it lacks or all znodes.
"""

from __future__ import annotations

from typing import Any, Final, Protocol

from harness.sim.service import Conn, ServiceHost, Timer

from .disk import ZooKeeperDisk
from .jute import Code, JuteReader, OpCode
from .peers import send
from .prepare import Preparer
from .server import ZooKeeperServer
from .sessions import SessionTracker
from .tree import Txn

MS: Final = 1_000_000
Origin = tuple[int, int]
"""(number of the server that the client is connected to, that server's number for the request)."""


class EnsembleLimits:
    """Time limits of an ensemble in ms: tickTime, and initLimit and syncLimit, which are given in ticks."""

    def __init__(self, tick_ms: int, init_limit: int, sync_limit: int) -> None:
        self.tick = tick_ms
        self.init = init_limit * tick_ms
        self.sync = sync_limit * tick_ms


class EnsembleMember(Protocol):
    """The server that a leader or follower role belongs to."""

    host: ServiceHost
    server: ZooKeeperServer
    disk: ZooKeeperDisk
    limits: EnsembleLimits
    number: int
    size: int

    def look_for_leader(self, why: str) -> None:
        """Leave the present role and start an election; ``why`` goes to the server's log."""


class _FollowerState:
    """A server that follows this leader. ``acked`` is the last zxid known to be in its log, -1 until it has caught
    up."""

    __slots__ = ("acked", "conn", "last_heard", "number", "sent")

    def __init__(self, conn: Conn, number: int, last_heard: int) -> None:
        self.conn = conn
        self.number = number
        self.last_heard = last_heard
        self.sent = False
        """True if the history was sent, so that proposals and commits are sent from then on."""
        self.acked = -1


class Leader:
    """A server's leadership, from the wait for followers until it gives up."""

    def __init__(self, member: EnsembleMember) -> None:
        self._member = member
        self._disk = member.disk
        self._server = member.server
        self._host = member.host
        self._followers: dict[Conn, _FollowerState] = {}
        self._promises = {member.number: member.disk.accepted_epoch}
        self.epoch: int | None = None
        self.established = False
        self._started_at = self._now()
        self._zxid = 0
        self._initial_recency = self._disk.recency
        self._sessions = SessionTracker(member.limits.tick, 0, {})
        self._preparer = Preparer(self._server.tree)
        self._origins: dict[int, Origin] = {}
        self._syncs: list[tuple[int, Origin]] = []
        self._timer: Timer = self._host.call_later(member.limits.tick // 2 * MS, self._every_half_tick)
        self._expiry_timer: Timer | None = None
        self._ended = False
        if member.size == 1:  # a standalone server has no epochs
            self._establish()

    def _now(self) -> int:
        return self._member.host.monotonic_ns() // MS

    def _is_majority(self, count: int) -> bool:
        return count > self._member.size // 2

    def abandon(self) -> None:
        """Stop without cleaning up, because the host was killed."""
        self._ended = True

    def end(self) -> None:
        """Leave the role and close the connections to the followers."""
        self._ended = True
        self._timer.cancel()
        if self._expiry_timer is not None:
            self._expiry_timer.cancel()
        for conn in list(self._followers):
            conn.close()

    # Discovery and synchronization.

    def received(self, conn: Conn, message: list[Any]) -> None:
        """Handle a message from a follower."""
        kind, *rest = message
        if kind == "follow":
            self._on_follow(conn, *rest)
            return
        follower = self._followers.get(conn)
        if follower is None:
            return
        follower.last_heard = self._now()
        match kind:
            case "epoch":
                self._send_history(follower, *rest)
            case "ack":
                self._on_ack(follower, *rest)
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

    def _on_follow(self, conn: Conn, number: int, accepted: int) -> None:
        self._followers[conn] = _FollowerState(conn, number, self._now())
        if self.epoch is not None:
            send(conn, "lead", self.epoch)
            return
        self._promises[number] = accepted
        if self._is_majority(len(self._promises)):
            self.epoch = self._disk.accepted_epoch = max(self._promises.values()) + 1
            for other in self._followers:
                send(other, "lead", self.epoch)

    def _send_history(self, follower: _FollowerState, epoch: int, last: int, committed: int) -> None:
        if (epoch, last) > self._initial_recency and not self.established:
            self._member.look_for_leader(f"server {follower.number} knows more")
            return
        txns = self._disk.txns_after(committed)
        dump = None
        if txns is None:
            dump, txns = self._server.tree.dump(), list(self._disk.proposed)
        follower.sent = True
        send(follower.conn, "history", self.epoch, dump, txns)

    def _on_ack(self, follower: _FollowerState, zxid: int) -> None:
        first = follower.acked < 0
        follower.acked = zxid
        if self.established:
            if first:
                send(follower.conn, "uptodate", self._disk.committed)
            self._advance()
        elif self._is_majority(1 + sum(other.acked >= 0 for other in self._followers.values())):
            self._establish()

    def _establish(self) -> None:
        """Commit this server's history, because a majority has it, and begin to serve in the new epoch."""
        disk, server = self._disk, self._server
        self.established = True
        if self.epoch is not None:
            self.begin_epoch(self.epoch)
        else:
            self._zxid = disk.last_zxid
        while disk.proposed:
            server.committed(disk.commit(), None)
        self._sessions = SessionTracker(self._member.limits.tick, self._now(), server.tree.sessions)
        self._preparer = Preparer(server.tree)
        for follower in self._followers.values():
            if follower.acked >= 0:
                send(follower.conn, "uptodate", disk.committed)
        server.set_serving(True)
        self._expire_sessions()

    def begin_epoch(self, epoch: int) -> None:
        """Give the transactions from now on the zxids of this epoch."""
        self._disk.epoch = epoch
        self._zxid = epoch << 32

    # Requests.

    def submit(self, origin: Origin, session: int, op: int, body: bytes) -> None:
        """Turn a client's request into a transaction and propose it; drop it if the leader is not established."""
        if not self.established:
            return
        owner, now = origin[0], self._now()
        if op == OpCode.SYNC:
            self._sync(origin)
            return
        self._zxid += 1
        zxid, time = self._zxid, self._host.wall_ns() // MS
        if op == OpCode.CREATE_SESSION:
            timeout = JuteReader(body).integer()
            self._sessions.add(session, timeout, now)
            self._sessions.set_owner(session, owner)
            txn = Txn(zxid, time, session, op, (timeout,))
        elif op == OpCode.CLOSE:
            self._sessions.close(session)
            txn = self._preparer.close_session(zxid, time, session)
        elif (code := self._sessions.check_write(session, owner)) != Code.OK:
            txn = Txn(zxid, time, session, OpCode.ERROR, (code,))
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
        """Commit the proposals that a majority has."""
        disk, server = self._disk, self._server
        while disk.proposed and not self._ended:
            zxid = disk.proposed[0].zxid
            if not self._is_majority(1 + sum(follower.acked >= zxid for follower in self._followers.values())):
                return
            for follower in self._followers.values():
                if follower.sent:
                    send(follower.conn, "commit", zxid)
            txn = disk.commit()
            owner, number = self._origins.pop(zxid, (0, 0))
            if txn.op == OpCode.CLOSE:
                self._sessions.remove(txn.session)
            server.committed(txn, number if owner == self._member.number else None)
            self._preparer.applied(zxid)
            while self._syncs and self._syncs[0][0] <= zxid and not self._ended:
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
        """Move a session to the server ``owner``, where its client has reconnected; False if it has ended."""
        alive = self._sessions.touch(session, timeout, self._now())
        if alive:
            self._sessions.set_owner(session, owner)
        return alive

    def remaining_ns(self, session: int) -> int | None:
        """Return the ns until the session expires unless its client is heard from; None if it does not exist."""
        expires_at = self._sessions.expires_at(session)
        return None if expires_at is None else max(0, expires_at * MS - self._host.monotonic_ns())

    def touch(self, session: int, timeout: int) -> None:
        self._sessions.touch(session, timeout, self._now())

    # Timers.

    def _every_half_tick(self) -> None:
        limits, now = self._member.limits, self._now()
        self._timer = self._host.call_later(limits.tick // 2 * MS, self._every_half_tick)
        if not self.established:
            if now - self._started_at > limits.init:
                self._member.look_for_leader("no majority followed")
            return
        for follower in list(self._followers.values()):
            if now - follower.last_heard > (limits.sync if follower.acked >= 0 else limits.init):
                follower.conn.close()
                self.closed(follower.conn)
        if not self._is_majority(1 + sum(follower.acked >= 0 for follower in self._followers.values())):
            self._member.look_for_leader("no majority is left")
            return
        for conn in self._followers:
            send(conn, "ping")

    def _expire_sessions(self) -> None:
        """At every whole tick, propose to close the sessions that have expired."""
        tick, now = self._member.limits.tick, self._now()
        self._expiry_timer = self._host.call_later((tick - now % tick) * MS, self._expire_sessions)
        for session in self._sessions.expired(now):
            if self._ended:
                return
            self.expire(session)

    def expire(self, session: int) -> None:
        """Propose to close a session that has expired."""
        self._sessions.close(session)
        self._host.log(f"session 0x{session:x} expired")
        self._zxid += 1
        self._propose(self._preparer.close_session(self._zxid, self._host.wall_ns() // MS, session), None)
