"""ADD with a random token; unlock and extension by GETS, a comparison, and CAS.

Commands: ``add key 0 exp len token`` · ``gets key``, and if the token is ours ``cas key 0 -1 0 number``: a negative
expiry is over at once. · extension: the same with a new expiry.
Source: memcached's protocol.txt (cas: "store this data but only if no one else has updated since I last fetched it";
negative expiry: "immediately expired").

memcached has no compare-and-delete (in the text protocol ``delete`` takes no number), and a delete after a comparison
is the gap of get-del-gap. CAS is one step at the server: if the item has expired and been added again since the GETS,
its number is another one, and nothing happens.

Safe for: cutting duplicate work; nobody can free another's lock. Two holders remain possible, and no token is issued
that a resource could check the order of.
Known failures: ttl-pause-write, ttl-overrun, lost-reply-acquire, late-acquire, mc-evict, mc-restart-rehash.
"""

from __future__ import annotations

import time
import uuid
from typing import ClassVar, Final

from lock_impls.base import Failure, Grant, LockInfo
from lock_impls.memcached_client import KINDS, OVERTIME_S, MemcachedLock, known_outcome

AT_ONCE: Final = -1


class TokenLock(MemcachedLock):
    info: ClassVar = LockInfo(
        name="memcached-token",
        title="memcached ADD with a token, GETS and CAS to unlock",
        algorithm="add key token exp; gets, compare, cas key '' exp=-1: one step, as each owner has another number.",
        source="memcached protocol.txt",
        safety="E",
        kinds=KINDS,
        on_death="its expiry, up to a second late",
        overtime=OVERTIME_S,
        outage="lost: no server, no lock; a restart forgets who held it",
        failures=(
            Failure(
                "ttl-pause-write",
                "a holder that stands still longer than its lease goes on as if it held the lock",
                "harness run memcached-token --nemesis client-pause",
            ),
            Failure(
                "ttl-overrun",
                "work that takes longer than the ttl is not alone",
                "harness run memcached-token --hold 4s",
            ),
            Failure(
                "mc-evict",
                "other items fill the memory, and the lock's is evicted long before it expires",
                "harness run memcached-token --nemesis eviction",
            ),
            Failure(
                "mc-restart-rehash",
                "the server comes back empty, and the lock is free",
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
        """A full ttl from now, if the item is still ours."""
        began = time.monotonic()
        with known_outcome():
            extended = self._replace_own(self.token, self.expiry)
        self.deadline = began + self.ttl if extended else 0.0
        return extended

    def still_valid(self) -> bool:
        """By this client's monotonic clock alone; asks nobody (a pause right after it goes unnoticed all the same)."""
        return time.monotonic() < self.deadline

    def _replace_own(self, value: bytes, expiry: int) -> bool:
        found, number = self.client.gets(self.key)
        if not self.token or found != self.token:
            return False
        return bool(self.client.cas(self.key, value, number, expiry))
