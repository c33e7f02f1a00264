"""Multi-version key-value store of a simulated etcd member (https://etcd.io/docs/v3.4/learning/data_model/).

Each key keeps all its revisions until they are compacted. Abstracted: the store is an object in memory that survives
restarts of the host as a disk does.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from harness.sim.grpc_wire import StatusError

OUT_OF_RANGE: Final = 11
NO_END: Final = b"\0"
"""End of a range that has no upper bound."""


@dataclass(frozen=True, slots=True)
class KeyValue:
    """A key as of revision ``mod``; ``version`` 0 means that this revision deleted it."""

    key: bytes
    mod: int
    create: int = 0
    version: int = 0
    value: bytes = b""
    lease: int = 0


def compacted() -> StatusError:
    return StatusError(OUT_OF_RANGE, "etcdserver: mvcc: required revision has been compacted")


def future_revision() -> StatusError:
    return StatusError(OUT_OF_RANGE, "etcdserver: mvcc: required revision is a future revision")


def covers(start: bytes, end: bytes, key: bytes) -> bool:
    """Return whether ``key`` is in the range. An empty ``end`` means the single key ``start``."""
    if not end:
        return key == start
    return start <= key and (end == NO_END or key < end)


@dataclass(slots=True)
class EtcdStore:
    """The keys of one member, a deterministic function of the applied log.

    ``revision`` is that of the last transaction with a change. Revision 1 is the empty store, as in etcd.
    """

    revision: int = 1
    compact_revision: int = -1
    history: list[KeyValue] = field(default_factory=list)
    """Every change since the last compaction, in order."""
    leases: dict[int, set[bytes]] = field(default_factory=dict)
    """Keys now attached to each lease, by lease id."""
    _keys: list[bytes] = field(default_factory=list)
    _versions: dict[bytes, list[KeyValue]] = field(default_factory=dict)
    _changes: list[KeyValue] = field(default_factory=list)

    # Reading.

    def at(self, key: bytes, revision: int) -> KeyValue | None:
        """Return the key as it was right after ``revision``, None if it did not exist."""
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
        """Return the keys in a range at ``revision``, in key order. Revision 0 is the present, including changes of
        the running transaction. Raises StatusError for a compacted or future revision."""
        now = self.revision + bool(self._changes)
        if revision > now:
            raise future_revision()
        if 0 < revision < self.compact_revision:
            raise compacted()
        revision = revision if revision > 0 else now
        if not end:
            found = self.at(start, revision)
            return [] if found is None else [found]
        first = bisect_left(self._keys, start)
        last = len(self._keys) if end == NO_END else bisect_left(self._keys, end)
        return [kv for key in self._keys[first:last] if (kv := self.at(key, revision)) is not None]

    def since(self, revision: int) -> list[KeyValue]:
        """Return the changes of ``revision`` and of all later ones."""
        return self.history[bisect_left(self.history, revision, key=lambda change: change.mod) :]

    def size(self) -> int:
        """Return the number of existing keys."""
        return sum(1 for versions in self._versions.values() if versions[-1].version)

    @property
    def read_revision(self) -> int:
        """The revision that a read sees: the next one if the running transaction has changed something."""
        return self.revision + bool(self._changes)

    # Writing: all changes of one transaction get the next revision.

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
        """End the transaction and return its changes."""
        changes, self._changes = self._changes, []
        if changes:
            self.revision += 1
            self.history.extend(changes)
        return changes

    def compact(self, revision: int) -> None:
        """Drop versions that were overwritten before ``revision``. Raises StatusError if it is compacted or in the
        future."""
        if revision <= self.compact_revision:
            raise compacted()
        if revision > self.revision:
            raise future_revision()
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
