"""The follower's part: catch up with the leader, log what it proposes, apply what it commits, pass requests on.

A follower serves its clients once it has the leader's history, and stops as soon as it has not heard of the leader for
syncLimit ticks.
"""

from __future__ import annotations

from typing import Any, Final

from ...service import Conn, Timer
from .leader import MS, Member
from .peers import PEER_PORT, Inbox, send
from .tree import Tree, Txn

TRIES: Final = 5
RETRY_MS: Final = 100


class Follower:
    """A handler (:class:`harness.sim.service.Handler`) of its connection to the leader."""

    def __init__(self, member: Member, leader: int, host: str) -> None:
        self._member = member
        self.leader = leader
        self._leader_host = host
        self._tries = 0
        self._synced = False
        self._touched: dict[int, int] = {}
        self._origins: dict[int, int] = {}
        self._over = False
        self._heard = self._now()
        self._conn: Conn
        self._inbox: Inbox
        self._timer: Timer = member.host.call_later(member.limits.tick // 2 * MS, self._beat)
        self._dial()

    def _now(self) -> int:
        return self._member.host.monotonic_ns() // MS

    def _dial(self) -> None:
        if not self._over:
            self._inbox = Inbox()
            self._conn = self._member.host.dial(self._leader_host, PEER_PORT, self)

    def abandon(self) -> None:
        """The host died in the middle of it."""
        self._over = True

    def end(self) -> None:
        self._over = True
        self._timer.cancel()
        self._conn.close()

    def opened(self, conn: Conn) -> None:
        send(conn, "follow", self._member.number, self._member.disk.accepted)

    def closed(self, conn: Conn) -> None:
        if self._over or conn is not self._conn:
            return
        self._tries += 1
        if self._synced or self._tries >= TRIES:
            self._member.look(f"the connection to server {self.leader} broke")
        else:  # it may not know yet that it is to lead
            self._member.host.call_later(RETRY_MS * MS, self._dial)

    def _beat(self) -> None:
        limits = self._member.limits
        self._timer = self._member.host.call_later(limits.tick // 2 * MS, self._beat)
        if self._now() - self._heard > limits.sync:
            self._member.look(f"server {self.leader} is silent")

    def received(self, conn: Conn, data: bytes) -> None:
        for message in self._inbox.take(data):
            if self._over:
                return
            self._heard = self._now()
            self._handle(conn, message)

    def _handle(self, conn: Conn, message: list[Any]) -> None:
        disk, server = self._member.disk, self._member.server
        kind, *rest = message
        match kind:
            case "lead":
                self._promise(conn, *rest)
            case "history":
                self._take_over(conn, *rest)
            case "propose":
                txn, origin = Txn(*rest[0]), rest[1]
                disk.proposed.append(txn)
                if origin is not None and origin[0] == self._member.number:
                    self._origins[txn.zxid] = origin[1]
                send(conn, "ack", txn.zxid)
            case "commit":
                self._commit(*rest)
            case "uptodate":
                self._synced = True
                self._commit(*rest)
                server.serve(True)
            case "ping":
                touched, self._touched = self._touched, {}
                send(conn, "pong", list(touched.items()))
            case "revalidated":
                server.revalidated(*rest)
            case "synced":
                server.synced(*rest)

    def _promise(self, conn: Conn, epoch: int) -> None:
        disk = self._member.disk
        if epoch < disk.accepted:
            self._member.look(f"server {self.leader} is of a past epoch")
            return
        disk.accepted = epoch
        send(conn, "epoch", *disk.recency, disk.committed)

    def _take_over(self, conn: Conn, epoch: int, dump: Any, txns: list[Any]) -> None:
        disk, server = self._member.disk, self._member.server
        if dump is not None:
            tree = Tree()
            tree.load(dump)
            server.use(tree)
            disk.replace(tree.zxid)
        disk.proposed.clear()
        disk.proposed.extend([Txn(*txn) for txn in txns])
        disk.epoch = epoch
        send(conn, "ack", disk.last)

    def _commit(self, zxid: int) -> None:
        disk = self._member.disk
        while disk.proposed and disk.proposed[0].zxid <= zxid and not self._over:
            txn = disk.commit()
            self._member.server.committed(txn, self._origins.pop(txn.zxid, None))

    # For its clients.

    def submit(self, number: int, session: int, op: int, body: bytes) -> None:
        send(self._conn, "request", number, session, op, body)

    def revalidate(self, number: int, session: int, timeout: int) -> None:
        send(self._conn, "revalidate", number, session, timeout)

    def touch(self, session: int, timeout: int) -> None:
        self._touched[session] = timeout
