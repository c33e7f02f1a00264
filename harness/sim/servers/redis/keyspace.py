"""One of the 16 databases: keys, expiry, and who is to be told when a key changes.

Expiry times are absolute wall-clock milliseconds, as in Redis (https://redis.io/docs/latest/commands/expire/): a
step of the clock forward expires keys, one backward prolongs them. A replica hides what has expired but leaves
deletion to its primary.
"""

from __future__ import annotations

from typing import Protocol, TypeVar

from harness.sim.servers.redis.protocol import WRONGTYPE, Failure
from harness.sim.servers.redis.values import Members, SortedSet, Value

T = TypeVar("T", bytes, dict[bytes, bytes], list[bytes], Members, SortedSet)


class Watcher(Protocol):
    watch_broken: bool


class Tally(Protocol):
    """Who keeps count of a database's memory."""

    def accessed(self, db: Database, key: bytes) -> None: ...

    def changed(self, db: Database, key: bytes) -> None: ...


class Keeper(Protocol):
    """What a database needs of its server."""

    dirty: int

    @property
    def memory(self) -> Tally | None: ...

    def now_ms(self) -> int: ...

    def may_delete_expired(self) -> bool | None:
        """True: delete it; False: only hide it (replica); None: it does not count as expired (the primary's stream)."""

    def key_expired(self, db: Database, key: bytes) -> None: ...

    def expiry_set(self) -> None: ...

    def list_filled(self, db: Database, key: bytes) -> None: ...


class Database:
    __slots__ = ("awaited", "data", "expires", "index", "keeper", "watchers")

    def __init__(self, keeper: Keeper, index: int) -> None:
        self.keeper = keeper
        self.index = index
        self.data: dict[bytes, Value] = {}
        self.expires: dict[bytes, int] = {}
        self.watchers: dict[bytes, dict[Watcher, bool]] = {}
        """Key to its watchers, each with whether the key had expired already when they began to watch."""
        self.awaited: dict[bytes, int] = {}
        """Lists that blocked clients wait for, and how many wait."""

    def find(self, key: bytes) -> Value | None:
        if key in self.expires and self.has_expired(key):
            return None
        if self.keeper.memory is not None:
            self.keeper.memory.accessed(self, key)
        return self.data.get(key)

    def string(self, key: bytes) -> bytes | None:
        value = self.find(key)
        if value is not None and type(value) is not bytes:
            raise Failure(WRONGTYPE)
        return value

    def typed(self, key: bytes, kind: type[T]) -> T | None:
        value = self.find(key)
        if value is None:
            return None
        if type(value) is not kind:
            raise Failure(WRONGTYPE)
        return value

    def typed_or_new(self, key: bytes, kind: type[T]) -> T:
        value = self.typed(key, kind)
        if value is None:
            value = kind()
            self.data[key] = value
            if kind is list:
                self.keeper.list_filled(self, key)
        return value

    def has_expired(self, key: bytes) -> bool:
        """Whether the key is to be treated as gone; a primary deletes it on the way."""
        when = self.expires.get(key)
        if when is None or self.keeper.now_ms() <= when:
            return False
        verdict = self.keeper.may_delete_expired()
        if verdict is None:
            return False
        if verdict:
            self.forget(key)
            self.keeper.key_expired(self, key)
        return True

    def put(self, key: bytes, value: Value, expires_ms: int | None = None) -> None:
        """Replace whatever the key held, expiry included."""
        self.data[key] = value
        if expires_ms is not None:
            self.expire_at(key, expires_ms)
        elif key in self.expires:
            del self.expires[key]
        if type(value) is list:
            self.keeper.list_filled(self, key)
        self.touch(key)

    def replace(self, key: bytes, value: Value) -> None:
        """Put another value and leave the expiry alone."""
        self.data[key] = value
        self.touch(key)

    def expire_at(self, key: bytes, when_ms: int) -> None:
        if not self.expires:
            self.keeper.expiry_set()
        self.expires[key] = when_ms

    def remove(self, key: bytes) -> bool:
        """Delete a key that exists (and has not expired)."""
        if self.find(key) is None:
            return False
        self.forget(key)
        self.touch(key)
        return True

    def shrunk(self, key: bytes, value: Value) -> None:
        """A collection lost members: an empty one is no key at all."""
        if not value:
            self.forget(key)
        self.touch(key)

    def forget(self, key: bytes) -> None:
        del self.data[key]
        self.expires.pop(key, None)

    def touch(self, key: bytes) -> None:
        """The key was changed by a command."""
        self.keeper.dirty += 1
        self.signal(key)

    def signal(self, key: bytes) -> None:
        if self.watchers:
            self._break_watches(key)
        if self.keeper.memory is not None:
            self.keeper.memory.changed(self, key)

    def _break_watches(self, key: bytes) -> None:
        for watcher, was_expired in self.watchers.get(key, {}).items():
            if was_expired and key not in self.data:
                self.watchers[key][watcher] = False
            else:
                watcher.watch_broken = True

    def clear(self) -> int:
        removed = list(self.data)
        self.data.clear()
        self.expires.clear()
        for key in removed:
            self.signal(key)
        return len(removed)

    def visible(self) -> list[bytes]:
        """Keys that have not expired, oldest first."""
        if not self.expires:
            return list(self.data)
        return [key for key in list(self.data) if not self.has_expired(key)]
