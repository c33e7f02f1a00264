"""Executes commands of memcached's text protocol on an item store and returns the answers.

Source: protocol.txt of memcached 1.6, and 1.6.18 itself: ``harness/fidelity/memcached/`` compares their
behaviour. Not simulated: the binary protocol, the meta commands (``mg`` and so on answer ``ERROR``; pymemcache does not
use them), ``lru``, ``slabs``, ``watch`` and other administration. ``stats`` has general figures, ``items``, ``slabs``
and ``reset``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from .store import EXPIRED_SECOND, MAX_ITEM_SIZE, MB, ItemStore, size_of

VERSION: Final = "1.6.18"
MAX_KEY_LENGTH: Final = 250
END: Final = b"END\r\n"
ERROR: Final = b"ERROR\r\n"
BAD_LINE: Final = b"CLIENT_ERROR bad command line format\r\n"
BAD_EXPTIME: Final = b"CLIENT_ERROR invalid exptime argument\r\n"
BAD_DELTA: Final = b"CLIENT_ERROR invalid numeric delta argument\r\n"
BAD_DELETE: Final = b"CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]\r\n"
BAD_CHUNK: Final = b"CLIENT_ERROR bad data chunk\r\n"
NOT_A_NUMBER: Final = b"CLIENT_ERROR cannot increment or decrement non-numeric value\r\n"
TOO_LARGE_ANSWER: Final = b"SERVER_ERROR object too large for cache\r\n"
NOT_FOUND: Final = b"NOT_FOUND\r\n"
NOT_STORED: Final = b"NOT_STORED\r\n"
STORED: Final = b"STORED\r\n"
OK: Final = b"OK\r\n"
STORING: Final = frozenset({b"set", b"add", b"replace", b"append", b"prepend", b"cas"})
FETCHING: Final = frozenset({b"get", b"gets", b"gat", b"gats"})
BINARY: Final = b"\x80"
"""First byte of a connection that speaks the binary protocol."""
_LACKING: Final = frozenset(
    {b"mg", b"ms", b"md", b"ma", b"mn", b"me", b"slabs", b"lru", b"lru_crawler", b"watch", b"cache_memlimit"}
)

_LACKING_STATS: Final = frozenset({b"settings", b"sizes", b"conns", b"detail", b"cachedump", b"extstore", b"proxy"})
_SIGNED: Final = re.compile(rb"[ \t]*[+-]?[0-9]+")
_UNSIGNED: Final = re.compile(rb"[ \t]*\+?[0-9]+")
_VALUE: Final = re.compile(rb"\s*(\+?[0-9]+)(?:[\s\0]|\Z)")
"""The prefix of a value that strtoull converts; the rest is ignored."""
_MAX: Final = 1 << 64

Words = list[bytes]


@dataclass(frozen=True, slots=True)
class DataBlock:
    """A storage command that waits for its ``length`` bytes of data and CR LF.

    If ``refusal`` is not empty, it is the answer, and the data are read and dropped. ``quiet``: no answer is sent.
    """

    command: bytes
    key: bytes
    flags: int
    exptime: int
    length: int
    cas: int
    quiet: bool
    refusal: bytes = b""


def _parse_signed(word: bytes) -> int | None:
    """Parse a number as strtol does, and wrap it to a C int; None if it is malformed or does not fit a long."""
    if not _SIGNED.fullmatch(word):
        return None
    number = int(word)
    return (number + (1 << 31)) % (1 << 32) - (1 << 31) if -(1 << 63) <= number < 1 << 63 else None


def _parse_unsigned(word: bytes) -> int | None:
    if not _UNSIGNED.fullmatch(word):
        return None
    number = int(word)
    return number if number < _MAX else None


def lacking(words: Words) -> str:
    """Return the command that memcached 1.6.18 has and this server lacks; empty if the line has none."""
    shown = words[:2] if words[:1] == [b"stats"] and words[1:2] and words[1] in _LACKING_STATS else words[:1]
    return b" ".join(shown).decode() if len(shown) > 1 or (shown and shown[0] in _LACKING) else ""


class CommandHandler:
    """Executes commands on one store."""

    def __init__(self, store: ItemStore) -> None:
        self.store = store
        self.gets = self.sets = 0
        self._table: dict[bytes, Callable[[Words], bytes]] = {
            b"get": lambda words: self._fetch(words[1:]),
            b"gets": lambda words: self._fetch(words[1:], cas=True),
            b"gat": lambda words: self._fetch_and_touch(words, cas=False),
            b"gats": lambda words: self._fetch_and_touch(words, cas=True),
            b"delete": self._delete,
            b"incr": lambda words: self._count_command(words, 1),
            b"decr": lambda words: self._count_command(words, -1),
            b"touch": self._touch,
            b"flush_all": self._flush,
            b"stats": self._stats,
            b"version": lambda _: f"VERSION {VERSION}\r\n".encode(),
            b"verbosity": self._verbosity,
            b"shutdown": lambda _: b"ERROR: shutdown not enabled\r\n",
        }

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy only the state: the functions of the table belong to one object."""
        return CommandHandler, (self.store,), {"gets": self.gets, "sets": self.sets}

    def execute(self, words: Words) -> bytes | DataBlock:
        """Execute a command line, given as words, and return the answer; or the data block that it needs first."""
        if not words:
            return ERROR
        if words[0] in STORING:
            return self._expect_block(words)
        command = self._table.get(words[0])
        return ERROR if command is None else command(words)

    # Storing

    def _expect_block(self, words: Words) -> bytes | DataBlock:
        wanted = 6 if words[0] == b"cas" else 5
        if not wanted <= len(words) <= wanted + 1:
            return ERROR
        quiet = words[-1] == b"noreply"
        flags, exptime, length = _parse_unsigned(words[2]), _parse_signed(words[3]), _parse_signed(words[4])
        cas = _parse_unsigned(words[5]) if words[0] == b"cas" else 0
        if len(words[1]) > MAX_KEY_LENGTH or flags is None or exptime is None or length is None or cas is None:
            return b"" if quiet else BAD_LINE
        if not 0 <= length <= (1 << 31) - 3:
            return b"" if quiet else BAD_LINE
        refusal = TOO_LARGE_ANSWER if size_of(words[1], length, flags) > MAX_ITEM_SIZE else b""
        if refusal and words[0] == b"set":
            self.store.remove(words[1])  # as memcached: a failed set must not leave the old value
        return DataBlock(words[0], words[1], flags, exptime, length, cas, quiet, refusal)

    def store_block(self, block: DataBlock, data: bytes) -> bytes:
        """Execute a storage command and return the answer; ``data`` are its bytes with the two that end them."""
        answer = block.refusal or self._store(block, data)
        return b"" if block.quiet else answer

    def _store(self, block: DataBlock, data: bytes) -> bytes:
        if not data.endswith(b"\r\n"):
            return BAD_CHUNK
        self.sets += 1
        store, key, value = self.store, block.key, data[:-2]
        old = store.find_live(key)
        exptime = store.expiry_second(block.exptime)
        if block.command == b"set":
            store.put(key, value, block.flags, exptime)
        elif block.command == b"add":
            if old is not None:
                return NOT_STORED
            store.put(key, value, block.flags, exptime)
        elif block.command == b"cas":
            if old is None:
                return NOT_FOUND
            if old.cas != block.cas:
                return b"EXISTS\r\n"
            store.put(key, value, block.flags, exptime)
        elif old is None:
            return NOT_STORED
        elif block.command == b"replace":
            store.put(key, value, block.flags, exptime)
        else:
            joined = old.value + value if block.command == b"append" else value + old.value
            store.put(key, joined, old.flags, old.exptime)
        return STORED

    # Fetching

    def _fetch(self, keys: Words, *, cas: bool = False, exptime: int | None = None) -> bytes:
        if not keys:
            return ERROR if exptime is None else END
        found: list[bytes] = []
        for key in keys:
            if len(key) > MAX_KEY_LENGTH:
                return BAD_LINE
            self.gets += 1
            item = self.store.find_live(key)
            if item is None:
                continue
            item.fetches += 1
            if exptime is not None:
                item.exptime = self.store.expiry_second(exptime)
            number = b" %d" % item.cas if cas else b""
            found.append(b"VALUE %b %d %d%b\r\n%b\r\n" % (key, item.flags, len(item.value), number, item.value))
        return b"".join(found) + END

    def _fetch_and_touch(self, words: Words, *, cas: bool) -> bytes:
        if len(words) < 2:
            return ERROR
        exptime = _parse_signed(words[1])
        return BAD_EXPTIME if exptime is None else self._fetch(words[2:], cas=cas, exptime=exptime)

    # Changing

    def _delete(self, words: Words) -> bytes:
        if not 2 <= len(words) <= 4:
            return ERROR
        quiet = words[-1] == b"noreply" and len(words) > 2
        if words[2:] not in ([], [b"0"], [b"noreply"], [b"0", b"noreply"]):
            return b"" if quiet else BAD_DELETE
        answer = BAD_LINE if len(words[1]) > MAX_KEY_LENGTH else NOT_FOUND
        if self.store.find_live(words[1]) is not None:
            self.store.remove(words[1])
            answer = b"DELETED\r\n"
        return b"" if quiet else answer

    def _count_command(self, words: Words, sign: int) -> bytes:
        if not 3 <= len(words) <= 4:
            return ERROR
        answer = self._add_delta(words[1], _parse_unsigned(words[2]), sign)
        return b"" if words[-1] == b"noreply" else answer

    def _add_delta(self, key: bytes, delta: int | None, sign: int) -> bytes:
        if len(key) > MAX_KEY_LENGTH:
            return BAD_LINE
        if delta is None:
            return BAD_DELTA
        item = self.store.find_live(key)
        if item is None:
            return NOT_FOUND
        digits = _VALUE.match(item.value)
        number = _parse_unsigned(digits[1]) if digits else None
        if number is None:
            return NOT_A_NUMBER
        number = (number + delta) % _MAX if sign > 0 else max(0, number - delta)
        text = str(number).encode()
        if len(text) > len(item.value):
            self.store.put(key, text, item.flags, item.exptime)
        else:  # in place: the value keeps its length
            item.value, item.cas = text.ljust(len(item.value)), self.store.next_cas()
        return text + b"\r\n"

    def _touch(self, words: Words) -> bytes:
        if not 3 <= len(words) <= 4:
            return ERROR
        quiet = words[-1] == b"noreply"
        exptime = _parse_signed(words[2])
        if len(words[1]) > MAX_KEY_LENGTH:
            answer = BAD_LINE
        elif exptime is None:
            answer = BAD_EXPTIME
        elif (item := self.store.find_live(words[1])) is None:
            answer = NOT_FOUND
        else:
            item.exptime = self.store.expiry_second(exptime)
            answer = b"TOUCHED\r\n"
        return b"" if quiet else answer

    def _flush(self, words: Words) -> bytes:
        if len(words) > 3:
            return ERROR
        quiet = words[-1] == b"noreply"
        exptime: int | None = 0
        if len(words) > (2 if quiet else 1):
            exptime = _parse_signed(words[1])
        if exptime is None:
            return b"" if quiet else BAD_EXPTIME
        self.store.flush(exptime)
        return b"" if quiet else OK

    # Administration

    @staticmethod
    def _verbosity(words: Words) -> bytes:
        if not 2 <= len(words) <= 3:
            return ERROR
        quiet = words[-1] == b"noreply"
        answer = BAD_LINE if _parse_unsigned(words[1]) is None else OK
        return b"" if quiet else answer

    def _stats(self, words: Words) -> bytes:
        store, about = self.store, words[1] if len(words) > 1 else b""
        if about == b"reset":
            self.gets = self.sets = store.evictions = store.total = 0
            for slab in store.slabs:
                slab.evicted = slab.reclaimed = 0
            return b"RESET\r\n"
        figures: dict[str, object] = {}
        if about == b"items":
            for number, slab in store.used_slabs():
                if slab.keys:
                    prefix = f"items:{number}"
                    figures[f"{prefix}:number"] = len(slab.keys)
                    figures[f"{prefix}:evicted"] = slab.evicted
                    figures[f"{prefix}:reclaimed"] = slab.reclaimed
        elif about == b"slabs":
            for number, slab in store.used_slabs():
                figures[f"{number}:chunk_size"] = slab.chunk_size
                figures[f"{number}:chunks_per_page"] = slab.chunks_per_page
                figures[f"{number}:total_pages"] = slab.pages
                figures[f"{number}:used_chunks"] = len(slab.keys)
                figures[f"{number}:free_chunks"] = slab.free_chunks
        elif about:
            return ERROR
        else:
            figures = {
                "pid": 1,
                "uptime": store.now - EXPIRED_SECOND - 1,
                "time": store.started + store.now,
                "version": VERSION,
                "cmd_get": self.gets,
                "cmd_set": self.sets,
                "limit_maxbytes": store.memory * MB,
                "curr_items": len(store.items),
                "total_items": store.total,
                "evictions": store.evictions,
            }
        return "".join(f"STAT {name} {value}\r\n" for name, value in figures.items()).encode() + END
