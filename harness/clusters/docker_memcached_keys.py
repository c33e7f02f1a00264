"""A look at a lock's key on a real memcached."""

from __future__ import annotations

import re
import time
from typing import Final

from pymemcache.client.base import Client
from pymemcache.exceptions import MemcacheError

from ..history.lock_keys import Sight
from .docker_keys import Blind
from .docker_kinds import ASK

_TOLD: Final = re.compile(rb"^ME \S+ .*\bexp=(-?\d+)\b.*\bcas=(\d+)\b")

ENDLESS: Final = -1
"""Of the seconds that an item has left some versions tell the negative: 1.6.18 does."""


class MemcachedEye:
    """Asks with ``me`` (memcached's protocol.txt, "Meta Debug"), which is no use of the item, as a ``get`` would be: by
    their uses items are evicted. It does not tell the value; what tells owners apart is the number of the change. When
    an item ends it tells in whole seconds, so the end is kept that was told at first."""

    def __init__(self, address: str, port: int) -> None:
        self._client = Client((address, port), connect_timeout=ASK, timeout=ASK)
        self._ends: dict[str, tuple[str, int | None]] = {}
        """By key the number of the change, and when the item ends (monotonic ns), None if never."""

    def look(self, key: str) -> Sight | None:
        try:
            told = self._client.raw_command(f"me {key}".encode())
        except (MemcacheError, OSError) as error:
            raise Blind from error
        found = _TOLD.match(told)
        if found is None:
            return None
        change = found[2].decode()
        return Sight(f"change {change}", self._left(key, change, int(found[1])))

    def _left(self, key: str, change: str, told: int) -> int | None:
        now = time.monotonic_ns()
        known, end = self._ends.get(key, ("", None))
        if known != change:
            end = None if told == ENDLESS else now + abs(told) * 1_000_000_000
            self._ends[key] = change, end
        return None if end is None else end - now

    def close(self) -> None:
        self._client.close()
