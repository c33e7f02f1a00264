"""sherlock's ``MCLock`` (memcached), unmodified; tested with sherlock 0.4.1 on pymemcache 4.0.0 and on pylibmc 1.6.3.

Commands: ``add key uuid expire`` · release: ``get key``, and if it is the object's uuid ``delete key``: two steps ·
renewal: the same ``get``, and then ``set key uuid expire``.

Its documentation promises "distributed inter-process locks" with the API of ``threading.Lock``, and that ``expire``
ends a lock. It names pylibmc as the client, accepts another (``client=``), and does not mention the gap between the two
steps: if the item expires between them and another client adds it, that client's item is deleted, or overwritten.
Source: sherlock/lock.py.

pylibmc is a C library, which cannot run on virtual time. ``client=pymemcache`` (the default, in the simulator and on
containers) gives the lock a pymemcache client, which has the methods that it calls; ``client=pylibmc`` works on
containers only. The class imports pylibmc in either case; pylibmc 1.6.3 has wheels for Python up to 3.11, and later
versions need libmemcached's header files to build it. sherlock's waiting counts tries, not time: it ends up to one
interval of 0.1 s early, and later by the time that the answers take. Garbage collection of the object is a release too
(``__del__``).

Safe for: cutting duplicate work.

Known failures: get-del-gap, ttl-pause-write, ttl-overrun, lost-reply-acquire, late-acquire, mc-evict,
mc-restart-rehash.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Literal

import pylibmc
from pymemcache.serde import pickle_serde
from sherlock import LockException, LockTimeoutException, MCLock

from harness.lock_impls.base import Endpoints, Failure, Grant, Indeterminate, LockError, LockInfo
from harness.lock_impls.contexts import Context
from harness.lock_impls.memcached_client import (
    KINDS,
    OVERTIME_S,
    TIMEOUT_S,
    MemcachedClient,
    known_outcome,
    whole_seconds,
)

LIBRARIES = ("pymemcache", "pylibmc")


class SherlockMemcached:
    info: ClassVar = LockInfo(
        name="sherlock-memcached",
        title="sherlock's own MCLock, unmodified",
        algorithm="add key uuid expire; release: get, compare, delete: two steps.",
        source="sherlock 0.4.1, sherlock/lock.py",
        safety="E",
        kinds=KINDS,
        requires=("sherlock==0.4.1", "pylibmc==1.6.3", "pymemcache==4.0.0"),
        options={"client": "pymemcache"},
        library="sherlock 0.4.1",
        lease="ttl",
        promises=(
        "Distributed inter-process locks with the API of threading.Lock, which expire after `expire` seconds; "
        "release raises if this instance did not acquire the lock."
),
        on_death="expiry, up to a second late",
        overtime=OVERTIME_S,
        outage="the lock is lost: a restart forgets the holder, and without the server nobody can acquire it",
        failures=(
            Failure("ttl-pause-write", "the holder is paused for longer than its lease",
                    "harness run sherlock-memcached --nemesis client-pause"),
            Failure("ttl-overrun", "the work takes longer than the ttl", "harness run sherlock-memcached --hold 4s"),
            Failure("mc-evict", "other items fill the memory, and the lock's item is evicted",
                    "harness run sherlock-memcached --nemesis eviction"),
            Failure("mc-restart-rehash", "the server restarts empty, and the lock is free",
                    "harness run sherlock-memcached --nemesis kill-amnesia"),
        ),
    )  # fmt: skip

    def __init__(self, endpoints: Endpoints, key: str, ttl: float, client: Literal["pymemcache", "pylibmc"]) -> None:
        if client not in LIBRARIES:
            raise ValueError(f"client is {client!r}, expected one of {', '.join(LIBRARIES)}")
        made = (_pymemcache if client == "pymemcache" else _pylibmc)(endpoints.addresses[0])
        self._lock = MCLock(key, client=made, expire=whole_seconds(ttl), retry_interval=0.1)

    @classmethod
    def open(
        cls, endpoints: Endpoints, key: str, ttl: float, client: Literal["pymemcache", "pylibmc"] = "pymemcache"
    ) -> SherlockMemcached:
        return cls(endpoints, key, ttl, client)

    def acquire(self, timeout: float) -> Grant | None:
        self._lock.timeout = timeout
        with _known_outcome():
            try:
                self._lock.acquire()
            except LockTimeoutException:
                return None
        return Grant()

    def release(self) -> None:
        _outcome(self._lock.release)

    def context(self, timeout: float) -> Context:
        self._lock.timeout = timeout
        return Context(self._lock, _known_outcome, timeout)

    def extend(self) -> bool:
        try:
            return bool(_outcome(self._lock.renew))
        except LockError:
            return False


def _outcome(call: Callable[[], Any]) -> Any:
    with _known_outcome():
        return call()


@contextmanager
def _known_outcome() -> Iterator[None]:
    try:
        with known_outcome():
            yield
    except (LockException, LockTimeoutException) as error:
        raise LockError(str(error)) from error
    except pylibmc.Error as error:
        raise Indeterminate(f"{type(error).__name__}: {error}") from error


def _pymemcache(address: tuple[str, int]) -> MemcachedClient:
    """Open a pymemcache client that returns texts as texts, as pylibmc does."""
    return MemcachedClient(
        address, serde=pickle_serde, connect_timeout=TIMEOUT_S, timeout=TIMEOUT_S, no_delay=True, default_noreply=False
    )


def _pylibmc(address: tuple[str, int]) -> pylibmc.MemcachedClient:
    """Open a pylibmc client with the binary protocol, as in sherlock's documentation.

    pylibmc's time-out for connecting is in milliseconds, the one for answers in microseconds.
    """
    behaviors = {"tcp_nodelay": True, "connect_timeout": int(TIMEOUT_S * 1e3), "receive_timeout": int(TIMEOUT_S * 1e6)}
    return pylibmc.MemcachedClient([f"{address[0]}:{address[1]}"], binary=True, behaviors=behaviors)
