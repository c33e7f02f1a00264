"""tooz's lock on memcached (``coordinator.get_lock``), unmodified; tested with tooz 9.1.0 on pymemcache 4.0.0.

Commands: ``add __TOOZ_LOCK_key member lock_timeout`` · release: ``get``, and if it is the member's id ``delete``: two
steps · the coordinator's heart, a thread, every half of the shortest time-out: ``set`` of the member's own item, and
``touch key lock_timeout`` for each lock that it believes to have, whoever's the item is by then.
Its documentation promises a distributed lock, which on memcached lives as long as its holder's heart beats
(``start(start_heart=True)``, as its tutorial has it) and expires ``lock_timeout`` seconds after the last beat.
Source: tooz/drivers/memcached.py, whose comment says that a late release may delete another's lock.

A coordinator for each lock, with a member id of its own. Time-outs of sockets are this adapter's, a second, the least
that it takes. ``acquire(blocking=2.5)``, documented to return False in the end, raises tenacity's RetryError instead:
this adapter asks with ``blocking=False``, again and again.
Safe for: cutting duplicate work.
Known failures: tooz-heartbeat-forever (a release that raised leaves the lock among those that are kept alive),
get-del-gap, ttl-pause-write, lost-reply-acquire, late-acquire, mc-evict, mc-restart-rehash.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable
from typing import Any, ClassVar, Final

from tooz import ToozError, coordination

from lock_impls.base import Endpoints, Failure, Grant, Indeterminate, LockError, LockInfo
from lock_impls.memcached_client import KINDS, OVERTIME_S, whole_seconds
from lock_impls.polling import poll

TIMEOUT_S: Final = 1
"""Of sockets, in whole seconds; tooz's own is 30."""
# A heart that cannot beat says so at each try.
logging.getLogger("tooz").addHandler(logging.NullHandler())


class ToozMemcached:
    info: ClassVar = LockInfo(
        name="tooz-memcached",
        title="tooz's own lock on memcached, unmodified",
        algorithm="add key member lock_timeout; touch every half of it; release: get, compare, delete: two steps.",
        source="tooz 9.1.0, tooz/drivers/memcached.py",
        safety="E",
        kinds=KINDS,
        library="tooz 9.1.0",
        promises="A distributed lock that its member's heartbeat keeps: it expires lock_timeout seconds after the last "
        "one. Its source warns that a late release may delete another's lock.",
        on_death="its expiry, up to a second late",
        overtime=OVERTIME_S,
        outage="lost: no server, no lock; a restart forgets who held it",
        failures=(
            Failure("ttl-pause-write", "its holder stands still for longer than the lease",
                    "harness run tooz-memcached --nemesis client-pause"),
            Failure("tooz-heartbeat-forever", "a release fails, and its holder's heart keeps the lock for ever",
                    "harness run tooz-memcached --nemesis connection-reset"),
            Failure("mc-evict", "other items fill the memory, and the lock's is evicted",
                    "harness run tooz-memcached --nemesis eviction"),
            Failure("mc-restart-rehash", "the server comes back empty, and the lock is free",
                    "harness run tooz-memcached --nemesis kill-amnesia"),
        ),
    )  # fmt: skip

    def __init__(self, endpoints: Endpoints, key: str, ttl: float) -> None:
        (host, port), *_ = endpoints.addresses
        self._coordinator = coordination.get_coordinator(
            f"memcached://{host}:{port}", uuid.uuid4().hex.encode(), timeout=TIMEOUT_S, lock_timeout=whole_seconds(ttl),
            membership_timeout=whole_seconds(ttl), leader_timeout=whole_seconds(ttl),
        )  # fmt: skip
        self._lock = self._coordinator.get_lock(key.encode())
        self._started = False

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float) -> ToozMemcached:
        return cls(endpoints, key, ttl)

    def acquire(self, timeout: float) -> Grant | None:
        self._start()
        return poll(lambda: Grant() if _outcome(lambda: self._lock.acquire(blocking=False)) else None, timeout)

    def _start(self) -> None:
        if self._started:
            return
        try:
            self._coordinator.start(start_heart=True)
        except ToozError as error:
            raise LockError(f"cannot connect: {error}") from error
        self._started = True

    def release(self) -> None:
        if not _outcome(self._lock.release):
            raise LockError("not held by this member")

    def still_valid(self) -> bool:
        """Asks the server; no answer is no."""
        try:
            return bool(self._lock.is_still_owner())
        except ToozError:
            return False


def _outcome(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except coordination.ToozConnectionError as error:
        raise Indeterminate(str(error)) from error
    except ToozError as error:
        raise LockError(str(error)) from error
