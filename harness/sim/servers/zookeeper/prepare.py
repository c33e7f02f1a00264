"""Validates client requests on the ZooKeeper leader and turns them into transactions (PrepRequestProcessor).

A request is checked against the znodes as they will be when all outstanding transactions have been applied. A request
that fails becomes a transaction without effect, which uses up a zxid as on the real server. Access control lists other
than the open one are refused.

Names of sequential nodes end in the number of children ever created in the parent, so they restart with a new parent.
At 2147483647 the counter stops (observed on 3.8.0): a create then fails because its name exists. A create that arrives
while another create in the same parent is outstanding gets a negative number.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from .jute import OPEN_ACL, Acl, Code, JuteReader, Malformed, OpCode
from .tree import SYSTEM, Tree, Txn, Znode, java_copy_order, split

PERSISTENT, EPHEMERAL, SEQUENTIAL, CONTAINER = 0, 1, 2, 4
"""Flags of a create; EPHEMERAL and SEQUENTIAL may be combined. A create or create2 with CONTAINER makes a persistent
node (observed on 3.8.0): only createContainer makes a container. That and times to live are not simulated."""
_UNSAFE: Final = ((0x01, 0x1E), (0x7F, 0x9F), (0xD801, 0xF8FE), (0xFFF1, 0xFFFE))


class RejectedRequest(Exception):
    """A request that fails with an error code."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class PendingZnode(NamedTuple):
    """A znode as it will be after the outstanding transactions; ``exists`` is False if one of them deletes it."""

    zxid: int
    exists: bool
    version: int = 0
    aversion: int = 0
    creates: int = 0
    children: int = 0
    owner: int = 0


def check_path(path: str) -> None:
    """Validate a path as PathUtils.validatePath does; raises :class:`RejectedRequest`."""
    if path == "/":
        return
    parts = path.split("/")
    if parts[0] or len(parts) < 2 or any(part in ("", ".", "..") for part in parts[1:]):
        raise RejectedRequest(Code.BAD_ARGUMENTS)
    if not path.isascii() or not path.isprintable():
        for char in path:
            if char == "\0" or any(low <= ord(char) <= high for low, high in _UNSAFE):
                raise RejectedRequest(Code.BAD_ARGUMENTS)


def _wrap_int(number: int) -> int:
    """Return the number with the overflow of Java's 32-bit int."""
    return (number + 2**31) % 2**32 - 2**31


