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


class MemcachedEye:
    """Asks with ``me`` (memcached's protocol.txt, "Meta Debug"), which is no use of the item, as a ``get`` would be: by
    their uses items are evicted. It does not tell the value; what tells owners apart is the number of the change. When
    an item ends it tells in whole seconds, so the end is kept that was told at first."""

    def __init__(self, address: str, port: int) -> None:
        self._client = Client((address, port), connect_timeout=ASK, timeout=ASK)
        self._ends: dict[str, tuple[str, int]] = {}
        """By key the number of the change, and when the item ends (monotonic ns)."""

    def look(self, key: str) -> Sight | None:
        try:
            told = self._client.raw_command(f"me {key}".encode())
        except (MemcacheError, OSError) as error:
            raise Blind from error
        found = _TOLD.match(told)
        if found is None:
            return None
        seconds, change = int(found[1]), found[2].decode()
        return Sight(f"change {change}", None if seconds < 0 else self._left(key, change, seconds))

    def _left(self, key: str, change: str, seconds: int) -> int:
        now = time.monotonic_ns()
        known, end = self._ends.get(key, ("", 0))
        if known != change:
            end = now + seconds * 1_000_000_000
            self._ends[key] = change, end
        return end - now

    def close(self) -> None:
        self._client.close()
