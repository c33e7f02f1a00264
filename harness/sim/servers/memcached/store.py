"""Item store of a simulated memcached: expiry, cas numbers, slab classes and eviction.

Sources: protocol.txt and new_lru.txt of memcached 1.6, and the behaviour of 1.6.18. Its clock counts whole seconds
since the start of the process and advances once a second. An item stored with an expiry of n seconds therefore lives
between n - 1 and n seconds, and a jump of the wall clock has no effect. Only an expiry given as a date (more than 30
days) is compared with the wall clock, as it was when the process started.

Each slab class evicts its own least recently used items. A class takes pages of 1 MB until the limit is reached, at
least one, and never returns one; which items share a class, and how many fit, is as in memcached. Abstracted: the HOT,
WARM and COLD lists of a class are one list, in the order of writing; an item that was fetched at least twice gets a
second chance when its turn to be evicted comes. There is no crawler: expired items are removed when they are accessed.
An item above 512 KB takes one chunk of the largest class, where memcached chains several.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

NS_PER_S: Final = 1_000_000_000
MB: Final = 1 << 20
MAX_RELATIVE_EXPIRY_S: Final = 60 * 60 * 24 * 30
"""A greater expiry is a date."""
FIRST_SECOND: Final = 62
"""The clock at the start, so that an item's time is never 0."""
ITEM_OVERHEAD: Final = 56
"""Bytes of an item in addition to key, value and their terminators: its structure and its cas number."""
SMALLEST_CHUNK: Final = 96
LARGEST_CHUNK: Final = MB // 2
CHUNK_GROWTH: Final = 1.25
MAX_ITEM_SIZE: Final = MB
"""Bytes; a larger item is refused."""
DEFAULT_MB: Final = 64
EXPIRED_SECOND: Final = 1


def chunk_sizes(smallest: int) -> tuple[int, ...]:
    """Return the chunk sizes of slab classes 1, 2 and so on, in bytes."""
    sizes, size = [], float(smallest)
    while size < LARGEST_CHUNK / CHUNK_GROWTH:
        whole = int(size)
        sizes.append(whole + -whole % 8)
        size = sizes[-1] * CHUNK_GROWTH
    return (*sizes, LARGEST_CHUNK)


@dataclass(slots=True)
class CacheItem:
    """An item. ``exptime`` (0 for never) and ``time`` (of the last write) are seconds of the process's clock."""

    value: bytes
    flags: int
    exptime: int
    cas: int
    time: int
    slab: int
    fetches: int = 0


@dataclass(slots=True)
class SlabClass:
    """One slab class; ``keys`` are in the order of eviction."""

    chunk_size: int
    pages: int = 0
    keys: OrderedDict[bytes, None] = field(default_factory=OrderedDict)
    evicted: int = 0
    reclaimed: int = 0

    @property
    def chunks_per_page(self) -> int:
        return MB // self.chunk_size

    @property
    def free_chunks(self) -> int:
        return self.pages * self.chunks_per_page - len(self.keys)


def size_of(key: bytes, value_length: int, flags: int) -> int:
    """Return the bytes that an item takes: with a byte after the key, CR LF after the value, and flags if not 0."""
    return ITEM_OVERHEAD + len(key) + 1 + value_length + 2 + (4 if flags else 0)


