"""Turns requests into transactions: checks them against the znodes as they will be once all that is on its way has been
applied (ZooKeeper's PrepRequestProcessor and its outstanding changes). Only the leader does this.

A request that fails is a transaction too, which does nothing: it uses up a zxid, as in the real server. Access control
lists other than the open one are refused.

Names of sequential nodes end in the count of children ever made in the parent, so they begin anew with a new parent.
Past 2147483647 the count stands still (as seen on 3.8.0): a create then finds its own name taken, but for those that
come while another create in that parent is on its way, which get negative numbers.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from .jute import OPEN_ACL, Acl, Code, Malformed, Op, Reader
from .tree import SYSTEM, Node, Tree, Txn, java_order, split

PERSISTENT, EPHEMERAL, SEQUENTIAL = 0, 1, 2
"""Flags of a create; EPHEMERAL and SEQUENTIAL may be combined. Containers and times to live are not there."""
_UNSAFE: Final = ((0x01, 0x1E), (0x7F, 0x9F), (0xD801, 0xF8FE), (0xFFF1, 0xFFFE))


class Refused(Exception):
    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Change(NamedTuple):
    """A znode as it will be. ``exists`` is False once it is deleted."""

    zxid: int
    exists: bool
    version: int = 0
    aversion: int = 0
    creates: int = 0
    children: int = 0
    owner: int = 0


def check_path(path: str) -> None:
    """As PathUtils.validatePath; raises :class:`Refused`."""
    if path == "/":
        return
    parts = path.split("/")
    if parts[0] or len(parts) < 2 or any(part in ("", ".", "..") for part in parts[1:]):
        raise Refused(Code.BAD_ARGUMENTS)
    if not path.isascii() or not path.isprintable():
        for char in path:
            if char == "\0" or any(low <= ord(char) <= high for low, high in _UNSAFE):
                raise Refused(Code.BAD_ARGUMENTS)


def _wrap(number: int) -> int:
    """As an int of Java's overflows."""
    return (number + 2**31) % 2**32 - 2**31


