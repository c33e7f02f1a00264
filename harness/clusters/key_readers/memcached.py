"""Read a lock's key on a memcached without affecting the order of eviction."""

from __future__ import annotations

import re
import time
from typing import Final

from pymemcache.client.base import Client
from pymemcache.exceptions import MemcacheError

from harness.clusters.key_watch import ANSWER_S, NoAnswer
from harness.history.lock_keys import KeyObservation

_META_REPLY: Final = re.compile(rb"^ME \S+ .*\bexp=(-?\d+)\b.*\bcas=(\d+)\b")

ENDLESS: Final = -1
"""``exp`` of an item without expiry. Some versions (1.6.18) report the remaining seconds of others negated."""


class MemcachedKeyReader:
    """Reads with ``me`` (memcached's protocol.txt, "Meta Debug"), which does not count as a use of the item; a ``get``
    would, and affect eviction. ``me`` does not return the value, so the item's CAS number stands for the owner. It
    reports the expiry in whole seconds, so the first reading for each CAS number is kept."""

    def __init__(self, address: str, port: int) -> None:
        self._client = Client((address, port), connect_timeout=ANSWER_S, timeout=ANSWER_S)
        self._ends: dict[str, tuple[str, int | None]] = {}
        """State by key: CAS number, and the item's expiry (monotonic ns, ``None``: never)."""

    def look(self, key: str) -> KeyObservation | None:
        try:
            reported = self._client.raw_command(f"me {key}".encode())
        except (MemcacheError, OSError) as error:
            raise NoAnswer from error
        found = _META_REPLY.match(reported)
        if found is None:
            return None
        change = found[2].decode()
        return KeyObservation(f"change {change}", self._left(key, change, int(found[1])))

    def _left(self, key: str, change: str, reported: int) -> int | None:
        now = time.monotonic_ns()
        known, end = self._ends.get(key, ("", None))
        if known != change:
            end = None if reported == ENDLESS else now + abs(reported) * 1_000_000_000
            self._ends[key] = change, end
        return None if end is None else end - now

    def close(self) -> None:
        self._client.close()
