"""The follower role of a simulated ZooKeeper server: catch up with the leader, log its proposals, apply its commits,
and forward clients' requests to it.

A follower serves its clients once it has the leader's history, and stops when it has not heard from the leader for
syncLimit ticks.
"""

from __future__ import annotations

from typing import Any, Final

from harness.sim.service import Conn, Timer

from .leader import MS, EnsembleMember
from .peers import PEER_PORT, FrameDecoder, send
from .tree import Tree, Txn

MAX_ATTEMPTS: Final = 5
RETRY_MS: Final = 100


class Follower:
    """A server's following of one leader; the :class:`harness.sim.service.Handler` of the connection to it.

    ``leader`` is the leader's number, ``host`` its host.
    """

    def __init__(self, member: EnsembleMember, leader: int, host: str) -> None:
        self._member = member
        self.leader = leader
        self._leader_host = host
        self._attempts = 0
        self._synced = False
        self._touched: dict[int, int] = {}
        self._origins: dict[int, int] = {}
        self._ended = False
        self._last_heard = self._now()
        self._conn: Conn
        self._inbox: FrameDecoder
        self._timer: Timer = member.host.call_later(member.limits.tick // 2 * MS, self._check_leader)
        self._dial()

    def _now(self) -> int:
        return self._member.host.monotonic_ns() // MS

    def _dial(self) -> None:
        if not self._ended:
            self._inbox = FrameDecoder()
            self._conn = self._member.host.dial(self._leader_host, PEER_PORT, self)

    def abandon(self) -> None:
        """Stop without cleaning up, because the host was killed."""
        self._ended = True

    def end(self) -> None:
        """Leave the role and close the connection to the leader."""
        self._ended = True
        self._timer.cancel()
        self._conn.close()

    def opened(self, conn: Conn) -> None:
        send(conn, "follow", self._member.number, self._member.disk.accepted_epoch)

    def closed(self, conn: Conn) -> None:
        if self._ended or conn is not self._conn:
            return
        self._attempts += 1
        if self._synced or self._attempts >= MAX_ATTEMPTS:
            self._member.look_for_leader(f"the connection to server {self.leader} broke")
        else:  # the chosen server may not know yet that it is to lead
            self._member.host.call_later(RETRY_MS * MS, self._dial)

    def _check_leader(self) -> None:
        limits = self._member.limits
        self._timer = self._member.host.call_later(limits.tick // 2 * MS, self._check_leader)
        if self._now() - self._last_heard > limits.sync:
            self._member.look_for_leader(f"server {self.leader} is silent")

    def received(self, conn: Conn, data: bytes) -> None:
        for message in self._inbox.feed(data):
            if self._ended:
                return
            self._last_heard = self._now()
            self._handle(conn, message)

    def _handle(self, conn: Conn, message: list[Any]) -> None:
        disk, server = self._member.disk, self._member.server
        kind, *rest = message
        match kind:
            case "lead":
                self._accept_epoch(conn, *rest)
            case "history":
                self._adopt_history(conn, *rest)
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
                server.set_serving(True)
            case "ping":
                touched, self._touched = self._touched, {}
                send(conn, "pong", list(touched.items()))
            case "revalidated":
                server.revalidated(*rest)
            case "synced":
                server.synced(*rest)

    def _accept_epoch(self, conn: Conn, epoch: int) -> None:
        disk = self._member.disk
        if epoch < disk.accepted_epoch:
            self._member.look_for_leader(f"server {self.leader} is of a past epoch")
            return
        disk.accepted_epoch = epoch
        send(conn, "epoch", *disk.recency, disk.committed)

    def _adopt_history(self, conn: Conn, epoch: int, dump: Any, txns: list[Any]) -> None:
        disk, server = self._member.disk, self._member.server
        if dump is not None:
            tree = Tree()
            tree.load(dump)
            server.use_tree(tree)
            disk.replace(tree.zxid)
        disk.proposed.clear()
        disk.proposed.extend([Txn(*txn) for txn in txns])
        disk.epoch = epoch
        send(conn, "ack", disk.last_zxid)

    def _commit(self, zxid: int) -> None:
        disk = self._member.disk
        while disk.proposed and disk.proposed[0].zxid <= zxid and not self._ended:
            txn = disk.commit()
            self._member.server.committed(txn, self._origins.pop(txn.zxid, None))

    # Requests of this server's clients.

    def submit(self, number: int, session: int, op: int, body: bytes) -> None:
        send(self._conn, "request", number, session, op, body)

    def revalidate(self, number: int, session: int, timeout: int) -> None:
        send(self._conn, "revalidate", number, session, timeout)

    def touch(self, session: int, timeout: int) -> None:
        self._touched[session] = timeout
