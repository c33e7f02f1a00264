"""The store of a simulated etcd: keys with all their revisions (https://etcd.io/docs/v3.4/learning/data_model/).

Abstracted: it lives in memory and is as durable as the host's disk; the sizes that etcd reports are estimates.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from ...grpc_wire import Failed

OUT_OF_RANGE: Final = 11
EVERYTHING_FROM: Final = b"\0"
"""As the end of a range: no end."""


@dataclass(frozen=True, slots=True)
class KeyValue:
    """A key at one revision; ``version`` 0 means that it was deleted then."""

    key: bytes
    mod: int
    create: int = 0
    version: int = 0
    value: bytes = b""
    lease: int = 0


def compacted() -> Failed:
    return Failed(OUT_OF_RANGE, "etcdserver: mvcc: required revision has been compacted")


def future() -> Failed:
    return Failed(OUT_OF_RANGE, "etcdserver: mvcc: required revision is a future revision")


def covers(start: bytes, end: bytes, key: bytes) -> bool:
    """Is ``key`` in the range? Without an end that is one key; :data:`EVERYTHING_FROM` means no end."""
    if not end:
        return key == start
    return start <= key and (end == EVERYTHING_FROM or key < end)


@dataclass(slots=True)
class Store:
    """All members' stores are the same function of the log. ``revision`` is that of the last transaction that changed
    something; the first is 2, as in etcd, where 1 is the empty store."""

    revision: int = 1
    compact_revision: int = -1
    history: list[KeyValue] = field(default_factory=list)
    """Every change since the compaction, in order."""
    leases: dict[int, set[bytes]] = field(default_factory=dict)
    """Lease to the keys that are attached to it now."""
    _keys: list[bytes] = field(default_factory=list)
    _versions: dict[bytes, list[KeyValue]] = field(default_factory=dict)
    _changes: list[KeyValue] = field(default_factory=list)

    # Reading.

    def at(self, key: bytes, revision: int) -> KeyValue | None:
        """What the key was right after a revision."""
        versions = self._versions.get(key)
        if not versions:
            return None
        if versions[-1].mod <= revision:
            found = versions[-1]
        else:
            index = bisect_right(versions, revision, key=lambda version: version.mod)
            if not index:
                return None
            found = versions[index - 1]
        return found if found.version else None

    def range(self, start: bytes, end: bytes, revision: int = 0) -> list[KeyValue]:
        """The keys in a range, in order, at a revision (0: now, with what the running transaction has changed)."""
        now = self.revision + bool(self._changes)
        if revision > now:
            raise future()
        if 0 < revision < self.compact_revision:
            raise compacted()
        revision = revision if revision > 0 else now
        if not end:
            found = self.at(start, revision)
            return [] if found is None else [found]
        first = bisect_left(self._keys, start)
        last = len(self._keys) if end == EVERYTHING_FROM else bisect_left(self._keys, end)
        return [kv for key in self._keys[first:last] if (kv := self.at(key, revision)) is not None]

    def since(self, revision: int) -> list[KeyValue]:
        """The changes of a revision and all after it."""
        return self.history[bisect_left(self.history, revision, key=lambda change: change.mod) :]

    def size(self) -> int:
        """How many keys there are."""
        return sum(1 for versions in self._versions.values() if versions[-1].version)

    @property
    def seen(self) -> int:
        """The revision that a read in the running transaction is at."""
        return self.revision + bool(self._changes)

    # Writing: changes of one transaction share the next revision.

    def put(self, key: bytes, value: bytes, lease: int) -> None:
        mod = self.revision + 1
        old = self.at(key, mod)
        if old is None:
            new = KeyValue(key, mod, mod, 1, value, lease)
        else:
            new = KeyValue(key, mod, old.create, old.version + 1, value, lease)
            self._detach(old)
        if lease:
            self.leases.setdefault(lease, set()).add(key)
        self._change(new)

    def delete(self, keys: Iterable[KeyValue]) -> None:
        for old in keys:
            self._detach(old)
            self._change(KeyValue(old.key, self.revision + 1))

    def _detach(self, old: KeyValue) -> None:
        if old.lease and old.lease in self.leases:
            self.leases[old.lease].discard(old.key)

    def _change(self, change: KeyValue) -> None:
        versions = self._versions.get(change.key)
        if versions is None:
            versions = self._versions[change.key] = []
            insort(self._keys, change.key)
        versions.append(change)
        self._changes.append(change)

    def commit(self) -> list[KeyValue]:
        """End the transaction; what it has changed."""
        changes, self._changes = self._changes, []
        if changes:
            self.revision += 1
            self.history.extend(changes)
        return changes

    def compact(self, revision: int) -> None:
        """Forget what was overwritten before a revision."""
        if revision <= self.compact_revision:
            raise compacted()
        if revision > self.revision:
            raise future()
        self.compact_revision = revision
        self.history = self.since(revision)
        for key, versions in list(self._versions.items()):
            index = bisect_right(versions, revision, key=lambda version: version.mod)
            kept = versions[max(0, index - 1) :]
            if kept[0].mod <= revision and not kept[0].version:
                kept = kept[1:]
            if kept:
                self._versions[key] = kept
            else:
                del self._versions[key]
                self._keys.remove(key)
