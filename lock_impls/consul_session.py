"""Consul's session lock over its HTTP API: a key that is acquired by a session with a TTL and a lock-delay.

Requests: ``PUT /v1/session/create {TTL, LockDelay, Behavior: release}``, then ``PUT /v1/session/renew/ID`` every TTL/3
· ``PUT /v1/kv/key?acquire=ID`` answers true or false · while another session holds the key: blocking queries, ``GET
/v1/kv/key?index=N&wait=s``; while none does and the answer is still false, a lock-delay is in effect, which nothing
announces, so the PUT is repeated · ``GET /v1/kv/key?consistent`` for the key's ModifyIndex, which is the fence ·
release: ``PUT /v1/kv/key?release=ID``.
Source: Consul's documentation, "Sessions" and "Distributed locks"; api/lock.go and agent/consul of Consul 1.15.4.

Consul promises not to end a session before its TTL, and ends it after twice that time without a renewal. The ttl of
this lock is that latter time, after which others can acquire the lock; the TTL is half of it, in whole seconds upwards.
Consul accepts no TTL below 10 s: a ttl of 2 s is one of 20 s in effect (TTL 10 s), one of 41 s is one of 42 s (TTL 21
s). :meth:`ConsulSessionLock.still_valid` counts one TTL from the last answered renewal.

The lock-delay (``lock_delay``, 15 s as in Consul, 60 s at most, 0 for none) begins when a session ends that still holds
the key, also when its own client destroys it. A release does not cause one. A restart of the server ends all
lock-delays, and begins each session's TTL anew.

Every request names the session, so one that arrives late could affect a later hold of the same session. After a request
without an answer, the session is therefore destroyed with the hold. A session belongs to a node, and ends with it; here
this is the server's own node, and not that of an agent beside the client.

Safe for: correctness, if the resource refuses a number below the highest it has seen. The LockIndex would not do: it
begins anew when the key is deleted. Without a fence, the lock-delay covers a late request that is shorter than it.
Anybody may delete or overwrite the key (locks are advisory), and this lock does not watch it while it holds it.

Known failures: consul-isolated, ttl-pause-write, ttl-check-then-pause, ttl-net-delay (the fence covers all of these),
watchdog-zombie, lost-reply-acquire (until the session ends).
"""

from __future__ import annotations

import time
from typing import Any, ClassVar, Final, Self

from .base import Endpoints, Failure, Grant, Indeterminate, LockError, LockInfo
from .consul_client import KINDS, PAUSE_S, REQUIRES, ConsulClient, ConsulSession, Unanswered

LOCK_DELAY_S: Final = 15.0
RETRY_S: Final = 0.25
"""Pause before the next try during a lock-delay. Go's client waits 5 s."""
WAIT_S: Final = 5.0
"""Longest blocking query. If the connection breaks without notice, the waiter learns of a release after that time."""
EXPIRED: Final = "its session ended while it waited"


