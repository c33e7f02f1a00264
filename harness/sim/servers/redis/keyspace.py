"""One of the 16 databases of a Redis server: keys, their expiry times, and clients that watch keys.

Expiry times are absolute wall-clock milliseconds, as in Redis (https://redis.io/docs/latest/commands/expire/). A clock
step forward expires keys early; a step backward prolongs them. A replica hides expired keys but leaves their deletion
to its primary.
"""

from __future__ import annotations

from typing import Protocol, TypeVar

from .protocol import WRONGTYPE, ErrorReply
from .values import SetMembers, SortedSet, Value

T = TypeVar("T", bytes, dict[bytes, bytes], list[bytes], SetMembers, SortedSet)


class Watcher(Protocol):
    watch_broken: bool


class MemoryTally(Protocol):
    """The estimate of used memory, as a database updates it."""

    def accessed(self, db: Database, key: bytes) -> None: ...

    def changed(self, db: Database, key: bytes) -> None: ...


class DatabaseOwner(Protocol):
    """The server, as its databases use it."""

    dirty: int

    @property
    def memory(self) -> MemoryTally | None: ...

    def now_ms(self) -> int: ...

    def may_delete_expired(self) -> bool | None:
        """Return True to delete an expired key, False to hide it only (on a replica), or None to treat it as alive
        (while applying the primary's stream)."""

    def key_expired(self, db: Database, key: bytes) -> None: ...

    def expiry_set(self) -> None: ...

    def list_filled(self, db: Database, key: bytes) -> None: ...


class Database:
    """Keys, values and expiry times of one database."""

    __slots__ = ("awaited", "data", "expires", "index", "owner", "watchers")

    def __init__(self, owner: DatabaseOwner, index: int) -> None:
        self.owner = owner
        self.index = index
        self.data: dict[bytes, Value] = {}
        self.expires: dict[bytes, int] = {}
        self.watchers: dict[bytes, dict[Watcher, bool]] = {}
        """Watchers of each key, with True for those that began to watch when the key had already expired."""
        self.awaited: dict[bytes, int] = {}
        """Number of blocked clients for each list that they wait for."""

    def find(self, key: bytes) -> Value | None:
        """Return the value of a key, or None if it does not exist or has expired."""
        if key in self.expires and self.has_expired(key):
            return None
        if self.owner.memory is not None:
            self.owner.memory.accessed(self, key)
        return self.data.get(key)

    def string(self, key: bytes) -> bytes | None:
        """Like :meth:`find`; raises ErrorReply if the value is not a string."""
        value = self.find(key)
        if value is not None and type(value) is not bytes:
            raise ErrorReply(WRONGTYPE)
        return value

    def typed(self, key: bytes, kind: type[T]) -> T | None:
        """Like :meth:`find`; raises ErrorReply if the value is not of type ``kind``."""
        value = self.find(key)
        if value is None:
            return None
        if type(value) is not kind:
            raise ErrorReply(WRONGTYPE)
        return value

    def typed_or_new(self, key: bytes, kind: type[T]) -> T:
        """Like :meth:`typed`, but create an empty value if the key does not exist."""
        value = self.typed(key, kind)
        if value is None:
            value = kind()
            self.data[key] = value
            if kind is list:
                self.owner.list_filled(self, key)
        return value

    def has_expired(self, key: bytes) -> bool:
        """Return True if the key counts as expired. On a primary the call also deletes it."""
        when = self.expires.get(key)
        if when is None or self.owner.now_ms() <= when:
            return False
        may_delete = self.owner.may_delete_expired()
        if may_delete is None:
            return False
        if may_delete:
            self.forget(key)
            self.owner.key_expired(self, key)
        return True

    def put(self, key: bytes, value: Value, expires_ms: int | None = None) -> None:
        """Set a key's value and expiry time (ms); None removes the expiry."""
        self.data[key] = value
        if expires_ms is not None:
            self.expire_at(key, expires_ms)
        elif key in self.expires:
            del self.expires[key]
        if type(value) is list:
            self.owner.list_filled(self, key)
        self.touch(key)

    def replace(self, key: bytes, value: Value) -> None:
        """Set a key's value and keep its expiry."""
        self.data[key] = value
        self.touch(key)

    def expire_at(self, key: bytes, when_ms: int) -> None:
        """Set the expiry time of a key, absolute wall-clock ms."""
        if not self.expires:
            self.owner.expiry_set()
        self.expires[key] = when_ms

    def remove(self, key: bytes) -> bool:
        """Delete a key. Return False if it does not exist or has expired."""
        if self.find(key) is None:
            return False
        self.forget(key)
        self.touch(key)
        return True

    def delete_if_empty(self, key: bytes, value: Value) -> None:
        """Report that a collection lost members. An empty collection is deleted, as in Redis."""
        if not value:
            self.forget(key)
        self.touch(key)

    def forget(self, key: bytes) -> None:
        """Remove a key without reporting a change."""
        del self.data[key]
        self.expires.pop(key, None)

    def touch(self, key: bytes) -> None:
        """Report that a command changed the key."""
        self.owner.dirty += 1
        self.signal(key)

    def signal(self, key: bytes) -> None:
        """Tell watching clients and the memory estimate that a key has changed."""
        if self.watchers:
            self._break_watches(key)
        if self.owner.memory is not None:
            self.owner.memory.changed(self, key)

    def _break_watches(self, key: bytes) -> None:
        for watcher, was_expired in self.watchers.get(key, {}).items():
            if was_expired and key not in self.data:
                self.watchers[key][watcher] = False
            else:
                watcher.watch_broken = True

    def clear(self) -> int:
        """Delete all keys and return their number."""
        removed = list(self.data)
        self.data.clear()
        self.expires.clear()
        for key in removed:
            self.signal(key)
        return len(removed)

    def visible(self) -> list[bytes]:
        """Return the keys that have not expired, oldest first."""
        if not self.expires:
            return list(self.data)
        return [key for key in list(self.data) if not self.has_expired(key)]
