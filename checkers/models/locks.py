"""Models of locks: mutexes, semaphores, read-write locks and queues.

The anonymous mutex comes from Knossos (https://github.com/jepsen-io/knossos, ``knossos.model``); the owner-aware,
reentrant and fenced locks come from Jepsen's analysis of Hazelcast 3.12 (https://jepsen.io).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

from harness.history.calls import Wants
from harness.history.values import bare

from .base import Inconsistent, Model, Operation

ACQUIRE: Final = frozenset({"acquire", "lock"})
RELEASE: Final = frozenset({"release", "unlock"})
LOCKING: Final = ACQUIRE | RELEASE


NOBODY: Final = Inconsistent("nobody holds it")
"""Why an acquire cannot have been refused."""


class Mutex(Model):
    """A lock that is held or free, without an owner: any client may release it. Knossos' ``mutex``."""

    name = "mutex"
    fs = LOCKING
    refusals = ACQUIRE
    clients = False
    wants: ClassVar[Wants] = "nothing"

    @property
    def initial(self) -> bool:
        return False

    def step(self, state: bool, operation: Operation) -> bool | Inconsistent:
        if operation.f in ACQUIRE:
            return Inconsistent("it is held") if state else True
        return False if state else Inconsistent("it is free")

    def refuse(self, state: bool, operation: Operation) -> bool | Inconsistent:  # noqa: ARG002
        return state or NOBODY

    def describe(self, state: bool) -> str:
        return "held" if state else "free"


class OwnerMutex(Model):
    """A lock with an owner: only its owner may release it, and may not acquire it twice. State: the owner or None."""

    name = "owner-mutex"
    fs = LOCKING
    refusals = ACQUIRE
    wants: ClassVar[Wants] = "nothing"

    @property
    def initial(self) -> None:
        return None

    def step(self, state: str | None, operation: Operation) -> str | Inconsistent | None:
        if operation.f in ACQUIRE:
            return operation.client if state is None else Inconsistent(f"{state} holds it")
        return None if state == operation.client else not_mine(state)

    def refuse(self, state: str | None, operation: Operation) -> str | Inconsistent:  # noqa: ARG002
        return NOBODY if state is None else state

    def describe(self, state: str | None) -> str:
        return "free" if state is None else f"held by {state}"


def not_mine(owner: str | None) -> Inconsistent:
    """Return why a client that is not ``owner`` cannot release the lock."""
    return Inconsistent("nobody holds it" if owner is None else f"{owner} holds it")


def _granted(owner: str | None, depth: int, limit: int, operation: Operation) -> Inconsistent | None:
    """Return why an acquire cannot have been refused, None if it can."""
    if owner is None:
        return NOBODY
    again = owner == operation.client and depth < limit
    return Inconsistent("it holds it itself, and may acquire it again") if again else None


MANY: Final = 2**31
"""A limit that no client reaches."""


def _count(name: str, value: int) -> int:
    if type(value) is not int or not 1 <= value <= MANY:
        raise ValueError(f"{name} must be a whole number and at least 1, got {value!r}")
    return value


class ReentrantMutex(Model):
    """A lock that its owner may acquire up to ``limit`` times, and must release as often. State: owner, depth."""

    name = "reentrant-mutex"
    fs = LOCKING
    refusals = ACQUIRE
    wants: ClassVar[Wants] = "nothing"

    def __init__(self, limit: int = MANY) -> None:
        self.limit = _count("limit", limit)

    @property
    def initial(self) -> tuple[str | None, int]:
        return None, 0

    def step(self, state: tuple[str | None, int], operation: Operation) -> tuple[str | None, int] | Inconsistent:
        owner, depth = state
        if operation.f in ACQUIRE:
            if owner not in (None, operation.client):
                return Inconsistent(f"{owner} holds it")
            if depth == self.limit:
                return Inconsistent(f"its owner has acquired it {depth} times already")
            return operation.client, depth + 1
        if owner != operation.client:
            return not_mine(owner)
        return (owner, depth - 1) if depth > 1 else (None, 0)

    def refuse(self, state: tuple[str | None, int], operation: Operation) -> tuple[str | None, int] | Inconsistent:
        return _granted(state[0], state[1], self.limit, operation) or state

    def describe(self, state: tuple[str | None, int]) -> str:
        owner, depth = state
        return "free" if owner is None else f"held by {owner}" + (f", {depth} times" if depth > 1 else "")


