"""The znodes of one ZooKeeper server: applies committed transactions and triggers watches.

Transactions were validated by the leader (:mod:`harness.sim.servers.zookeeper.prepare`) and arrive in order, so
applying one cannot fail. Not simulated: containers, nodes with a time to live, quotas, enforcement of access control
lists.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any, Final, NamedTuple

from .jute import OPEN_ACL, Acl, Code, OpCode

CREATED, DELETED, CHANGED, CHILDREN = 1, 2, 3, 4
"""Kinds of watch events."""
CONFIG: Final = "/zookeeper/config"
"""Node for the configuration of an ensemble, whose contents are not simulated."""
SYSTEM: Final = ("/", "/zookeeper", CONFIG, "/zookeeper/quota")
"""Nodes that always exist and cannot be deleted."""


class Txn(NamedTuple):
    """One entry of the log. ``time`` is the leader's wall clock, ms; ``body`` depends on ``op``."""

    zxid: int
    time: int
    session: int
    op: int
    body: Any


class TxnResult(NamedTuple):
    """The result of a transaction, for the reply to its client."""

    code: int = Code.OK
    path: str = ""
    stat: tuple[int, ...] = ()
    parts: tuple[tuple[int, TxnResult], ...] = ()
    """(operation code, result) of each part of a multi."""


class Znode:
    """A znode.

    ``creates`` counts the children ever created: it gives names of sequential nodes, and together with the number of
    children the visible cversion, which counts creations and deletions. ``capacity`` is the size that Java's HashSet of
    children has grown to. ``owner`` is the session of an ephemeral node, otherwise 0.
    """

    __slots__ = (
        "acl", "aversion", "capacity", "children", "creates", "ctime", "czxid", "data", "mtime", "mzxid", "owner",
        "pzxid", "version",
    )  # fmt: skip

    def __init__(self, data: bytes | None, acl: list[Acl], owner: int, zxid: int, time: int) -> None:
        self.data = data
        self.acl = acl
        self.owner = owner
        self.czxid = self.mzxid = self.pzxid = zxid
        self.ctime = self.mtime = time
        self.version = self.aversion = self.creates = 0
        self.children: dict[str, None] = {}
        self.capacity = 8

    def stat(self) -> tuple[int, ...]:
        count = len(self.children)
        cversion = (self.creates * 2 - count + 2**31) % 2**32 - 2**31
        return (
            self.czxid, self.mzxid, self.ctime, self.mtime, self.version, cversion, self.aversion,
            self.owner, len(self.data or b""), count, self.pzxid,
        )  # fmt: skip

    def add_child(self, name: str) -> None:
        self.children[name] = None
        while len(self.children) > self.capacity * 3 // 4:
            self.capacity *= 2

    def child_names(self) -> list[str]:
        return java_order(self.children, self.capacity)


def _java_hash(text: str) -> int:
    code = 0
    units = text.encode("utf-16-be")
    for high, low in zip(units[::2], units[1::2], strict=True):
        code = (31 * code + (high << 8 | low)) & 0xFFFFFFFF
    return code ^ code >> 16


def java_order(names: Iterable[str], capacity: int) -> list[str]:
    """Return the names in the iteration order of a ``java.util.HashSet`` with this capacity, as the real server does.

    Clients that take the first child without sorting depend on that order.
    """
    return sorted(names, key=lambda name: _java_hash(name) & (capacity - 1))


def java_copy_order(names: Collection[str]) -> list[str]:
    """Return the names in the iteration order of a clone of a HashSet that contains them.

    Java 17 gives the clone the smallest capacity for its size, and fills it in the order of the original. Not
    simulated: an original that has held more than twelve names, and so kept a larger capacity than it needs now.
    """
    original = max(16, _capacity(len(names) / 0.75))
    return java_order(java_order(names, original), _capacity(int(len(names) / 0.75 + 1)))


def _capacity(least: float) -> int:
    """Return the smallest power of two that is not less than ``least``."""
    capacity = 1
    while capacity < least:
        capacity *= 2
    return capacity


def split(path: str) -> tuple[str, str]:
    """Split a path into the parent's path and the name."""
    parent, _, name = path.rpartition("/")
    return parent or "/", name


Trigger = Callable[[int, str], None]


def _no_trigger(kind: int, path: str) -> None:
    """Trigger no watch: the tree is not served to clients yet."""


