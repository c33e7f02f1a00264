"""The znodes of a ZooKeeper server: what transactions do to them, and which watches that sets off.

Transactions arrive checked and in order (:mod:`harness.sim.servers.zookeeper.prepare`), so applying one cannot fail.
Not there: containers, nodes with a time to live, quotas, and the enforcement of access control lists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from .jute import OPEN_ACL, Acl, Code, Op

CREATED, DELETED, CHANGED, CHILDREN = 1, 2, 3, 4
"""Kinds of watch events."""
SYSTEM: Final = ("/", "/zookeeper", "/zookeeper/config", "/zookeeper/quota")
"""Nodes that are always there and cannot be deleted."""
MAX_INT: Final = 2**31 - 1


class Txn(NamedTuple):
    """One entry of the log. ``time`` is the leader's wall clock, ms; ``body`` depends on ``op``."""

    zxid: int
    time: int
    session: int
    op: int
    body: Any


class Result(NamedTuple):
    """What a transaction came to, for the reply to whoever asked."""

    code: int = Code.OK
    path: str = ""
    stat: tuple[int, ...] = ()
    parts: tuple[tuple[int, Result], ...] = ()
    """Of a multi: (operation, result) each."""


class Node:
    """A znode. ``creates`` is what the server counts: the children ever created, from which names of sequential nodes
    and the visible cversion (creates and deletes) are made."""

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

    def add(self, name: str) -> None:
        self.children[name] = None
        while len(self.children) > self.capacity * 3 // 4:
            self.capacity *= 2

    def names(self) -> list[str]:
        return java_order(self.children, self.capacity)


def _java_hash(text: str) -> int:
    code = 0
    units = text.encode("utf-16-be")
    for high, low in zip(units[::2], units[1::2], strict=True):
        code = (31 * code + (high << 8 | low)) & 0xFFFFFFFF
    return code ^ code >> 16


def java_order(names: Iterable[str], capacity: int) -> list[str]:
    """The order in which the real server's ``java.util.HashSet`` of this capacity lists the names: clients that take
    the first child without sorting get to see it."""
    return sorted(names, key=lambda name: _java_hash(name) & (capacity - 1))


def split(path: str) -> tuple[str, str]:
    """The path of the parent, and the name in it."""
    parent, _, name = path.rpartition("/")
    return parent or "/", name


Trigger = Callable[[int, str], None]


class Tree:
    """All znodes, sessions and their ephemeral nodes as of the transaction ``zxid``."""

    def __init__(self) -> None:
        self.zxid = 0
        self.nodes: dict[str, Node] = {}
        self.ephemerals: dict[int, dict[str, None]] = {}
        self.sessions: dict[int, int] = {}
        """Time-outs of all open sessions, ms."""
        self.trigger: Trigger = lambda kind, path: None  # noqa: ARG005
        for path in SYSTEM:
            self.nodes[path] = Node(b"", [OPEN_ACL], 0, 0, 0)
        for path in SYSTEM[1:]:
            parent, name = split(path)
            self.nodes[parent].children[name] = None

    def get(self, path: str) -> Node | None:
        return self.nodes.get(path or "/")

    def apply(self, txn: Txn) -> Result:
        self.zxid = txn.zxid
        return self._do(txn, txn.op, txn.body)

    def _do(self, txn: Txn, op: int, body: Any) -> Result:
        match op:
            case Op.CREATE | Op.CREATE2:
                return self._create(txn, *body)
            case Op.DELETE:
                self._delete(body[0], txn.zxid)
                return Result(path=body[0])
            case Op.SETDATA:
                return self._set_data(txn, *body)
            case Op.SETACL:
                node = self.nodes[body[0]]
                node.acl, node.aversion = [Acl(*acl) for acl in body[1]], body[2]
                return Result(stat=node.stat())
            case Op.MULTI:
                return Result(parts=tuple([(part, self._do(txn, part, rest)) for part, rest in body]))
            case Op.CREATE_SESSION:
                self.sessions[txn.session] = body[0]
            case Op.CLOSE:
                self._close(txn, body)
            case Op.ERROR:
                return Result(body[0])
        return Result()

    def _create(self, txn: Txn, path: str, data: bytes | None, acl: list[Acl], ephemeral: bool, creates: int) -> Result:
        parent_path, name = split(path)
        parent = self.nodes[parent_path]
        parent.add(name)
        if creates > parent.creates:
            parent.creates, parent.pzxid = creates, txn.zxid
        owner = txn.session if ephemeral else 0
        node = self.nodes[path] = Node(data, [Acl(*each) for each in acl], owner, txn.zxid, txn.time)
        if ephemeral:
            self.ephemerals.setdefault(owner, {})[path] = None
        self.trigger(CREATED, path)
        self.trigger(CHILDREN, parent_path)
        return Result(path=path, stat=node.stat())

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

    def _set_data(self, txn: Txn, path: str, data: bytes | None, version: int) -> Result:
        node = self.nodes[path]
        node.data, node.version = data, version
        node.mzxid, node.mtime = txn.zxid, txn.time
        self.trigger(CHANGED, path)
        return Result(stat=node.stat())

    def _close(self, txn: Txn, paths: list[str]) -> None:
        for path in paths:
            if path in self.nodes:
                self._delete(path, txn.zxid)
        self.ephemerals.pop(txn.session, None)
        self.sessions.pop(txn.session, None)

    # Snapshots.

    def dump(self) -> tuple[Any, ...]:
        """All of it, in plain values."""
        nodes = [
            (path, *[getattr(node, field) for field in Node.__slots__ if field != "children"], list(node.children))
            for path, node in self.nodes.items()
        ]
        return self.zxid, nodes, list(self.sessions.items())

    def load(self, dumped: Any) -> None:
        self.zxid, nodes, sessions = dumped
        self.sessions = dict(sessions)
        self.nodes, self.ephemerals = {}, {}
        for path, *values, children in nodes:
            node = self.nodes[path] = Node.__new__(Node)
            for field, value in zip([field for field in Node.__slots__ if field != "children"], values, strict=True):
                setattr(node, field, value)
            node.acl = [Acl(*acl) for acl in node.acl]
            node.children = dict.fromkeys(children)
            if node.owner:
                self.ephemerals.setdefault(node.owner, {})[path] = None