Fenced = tuple[str | None, int, int | None, int | None]
"""Owner, depth, the token of this hold, the highest token so far."""


class ReentrantFencedMutex(Model):
    """A reentrant lock whose token is higher for every new hold, and the same when the owner acquires again.

    A grant without a token (``fence`` null, or an unknown outcome) may have had any token."""

    name = "reentrant-fenced-mutex"
    fs = LOCKING
    refusals = ACQUIRE
    wants: ClassVar[Wants] = "grants"

    def __init__(self, limit: int = MANY) -> None:
        self.limit = _count("limit", limit)

    @property
    def initial(self) -> Fenced:
        return None, 0, None, None

    def step(self, state: Fenced, operation: Operation) -> Fenced | Inconsistent:
        owner, depth, token, highest = state
        if operation.f in RELEASE:
            if owner != operation.client:
                return not_mine(owner)
            return (owner, depth - 1, token, highest) if depth > 1 else (None, 0, None, highest)
        fence: int | None = (operation.result or {}).get("fence")
        if owner not in (None, operation.client):
            return Inconsistent(f"{owner} holds it")
        if depth == self.limit:
            return Inconsistent(f"its owner has acquired it {depth} times already")
        if fence is None:
            return operation.client, depth + 1, token, highest
        if token is not None:
            if fence != token:
                return Inconsistent(f"this hold has token {token}")
            return operation.client, depth + 1, token, highest
        if highest is not None and fence <= highest:
            return Inconsistent(f"token {highest} has been handed out")
        return operation.client, depth + 1, fence, fence

    def refuse(self, state: Fenced, operation: Operation) -> Fenced | Inconsistent:
        return _granted(state[0], state[1], self.limit, operation) or state

    def describe(self, state: Fenced) -> str:
        owner, depth, token, highest = state
        if owner is None:
            return "free" if highest is None else f"free, highest token {highest}"
        again = f", {depth} times" if depth > 1 else ""
        return f"held by {owner}{again}" + (f" with token {token}" if token is not None else "")


class FencedMutex(ReentrantFencedMutex):
    """A lock with an owner, and a token that is higher for every grant."""

    name = "fenced-mutex"

    def __init__(self) -> None:
        super().__init__(limit=1)


class Semaphore(Model):
    """A semaphore with ``permits`` permits; any client may return another's permit. State: number of taken permits."""

    name = "semaphore"
    fs = LOCKING
    refusals = ACQUIRE
    clients = False
    wants: ClassVar[Wants] = "nothing"

    def __init__(self, permits: int) -> None:
        self.permits = _count("permits", permits)

    @property
    def initial(self) -> int:
        return 0

    def step(self, state: int, operation: Operation) -> int | Inconsistent:
        if operation.f in ACQUIRE:
            return state + 1 if state < self.permits else Inconsistent(f"all {state} permits are taken")
        return state - 1 if state else Inconsistent("no permit is taken")

    def refuse(self, state: int, operation: Operation) -> int | Inconsistent:  # noqa: ARG002
        return state if state == self.permits else Inconsistent(f"only {state} of {self.permits} permits are taken")

    def describe(self, state: int) -> str:
        return f"{state} of {self.permits} taken"


READ_MODES: Final = frozenset({"read", "shared", "r"})
WRITE_MODES: Final = frozenset({"write", "exclusive", "w"})


def shared(operation: Operation) -> bool:
    """Return whether an acquire is a reader's.

    A reader's is ``acquire-read``, or has the argument ``read``, ``{"mode": "read"}`` or ``{"shared": true}``. A
    writer's is ``acquire-write``, has the argument ``write``, or has none. Raises ValueError for another mode.
    """
    if operation.f.startswith("acquire-"):
        return operation.f == "acquire-read"
    mode = operation.argument
    if isinstance(mode, Mapping):
        if mode.get("shared"):
            return True
        mode = mode.get("mode")
    name = bare(mode)
    if mode is None or name in WRITE_MODES:
        return False
    if name in READ_MODES:
        return True
    raise ValueError(f"a lock is acquired for reading or for writing, not for {mode!r}")


