"""memcached lock with ADD and a random token; to unlock or extend: GETS, compare the token, and CAS.

Commands: ``add key 0 exp len token`` · ``gets key``, and if the token is ours ``cas key 0 -1 0 number``: a negative
expiry ends the item at once · extension: the same with a new expiry.
Source: memcached's protocol.txt (cas: "store this data but only if no one else has updated since I last fetched it";
negative expiry: "immediately expired").

memcached has no compare-and-delete (in the text protocol ``delete`` takes no number), and a delete after a comparison
has the gap of get-del-gap. CAS is one step at the server: if the item has expired and been added again since the GETS,
its number is different, and nothing happens.

Safe for: cutting duplicate work; no client can free another's lock. Two holders remain possible, and no token is issued
whose order a resource could check.

Known failures: ttl-pause-write, ttl-overrun, lost-reply-acquire, late-acquire, mc-evict, mc-restart-rehash.
"""

from __future__ import annotations

import time
import uuid
from typing import ClassVar, Final

from .base import Failure, Grant, LockInfo
from .memcached_client import KINDS, OVERTIME_S, REQUIRES, MemcachedLock, known_outcome

AT_ONCE: Final = -1


class MemcachedTokenLock(MemcachedLock):
    info: ClassVar = LockInfo(
        name="memcached-token",
        title="memcached ADD with a token, GETS and CAS to unlock",
        algorithm=(
            "add key token exp; gets, compare, cas key '' exp=-1: atomic, since each owner's item has another number."
        ),
        source="memcached protocol.txt",
        safety="E",
        kinds=KINDS,
        requires=REQUIRES,
        on_death="expiry, up to a second late",
        overtime=OVERTIME_S,
        outage="the lock is lost: a restart forgets the holder, and without the server nobody can acquire it",
        failures=(
            Failure(
                "ttl-pause-write",
                "the holder is paused for longer than its lease",
                "harness run memcached-token --nemesis client-pause",
            ),
            Failure(
                "ttl-overrun",
                "the work takes longer than the ttl",
                "harness run memcached-token --hold 4s",
            ),
            Failure(
                "mc-evict",
                "other items fill the memory, and the lock's item is evicted long before it expires",
                "harness run memcached-token --nemesis eviction",
            ),
            Failure(
                "mc-restart-rehash",
                "the server restarts empty, and the lock is free",
                "harness run memcached-token --nemesis kill-amnesia",
            ),
        ),
    )
    token = b""
    deadline = 0.0

    def try_lock(self) -> Grant | None:
        began = time.monotonic()
        token = uuid.uuid4().hex.encode()
        if not self.client.add(self.key, token, self.expiry):
            return None
        self.token, self.deadline = token, began + self.ttl
        return Grant(valid_for=self.remaining(began))

    def unlock(self) -> bool:
        self.deadline = 0.0
        return self._replace_own(b"", AT_ONCE)

    def extend(self) -> bool:
        """Extend the lease to a full ttl from now, if the item is still ours."""
        began = time.monotonic()
        with known_outcome():
            extended = self._replace_own(self.token, self.expiry)
        self.deadline = began + self.ttl if extended else 0.0
        return extended

    def still_valid(self) -> bool:
        """Decide by this client's monotonic clock alone, without a request. A pause right after the answer goes
        unnoticed."""
        return time.monotonic() < self.deadline

    def _replace_own(self, value: bytes, expiry: int) -> bool:
        found, number = self.client.gets(self.key)
        if not self.token or found != self.token:
            return False
        return bool(self.client.cas(self.key, value, number, expiry))
