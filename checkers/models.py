"""What a lock, or a register, is: sequential objects against which a history is held.

A model says which state follows from a state and an operation. It is pure: states are hashable and never changed,
and the same question has the same answer, so that answers are remembered. The idea, and the anonymous mutex and the
registers, are those of Knossos (https://github.com/jepsen-io/knossos, ``knossos.model``); the owner-aware, reentrant
and fenced locks are the ones that Jepsen's analysis of Hazelcast 3.12 introduced (https://jepsen.io).

A model of your own is any class with ``initial`` and ``step``; deriving it from :class:`Model` gives it the rest.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from harness.history import SECOND
from harness.history.calls import NEVER, Wants
from harness.history.values import Items, bare

ACQUIRE: Final = frozenset({"acquire", "lock"})
RELEASE: Final = frozenset({"release", "unlock"})
LOCKING: Final = ACQUIRE | RELEASE


@dataclass(frozen=True, slots=True)
class Operation:
    """What a model sees of a call: the value it was invoked with, the value it returned (None if that is unknown),
    whether it is known to have happened, and, for models that ask for them, the client's name and when the call
    began and ended (ns since the history's first entry; ``ended`` is NEVER if nothing came back)."""

    f: str
    argument: Any = None
    result: Any = None
    known: bool = True
    client: str = ""
    began: int = 0
    ended: int = NEVER


@dataclass(frozen=True, slots=True)
class Inconsistent:
    """The operation cannot have happened in that state, and why: a phrase that follows "it cannot have, ..."."""

    why: str


@dataclass(frozen=True, slots=True)
class Either:
    """Any of these states may follow: the model leaves open which."""

    states: frozenset[Hashable]


class Model:
    """A sequential object, called ``name`` on the command line.

    ``fs`` are the functions it answers for; calls of others are none of its business, except those in ``refuses``, of
    which it would have to know what they do.

    ``clients`` and ``timed`` say whether it asks who called, and when. ``wants`` is what it reads of values. A
    parameter of the constructor can be set on the command line with ``--model-option``.
    """

    name: ClassVar[str] = ""
    fs: ClassVar[frozenset[str]]
    refuses: ClassVar[frozenset[str]] = frozenset()
    clients: ClassVar[bool] = True
    timed: ClassVar[bool] = False
    wants: ClassVar[Wants] = "values"

    @property
    def initial(self) -> Hashable:
        """The state before the first operation."""
        raise NotImplementedError

    def step(self, state: Any, operation: Operation) -> Hashable | Inconsistent | Either:
        """The state after ``operation`` happened in ``state``; or why it cannot have; or several."""
        raise NotImplementedError

    def describe(self, state: Any) -> str:
        """The state in a few words, for reports."""
        return str(state)


class Mutex(Model):
    """Held or free, whoever asks: any client may release what another one acquired. Knossos' ``mutex``."""

    name = "mutex"
    fs = LOCKING
    clients = False
    wants: ClassVar[Wants] = "nothing"

    @property
    def initial(self) -> bool:
        return False

    def step(self, state: bool, operation: Operation) -> bool | Inconsistent:
        if operation.f in ACQUIRE:
            return Inconsistent("it is held") if state else True
        return False if state else Inconsistent("it is free")

    def describe(self, state: bool) -> str:
        return "held" if state else "free"


class OwnerMutex(Model):
    """Held by one client, who alone may release it and may not acquire it twice. State: the owner or None."""

    name = "owner-mutex"
    fs = LOCKING
    wants: ClassVar[Wants] = "nothing"

    @property
    def initial(self) -> None:
        return None

    def step(self, state: str | None, operation: Operation) -> str | Inconsistent | None:
        if operation.f in ACQUIRE:
            return operation.client if state is None else Inconsistent(f"{state} holds it")
        return None if state == operation.client else _not_mine(state)

    def describe(self, state: str | None) -> str:
        return "free" if state is None else f"held by {state}"


def _not_mine(owner: str | None) -> Inconsistent:
    return Inconsistent("nobody holds it" if owner is None else f"{owner} holds it")


MANY: Final = 2**31
"""As often as anybody could count."""


def _count(name: str, value: int) -> int:
    if type(value) is not int or not 1 <= value <= MANY:
        raise ValueError(f"{name} must be a whole number and at least 1, got {value!r}")
    return value


class ReentrantMutex(Model):
    """An owner may acquire again, up to ``limit`` times in all, and must release as often. State: owner, depth."""

    name = "reentrant-mutex"
    fs = LOCKING
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
            return _not_mine(owner)
        return (owner, depth - 1) if depth > 1 else (None, 0)

    def describe(self, state: tuple[str | None, int]) -> str:
        owner, depth = state
        return "free" if owner is None else f"held by {owner}" + (f", {depth} times" if depth > 1 else "")


Fenced = tuple[str | None, int, int | None, int | None]
"""Owner, depth, the token of this hold, the highest token so far."""


class ReentrantFencedMutex(Model):
    """Every hold has a token, higher than all before; acquiring again gives the same one. A grant without a token
    (``fence`` null, or an outcome that is unknown) may have had any."""

    name = "reentrant-fenced-mutex"
    fs = LOCKING
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
                return _not_mine(owner)
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

    def describe(self, state: Fenced) -> str:
        owner, depth, token, highest = state
        if owner is None:
            return "free" if highest is None else f"free, highest token {highest}"
        again = f", {depth} times" if depth > 1 else ""
        return f"held by {owner}{again}" + (f" with token {token}" if token is not None else "")


class FencedMutex(ReentrantFencedMutex):
    """A mutex with an owner, whose every grant has a token higher than all before."""

    name = "fenced-mutex"

    def __init__(self) -> None:
        super().__init__(limit=1)


class Semaphore(Model):
    """``permits`` permits, whoever asks: any client may give back what another one took. State: how many are taken."""

    name = "semaphore"
    fs = LOCKING
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

    def describe(self, state: int) -> str:
        return f"{state} of {self.permits} taken"


READ_MODES: Final = frozenset({"read", "shared", "r"})
WRITE_MODES: Final = frozenset({"write", "exclusive", "w"})


def shared(operation: Operation) -> bool:
    """Whether an acquire is one of a reader: ``acquire-read``, or an argument ``read``, ``{"mode": "read"}`` or
    ``{"shared": true}``; a writer's is ``acquire-write``, ``write``, or says nothing. Raises ValueError for another
    mode."""
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
    """Many readers or one writer. A client holds it once at most, and only it may release what it holds. State: the
    writer or None, and the readers."""

    name = "rw-lock"
    fs = LOCKING | {"acquire-read", "acquire-write", "release-read", "release-write"}

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
            return Inconsistent(f"{writer} writes")
        if me in readers:
            return Inconsistent(f"{me} reads already")
        if shared(operation):
            return None, readers | {me}
        return (me, readers) if not readers else Inconsistent(f"{_names(readers)} read")

    @staticmethod
    def _release(
        writer: str | None, readers: frozenset[str], operation: Operation
    ) -> tuple[str | None, frozenset[str]] | Inconsistent:
        me = operation.client
        if writer == me and operation.f != "release-read":
            return None, readers
        if me in readers and operation.f != "release-write":
            return writer, readers - {me}
        return Inconsistent(f"{me} does not hold it so")

    def describe(self, state: tuple[str | None, frozenset[str]]) -> str:
        writer, readers = state
        if writer is not None:
            return f"written by {writer}"
        return f"read by {_names(readers)}" if readers else "free"


def _names(clients: frozenset[str]) -> str:
    return ", ".join(sorted(clients))


class FifoLock(Model):
    """Served in the order in which clients joined the queue: ``enqueue`` joins, ``acquire`` is the grant to the head
    of the queue, ``cancel`` leaves, ``release`` frees. An acquire by a client that is not in the queue joins it and is
    granted at once, so nobody may be waiting then. State: the owner or None, and the queue."""

    name = "fifo-lock"
    fs = LOCKING | {"enqueue", "cancel"}
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
            return (owner, (*queue, me)) if me not in queue else Inconsistent(f"{me} waits already")
        if operation.f == "cancel":
            waits = me in queue
            return (owner, tuple(c for c in queue if c != me)) if waits else Inconsistent(f"{me} does not wait")
        if operation.f in RELEASE:
            return (None, queue) if owner == me else _not_mine(owner)
        if owner is not None:
            return Inconsistent(f"{owner} holds it")
        if queue and queue[0] != me:
            return Inconsistent(f"{queue[0]} is first in the queue")
        return me, queue[1:]

    def describe(self, state: tuple[str | None, tuple[str, ...]]) -> str:
        owner, queue = state
        held = "free" if owner is None else f"held by {owner}"
        return held + (f", waiting {', '.join(queue)}" if queue else "")


Leased = tuple[str | None, int, int, int, frozenset[str]]
"""Holder, until when its lease lasts at least (ns), the lease (ns), the time by now (ns, at least), and whose leases
have been ended by the grant to another before they released."""


class LeaseMutex(Model):
    """A mutex with an owner whose lease may end by itself once its time is up, and lasts until then.

    A grant that says ``valid_for`` promises the lock for so long from its return on; one that does not, for ever;
    one of unknown outcome promises nothing. From the end of the lease on two states are possible, held and free; which
    it was shows in what follows, so that the model decides when it must: another client's grant, an ``extend`` or
    ``check`` that says lost, a release. An ``extend`` that says it is held prolongs the lease from its return on.
    Releasing a lease that has ended changes nothing. The state carries the earliest time it can be, since what
    follows an expiry cannot have happened before it.
    """

    name = "lease-mutex"
    fs = LOCKING | {"extend", "check"}
    timed = True
    wants: ClassVar[Wants] = "leases"

    @property
    def initial(self) -> Leased:
        return None, 0, 0, 0, frozenset()

    def step(self, state: Leased, operation: Operation) -> Leased | Inconsistent | Either:
        holder, until, lease, now, lapsed = state
        me, now = operation.client, max(now, operation.began)
        if now > operation.ended:
            return Inconsistent("it had ended before what came first could be")
        if operation.f in ACQUIRE:
            return self._acquire(state, operation, now)
        if operation.f in RELEASE:
            if holder == me:
                return None, 0, 0, now, lapsed
            return (holder, until, lease, now, lapsed - {me}) if me in lapsed else _not_mine(holder)
        good = (operation.result or {}).get("good")
        if good is None:
            return state
        if good:
            if holder != me:
                return _not_mine(holder)
            longer = operation.f == "extend" and until != NEVER and operation.known
            return holder, max(until, operation.ended + lease) if longer else until, lease, now, lapsed
        if holder != me:
            return holder, until, lease, now, lapsed
        now = max(now, until)
        return (None, 0, 0, now, lapsed | {me}) if now <= operation.ended else _promised(holder, until)

    @staticmethod
    def _acquire(state: Leased, operation: Operation, now: int) -> Leased | Inconsistent:
        holder, until, _, _, lapsed = state
        if holder is not None:
            now = max(now, until)
            if now > operation.ended or until == NEVER:
                return _promised(holder, until)
            lapsed = lapsed | {holder}
        seconds = (operation.result or {}).get("valid_for")
        if not operation.known:
            lease, end = 0, now
        elif seconds is None:
            lease, end = 0, NEVER
        else:
            lease = round(seconds * SECOND)
            end = operation.ended + lease
        return operation.client, end, lease, now, lapsed - {operation.client}

    def describe(self, state: Leased) -> str:
        holder, until, *_ = state
        if holder is None:
            return "free"
        return f"held by {holder}" + ("" if until == NEVER else f", promised until {until / SECOND:.3f} s")


def _promised(holder: str, until: int) -> Inconsistent:
    return Inconsistent(
        f"{holder} holds it" + ("" if until == NEVER else f" and was promised it until {until / SECOND:.3f} s")
    )


NIL_READS: Final = ("initial", "any")


class Register(Model):
    """One value. A read of unknown outcome says nothing.

    A read that returned nil (null) is one of a register that holds nil; with ``nil_reads = "any"`` it says nothing, as
    in Knossos, whose histories write nil also where the value is not known. Values are those of the calls; in
    histories of ours, what is under ``value`` in them.
    """

    name = "register"
    fs = frozenset({"read", "write"})
    refuses = frozenset({"cas", "take", "mark"})
    clients = False

    def __init__(self, initial: Any = None, nil_reads: str = "initial") -> None:
        if nil_reads not in NIL_READS:
            raise ValueError(f"nil_reads must be one of {', '.join(NIL_READS)}, got {nil_reads!r}")
        self._initial = frozen(initial)
        self._nil_says = nil_reads == "initial"

    @property
    def initial(self) -> Hashable:
        return self._initial

    def step(self, state: Hashable, operation: Operation) -> Hashable | Inconsistent:
        if operation.f == "write":
            return _plain(operation.argument)
        if not operation.known:
            return state
        seen = _plain(operation.result)
        if seen == state or (seen is None and not self._nil_says):
            return state
        return Inconsistent(f"the value is {worded(state)}")

    def describe(self, state: Hashable) -> str:
        return worded(state)


class CasRegister(Register):
    """A register with compare-and-set: ``[old, new]`` writes ``new`` if the value is ``old``. One that found another
    value did not happen (its call failed)."""

    name = "cas-register"
    fs = Register.fs | {"cas"}
    refuses = frozenset({"take", "mark"})

    def step(self, state: Hashable, operation: Operation) -> Hashable | Inconsistent:
        if operation.f != "cas":
            return super().step(state, operation)
        pair = frozen(operation.argument)
        if pair is None and not operation.known:
            return Inconsistent("nobody knows what it would have written")
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise ValueError(f"the value of a cas is [old, new], got {operation.argument!r}")
        old, new = pair
        return new if old == state else Inconsistent(f"the value is {worded(state)}")


def _plain(value: Any) -> Hashable:
    """What a call wrote or read: itself, or what is under ``value`` in it."""
    if type(value) in _PLAIN:
        return value  # type: ignore[no-any-return]
    return frozen(value["value"] if isinstance(value, Mapping) and "value" in value else value)


_PLAIN: Final = frozenset({int, str, type(None), bool, float})


def frozen(value: Any) -> Hashable:
    """``value`` as something that can be a state: lists become tuples, mappings :class:`Items`."""
    if type(value) in _PLAIN:
        return value  # type: ignore[no-any-return]
    if isinstance(value, list | tuple):
        return tuple(frozen(item) for item in value)
    if isinstance(value, Mapping):
        return Items((frozen(key), frozen(item)) for key, item in value.items())
    if isinstance(value, Items):
        return Items((frozen(key), frozen(item)) for key, item in value)
    if isinstance(value, set | frozenset):
        return frozenset(frozen(item) for item in value)
    hash(value)
    return value  # type: ignore[no-any-return]


def worded(value: Any) -> str:
    """A value for people, the same for equal values: ``nil``, ``[1 2]``, ``{a 1}``, ``#{1 2}``."""
    if value is None:
        return "nil"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return f"[{' '.join(map(worded, value))}]"
    if isinstance(value, Mapping | Items):
        items = value.items() if isinstance(value, Mapping) else value
        return f"{{{', '.join(sorted(f'{worded(key)} {worded(item)}' for key, item in items))}}}"
    if isinstance(value, set | frozenset):
        return f"#{{{' '.join(sorted(map(worded, value)))}}}"
    return str(value)


MODELS: Final[dict[str, type[Model]]] = {
    kind.name: kind
    for kind in list(globals().values())
    if isinstance(kind, type) and issubclass(kind, Model)
    if kind.name
}
"""The models by the names that users type: every class above that has one."""
