"""etcd's concurrency.Mutex in Python: a queue of keys, each bound to its owner's lease; the oldest key holds the lock,
and each waiter watches the key before its own.

Requests: ``LeaseGrant ttl``, then ``LeaseKeepAlive`` every ttl/3 · ``Txn`` "if create_revision(prefix/lease) == 0 then
put it", with the keys under the prefix · while there are older keys: ``Watch`` for the deletion of the next older one,
from the revision of the listing (so none is missed), and list again · the last listing must also contain the own key;
otherwise the session has expired during the wait (Go's client checks this since 3.5.0: etcd-11456) · release:
``DeleteRange prefix/lease``.
Source: article 003; etcd's client/v3/concurrency (session.go, mutex.go). The fence is the own key's create revision.

The key's name stays the same as long as the session lasts, and the key is deleted by name, so a late delete ends a
later hold (etcd-stale-unlock). Go's mutex has this flaw. This lock avoids it: if an answer was lost, it ends the
session with that hold, and the next hold has another name.

A lease is a whole number of seconds, and at least 1.5 election time-outs (2 s by default): a ttl of 0.5 s is 2 s in
effect, one of 2.5 s is 3 s. ``valid_for`` and :meth:`EtcdMutex.still_valid` use the granted time.

Safe for: correctness, if the resource refuses a number below the highest it has seen.

Known failures: etcd-pause, ttl-pause-write, ttl-check-then-pause, ttl-net-delay, etcd-old-leader (the fence covers all
of these), etcd-lease-clock-back, watchdog-zombie, lost-reply-acquire (until the ttl).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, ClassVar, Final, Self

from .base import Endpoints, Failure, Grant, Indeterminate, LockError, LockInfo
from .etcd_client import (
    KINDS,
    OVERTIME_S,
    PATIENCE_S,
    PAUSE_S,
    REQUIRES,
    WATCH_S,
    ClientLease,
    EtcdMembers,
    EtcdSession,
    MemberUnanswered,
)
from .etcd_client import await_deletion as deleted_within

ON_DEATH: Final = "expiry: nobody keeps the lease alive, and it ends after the ttl"
OUTAGE: Final = "none while a majority is up; about a second without answers if it was the leader"
EXPIRED: Final = "its session expired while it waited"


def failures(name: str) -> tuple[Failure, ...]:
    """Failures of every lock that is bound to a lease of etcd."""
    run = f"harness run {name}"
    return (
        Failure(
            "etcd-pause",
            "the holder is paused for longer than the lease",
            f"{run} --nemesis client-pause --time-limit 60s",
        ),
        Failure(
            "etcd-lease-clock-back",
            "the holder dies and the servers' clocks go back: the lease lasts longer by as much",
            f"{run} --nemesis clock-skew,client-crash",
        ),
    )


def hung_holder(name: str) -> Failure:
    """Failure of a lock that a separate thread keeps alive."""
    return Failure(
        "watchdog-zombie", "the holder hangs, and its keep-alives go on", f"harness run {name} --nemesis client-hang"
    )


class EtcdMutex:
    """An etcd queue lock. ``session`` is reused while it is reliable; ``fence`` is not None while the lock is held."""

    info: ClassVar = LockInfo(
        name="etcd-mutex",
        title="etcd's concurrency.Mutex: keys on leases, in a queue",
        algorithm="Txn: if create_revision(prefix/lease) == 0 then put; the oldest key holds; watch the key before.",
        source="article 003; etcd client/v3/concurrency",
        safety="F",
        kinds=KINDS,
        requires=REQUIRES,
        fence=True,
        queue=True,
        on_death=ON_DEATH,
        outage=OUTAGE,
        no_single_point=True,
        overtime=OVERTIME_S,
        failures=(*failures("etcd-mutex"), hung_holder("etcd-mutex")),
    )

    def __init__(self, endpoints: Endpoints, key: str, ttl: float) -> None:
        self.endpoints = endpoints
        self.key = key
        self.ttl = ttl
        self.members = EtcdMembers(endpoints)
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
            time.sleep(max(0.0, timeout))  # not reentrant, although the key exists already
            return None
        self.fence = None
        answer_by = max(until, time.monotonic() + PATIENCE_S)
        self._begin_session(answer_by)
        try:
            mine = self._wait_in_queue(until, answer_by)
        except (LockError, Indeterminate):
            self._end_session()
            raise
        if mine is None:
            self._leave_queue()
            return None
        self.fence = mine
        return Grant(fence=mine, valid_for=self._valid_for())

    def release(self) -> None:
        fence, self.fence = self.fence, None
        if fence is None:
            raise LockError(f"{self.key} is not held by this client")
        try:
            self._remove(fence)
        finally:
            self._end_doubtful_session()

    def still_valid(self) -> bool:
        """Decide by the answers to the keep-alives and this client's monotonic clock, without a request."""
        return not (self.fence is None or self.session.lost())

    # The queue.

    @property
    def own(self) -> str:
        return f"{self.key}/{self.session.id:x}"

    def _wait_in_queue(self, until: float, answer_by: float) -> int | None:
        """Return the own key's create revision once it is the oldest; None if that takes too long."""
        mine, listing, revision = self._enqueue(answer_by)
        while earlier := [entry for entry in listing if entry[1] < mine]:
            remaining = until - time.monotonic()
            if remaining <= 0:
                return None
            self._watch(max(earlier, key=lambda entry: entry[1])[0], revision, min(remaining, WATCH_S))
            listing, revision = self._list(max(until, time.monotonic() + PATIENCE_S))
            self._check_session(listing, mine)
        return mine

    def _enqueue(self, answer_by: float) -> tuple[int, list[tuple[bytes, int]], int]:
        """Put the own key; return its create revision, the keys under the prefix with theirs, and the revision of
        this listing."""
        own, lease = self.own, self.session.id

        def enqueue(client: Any) -> Any:
            keys = client.transactions
            queue = keys.get(f"{self.key}/", range_end=f"{self.key}0")  # "0" comes after "/"
            return client.transaction(
                compare=[keys.create(own) == 0],
                success=[keys.put(own, "", lease=lease), queue],
                failure=[keys.get(own), queue],
            )

        _, (_, found) = self.members.insist(enqueue, answer_by)
        listing = [(about.key, about.create_revision) for _, about in found]
        return dict(listing)[own.encode()], listing, found[0][1].response_header.revision

    def _list(self, answer_by: float) -> tuple[list[tuple[bytes, int]], int]:
        found = self.members.insist(lambda client: client.get_prefix_response(f"{self.key}/"), answer_by)
        return [(entry.key, entry.create_revision) for entry in found.kvs], found.header.revision

    def _watch(self, key: bytes, revision: int, seconds: float) -> None:
        try:
            self.members.ask(lambda client: deleted_within(client, key, revision, seconds))
        except MemberUnanswered:
            time.sleep(PAUSE_S)

    def _check_session(self, listing: Sequence[tuple[bytes, int]], mine: int) -> None:
        if self.session.lost() or (self.own.encode(), mine) not in listing:
            raise LockError(EXPIRED)

    def _leave_queue(self) -> None:
        """Delete the own key; raises Indeterminate if it may still exist, until its lease ends."""
        try:
            self._delete()
        except LockError as error:
            raise Indeterminate(f"busy, and still queued: {error}") from error
        finally:
            self._end_doubtful_session()

    # Keys.

    def _remove(self, fence: int) -> None:  # noqa: ARG002
        before = self.members.unanswered
        if self._delete():
            return
        if self.session.lost() or self.members.unanswered == before:
            raise LockError(f"{self.key} is not held any more: its session has expired")
        # Its lease lives, so only our own unanswered delete can have removed the key.

    def _delete(self) -> bool:
        own = self.own
        deleted: bool = self.members.insist(lambda client: client.delete(own), time.monotonic() + PATIENCE_S)
        return deleted

    # Sessions.

    def _begin_session(self, answer_by: float) -> None:
        if self.session is None or self.session.lost():
            self.session = self._new_session(answer_by)
            self._certain = self.members.unanswered

    def _new_session(self, answer_by: float) -> ClientLease:
        return EtcdSession(self.endpoints, self.ttl, answer_by)

    def _end_doubtful_session(self) -> None:
        """End the session if a request was not answered: executed later, it could affect the key of another hold."""
        if self.session.lost() or self.members.unanswered > self._certain:
            self._end_session()

    def _end_session(self) -> None:
        """Revoke the lease. Its keys go at once if a member answers, else within a ttl."""
        ended, self.session = self.session, None
        ended.stop()
        try:
            self.members.ask(lambda client: client.revoke_lease(ended.id))
        except (LockError, MemberUnanswered):
            return

    def _valid_for(self) -> float | None:
        remaining: float = self.session.remaining()
        return max(0.0, remaining)
