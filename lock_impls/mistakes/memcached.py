"""memcached locks that are wrong on purpose, each one documented mistake, and right ones to compare them with."""

from __future__ import annotations

import math
import time
import uuid
from typing import Any, ClassVar, Self

from pymemcache.client.hash import HashClient

from lock_impls.base import Endpoints, Grant
from lock_impls.memcached_add import AddLock
from lock_impls.memcached_client import TIMEOUT_S, Client, MemcachedLock, open_client
from lock_impls.memcached_token import TokenLock


class Forever(AddLock):
    """setnx-crash, lost-reply-acquire, late-acquire: an item without expiry, which nobody ends."""

    kinds: ClassVar = ("memcached",)
    expiry = 0


class ThisSecond(TokenLock):
    """The expiry as it is written down: the item may be gone a second before the ttl is over."""

    kinds: ClassVar = ("memcached",)

    @property
    def expiry(self) -> int:
        return math.ceil(self.ttl)


class GetAndDelete(TokenLock):
    """get-del-gap: sherlock's MCLock reads, compares, and deletes whatever is there by then."""

    kinds: ClassVar = ("memcached",)

    def unlock(self) -> bool:
        return bool(self.client.get(self.key) == self.token and self.client.delete(self.key))


class CasFence(TokenLock):
    """Not a mistake: the item's own cas number is larger for every owner, for as long as the server lives."""

    kinds: ClassVar = ("memcached",)

    def try_lock(self) -> Grant | None:
        grant = super().try_lock()
        if grant is None:
            return None
        found, number = self.client.gets(self.key)
        return Grant(fence=int(number), valid_for=grant.valid_for) if found == self.token else None


class CountedElsewhere(TokenLock):
    """Not a mistake: fences from a counter on the second server, which no scenario hurts."""

    kinds: ClassVar = ("memcached",)
    counter: Client

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
    """mc-restart-rehash: pymemcache's HashClient takes a server that does not answer out of its ring, and asks another
    one for the key. (The first server has all keys while it is in the ring: whose key it is would depend on its
    address.)"""

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
        client.client_class = Client
        return cls(client, key, ttl)

    def try_lock(self) -> Grant | None:
        began = time.monotonic()
        try:
            stored = self.client.add(self.key, uuid.uuid4().hex, self.expiry)
        except OSError:  # the server is out of the ring: the next one, as a web application's cache would
            return None
        return Grant(valid_for=self.remaining(began)) if stored else None

    def unlock(self) -> bool:
        return bool(self.client.delete(self.key))


class StaysWithItsServer(Rehashing):
    """Not a mistake: the same two servers, and no lock without the one that the key belongs to."""

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float, **options: Any) -> Self:
        return cls(open_client(endpoints.addresses[0]), key, ttl)
