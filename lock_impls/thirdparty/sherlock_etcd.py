"""sherlock's ``EtcdLock``, unmodified; tested with sherlock 0.4.1, python-etcd 0.4.5 and urllib3 2.5.0.

Requests, to etcd's v2 API (etcd 3.4 has it with ``--enable-v2``, 3.6 does not): ``PUT /v2/keys/key value=uuid
prevExist=false ttl=s`` every 0.1 s · release: ``DELETE ?prevValue=uuid`` · renewal: ``PUT prevValue=uuid
refresh=true``.

Its documentation promises "distributed inter-process locks" with the API of ``threading.Lock``, which expire after
``expire`` seconds, "float". etcd refuses a ttl that is not a whole number (error 202), so this adapter rounds up.
sherlock's waiting counts tries, not time: it ends up to one interval of 0.1 s early, and later by the time that the
answers take. Garbage collection of the object is a release too (``__del__``).

An unanswered PUT or DELETE is repeated, by urllib3 to the same member (three times) and by python-etcd to the next
(``allow_reconnect``, which several addresses need). A repeated PUT therefore finds its own key: acquire returns False,
and nobody has the lock until the key expires. A repeated DELETE finds nothing: release raises.

python-etcd 0.4.5 does not work with urllib3 2.6, which has removed ``getheader``.
Source: sherlock/lock.py; etcd/client.py.

Safe for: cutting duplicate work. Wall clocks decide when a key expires: that of the member that received the request,
and the leader's.

Known failures: ttl-pause-write, ttl-overrun, lost-reply-acquire, etcd-v2-clock.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Final

import etcd
from sherlock import EtcdLock, LockException, LockTimeoutException

from harness.lock_impls.base import Endpoints, Failure, Grant, Indeterminate, LockError, LockInfo
from harness.lock_impls.contexts import Context
from harness.lock_impls.etcd_client import KINDS, whole_seconds

TIMEOUT_S: Final = 1.0
"""Time-out of one request; python-etcd's own is a minute."""
OVERTIME_S: Final = 1.5
"""Leases are whole seconds, and the leader checks every half second."""
# It logs every failed request.
logging.getLogger("etcd").addHandler(logging.NullHandler())


class SherlockEtcd:
    info: ClassVar = LockInfo(
        name="sherlock-etcd",
        title="sherlock's own EtcdLock, unmodified, on etcd's v2 API",
        algorithm="PUT key uuid prevExist=false ttl; DELETE key prevValue=uuid.",
        source="sherlock 0.4.1, sherlock/lock.py",
        safety="E",
        kinds=KINDS,
        requires=("sherlock==0.4.1", "python-etcd==0.4.5", "urllib3<2.6"),
        library="sherlock 0.4.1",
        lease="ttl",
        promises=(
        "Distributed inter-process locks with the API of threading.Lock, which expire after `expire` seconds; "
        "release raises if this instance did not acquire the lock."
),
        on_death="expiry after its ttl, by the leader's wall clock",
        overtime=OVERTIME_S,
        outage="none while a majority is up; without one it is unavailable, and keys do not expire",
        no_single_point=True,
        failures=(
            Failure("ttl-pause-write", "the holder is paused for longer than the ttl",
                    "harness run sherlock-etcd --nemesis client-pause"),
            Failure("ttl-overrun", "the work takes longer than the ttl", "harness run sherlock-etcd --hold 4s"),
            Failure("etcd-v2-clock", "the leader's clock is ahead of the one that set the key's expiry",
                    "harness run sherlock-etcd --nemesis clock-skew"),
        ),
    )  # fmt: skip

    def __init__(self, endpoints: Endpoints, key: str, ttl: float) -> None:
        self._addresses = endpoints.addresses
        self._key, self._ttl = key, ttl
        self._made: Any = None

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float) -> SherlockEtcd:
        return cls(endpoints, key, ttl)

    def _lock(self) -> Any:
        """Open the lock on first use: the client asks for the list of members when it is created, and fails if none
        answers."""
        if self._made is None:
            try:
                client = etcd.Client(host=self._addresses, allow_reconnect=True, read_timeout=TIMEOUT_S)
            except etcd.EtcdException as error:
                raise LockError(f"cannot connect: {error}") from error
            client._machines_cache.sort()  # it comes from a set, whose order differs between processes
            self._made = EtcdLock(self._key, client=client, expire=whole_seconds(self._ttl), retry_interval=0.1)
        return self._made

    def acquire(self, timeout: float) -> Grant | None:
        lock = self._lock()
        lock.timeout = timeout
        with _known_outcome():
            try:
                lock.acquire()
            except LockTimeoutException:
                return None
        return Grant()

    def release(self) -> None:
        _outcome(self._lock().release)

    def context(self, timeout: float) -> Context:
        lock = self._lock()
        lock.timeout = timeout
        return Context(lock, _known_outcome, timeout)

    def extend(self) -> bool:
        try:
            return bool(_outcome(self._lock().renew))
        except LockError:
            return False


def _outcome(call: Callable[[], Any]) -> Any:
    with _known_outcome():
        return call()


@contextmanager
def _known_outcome() -> Iterator[None]:
    try:
        yield
    except (LockException, LockTimeoutException) as error:
        raise LockError(str(error)) from error
    except (etcd.EtcdException, ValueError) as error:  # ValueError: a member that is missing in its own list of members
        raise Indeterminate(f"{type(error).__name__}: {error}") from error
