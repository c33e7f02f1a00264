"""The keys of etcd's v2 API, a store of its own beside v3's: server/etcdserver/api/v2store of etcd 3.4.

A key's end is a moment of wall-clock time, which the member that was asked for it works out by its own clock; the
leader looks at its own every half second and has all members delete what is over by then (``SYNC``). Abstracted:
directories (a key's parents are neither made nor looked at), watches, keys in order, counters of what was done.
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
    """A refusal: ``code`` as etcd numbers them, ``index`` the store's when it was refused."""

    def __init__(self, code: int, cause: str, index: int = 0) -> None:
        super().__init__(MESSAGES[code], cause)
        self.code = code
        self.cause = cause
        self.index = index

    def told(self) -> dict[str, Any]:
        return {"errorCode": self.code, "message": MESSAGES[self.code], "cause": self.cause, "index": self.index}


@dataclass(frozen=True, slots=True)
class V2Request:
    """What an entry of the log says. ``kind`` is GET, PUT, DELETE or SYNC; ``exist`` None: it does not matter; times in
    ns of wall clocks: ``expires`` 0 for never, ``now`` the leader's for SYNC."""

    kind: str
    key: str = ""
    value: str = ""
    exist: bool | None = None
    prev_value: str = ""
    prev_index: int = 0
    expires: int = 0
    refresh: bool = False
    now: int = 0

    def SerializeToString(self) -> bytes:  # noqa: N802 - as the messages that other entries carry
        return json.dumps([getattr(self, name) for name in self.__slots__]).encode()

    @classmethod
    def parsed(cls, data: bytes) -> V2Request:
        return cls(*json.loads(data))


@dataclass(frozen=True, slots=True)
class Node:
    """``expires`` in ns of wall clocks, 0 for never."""

    value: str
    created: int
    modified: int
    expires: int = 0


@dataclass(frozen=True, slots=True)
class Event:
    """What a request has done, or found: ``told`` is etcd's answer, ``new`` that the key was not there before."""

    told: dict[str, Any]
    new: bool
    index: int


class V2Store:
    """All members' are the same function of the log; ``index`` counts what has changed."""

    def __init__(self) -> None:
        self.index = 0
        self.nodes: dict[str, Node] = {}

    def ends(self) -> bool:
        """Does any key have an end?"""
        return any(node.expires for node in self.nodes.values())

    def apply(self, data: bytes, wall_ns: int) -> Event:
        """Do what an entry says; ``wall_ns`` is the clock that the answer's ttl is by. Raises V2Error."""
        request = V2Request.parsed(data)
        if request.kind == "SYNC":
            return self._sync(request.now)
        if request.kind == "GET":
            return self.get(request.key, wall_ns)
        if request.kind == "DELETE":
            return self._delete(request, wall_ns)
        return self._put(request, wall_ns)

    def get(self, key: str, wall_ns: int) -> Event:
        return Event({"action": "get", "node": _told(key, self._found(key), wall_ns)}, False, self.index)

    def _found(self, key: str) -> Node:
        node = self.nodes.get(key)
        if node is None:
            raise V2Error(NOT_FOUND, key, self.index)
        return node

    def _sync(self, now: int) -> Event:
        for key in [key for key, node in self.nodes.items() if 0 < node.expires <= now]:
            del self.nodes[key]
            self.index += 1
        return Event({}, False, self.index)

    def _put(self, request: V2Request, wall_ns: int) -> Event:
        old = self.nodes.get(request.key)
        index = self.index + 1
        new = Node(request.value, index, index, request.expires)
        if request.exist is False:
            if old is not None:
                raise V2Error(EXISTS, request.key, self.index)
            return self._changed("create", request.key, None, new, wall_ns)
        if request.prev_value or request.prev_index:
            action, old = "compareAndSwap", self._compared(request)
        elif request.exist:
            action, old = "update", self._found(request.key)
        else:
            new = replace(new, value=self._found(request.key).value) if request.refresh else new
            return self._changed("set", request.key, old, new, wall_ns)
        new = replace(new, created=old.created, value=old.value if request.refresh else new.value)
        return self._changed(action, request.key, old, new, wall_ns)

    def _delete(self, request: V2Request, wall_ns: int) -> Event:
        conditional = bool(request.prev_value or request.prev_index)
        old = self._compared(request) if conditional else self._found(request.key)
        action = "compareAndDelete" if conditional else "delete"
        return self._changed(action, request.key, old, None, wall_ns)

    def _compared(self, request: V2Request) -> Node:
        old = self._found(request.key)
        value = f"[{request.prev_value} != {old.value}]"
        index = f"[{request.prev_index} != {old.modified}]"
        wrong_value = request.prev_value not in ("", old.value)
        wrong_index = request.prev_index not in (0, old.modified)
        if wrong_value or wrong_index:
            cause = " ".join([value] * wrong_value + [index] * wrong_index)
            raise V2Error(COMPARE_FAILED, cause, self.index)
        return old

    def _changed(self, action: str, key: str, old: Node | None, new: Node | None, wall_ns: int) -> Event:
        self.index += 1
        if new is None:
            assert old is not None
            del self.nodes[key]
            node = {"key": key, "modifiedIndex": self.index, "createdIndex": old.created}
        else:
            self.nodes[key] = new
            node = _told(key, new, wall_ns)
        told = {"action": action, "node": node}
        if old is not None:
            told["prevNode"] = _told(key, old, wall_ns)
        return Event(told, old is None, self.index)


def _told(key: str, node: Node, wall_ns: int) -> dict[str, Any]:
    """A node as JSON has it."""
    told: dict[str, Any] = {"key": key, "value": node.value}
    if node.expires:
        told["expiration"] = _moment(node.expires)
        left = -((wall_ns - node.expires) // NS_PER_S)
        if left:
            told["ttl"] = left
    return {**told, "modifiedIndex": node.modified, "createdIndex": node.created}


def _moment(wall_ns: int) -> str:
    """As Go writes it, without zeros at the end."""
    seconds, ns = divmod(wall_ns, NS_PER_S)
    fraction = f".{ns:09}".rstrip("0").rstrip(".")
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}{fraction}Z"
