"""tooz's lock on memcached (``coordinator.get_lock``), unmodified; tested with tooz 9.1.0 on pymemcache 4.0.0.

Commands: ``add __TOOZ_LOCK_key member lock_timeout`` · release: ``get``, and if it is the member's id ``delete``: two
steps · the coordinator's heartbeat, a thread, every half of the shortest time-out: ``set`` of the member's own item,
and ``touch key lock_timeout`` for each lock that it believes to hold, even if the item belongs to another member by
then.

Its documentation promises a distributed lock, which on memcached lasts as long as its holder's heartbeat
(``start(start_heart=True)``, as in its tutorial) and expires ``lock_timeout`` seconds after the last beat.
Source: tooz/drivers/memcached.py, whose comment says that a late release may delete another's lock.

Each lock has its own coordinator with its own member id. This adapter sets the time-outs of sockets to a second, the
least possible. ``acquire(blocking=2.5)``, documented to return False in the end, raises tenacity's RetryError instead:
this adapter repeatedly calls it with ``blocking=False``.

Safe for: cutting duplicate work.

Known failures: tooz-heartbeat-forever (a release that raised leaves the lock among those that are kept alive),
get-del-gap, ttl-pause-write, lost-reply-acquire, late-acquire, mc-evict, mc-restart-rehash.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Final

from stevedore import DriverManager
from tooz import ToozError, coordination

from harness.lock_impls.base import Endpoints, Failure, Grant, Indeterminate, LockError, LockInfo
from harness.lock_impls.contexts import Context
from harness.lock_impls.memcached_client import KINDS, OVERTIME_S, whole_seconds
from harness.lock_impls.polling import poll

DriverManager("tooz.backends", "memcached", invoke_on_load=False)
"""tooz looks up its driver through a cache of entry points in the user's home. Without that cache the look-up scans all
distributions; done within a simulated run, that gave another history of the same seed. So it is done on import."""
TIMEOUT_S: Final = 1
"""Time-out of sockets in whole seconds; tooz's own is 30."""
# It logs each heartbeat that fails.
logging.getLogger("tooz").addHandler(logging.NullHandler())


class ToozMemcached:
    info: ClassVar = LockInfo(
        name="tooz-memcached",
        title="tooz's own lock on memcached, unmodified",
        algorithm="add key member lock_timeout; touch every half of it; release: get, compare, delete: two steps.",
        source="tooz 9.1.0, tooz/drivers/memcached.py",
        safety="E",
        kinds=KINDS,
        requires=("tooz==9.1.0", "pymemcache==4.0.0"),
        library="tooz 9.1.0",
        promises=(
        "A distributed lock that its member's heartbeat keeps: it expires lock_timeout seconds after the last one. "
        "Its source warns that a late release may delete another's lock."
),
        on_death="expiry, up to a second late",
        overtime=OVERTIME_S,
        outage="the lock is lost: a restart forgets the holder, and without the server nobody can acquire it",
        failures=(
            Failure("ttl-pause-write", "the holder is paused for longer than its lease",
                    "harness run tooz-memcached --nemesis client-pause"),
            Failure("tooz-heartbeat-forever", "a release fails, and its holder's heartbeat keeps the lock for ever",
                    "harness run tooz-memcached --nemesis connection-reset"),
            Failure("mc-evict", "other items fill the memory, and the lock's item is evicted",
                    "harness run tooz-memcached --nemesis eviction"),
            Failure("mc-restart-rehash", "the server restarts empty, and the lock is free",
                    "harness run tooz-memcached --nemesis kill-amnesia"),
        ),
    )  # fmt: skip

    def __init__(self, endpoints: Endpoints, key: str, ttl: float) -> None:
        (host, port), *_ = endpoints.addresses
        self._coordinator = coordination.get_coordinator(
            f"memcached://{host}:{port}", uuid.uuid4().hex.encode(), timeout=TIMEOUT_S, lock_timeout=whole_seconds(ttl),
            membership_timeout=whole_seconds(ttl), leader_timeout=whole_seconds(ttl),
        )  # fmt: skip
        self._lock: Any = self._coordinator.get_lock(key.encode())
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

    def extend(self) -> bool:
        """Prolong the lease as each heartbeat does. The library does not ask whose item it prolongs."""
        return bool(_outcome(self._lock.heartbeat))

    def context(self, timeout: float) -> Context:  # noqa: ARG002 - tooz waits without limit in `with`
        self._start()
        return Context(self._lock, _known_outcome)

    def still_valid(self) -> bool:
        """Ask the server; no answer counts as no."""
        try:
            return bool(self._lock.is_still_owner())
        except ToozError:
            return False


def _outcome(call: Callable[[], Any]) -> Any:
    with _known_outcome():
        return call()


@contextmanager
def _known_outcome() -> Iterator[None]:
    try:
        yield
    except coordination.ToozConnectionError as error:
        raise Indeterminate(str(error)) from error
    except ToozError as error:
        raise LockError(str(error)) from error
