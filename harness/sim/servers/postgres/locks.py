"""The lock manager of the simulated PostgreSQL: shared and exclusive locks of sessions, their queues, and deadlocks.

Advisory locks, waits for the end of a transaction and the queue of a row are all locks here, as in PostgreSQL.
Source: src/backend/storage/lmgr/ (lock.c, proc.c, deadlock.c) of PostgreSQL 15. Abstracted: table locks.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Iterator
from typing import Final, Literal

from harness.sim.servers.waits import Wait, WaitOutcome

from .errors import DEADLOCK, PgError

Mode = Literal["S", "X"]
Scope = Literal["session", "transaction"]
Tag = tuple[Hashable, ...]
"""What is locked: ("advisory", ...), ("transaction", number) or ("row", table, number)."""
MODES: Final[tuple[Mode, ...]] = ("S", "X")


def _conflicts(one: Mode, other: Mode) -> bool:
    return one == "X" or other == "X"


class LockHolder:
    """A session, as a holder of locks."""

    def __init__(self) -> None:
        self.held: dict[Tag, dict[tuple[Mode, Scope], int]] = {}
        """Number of times that each lock is held, in the order of acquisition."""
        self.request: LockRequest | None = None
        """The request that waits."""

    def modes(self, tag: Tag) -> list[Mode]:
        """Return the modes in which this session holds a lock."""
        return [mode for mode, _ in self.held.get(tag, ())]


class LockRequest:
    """A request that waits for a lock."""

    def __init__(self, holder: LockHolder, tag: Tag, mode: Mode, scope: Scope, wait: Wait) -> None:
        self.holder = holder
        self.tag = tag
        self.mode: Mode = mode
        self.scope: Scope = scope
        self.wait = wait


class _Queue:
    """The holders of one lock, and the requests that wait for it in their order."""

    def __init__(self) -> None:
        self.holders: list[LockHolder] = []
        self.requests: list[LockRequest] = []


def _deadlock() -> PgError:
    return PgError(DEADLOCK, "deadlock detected")


class LockManager:
    """All locks of a server."""

    def __init__(self) -> None:
        self._queues: dict[Tag, _Queue] = {}

    def contents(self) -> Iterator[tuple[Tag, list[LockHolder], list[LockHolder]]]:
        """Yield each lock with the sessions that hold it and those that wait for it, in their order."""
        for tag, queue in self._queues.items():
            yield tag, list(queue.holders), [request.holder for request in queue.requests]

    def holders(self, tag: Tag) -> list[LockHolder]:
        """Return the sessions that hold a lock."""
        queue = self._queues.get(tag)
        return [] if queue is None else list(queue.holders)

    def try_acquire(self, holder: LockHolder, tag: Tag, mode: Mode, scope: Scope) -> bool:
        """Acquire a lock if that takes no wait."""
        queue = self._queues.get(tag)
        again = mode in holder.modes(tag)
        if queue is not None and not again:
            if any(_conflicts(mode, request.mode) for request in queue.requests):
                return False
            if self._is_blocked(queue, tag, holder, mode):
                return False
        self._grant(holder, tag, mode, scope)
        return True

    def acquire(
        self, holder: LockHolder, tag: Tag, mode: Mode, scope: Scope, limit_ns: int | None
    ) -> Generator[Wait, None, WaitOutcome]:
        """Acquire a lock, waiting at most ``limit_ns``. Raises PgError if a wait would be a deadlock at once."""
        if self.try_acquire(holder, tag, mode, scope):
            return WaitOutcome.GRANTED
        queue = self._queues[tag]
        at = self._place(queue, tag, holder, mode)
        if at is None:
            self._grant(holder, tag, mode, scope)
            return WaitOutcome.GRANTED
        request = holder.request = LockRequest(holder, tag, mode, scope, Wait(limit_ns))
        request.wait.abandon = lambda: self._abandon(request)
        queue.requests.insert(at, request)
        yield request.wait
        assert request.wait.ended is not None
        return request.wait.ended

    def _place(self, queue: _Queue, tag: Tag, holder: LockHolder, mode: Mode) -> int | None:
        """Return the place of a new request: before the first one that must wait for this session's own locks. None if
        it is granted at that place."""
        mine = holder.modes(tag)
        ahead: list[Mode] = []
        for at, request in enumerate(queue.requests if mine else ()):
            if any(_conflicts(request.mode, held) for held in mine):
                if any(_conflicts(mode, held) for held in request.holder.modes(tag)):
                    raise _deadlock()
                if not any(_conflicts(mode, other) for other in ahead) and not self._is_blocked(
                    queue, tag, holder, mode
                ):
                    return None
                return at
            ahead.append(request.mode)
        return len(queue.requests)

    @staticmethod
    def _is_blocked(queue: _Queue, tag: Tag, holder: LockHolder, mode: Mode) -> bool:
        return any(
            _conflicts(mode, held) for other in queue.holders if other is not holder for held in other.modes(tag)
        )

    def _grant(self, holder: LockHolder, tag: Tag, mode: Mode, scope: Scope) -> None:
        queue = self._queues.setdefault(tag, _Queue())
        if holder not in queue.holders:
            queue.holders.append(holder)
        counts = holder.held.setdefault(tag, {})
        counts[mode, scope] = counts.get((mode, scope), 0) + 1

    def release(self, holder: LockHolder, tag: Tag, mode: Mode, scope: Scope) -> bool:
        """Release a lock once; False if the session does not hold it in this mode and scope."""
        counts = holder.held.get(tag, {})
        if (mode, scope) not in counts:
            return False
        counts[mode, scope] -= 1
        if not counts[mode, scope]:
            del counts[mode, scope]
            self._released(holder, tag)
        return True

    def release_scope(self, holder: LockHolder, scope: Scope, kind: str = "") -> None:
        """Release all locks that the session holds in a scope, or those of one kind."""
        for tag, counts in list(holder.held.items()):
            if kind in ("", tag[0]):
                for mode in MODES:
                    if counts.pop((mode, scope), 0):
                        self._released(holder, tag)

    def _released(self, holder: LockHolder, tag: Tag) -> None:
        queue = self._queues[tag]
        if not holder.held.get(tag):
            holder.held.pop(tag, None)
            queue.holders.remove(holder)
        self._wake(tag, queue)

    def _abandon(self, request: LockRequest) -> None:
        queue = self._queues[request.tag]
        queue.requests.remove(request)
        request.holder.request = None
        self._wake(request.tag, queue)

    def _wake(self, tag: Tag, queue: _Queue) -> None:
        """Grant the requests that conflict neither with a holder nor with a request ahead of them."""
        ahead: list[Mode] = []
        for request in list(queue.requests):
            blocked = any(_conflicts(request.mode, mode) for mode in ahead)
            if blocked or self._is_blocked(queue, tag, request.holder, request.mode):
                ahead.append(request.mode)
                continue
            queue.requests.remove(request)
            request.holder.request = None
            self._grant(request.holder, tag, request.mode, request.scope)
            request.wait.end(WaitOutcome.GRANTED)
        if not queue.holders and not queue.requests:
            del self._queues[tag]

    # Deadlocks.

    def check_deadlock(self, holder: LockHolder) -> None:
        """If a session waits in a cycle, change the order of a queue, or end its wait if that does not help."""
        while holder.request is not None:
            if self._cycle(holder, queued=False) is not None:
                holder.request.wait.end(WaitOutcome.DEADLOCK)
                return
            ring = self._cycle(holder, queued=True)
            if ring is None:
                return
            # PostgreSQL tries the farthest wait of the cycle first.
            waits = reversed(ring)
            request, other = next((one, two) for one, two in waits if one.tag == two.tag and self._is_ahead(two, one))
            requests = self._queues[request.tag].requests
            requests.remove(request)
            requests.insert(requests.index(other), request)
            self._wake(request.tag, self._queues[request.tag])

    def _is_ahead(self, one: LockRequest, other: LockRequest) -> bool:
        """Return whether only the order of the queue makes ``other`` wait for ``one``."""
        queue = self._queues[other.tag]
        held = one.holder.modes(other.tag)
        return not any(_conflicts(other.mode, mode) for mode in held) and queue.requests.index(
            one
        ) < queue.requests.index(other)

    def _cycle(self, start: LockHolder, *, queued: bool) -> list[tuple[LockRequest, LockRequest]] | None:
        """Return the waits of a cycle through ``start``: (request, the request of the session that it waits for).

        With ``queued``, a request also waits for the conflicting requests ahead of it.
        """
        seen: set[LockHolder] = set()

        def search(
            holder: LockHolder, path: list[tuple[LockRequest, LockRequest]]
        ) -> list[tuple[LockRequest, LockRequest]] | None:
            request = holder.request
            for other in () if request is None else self._waits_for(request, queued=queued):
                if request is None or other.request is None:
                    continue
                step = [*path, (request, other.request)]
                if other is start:
                    return step
                if other not in seen:
                    seen.add(other)
                    found = search(other, step)
                    if found is not None:
                        return found
            return None

        return search(start, [])

    def _waits_for(self, request: LockRequest, *, queued: bool) -> Iterator[LockHolder]:
        queue = self._queues[request.tag]
        for other in queue.holders:
            if other is not request.holder and any(_conflicts(request.mode, mode) for mode in other.modes(request.tag)):
                yield other
        if queued:
            ahead = queue.requests[: queue.requests.index(request)]
            yield from (one.holder for one in ahead if _conflicts(request.mode, one.mode))
