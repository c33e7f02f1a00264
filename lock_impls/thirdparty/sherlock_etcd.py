"""sherlock's ``EtcdLock``, unmodified; tested with sherlock 0.4.1, python-etcd 0.4.5 and urllib3 2.5.0.

Requests, to etcd's v2 API, which 3.4 has with ``--enable-v2`` and 3.6 no more: ``PUT /v2/keys/key value=uuid
prevExist=false ttl=s`` every 0.1 s · release: ``DELETE ?prevValue=uuid`` · renewal: ``PUT prevValue=uuid
refresh=true``.
Its documentation promises "distributed inter-process locks" with the API of ``threading.Lock``, of which a lock expires
after ``expire`` seconds, "float"; etcd refuses a ttl that is no whole number (error 202), so that this adapter rounds
up. Its waiting counts tries, not time: it ends up to one interval of 0.1 s early, and later by all that the answers
take. The object's end is a release too (``__del__``).

A PUT or DELETE that was not answered is sent again, by urllib3 to the same member (three times) and by python-etcd to
the next (``allow_reconnect``, which several addresses need). So a PUT that was carried out finds its own key there:
acquire says False, and nobody has the lock until the key is over; a DELETE finds nothing: release raises.
Python-etcd 0.4.5 does not run with urllib3 2.6, which has no ``getheader`` any more.
Source: sherlock/lock.py; etcd/client.py.

Safe for: cutting duplicate work. When a key is over is told by clocks on the wall: of the member that was asked for it,
and of the leader.
Known failures: ttl-pause-write, ttl-overrun, lost-reply-acquire, etcd-v2-clock.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, ClassVar, Final

import etcd
from sherlock import EtcdLock, LockException, LockTimeoutException

from lock_impls.base import Endpoints, Failure, Grant, Indeterminate, LockError, LockInfo
from lock_impls.etcd_client import KINDS, whole_seconds

TIMEOUT_S: Final = 1.0
"""Of one request; python-etcd's own is a minute."""
OVERTIME_S: Final = 1.5
"""A whole second, and the leader looks every half."""
# It tells of every request that failed.
logging.getLogger("etcd").addHandler(logging.NullHandler())


class SherlockEtcd:
    info: ClassVar = LockInfo(
        name="sherlock-etcd",
        title="sherlock's own EtcdLock, unmodified, on etcd's v2 API",
        algorithm="PUT key uuid prevExist=false ttl; DELETE key prevValue=uuid.",
        source="sherlock 0.4.1, sherlock/lock.py",
        safety="E",
        kinds=KINDS,
        library="sherlock 0.4.1",
        promises="Distributed inter-process locks with the API of threading.Lock, which expire after `expire` seconds; "
        "release raises where the lock was not acquired by this instance.",
        on_death="its ttl, by the leader's wall clock",
        overtime=OVERTIME_S,
        outage="nothing while a majority is there; without one nobody gets it, and keys do not end",
        no_single_point=True,
        failures=(
            Failure("ttl-pause-write", "its holder stands still for longer than the ttl",
                    "harness run sherlock-etcd --nemesis client-pause"),
            Failure("ttl-overrun", "the work takes longer than the ttl", "harness run sherlock-etcd --hold 4s"),
            Failure("etcd-v2-clock", "the leader's clock is ahead of the one that a key's end was told by",
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
        """A client asks its members who they all are as soon as it is made, and fails where none answers."""
        if self._made is None:
            try:
                client = etcd.Client(host=self._addresses, allow_reconnect=True, read_timeout=TIMEOUT_S)
            except etcd.EtcdException as error:
                raise LockError(f"cannot connect: {error}") from error
            client._machines_cache.sort()  # out of a set, it would have another order in each process
            self._made = EtcdLock(self._key, client=client, expire=whole_seconds(self._ttl), retry_interval=0.1)
        return self._made

    def acquire(self, timeout: float) -> Grant | None:
        lock = self._lock()
        lock.timeout = timeout
        try:
            _outcome(lock.acquire)
        except LockTimeoutException:
            return None
        return Grant()

    def release(self) -> None:
        _outcome(self._lock().release)

    def extend(self) -> bool:
        try:
            return bool(_outcome(self._lock().renew))
        except LockError:
            return False


def _outcome(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except LockException as error:
        raise LockError(str(error)) from error
    except (etcd.EtcdException, ValueError) as error:  # ValueError: a member that is not in its own list
        raise Indeterminate(f"{type(error).__name__}: {error}") from error