class Tree:
    """All znodes, sessions and ephemeral nodes as of transaction ``zxid``. ``trigger`` is called with each event."""

    def __init__(self) -> None:
        self.zxid = 0
        self.nodes: dict[str, Znode] = {}
        self.ephemerals: dict[int, dict[str, None]] = {}
        self.sessions: dict[int, int] = {}
        """Time-outs of all open sessions in ms, by session id."""
        self.trigger: Trigger = _no_trigger
        for path in SYSTEM:
            self.nodes[path] = Znode(b"", [OPEN_ACL], 0, 0, 0)
        for path in SYSTEM[1:]:
            parent, name = split(path)
            self.nodes[parent].children[name] = None
        self.nodes[CONFIG].aversion = -1

    def get(self, path: str) -> Znode | None:
        return self.nodes.get(path or "/")

    def apply(self, txn: Txn) -> TxnResult:
        """Apply the next committed transaction."""
        self.zxid = txn.zxid
        return self._execute(txn, txn.op, txn.body)

    def _execute(self, txn: Txn, op: int, body: Any) -> TxnResult:
        match op:
            case OpCode.CREATE | OpCode.CREATE2:
                return self._create(txn, *body)
            case OpCode.DELETE:
                self._delete(body[0], txn.zxid)
                return TxnResult(path=body[0])
            case OpCode.SETDATA:
                return self._set_data(txn, *body)
            case OpCode.SETACL:
                node = self.nodes[body[0]]
                node.acl, node.aversion = [Acl(*acl) for acl in body[1]], body[2]
                return TxnResult(stat=node.stat())
            case OpCode.MULTI:
                return TxnResult(parts=tuple([(part, self._execute(txn, part, rest)) for part, rest in body]))
            case OpCode.CREATE_SESSION:
                self.sessions[txn.session] = body[0]
            case OpCode.CLOSE:
                self._close(txn, body)
            case OpCode.ERROR:
                return TxnResult(body[0])
        return TxnResult()

    def _create(
        self, txn: Txn, path: str, data: bytes | None, acl: list[Acl], ephemeral: bool, creates: int
    ) -> TxnResult:
        parent_path, name = split(path)
        parent = self.nodes[parent_path]
        parent.add_child(name)
        if creates > parent.creates:
            parent.creates, parent.pzxid = creates, txn.zxid
        owner = txn.session if ephemeral else 0
        node = self.nodes[path] = Znode(data, [Acl(*each) for each in acl], owner, txn.zxid, txn.time)
        if ephemeral:
            self.ephemerals.setdefault(owner, {})[path] = None
        self.trigger(CREATED, path)
        self.trigger(CHILDREN, parent_path)
        return TxnResult(path=path, stat=node.stat())

    def _delete(self, path: str, zxid: int) -> None:
        parent_path, name = split(path)
        node = self.nodes.pop(path)
        parent = self.nodes[parent_path]
        del parent.children[name]
        parent.pzxid = max(parent.pzxid, zxid)
        if node.owner:
            del self.ephemerals[node.owner][path]
        self.trigger(DELETED, path)
        self.trigger(CHILDREN, parent_path)

    def _set_data(self, txn: Txn, path: str, data: bytes | None, version: int) -> TxnResult:
        node = self.nodes[path]
        node.data, node.version = data, version
        node.mzxid, node.mtime = txn.zxid, txn.time
        self.trigger(CHANGED, path)
        return TxnResult(stat=node.stat())

    def _close(self, txn: Txn, paths: list[str]) -> None:
        for path in paths:
            if path in self.nodes:
                self._delete(path, txn.zxid)
        self.ephemerals.pop(txn.session, None)
        self.sessions.pop(txn.session, None)

    # Snapshots.

    def dump(self) -> tuple[Any, ...]:
        """Return a snapshot of everything, as plain values."""
        nodes = [
            (path, *[getattr(node, field) for field in Znode.__slots__ if field != "children"], list(node.children))
            for path, node in self.nodes.items()
        ]
        return self.zxid, nodes, list(self.sessions.items())

    def load(self, dumped: Any) -> None:
        """Replace everything by a snapshot from :meth:`dump`."""
        self.zxid, nodes, sessions = dumped
        self.sessions = dict(sessions)
        self.nodes, self.ephemerals = {}, {}
        for path, *values, children in nodes:
            node = self.nodes[path] = Znode.__new__(Znode)
            for field, value in zip([field for field in Znode.__slots__ if field != "children"], values, strict=True):
                setattr(node, field, value)
            node.acl = [Acl(*acl) for acl in node.acl]
            node.children = dict.fromkeys(children)
            if node.owner:
                self.ephemerals.setdefault(node.owner, {})[path] = None