class Preparer:
    """``prepare`` is called in the order of zxids, ``applied`` when a transaction is no longer outstanding."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._changes: dict[str, Change] = {}

    def applied(self, zxid: int) -> None:
        """All up to ``zxid`` is in the tree now."""
        if self._changes:
            self._changes = {path: change for path, change in self._changes.items() if change.zxid > zxid}

    def prepare(self, zxid: int, time: int, session: int, op: int, request: bytes) -> Txn:
        """The transaction for a client's request (the frame's bytes after its header)."""
        try:
            if op == Op.MULTI:
                body = self._multi(zxid, session, Reader(request))
            else:
                body = self._one(zxid, session, op, Reader(request))
        except Refused as refused:
            return Txn(zxid, time, session, Op.ERROR, (refused.code,))
        except Malformed:
            return Txn(zxid, time, session, Op.ERROR, (Code.MARSHALLING,))
        return Txn(zxid, time, session, op, body)

    def close_session(self, zxid: int, time: int, session: int) -> Txn:
        """The end of a session: all its ephemeral nodes go, those on their way too."""
        paths = dict(self._tree.ephemerals.get(session, {}))
        for path, change in self._changes.items():
            if not change.exists:
                paths.pop(path, None)
            elif change.owner == session:
                paths[path] = None
        # The real one goes through a copy of a HashSet, which is as large as it must be.
        capacity = 16
        while capacity < len(paths) / 0.75 + 1:
            capacity *= 2
        ordered = java_order(paths, capacity)
        for path in ordered:
            self._gone(zxid, path)
        return Txn(zxid, time, session, Op.CLOSE, ordered)

    # One operation.

    def _one(self, zxid: int, session: int, op: int, reader: Reader) -> Any:
        match op:
            case Op.CREATE | Op.CREATE2:
                path, data, acl, flags = reader.path(), reader.buffer(), reader.acls(), reader.integer()
                return self._create(zxid, session, path, data, acl, flags)
            case Op.DELETE:
                return self._delete(zxid, reader.path(), reader.integer())
            case Op.SETDATA:
                path, data, version = reader.string(), reader.buffer(), reader.integer()
                check_path(path)
                record = self._record(path)
                new = self._next(record.version, version)
                self._changes[path] = record._replace(zxid=zxid, version=new)
                return path, data, new
            case Op.SETACL:
                path, acl, version = reader.string(), reader.acls(), reader.integer()
                check_path(path)
                acl = _open(acl)
                record = self._record(path)
                new = self._next(record.aversion, version)
                self._changes[path] = record._replace(zxid=zxid, aversion=new)
                return path, acl, new
            case Op.CHECK:
                path, version = reader.string(), reader.integer()
                check_path(path)
                return path, self._next(self._record(path).version, version)
        raise Refused(Code.UNIMPLEMENTED)

    def _create(
        self, zxid: int, session: int, path: str, data: bytes | None, acl: list[Acl], flags: int
    ) -> tuple[Any, ...]:
        if flags & ~(EPHEMERAL | SEQUENTIAL):
            raise Refused(Code.UNIMPLEMENTED if 4 <= flags <= 6 else Code.BAD_ARGUMENTS)
        if "/" not in path or "\0" in path:
            raise Refused(Code.BAD_ARGUMENTS)
        acl = _open(acl)
        parent_path, _ = split(path)
        parent = self._record(parent_path)
        if flags & SEQUENTIAL:
            path += f"{parent.creates:010d}"
        check_path(path)
        if self._find(path) is not None:
            raise Refused(Code.NODE_EXISTS)
        if parent.owner:
            raise Refused(Code.NO_CHILDREN_FOR_EPHEMERALS)
        creates = _wrap(parent.creates + 1)
        owner = session if flags & EPHEMERAL else 0
        self._changes[parent_path] = parent._replace(zxid=zxid, creates=creates, children=parent.children + 1)
        self._changes[path] = Change(zxid, exists=True, owner=owner)
        return path, data, acl, bool(owner), creates

    def _delete(self, zxid: int, path: str, version: int) -> tuple[str]:
        if "/" not in path or "\0" in path or path in SYSTEM:
            raise Refused(Code.BAD_ARGUMENTS)
        self._record(split(path)[0])
        record = self._record(path)
        self._next(record.version, version)
        if record.children:
            raise Refused(Code.NOT_EMPTY)
        self._gone(zxid, path)
        return (path,)

    def _gone(self, zxid: int, path: str) -> None:
        parent_path, _ = split(path)
        parent = self._find(parent_path)
        if parent is not None:
            self._changes[parent_path] = parent._replace(zxid=zxid, children=parent.children - 1)
        self._changes[path] = Change(zxid, exists=False)

    def _multi(self, zxid: int, session: int, reader: Reader) -> list[tuple[int, Any]]:
        """All or nothing: after a failure each part is an error, its own for the one that failed."""
        parts: list[tuple[int, Any]] = []
        before = dict(self._changes)
        failed = False
        while True:
            op, done, _ = reader.integer(), reader.boolean(), reader.integer()
            if done:
                return parts
            if failed:
                _skip(op, reader)
                parts.append((Op.ERROR, (Code.RUNTIME_INCONSISTENCY,)))
                continue
            try:
                parts.append((op, self._one(zxid, session, op, reader)))
            except Refused as refused:
                failed = True
                self._changes = before
                parts = [(Op.ERROR, (Code.OK,)) for _ in parts]
                parts.append((Op.ERROR, (refused.code,)))

    # What is, or will be.

    def _find(self, path: str) -> Change | None:
        path = path or "/"
        change = self._changes.get(path)
        if change is not None:
            return change if change.exists else None
        node: Node | None = self._tree.get(path)
        if node is None:
            return None
        return Change(0, True, node.version, node.aversion, node.creates, len(node.children), node.owner)

    def _record(self, path: str) -> Change:
        found = self._find(path)
        if found is None:
            raise Refused(Code.NO_NODE)
        return found

    @staticmethod
    def _next(current: int, expected: int) -> int:
        if expected not in (-1, current):
            raise Refused(Code.BAD_VERSION)
        return _wrap(current + 1)


def _open(acl: list[Acl]) -> list[Acl]:
    if acl != [OPEN_ACL]:
        raise Refused(Code.INVALID_ACL)
    return acl


def _skip(op: int, reader: Reader) -> None:
    """Read over an operation of a multi that will not be done."""
    reader.path()
    if op in (Op.CREATE, Op.CREATE2):
        reader.buffer()
        reader.acls()
    elif op == Op.SETDATA:
        reader.buffer()
    reader.integer()