class Preparer:
    """Makes transactions from requests. ``prepare`` must be called in the order of zxids."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._pending: dict[str, PendingZnode] = {}

    def applied(self, zxid: int) -> None:
        """Drop outstanding changes up to ``zxid``, because the tree contains them now."""
        if self._pending:
            self._pending = {path: change for path, change in self._pending.items() if change.zxid > zxid}

    def prepare(self, zxid: int, time: int, session: int, op: int, request: bytes) -> Txn:
        """Return the transaction for a client's request.

        ``time`` is in wall-clock ms; ``request`` is the frame's body after its header.
        """
        try:
            if op == OpCode.MULTI:
                body = self._multi(zxid, session, JuteReader(request))
            else:
                body = self._operation(zxid, session, op, JuteReader(request))
        except RejectedRequest as refused:
            return Txn(zxid, time, session, OpCode.ERROR, (refused.code,))
        except Malformed:
            return Txn(zxid, time, session, OpCode.ERROR, (Code.MARSHALLING,))
        return Txn(zxid, time, session, op, body)

    def close_session(self, zxid: int, time: int, session: int) -> Txn:
        """Return the transaction that ends a session and deletes its ephemeral nodes, including outstanding ones."""
        paths = dict(self._tree.ephemerals.get(session, {}))
        for path, change in self._pending.items():
            if not change.exists:
                paths.pop(path, None)
            elif change.owner == session:
                paths[path] = None
        ordered = java_copy_order(paths)
        for path in ordered:
            self._record_deletion(zxid, path)
        return Txn(zxid, time, session, OpCode.CLOSE, ordered)

    # One operation.

    def _operation(self, zxid: int, session: int, op: int, reader: JuteReader) -> Any:
        match op:
            case OpCode.CREATE | OpCode.CREATE2:
                path, data, acl, flags = reader.path(), reader.buffer(), reader.acls(), reader.integer()
                return self._create(zxid, session, path, data, acl, flags)
            case OpCode.DELETE:
                return self._delete(zxid, reader.path(), reader.integer())
            case OpCode.SETDATA:
                path, data, version = reader.string(), reader.buffer(), reader.integer()
                check_path(path)
                record = self._existing(path)
                new = self._next_version(record.version, version)
                self._pending[path] = record._replace(zxid=zxid, version=new)
                return path, data, new
            case OpCode.SETACL:
                path, acl, version = reader.string(), reader.acls(), reader.integer()
                check_path(path)
                acl = _require_open_acl(acl)
                record = self._existing(path)
                new = self._next_version(record.aversion, version)
                self._pending[path] = record._replace(zxid=zxid, aversion=new)
                return path, acl, new
            case OpCode.CHECK:
                path, version = reader.string(), reader.integer()
                check_path(path)
                return path, self._next_version(self._existing(path).version, version)
        raise RejectedRequest(Code.UNIMPLEMENTED)

    def _create(
        self, zxid: int, session: int, path: str, data: bytes | None, acl: list[Acl], flags: int
    ) -> tuple[Any, ...]:
        if flags != CONTAINER and flags & ~(EPHEMERAL | SEQUENTIAL):
            raise RejectedRequest(Code.UNIMPLEMENTED if 5 <= flags <= 6 else Code.BAD_ARGUMENTS)
        if "/" not in path or "\0" in path:
            raise RejectedRequest(Code.BAD_ARGUMENTS)
        acl = _require_open_acl(acl)
        parent_path, _ = split(path)
        parent = self._existing(parent_path)
        if flags & SEQUENTIAL:
            path += f"{parent.creates:010d}"
        check_path(path)
        if self._find(path) is not None:
            raise RejectedRequest(Code.NODE_EXISTS)
        if parent.owner:
            raise RejectedRequest(Code.NO_CHILDREN_FOR_EPHEMERALS)
        creates = _wrap_int(parent.creates + 1)
        owner = session if flags & EPHEMERAL else 0
        self._pending[parent_path] = parent._replace(zxid=zxid, creates=creates, children=parent.children + 1)
        self._pending[path] = PendingZnode(zxid, exists=True, owner=owner)
        return path, data, acl, bool(owner), creates

    def _delete(self, zxid: int, path: str, version: int) -> tuple[str]:
        if "/" not in path or "\0" in path or path in SYSTEM:
            raise RejectedRequest(Code.BAD_ARGUMENTS)
        self._existing(split(path)[0])
        record = self._existing(path)
        self._next_version(record.version, version)
        if record.children:
            raise RejectedRequest(Code.NOT_EMPTY)
        self._record_deletion(zxid, path)
        return (path,)

    def _record_deletion(self, zxid: int, path: str) -> None:
        parent_path, _ = split(path)
        parent = self._find(parent_path)
        if parent is not None:
            self._pending[parent_path] = parent._replace(zxid=zxid, children=parent.children - 1)
        self._pending[path] = PendingZnode(zxid, exists=False)

    def _multi(self, zxid: int, session: int, reader: JuteReader) -> list[tuple[int, Any]]:
        """Prepare all parts of a multi. If one fails, all become errors: the failed part with its own code."""
        parts: list[tuple[int, Any]] = []
        before = dict(self._pending)
        failed = False
        while True:
            op, done, _ = reader.integer(), reader.boolean(), reader.integer()
            if done:
                return parts
            if failed:
                _skip(op, reader)
                parts.append((OpCode.ERROR, (Code.RUNTIME_INCONSISTENCY,)))
                continue
            try:
                parts.append((op, self._operation(zxid, session, op, reader)))
            except RejectedRequest as refused:
                failed = True
                self._pending = before
                parts = [(OpCode.ERROR, (Code.OK,)) for _ in parts]
                parts.append((OpCode.ERROR, (refused.code,)))

    # Znodes as they will be.

    def _find(self, path: str) -> PendingZnode | None:
        path = path or "/"
        change = self._pending.get(path)
        if change is not None:
            return change if change.exists else None
        node: Znode | None = self._tree.get(path)
        if node is None:
            return None
        return PendingZnode(0, True, node.version, node.aversion, node.creates, len(node.children), node.owner)

    def _existing(self, path: str) -> PendingZnode:
        found = self._find(path)
        if found is None:
            raise RejectedRequest(Code.NO_NODE)
        return found

    @staticmethod
    def _next_version(current: int, expected: int) -> int:
        if expected not in (-1, current):
            raise RejectedRequest(Code.BAD_VERSION)
        return _wrap_int(current + 1)


def _require_open_acl(acl: list[Acl]) -> list[Acl]:
    if acl != [OPEN_ACL]:
        raise RejectedRequest(Code.INVALID_ACL)
    return acl


def _skip(op: int, reader: JuteReader) -> None:
    """Skip the record of an operation in a multi that has failed already."""
    reader.path()
    if op in (OpCode.CREATE, OpCode.CREATE2):
        reader.buffer()
        reader.acls()
    elif op == OpCode.SETDATA:
        reader.buffer()
    reader.integer()