class ReadWriteLock(Model):
    """A lock for many readers or one writer. A client holds it at most once, and only the holder may release it.

    State: the writer or None, and the readers."""

    name = "rw-lock"
    fs = LOCKING | {"acquire-read", "acquire-write", "release-read", "release-write"}
    refusals = ACQUIRE | {"acquire-read", "acquire-write"}

    @property
    def initial(self) -> tuple[str | None, frozenset[str]]:
        return None, frozenset()

    def step(
        self, state: tuple[str | None, frozenset[str]], operation: Operation
    ) -> tuple[str | None, frozenset[str]] | Inconsistent:
        writer, readers = state
        me = operation.client
        if operation.f not in ACQUIRE and not operation.f.startswith("acquire"):
            return self._release(writer, readers, operation)
        if writer is not None:
            return Inconsistent(f"{writer} holds it for writing")
        if me in readers:
            return Inconsistent(f"{me} already holds it for reading")
        if shared(operation):
            return None, readers | {me}
        return (me, readers) if not readers else Inconsistent(f"held for reading by {_names(readers)}")

    def refuse(
        self,
        state: tuple[str | None, frozenset[str]],
        operation: Operation,  # noqa: ARG002
    ) -> tuple[str | None, frozenset[str]] | Inconsistent:
        """A reader may be refused while others read, since a writer may wait."""
        return state if state != self.initial else NOBODY

    @staticmethod
    def _release(
        writer: str | None, readers: frozenset[str], operation: Operation
    ) -> tuple[str | None, frozenset[str]] | Inconsistent:
        me = operation.client
        if writer == me and operation.f != "release-read":
            return None, readers
        if me in readers and operation.f != "release-write":
            return writer, readers - {me}
        return Inconsistent(f"{me} does not hold it in this mode")

    def describe(self, state: tuple[str | None, frozenset[str]]) -> str:
        writer, readers = state
        if writer is not None:
            return f"held for writing by {writer}"
        return f"held for reading by {_names(readers)}" if readers else "free"


def _names(clients: frozenset[str]) -> str:
    return ", ".join(sorted(clients))


class FifoLock(Model):
    """A lock with a queue: clients are served in the order in which they joined.

    ``enqueue`` joins the queue, ``acquire`` is the grant to its head, ``cancel`` leaves it, ``release`` frees the lock.
    An acquire by a client that is not in the queue joins and is granted at once, so the queue must be empty then.
    State: the owner or None, and the queue."""

    name = "fifo-lock"
    fs = LOCKING | {"enqueue", "cancel"}
    refusals = ACQUIRE
    wants: ClassVar[Wants] = "nothing"

    @property
    def initial(self) -> tuple[str | None, tuple[str, ...]]:
        return None, ()

    def step(
        self, state: tuple[str | None, tuple[str, ...]], operation: Operation
    ) -> tuple[str | None, tuple[str, ...]] | Inconsistent:
        owner, queue = state
        me = operation.client
        if operation.f == "enqueue":
            return (owner, (*queue, me)) if me not in queue else Inconsistent(f"{me} is already waiting")
        if operation.f == "cancel":
            waits = me in queue
            return (owner, tuple(c for c in queue if c != me)) if waits else Inconsistent(f"{me} is not waiting")
        if operation.f in RELEASE:
            return (None, queue) if owner == me else not_mine(owner)
        if owner is not None:
            return Inconsistent(f"{owner} holds it")
        if queue and queue[0] != me:
            return Inconsistent(f"{queue[0]} is first in the queue")
        return me, queue[1:]

    def refuse(
        self, state: tuple[str | None, tuple[str, ...]], operation: Operation
    ) -> tuple[str | None, tuple[str, ...]] | Inconsistent:
        """It may be refused since others are before it in the queue."""
        owner, queue = state
        if owner is not None or (queue and queue[0] != operation.client):
            return state
        return Inconsistent("nobody holds it, and nobody is before it in the queue")

    def describe(self, state: tuple[str | None, tuple[str, ...]]) -> str:
        owner, queue = state
        held = "free" if owner is None else f"held by {owner}"
        return held + (f", waiting {', '.join(queue)}" if queue else "")