class ConsulSessionLock:
    """A session lock. The session is reused while it is reliable; ``fence`` is not None while the lock is held."""

    info: ClassVar = LockInfo(
        name="consul-session",
        title="Consul's session lock with lock-delay",
        algorithm="PUT key?acquire=session, renewed every TTL/3; after a session that held it, wait lock_delay.",
        source="Consul's documentation, 'Sessions' and 'Distributed locks'; Consul 1.15.4",
        safety="F",
        kinds=KINDS,
        requires=REQUIRES,
        fence=True,
        options={"lock_delay": LOCK_DELAY_S},
        on_death="expiry: nobody renews the session, and it ends after twice its TTL (at least 20 s); "
        "then the lock-delay",
        outage="unavailable while the server is down; sessions and locks survive its restart",
        overtime=35.0,  # at most 20 s until the session ends, and the lock-delay
        answer_timeout=6.5,
        failures=(
            Failure(
                "consul-isolated",
                "the holder is paused or cut off until its session has ended, and goes on",
                "harness run consul-session --nemesis client-pause --ttl 20s --time-limit 60s "
                "--lock-option lock_delay=1",
            ),
            Failure(
                "watchdog-zombie",
                "the holder hangs, and its session is renewed for ever",
                "harness run consul-session --nemesis client-hang --time-limit 120s",
            ),
        ),
    )

    def __init__(self, endpoints: Endpoints, key: str, ttl: float, lock_delay: float = LOCK_DELAY_S) -> None:
        self.endpoints = endpoints
        self.key = key
        self.ttl = ttl
        self.lock_delay = lock_delay
        self.client = ConsulClient(endpoints)
        self.session: Any = None
        self.fence: int | None = None
        self._certain = 0

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float, **options: Any) -> Self:
        return cls(endpoints, key, ttl, **options)

    # The Lock protocol.

    def acquire(self, timeout: float) -> Grant | None:
        until = time.monotonic() + timeout
        if self.fence is not None and not self.session.lost():
            time.sleep(max(0.0, timeout))  # not reentrant, although Consul would grant it again
            return None
        self.fence = None
        self._begin_session()
        try:
            self.fence = self._wait(until)
        except (LockError, Indeterminate):
            self._end_session()
            raise
        if self.fence is None:
            self._end_doubtful_session()
            return None
        return Grant(fence=self.fence, valid_for=max(0.0, self.session.remaining()))

    def release(self) -> None:
        fence, self.fence = self.fence, None
        if fence is None:
            raise LockError(f"{self.key} is not held by this client")
        before = self.client.unanswered
        try:
            if not self._put(release=self.session.id):
                self._check_release(before)
        finally:
            self._end_doubtful_session()

    def still_valid(self) -> bool:
        """Decide by the answers to the renewals and this client's monotonic clock, without a request."""
        return not (self.fence is None or self.session.lost())

    # The key.

    def _wait(self, until: float) -> int | None:
        """Return the key's ModifyIndex once this session holds it; None if that takes too long."""
        while not self._put(acquire=self.session.id):
            if until <= time.monotonic() or not self._await_release(until):
                return None
            if self.session.lost():
                raise LockError(EXPIRED)
        _, entry = self.client.insist(lambda client: client.kv.get(self.key, consistency="consistent"))
        if self.session.lost() or not entry or entry.get("Session") != self.session.id:
            raise LockError(EXPIRED)
        return int(entry["ModifyIndex"])

    def _put(self, **condition: str) -> bool:
        """Send ``acquire`` or ``release`` with a session; return whether the server did it."""
        return bool(self.client.insist(lambda client: client.kv.put(self.key, "", **condition)))

    def _await_release(self, until: float) -> bool:
        """Wait until no session holds the key, and a little longer if none held it; False if that takes too long."""
        index, entry = self.client.insist(lambda client: client.kv.get(self.key))
        if not (entry and "Session" in entry):
            time.sleep(max(0.0, min(RETRY_S, until - time.monotonic())))
        while entry and "Session" in entry:
            left = until - time.monotonic()
            if left <= 0:
                return False
            index, entry = self._await_change(index, min(left, WAIT_S)) or (None, entry)
        return True

    def _await_change(self, index: str | None, seconds: float) -> Any:
        """Return (index, entry) of the key when it changes after ``index``, or after ``seconds``; None if the server
        does not answer."""
        wait = f"{max(0.01, seconds):.3f}s"  # Consul takes 0 for five minutes
        try:
            return self.client.ask(lambda client: client.kv.get(self.key, index=index, wait=wait))
        except Unanswered:
            time.sleep(PAUSE_S)
            return None

    def _check_release(self, before: int) -> None:
        """Decide what it means that this session does not hold the key; ``before`` is what the client's count of
        unanswered requests was."""
        if self.client.unanswered == before:
            raise LockError(f"{self.key} is not held any more: its session has ended")
        if self.session.lost():
            raise Indeterminate(f"{self.key}: released by a request without an answer, or lost with its session")
        # The session lives, so the unanswered request has released the key.

    # Sessions.

    def _begin_session(self) -> None:
        if self.session is None or self.session.lost():
            self.session = ConsulSession(self.endpoints, self.ttl, self.lock_delay)
            self._certain = self.client.unanswered

    def _end_doubtful_session(self) -> None:
        """End the session if a request was not answered: executed later, it could affect another hold."""
        if self.session.lost() or self.client.unanswered > self._certain:
            self._end_session()

    def _end_session(self) -> None:
        """Destroy the session. If the server does not answer, the session ends by itself."""
        ended, self.session = self.session, None
        ended.stop()
        try:
            self.client.ask(lambda client: client.session.destroy(ended.id))
        except (LockError, Unanswered):
            return
