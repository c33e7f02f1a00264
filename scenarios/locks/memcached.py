"""memcached locks for scenarios: each has a mistake that public sources describe, or is the corrected form of one."""

from __future__ import annotations

import math
import time
import uuid
from typing import Any, ClassVar, Self

from pymemcache.client.hash import HashClient

from harness.lock_impls.base import Endpoints, Grant
from harness.lock_impls.memcached_add import AddLock
from harness.lock_impls.memcached_client import TIMEOUT_S, MemcachedClient, MemcachedLock, open_client
from harness.lock_impls.memcached_token import MemcachedTokenLock
from harness.lock_impls.origins import mistake, model_of, use_of, variant_of


class Forever(AddLock):
    """setnx-crash, lost-reply-acquire, late-acquire: an item without an expiry, which stays for ever."""

    origin: ClassVar = mistake("an item without an expiry", "article 001 (for SETNX)")
    kinds: ClassVar = ("memcached",)
    expiry = 0


class ExpiresTooEarly(MemcachedTokenLock):
    """mc-whole-seconds: the expiry is just the ttl, and the item may be gone a second before the ttl is over."""

    origin: ClassVar = mistake(
        "an expiry of just the ttl in whole seconds", "memcached's protocol.txt, 'Expiration times'"
    )
    kinds: ClassVar = ("memcached",)

    @property
    def expiry(self) -> int:
        return math.ceil(self.ttl)


class GetAndDelete(MemcachedTokenLock):
    """get-del-gap: like sherlock's MCLock, it reads the item, compares it, and then deletes the current item,
    whoever owns it."""

    origin: ClassVar = model_of("the release of MCLock", "sherlock", "0.4.1", "sherlock/lock.py, line 758")
    kinds: ClassVar = ("memcached",)

    def unlock(self) -> bool:
        return bool(self.client.get(self.key) == self.token and self.client.delete(self.key))


class CasFence(MemcachedTokenLock):
    """Not a mistake: the item's own cas number is a fence, larger for every owner as long as the server lives."""

    origin: ClassVar = mistake(
        "a fence from the item's cas number, which is lost with its server", "memcached's protocol.txt (cas numbers)"
    )
    kinds: ClassVar = ("memcached",)

    def try_lock(self) -> Grant | None:
        grant = super().try_lock()
        if grant is None:
            return None
        found, number = self.client.gets(self.key)
        return Grant(fence=int(number), valid_for=grant.valid_for) if found == self.token else None


class CountedElsewhere(MemcachedTokenLock):
    """Not a mistake: the fence comes from a counter on the second server, which no scenario harms."""

    origin: ClassVar = variant_of("memcached-token", "fencing tokens from a counter on another server")
    kinds: ClassVar = ("memcached",)
    counter: MemcachedClient

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float, **options: Any) -> Self:
        mine = super().open(endpoints, key, ttl, **options)
        mine.counter = open_client(endpoints.addresses[1])
        return mine

    def try_lock(self) -> Grant | None:
        grant = super().try_lock()
        return None if grant is None else Grant(fence=self.counted(), valid_for=grant.valid_for)

    def counted(self) -> int:
        self.counter.add(f"{self.key}:fence", "0")
        return int(self.counter.incr(f"{self.key}:fence", 1))


class Rehashing(MemcachedLock):
    """mc-restart-rehash: pymemcache's HashClient removes an unresponsive server from its ring, and asks another server
    for the key.

    The first server has all keys while it is in the ring; otherwise a key's server would depend on addresses.
    """

    origin: ClassVar = use_of(
        "pymemcache",
        "the installed release",
        "a HashClient that asks another server once the key's own is out of its ring",
        "pymemcache/client/hash.py",
    )
    kinds: ClassVar = ("memcached",)

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float, **options: Any) -> Self:
        first = "{}:{}".format(*endpoints.addresses[0])

        class FirstOfThose(list[str]):
            """A ring that names the first server for as long as it is in it."""

            add_node, remove_node = list.append, list.remove

            def get_node(self, key: str) -> str:
                return first if first in self else self[0]

        client = HashClient(
            list(endpoints.addresses),
            hasher=FirstOfThose,
            connect_timeout=TIMEOUT_S / 4,
            timeout=TIMEOUT_S / 4,
            retry_attempts=0,
            default_noreply=False,
        )
        client.client_class = MemcachedClient
        return cls(client, key, ttl)

    def try_lock(self) -> Grant | None:
        began = time.monotonic()
        try:
            stored = self.client.add(self.key, uuid.uuid4().hex, self.expiry)
        except OSError:  # the server is out of the ring: use the next one, as a web application's cache would
            return None
        return Grant(valid_for=self.remaining(began)) if stored else None

    def unlock(self) -> bool:
        return bool(self.client.delete(self.key))


class StaysWithItsServer(Rehashing):
    """Not a mistake: with the same two servers, no lock is granted without the server that the key belongs to."""

    origin: ClassVar = Rehashing.origin.fixed("the program asks the key's own server only")

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float, **options: Any) -> Self:
        return cls(open_client(endpoints.addresses[0]), key, ttl)