class ItemStore:
    """The items of one process, which starts now.

    ``memory`` is in megabytes. ``smallest`` is the chunk size of class 1 in bytes, 48 more than memcached's option -n.
    """

    def __init__(self, memory: int, smallest: int, monotonic_ns: int, wall_ns: int) -> None:
        self.memory = memory
        self.items: dict[bytes, CacheItem] = {}
        self.slabs = [SlabClass(size) for size in chunk_sizes(smallest)]
        self.now = FIRST_SECOND
        self._began_ns = monotonic_ns
        self.started = wall_ns // NS_PER_S - FIRST_SECOND
        """The wall-clock second that corresponds to 0 on the process's clock."""
        self._cas = 0
        self._oldest_live = 0
        self._oldest_cas = 0
        self.total = 0
        self.evictions = 0

    # Time

    def tick(self, monotonic_ns: int) -> None:
        """Set the process's clock."""
        self.now = FIRST_SECOND + (monotonic_ns - self._began_ns) // NS_PER_S

    def expiry_second(self, exptime: int) -> int:
        """Convert the expiry in a command to a second of the process's clock; 0 means never."""
        if exptime == 0:
            return 0
        if exptime < 0:
            return EXPIRED_SECOND
        if exptime <= MAX_RELATIVE_EXPIRY_S:
            return self.now + exptime
        return max(EXPIRED_SECOND, exptime - self.started)

    # Items

    def find_live(self, key: bytes) -> CacheItem | None:
        """Return a live item; one that is expired or flushed is removed."""
        item = self.items.get(key)
        if item is not None and self._is_dead(item):
            self.remove(key)
            return None
        return item

    def look_up(self, key: bytes, monotonic_ns: int) -> tuple[bytes, int | None] | None:
        """Return (value, ns until the expiry or None) of a live item without side effects; None if there is none."""
        item = self.items.get(key)
        if item is None or self._is_flushed(item):
            return None
        if not item.exptime:
            return item.value, None
        left = self._began_ns + (item.exptime - FIRST_SECOND) * NS_PER_S - monotonic_ns
        return (item.value, left) if left > 0 else None

    def _is_dead(self, item: CacheItem) -> bool:
        return 0 < item.exptime <= self.now or self._is_flushed(item)

    def _is_flushed(self, item: CacheItem) -> bool:
        if not 0 < self._oldest_live <= self.now:
            return False
        return item.time <= self._oldest_live or item.cas < self._oldest_cas

    def next_cas(self) -> int:
        self._cas += 1
        return self._cas

    def put(self, key: bytes, value: bytes, flags: int, exptime: int) -> None:
        """Store an item, and evict others if there is no room; ``exptime`` is a second of the process's clock."""
        slab = self._slab_for(size_of(key, len(value), flags))
        old = self.items.get(key)
        if old is None or old.slab != slab:
            self._make_room(slab)
        if old is not None:
            self.remove(key)
        self.items[key] = CacheItem(value, flags, exptime, self.next_cas(), self.now, slab)
        self.slabs[slab].keys[key] = None
        self.total += 1

    def remove(self, key: bytes) -> None:
        item = self.items.pop(key, None)
        if item is not None:
            del self.slabs[item.slab].keys[key]

    def flush(self, exptime: int) -> None:
        """Invalidate all items now or at the given expiry. Until then, items that an earlier flush has hidden and no
        command has accessed are visible again, as in memcached."""
        self._oldest_live = (self.expiry_second(exptime) if exptime > 0 else self.now) - 1
        if self._oldest_live <= self.now:
            self._oldest_cas = self.next_cas()

    @property
    def last_flush(self) -> tuple[int, int]:
        """Second of the last flush, and the first cas number of later items; zeros if there was none."""
        return self._oldest_live, self._oldest_cas

    # Memory

    def _slab_for(self, size: int) -> int:
        return next((number for number, slab in enumerate(self.slabs) if size <= slab.chunk_size), len(self.slabs) - 1)

    def _make_room(self, number: int) -> None:
        slab = self.slabs[number]
        if slab.free_chunks > 0:
            return
        if not slab.pages or sum(other.pages for other in self.slabs) < self.memory:
            slab.pages += 1
            return
        while slab.free_chunks <= 0:
            self._evict(slab)

    def _evict(self, slab: SlabClass) -> None:
        key = next(iter(slab.keys))
        item = self.items[key]
        if self._is_dead(item):
            slab.reclaimed += 1
        elif item.fetches > 1:
            item.fetches = 0
            slab.keys.move_to_end(key)
            return
        else:
            slab.evicted += 1
            self.evictions += 1
        self.remove(key)

    def used_slabs(self) -> Iterator[tuple[int, SlabClass]]:
        """Yield the slab classes that have memory, with their numbers from 1."""
        return ((number, slab) for number, slab in enumerate(self.slabs, 1) if slab.pages)
