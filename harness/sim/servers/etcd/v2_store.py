"""Key store of etcd's v2 API, separate from the v3 store (server/etcdserver/api/v2store of etcd 3.4).

A key expires at a wall-clock time, computed by the member that receives the request from its own clock. Every half
second the leader has all members delete the keys that are expired by the leader's clock (``SYNC``). Abstracted:
directories (a key's parents are neither created nor checked), watches, in-order keys, statistics.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

NS_PER_S: Final = 1_000_000_000
NOT_FOUND, COMPARE_FAILED, EXISTS = 100, 101, 105
MESSAGES: Final = {
    NOT_FOUND: "Key not found",
    COMPARE_FAILED: "Compare failed",
    EXISTS: "Key already exists",
    201: "PrevValue is Required in POST form",
    202: "The given TTL in POST form is not a number",
    203: "The given index in POST form is not a number",
    211: "Value provided on refresh",
    212: "A TTL must be provided on refresh",
    209: "Invalid field",
    300: "Raft Internal Error",
}


class V2Error(Exception):
    """A refused request: etcd's error ``code``, its ``cause``, and the store's ``index`` at that time."""

    def __init__(self, code: int, cause: str, index: int = 0) -> None:
        super().__init__(MESSAGES[code], cause)
        self.code = code
        self.cause = cause
        self.index = index

    def body(self) -> dict[str, Any]:
        return {"errorCode": self.code, "message": MESSAGES[self.code], "cause": self.cause, "index": self.index}


@dataclass(frozen=True, slots=True)
class V2Request:
    """A request in a log entry.

    ``kind`` is GET, PUT, DELETE or SYNC. ``exist`` is the required prior existence of the key, None if either is
    accepted. ``expires`` is in wall-clock ns, 0 for never; ``now`` is the leader's wall clock in ns, for SYNC only.
    """

    kind: str
    key: str = ""
    value: str = ""
    exist: bool | None = None
    prev_value: str = ""
    prev_index: int = 0
    expires: int = 0
    refresh: bool = False
    now: int = 0

    def SerializeToString(self) -> bytes:  # noqa: N802 - same method name as protobuf messages
        return json.dumps([getattr(self, name) for name in self.__slots__]).encode()

    @classmethod
    def parsed(cls, data: bytes) -> V2Request:
        return cls(*json.loads(data))


@dataclass(frozen=True, slots=True)
class V2Node:
    """The value of a key, with the indexes of its creation and last change. ``expires``: wall-clock ns, 0 for never."""

    value: str
    created: int
    modified: int
    expires: int = 0


@dataclass(frozen=True, slots=True)
class V2Event:
    """The result of a request: the JSON ``body`` of etcd's answer, and whether the key was ``created``."""

    body: dict[str, Any]
    created: bool
    index: int


class V2Store:
    """The v2 keys of one member, a deterministic function of the applied log. ``index`` counts the changes."""

    def __init__(self) -> None:
        self.index = 0
        self.nodes: dict[str, V2Node] = {}

    def has_expiring_keys(self) -> bool:
        """Return whether any key expires."""
        return any(node.expires for node in self.nodes.values())

    def apply(self, data: bytes, wall_ns: int) -> V2Event:
        """Execute the request of a log entry. The ttl in the answer is relative to ``wall_ns``. Raises V2Error."""
        request = V2Request.parsed(data)
        if request.kind == "SYNC":
            return self._sync(request.now)
        if request.kind == "GET":
            return self.get(request.key, wall_ns)
        if request.kind == "DELETE":
            return self._delete(request, wall_ns)
        return self._put(request, wall_ns)

    def get(self, key: str, wall_ns: int) -> V2Event:
        """Read a key; the ttl in the answer is relative to ``wall_ns``. Raises V2Error if it does not exist."""
        return V2Event({"action": "get", "node": _node_json(key, self._existing(key), wall_ns)}, False, self.index)

    def _existing(self, key: str) -> V2Node:
        node = self.nodes.get(key)
        if node is None:
            raise V2Error(NOT_FOUND, key, self.index)
        return node

    def _sync(self, now: int) -> V2Event:
        for key in [key for key, node in self.nodes.items() if 0 < node.expires <= now]:
            del self.nodes[key]
            self.index += 1
        return V2Event({}, False, self.index)

    def _put(self, request: V2Request, wall_ns: int) -> V2Event:
        old = self.nodes.get(request.key)
        index = self.index + 1
        new = V2Node(request.value, index, index, request.expires)
        if request.exist is False:
            if old is not None:
                raise V2Error(EXISTS, request.key, self.index)
            return self._changed("create", request.key, None, new, wall_ns)
        if request.prev_value or request.prev_index:
            action, old = "compareAndSwap", self._check_condition(request)
        elif request.exist:
            action, old = "update", self._existing(request.key)
        else:
            new = replace(new, value=self._existing(request.key).value) if request.refresh else new
            return self._changed("set", request.key, old, new, wall_ns)
        new = replace(new, created=old.created, value=old.value if request.refresh else new.value)
        return self._changed(action, request.key, old, new, wall_ns)

    def _delete(self, request: V2Request, wall_ns: int) -> V2Event:
        conditional = bool(request.prev_value or request.prev_index)
        old = self._check_condition(request) if conditional else self._existing(request.key)
        action = "compareAndDelete" if conditional else "delete"
        return self._changed(action, request.key, old, None, wall_ns)

    def _check_condition(self, request: V2Request) -> V2Node:
        old = self._existing(request.key)
        value = f"[{request.prev_value} != {old.value}]"
        index = f"[{request.prev_index} != {old.modified}]"
        wrong_value = request.prev_value not in ("", old.value)
        wrong_index = request.prev_index not in (0, old.modified)
        if wrong_value or wrong_index:
            cause = " ".join([value] * wrong_value + [index] * wrong_index)
            raise V2Error(COMPARE_FAILED, cause, self.index)
        return old

    def _changed(self, action: str, key: str, old: V2Node | None, new: V2Node | None, wall_ns: int) -> V2Event:
        self.index += 1
        if new is None:
            assert old is not None
            del self.nodes[key]
            node = {"key": key, "modifiedIndex": self.index, "createdIndex": old.created}
        else:
            self.nodes[key] = new
            node = _node_json(key, new, wall_ns)
        body = {"action": action, "node": node}
        if old is not None:
            body["prevNode"] = _node_json(key, old, wall_ns)
        return V2Event(body, old is None, self.index)


def _node_json(key: str, node: V2Node, wall_ns: int) -> dict[str, Any]:
    """Return the JSON object of a node."""
    body: dict[str, Any] = {"key": key, "value": node.value}
    if node.expires:
        body["expiration"] = _rfc3339(node.expires)
        left = -((wall_ns - node.expires) // NS_PER_S)
        if left:
            body["ttl"] = left
    return {**body, "modifiedIndex": node.modified, "createdIndex": node.created}


def _rfc3339(wall_ns: int) -> str:
    """Format a time as Go does: RFC 3339 without trailing zeros."""
    seconds, ns = divmod(wall_ns, NS_PER_S)
    fraction = f".{ns:09}".rstrip("0").rstrip(".")
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}{fraction}Z"
