"""What a memcached keeps: items with their expiry, in slab classes of which each evicts its own least recently used.

Sources: memcached 1.6's protocol.txt and new_lru.txt, and the behaviour of 1.6.18. Its clock is a counter of whole
seconds since the start of the process, moved on by a timer once a second: an item stored with an expiry of n seconds
lives between n - 1 and n, and a jump of the wall clock changes nothing. Only an expiry given as a date (more than 30
days) is compared with the wall clock, as it was when the process started.

Abstracted: a class takes pages of 1 MB until the limit is reached, at least one, and never gives one back; which items
share a class, and how many fit, are as in the real one. Within a class the HOT, WARM and COLD lists are one, in the
order of writing: an item that was fetched twice or more gets a second chance when its turn to be evicted comes. What
has expired is removed when it is met, so that the crawler is not there. An item above 512 KB takes one chunk of the
largest class, where the real one chains several.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

SECOND: Final = 1_000_000_000
MB: Final = 1 << 20
MONTH: Final = 60 * 60 * 24 * 30
"""Seconds; an expiry above it is a date."""
FIRST_SECOND: Final = 62
"""What the clock says at the start: an item's time is never 0."""
HEADER: Final = 56
"""Bytes of an item beside key, value and their ends: its structure, and its cas number."""
SMALLEST: Final = 96
LARGEST: Final = MB // 2
GROWTH: Final = 1.25
TOO_LARGE: Final = MB
"""Bytes of an item that is refused."""
DEFAULT_MB: Final = 64
EXPIRED: Final = 1


def chunk_sizes(smallest: int) -> tuple[int, ...]:
    """Of slab class 1, 2 and so on."""
    sizes, size = [], float(smallest)
    while size < LARGEST / GROWTH:
        whole = int(size)
        sizes.append(whole + -whole % 8)
        size = sizes[-1] * GROWTH
    return (*sizes, LARGEST)


@dataclass(slots=True)
class Item:
    """``exptime`` and ``time`` (last written) are by the process' clock; 0 is never."""

    value: bytes
    flags: int
    exptime: int
    cas: int
    time: int
    slab: int
    fetches: int = 0


@dataclass(slots=True)
class Slab:
    """One slab class; ``order`` has the keys, the one to be evicted next first."""

    chunk_size: int
    pages: int = 0
    order: OrderedDict[bytes, None] = field(default_factory=OrderedDict)
    evicted: int = 0
    reclaimed: int = 0

    @property
    def per_page(self) -> int:
        return MB // self.chunk_size

    @property
    def free(self) -> int:
        return self.pages * self.per_page - len(self.order)


def size_of(key: bytes, value_length: int, flags: int) -> int:
    """Bytes that an item takes: a space (or a NUL) after the key, CR LF after the value, and flags if there are any."""
    return HEADER + len(key) + 1 + value_length + 2 + (4 if flags else 0)


class Store:
    """``memory`` is in megabytes, and ``smallest`` is the chunk size of class 1 (48 more than what memcached's -n
    says). A new store has the clock of a process that starts now."""

    def __init__(self, memory: int, smallest: int, monotonic_ns: int, wall_ns: int) -> None:
        self.memory = memory
        self.items: dict[bytes, Item] = {}
        self.slabs = [Slab(size) for size in chunk_sizes(smallest)]
        self.now = FIRST_SECOND
        self._began_ns = monotonic_ns
        self.started = wall_ns // SECOND - FIRST_SECOND
        """The wall clock's second that the process takes for 0, once and for all."""
        self._cas = 0
        self._oldest_live = 0
        self._oldest_cas = 0
        self.total = 0
        self.evictions = 0

    # Time

    def tick(self, monotonic_ns: int) -> None:
        """Bring the process' clock up to date."""
        self.now = FIRST_SECOND + (monotonic_ns - self._began_ns) // SECOND

    def when(self, exptime: int) -> int:
        """The clock's second for an expiry as a command gives it."""
        if exptime == 0:
            return 0
        if exptime < 0:
            return EXPIRED
        if exptime <= MONTH:
            return self.now + exptime
        return max(EXPIRED, exptime - self.started)

    # Items

    def find(self, key: bytes) -> Item | None:
        """A live item; what has expired or been flushed goes on the way."""
        item = self.items.get(key)
        if item is not None and self._is_dead(item):
            self.remove(key)
            return None
        return item

    def peek(self, key: bytes, monotonic_ns: int) -> tuple[bytes, int | None] | None:
        """What a live item holds and how many ns it has left, None if it has no end; touches nothing."""
        item = self.items.get(key)
        if item is None or self._is_flushed(item):
            return None
        if not item.exptime:
            return item.value, None
        left = self._began_ns + (item.exptime - FIRST_SECOND) * SECOND - monotonic_ns
        return (item.value, left) if left > 0 else None

    def _is_dead(self, item: Item) -> bool:
        return 0 < item.exptime <= self.now or self._is_flushed(item)

    def _is_flushed(self, item: Item) -> bool:
        if not 0 < self._oldest_live <= self.now:
            return False
        return item.time <= self._oldest_live or item.cas < self._oldest_cas

    def next_cas(self) -> int:
        self._cas += 1
        return self._cas

    def put(self, key: bytes, value: bytes, flags: int, exptime: int) -> None:
        """Store an item; ``exptime`` is by the process' clock. Evicts where there is no room."""
        slab = self._slab_for(size_of(key, len(value), flags))
        old = self.items.get(key)
        if old is None or old.slab != slab:
            self._make_room(slab)
        if old is not None:
            self.remove(key)
        self.items[key] = Item(value, flags, exptime, self.next_cas(), self.now, slab)
        self.slabs[slab].order[key] = None
        self.total += 1

    def remove(self, key: bytes) -> None:
        item = self.items.pop(key, None)
        if item is not None:
            del self.slabs[item.slab].order[key]

    def flush(self, exptime: int) -> None:
        """All that there is dies now, or at a second of the clock; until then what an earlier flush has hidden is back,
        unless somebody has met it."""
        self._oldest_live = (self.when(exptime) if exptime > 0 else self.now) - 1
        if self._oldest_live <= self.now:
            self._oldest_cas = self.next_cas()

    # Memory

    def _slab_for(self, size: int) -> int:
        return next((number for number, slab in enumerate(self.slabs) if size <= slab.chunk_size), len(self.slabs) - 1)

    def _make_room(self, number: int) -> None:
        slab = self.slabs[number]
        if slab.free > 0:
            return
        if not slab.pages or sum(other.pages for other in self.slabs) < self.memory:
            slab.pages += 1
            return
        while slab.free <= 0:
            self._evict(slab)

    def _evict(self, slab: Slab) -> None:
        key = next(iter(slab.order))
        item = self.items[key]
        if self._is_dead(item):
            slab.reclaimed += 1
        elif item.fetches > 1:
            item.fetches = 0
            slab.order.move_to_end(key)
            return
        else:
            slab.evicted += 1
            self.evictions += 1
        self.remove(key)

    def used(self) -> Iterator[tuple[int, Slab]]:
        """The slab classes that have memory, by their numbers from 1."""
        return ((number, slab) for number, slab in enumerate(self.slabs, 1) if slab.pages)
