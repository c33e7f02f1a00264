"""python-etcd3's own lock (``etcd3.locks.Lock``), unmodified; tested with etcd3 0.12.0.

Requests: ``LeaseGrant ttl`` for each try · ``Txn`` "if create_revision(/locks/name) == 0 then put the object's uuid" ·
while another client has it: ``Watch`` of that key for the rest of the waiting time · release: ``Txn`` "if the value is
the uuid then delete".
Source: kragniz/python-etcd3, etcd3/locks.py. Its documentation promises that "the lock will be released after this time
elapses, unless refreshed"; only the user refreshes it.

It talks to one member; after a connection error this adapter gives it a client of the next member.

Safe for: cutting duplicate work. The key's create revision would be a fence, but the library does not return it.

Known failures: pyetcd-missed-delete (the watch begins after the try and without a revision, so it misses a release in
between), pyetcd-refresh-dead, ttl-overrun, etcd-pause, ttl-pause-write, etcd-lease-clock-back, lost-reply-acquire,
etcd-stale-unlock (the object always uses the same uuid, so a release that is executed late ends a later hold).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Final, Self

import etcd3
from etcd3.locks import Lock

from harness.lock_impls.base import Endpoints, Failure, Grant, Indeterminate, LockError, LockInfo
from harness.lock_impls.contexts import Context
from harness.lock_impls.etcd_client import ANSWER_S, FAILED, KINDS, OPTIONS, OVERTIME_S, classify_error, whole_seconds
from harness.lock_impls.etcd_mutex import OUTAGE

CONTEXT_S: Final = 10.0
"""Longest wait of ``with lock:``; its ``__enter__`` ignores that ``acquire`` then returns False."""


class Etcd3Lock:
    info: ClassVar = LockInfo(
        name="etcd3-lock",
        title="python-etcd3's own Lock",
        algorithm="Txn: if create_revision(/locks/name) == 0 then put a uuid on a new lease; else watch the key.",
        source="python-etcd3 0.12.0, etcd3/locks.py",
        safety="F?",
        kinds=KINDS,
        requires=("etcd3==0.12.0", "protobuf<3.21", "tenacity<7"),
        library="etcd3 0.12.0",
        lease="ttl",
        promises="'A distributed lock'; it 'will be released after this time [the ttl] elapses, unless refreshed'.",
        on_death="expiry: the lease ends after the ttl",
        outage=f"{OUTAGE}; a client of the lost member switches to another after an error",
        no_single_point=True,
        overtime=OVERTIME_S,
        failures=(
            Failure("ttl-overrun", "the work takes longer than the ttl", "harness run etcd3-lock --hold 3.5s"),
            Failure("etcd-pause", "the holder is paused for longer than the lease",
                    "harness run etcd3-lock --nemesis client-pause"),
        ),
    )  # fmt: skip

    def __init__(self, endpoints: Endpoints, key: str, ttl: float) -> None:
        self._addresses = random.sample(endpoints.addresses, len(endpoints.addresses))
        self._key = key
        self._lock = Lock(key, ttl=whole_seconds(ttl), etcd_client=self._connected())

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float) -> Self:
        return cls(endpoints, key, ttl)

    def acquire(self, timeout: float) -> Grant | None:
        return Grant() if self._outcome(lambda: self._lock.acquire(timeout)) else None

    def release(self) -> None:
        if not self._outcome(self._lock.release):
            raise LockError(f"{self._key} is not held by this client")

    def extend(self) -> bool:
        """Keep the lease alive. The library returns etcd's answers, also if the lease is over (their TTL is 0 then)."""
        return bool(self._outcome(self._lock.refresh))

    def context(self, timeout: float) -> Context:  # noqa: ARG002 - the library's own limit holds in `with`
        lock = Lock(self._key, ttl=self._lock.ttl, etcd_client=self._lock.etcd_client)
        return Context(lock, self._known_outcome, CONTEXT_S)

    def still_valid(self) -> bool:
        return bool(self._outcome(self._lock.is_acquired))

    def _connected(self) -> Any:
        host, port = self._addresses[0]
        return etcd3.client(host=host, port=port, timeout=ANSWER_S, grpc_options=OPTIONS)

    def _outcome(self, call: Callable[[], Any]) -> Any:
        with self._known_outcome():
            return call()

    @contextmanager
    def _known_outcome(self) -> Iterator[None]:
        try:
            yield
        except AttributeError as error:  # its watch failed, and the library takes the error for a response
            raise self._after_error(True, f"watch: {error}") from error
        except FAILED as error:
            refused, sent, text = classify_error(error)
            raise (LockError(text) if refused else self._after_error(sent, text)) from error

    def _after_error(self, sent: bool, text: str) -> Exception:
        client = self._lock.etcd_client
        client.watcher._watch_stub = _EndedWatchStub()
        client.close()
        self._addresses.append(self._addresses.pop(0))
        self._lock.etcd_client = self._connected()
        return Indeterminate(text) if sent else LockError(text)


class _EndedWatchStub:
    """Stub for the watcher of a closed client.

    etcd3 leaves the watcher's thread running; its next watch on the closed channel would end it with a traceback on
    stderr.
    """

    def Watch(self, *_request: Any, **_options: Any) -> Any:  # noqa: N802 - gRPC's own name
        raise SystemExit
