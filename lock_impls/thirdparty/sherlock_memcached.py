"""sherlock's ``MCLock``, unmodified; tested with sherlock 0.4.1 on pymemcache 4.0.0 and on pylibmc 1.6.3.

Commands: ``add key uuid expire`` · release: ``get key``, and if it is the object's uuid ``delete key``: two steps ·
renewal: the same ``get``, and then ``set key uuid expire``.
Its documentation promises "distributed inter-process locks" with the API of ``threading.Lock``, and that ``expire``
ends a lock. It names pylibmc as the client, lets another be given (``client=``), and says nothing of what the two steps
mean: what expires between them is somebody else's, and is deleted, or taken back.
Source: sherlock/lock.py.

pylibmc is a C library, which cannot run on virtual time: ``client=pymemcache`` (the default, here and on containers)
gives the lock a pymemcache client, which has the methods it calls; ``client=pylibmc`` is for containers alone. The
class imports pylibmc in either case. Its waiting counts tries, not time: it ends up to one interval of 0.1 s early, and
later by all that the answers take. The object's end is a release too (``__del__``).
Safe for: cutting duplicate work.
Known failures: get-del-gap, ttl-pause-write, ttl-overrun, lost-reply-acquire, late-acquire, mc-evict,
mc-restart-rehash.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Literal

import pylibmc
from pymemcache.serde import pickle_serde
from sherlock import LockException, LockTimeoutException, MCLock

from lock_impls.base import Endpoints, Failure, Grant, Indeterminate, LockError, LockInfo
from lock_impls.memcached_client import KINDS, OVERTIME_S, TIMEOUT_S, Client, known_outcome, whole_seconds

LIBRARIES = ("pymemcache", "pylibmc")


class SherlockMemcached:
    info: ClassVar = LockInfo(
        name="sherlock-memcached",
        title="sherlock's own MCLock, unmodified",
        algorithm="add key uuid expire; release: get, compare, delete: two steps.",
        source="sherlock 0.4.1, sherlock/lock.py",
        safety="E",
        kinds=KINDS,
        options={"client": "pymemcache"},
        library="sherlock 0.4.1",
        promises="Distributed inter-process locks with the API of threading.Lock, which expire after `expire` seconds; "
        "release raises where the lock was not acquired by this instance.",
        on_death="its expiry, up to a second late",
        overtime=OVERTIME_S,
        outage="lost: no server, no lock; a restart forgets who held it",
        failures=(
            Failure("ttl-pause-write", "its holder stands still for longer than the lease",
                    "harness run sherlock-memcached --nemesis client-pause"),
            Failure("ttl-overrun", "the work takes longer than the ttl", "harness run sherlock-memcached --hold 4s"),
            Failure("mc-evict", "other items fill the memory, and the lock's is evicted",
                    "harness run sherlock-memcached --nemesis eviction"),
            Failure("mc-restart-rehash", "the server comes back empty, and the lock is free",
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
        try:
            _outcome(self._lock.acquire)
        except LockTimeoutException:
            return None
        return Grant()

    def release(self) -> None:
        _outcome(self._lock.release)

    def extend(self) -> bool:
        try:
            return bool(_outcome(self._lock.renew))
        except LockError:
            return False


def _outcome(call: Callable[[], Any]) -> Any:
    try:
        with known_outcome():
            return call()
    except LockException as error:
        raise LockError(str(error)) from error
    except pylibmc.Error as error:
        raise Indeterminate(f"{type(error).__name__}: {error}") from error


def _pymemcache(address: tuple[str, int]) -> Client:
    """Texts come back as the texts that they were, as from pylibmc."""
    return Client(
        address, serde=pickle_serde, connect_timeout=TIMEOUT_S, timeout=TIMEOUT_S, no_delay=True, default_noreply=False
    )


def _pylibmc(address: tuple[str, int]) -> pylibmc.Client:
    """As sherlock's documentation makes it: with the binary protocol. Time-outs in milliseconds and, of answers, in
    microseconds."""
    behaviors = {"tcp_nodelay": True, "connect_timeout": int(TIMEOUT_S * 1e3), "receive_timeout": int(TIMEOUT_S * 1e6)}
    return pylibmc.Client([f"{address[0]}:{address[1]}"], binary=True, behaviors=behaviors)
