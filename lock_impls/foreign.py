"""Open a lock class that is not in the catalogue, given as ``package.module:Class``.

The class needs ``acquire`` and ``release``. If it has a classmethod ``open(endpoints, key, ttl)``, that opens it;
otherwise its constructor's parameters are filled in by name:

==================================================  ============================================================
``redis redis_client client conn connection``       a redis-py client
``nodes masters clients``                           a list of redis-py clients, one per server
``servers endpoints addresses``                     a list of (host, port) pairs
``connection_list``                                 a list of ``{"host": .., "port": .., "db": 0}`` (redlock-py)
``key name resource lock_name``                     the key
``ttl expire lease lease_s auto_release_time timeout``  the ttl in seconds
==================================================  ============================================================

If the class has ``__enter__`` or ``__aenter__``, each ``with`` uses an object of its own, with the same clients. Its
waiting time is filled in if the constructor has a parameter for it (``blocking_timeout acquire_timeout wait wait_s``).

Of each row the first name that the constructor has is filled in; every other parameter needs a default. ``acquire``
gets its waiting time by name (``blocking_timeout timeout wait wait_s``), and ``blocking=True`` if it has that parameter
too (for a try without waiting: only ``blocking=False``). An ``acquire`` that cannot wait is called repeatedly. Its
result: a :class:`Grant` is passed on, any other true value is a grant without fence and validity, and a false value
means not acquired.

If a grant does not say how long it is valid, its lease is what the class states as ``lease``: ``ttl``, a duration such
as ``10s``, or a constructor's parameter with its unit, such as ``px:ms``. A class without ``lease`` has the ttl as its
lease if the constructor has a parameter for it. A class that renews its leases states ``lease = ""``.

If ``acquire`` or ``release`` is a coroutine, the clients are those of ``redis.asyncio``, and the coroutines run in one
event loop of the client's process (:mod:`.asynchronous`).

Lost answers are counted only on clients that the harness opened (the first two rows). After a lost answer "not
acquired" is reported as an unknown outcome, because redis-py may have sent the request twice. A class with its own
``open`` is expected to raise :class:`Indeterminate` itself. If a class opens its own connections (``servers``,
``connection_list``), its lost answers cannot be counted, and its "not acquired" is accepted as it is. If it hides a
lost answer, its lock may seem stuck for a ttl.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from harness.errors import MissingLibrary, UsageError
from harness.plugins import load_object

from .base import (
    CountsUnanswered,
    Endpoints,
    Grant,
    Indeterminate,
    Lock,
    LockClass,
    LockError,
    LockInfo,
    LockLookupError,
)
from .contexts import UNLIMITED, Context, LockContext, enters
from .polling import poll
from .program import ProgramLock
from .redis_failures import SINGLE_KEY_KINDS

REDIS_NAMES: Final = ("redis", "redis_client", "client", "conn", "connection")
NODES_NAMES: Final = ("nodes", "masters", "clients")
ADDRESSES_NAMES: Final = ("servers", "endpoints", "addresses")
CONNECTION_LIST_NAMES: Final = ("connection_list",)
KEY_NAMES: Final = ("key", "name", "resource", "lock_name")
TTL_NAMES: Final = ("ttl", "expire", "lease", "lease_s", "auto_release_time", "timeout")
ROWS: Final = (REDIS_NAMES, NODES_NAMES, ADDRESSES_NAMES, CONNECTION_LIST_NAMES, KEY_NAMES, TTL_NAMES)

WAIT_NAMES: Final = ("blocking_timeout", "timeout", "wait", "wait_s")
CONSTRUCTOR_WAIT_NAMES: Final = ("blocking_timeout", "acquire_timeout", "wait", "wait_s")
"""Parameters of a constructor that set how long ``with`` waits. ``timeout`` is none: in a constructor it is the ttl."""
OPTIONAL: Final = ("acquire_shared", "context", "extend", "increment", "still_valid")
"""Methods of a lock that the harness calls if the lock has them."""

REFUSAL_NAMES: Final = ("NotAcquired", "LockNotOwned", "NotOwned", "LockError", "ReleaseUnlocked")
"""Parts of exception class names by which libraries refuse a call of a client that does not hold the lock."""


Construct = Callable[[Callable[[], Any]], Any]
"""A function that calls the given one, which creates a lock, and returns the lock."""
Manager = Callable[[float], tuple[Any, float]]
"""For the time (s) for which ``with`` should wait: returns the lock's context manager and the time for which it may."""


def _here(make: Callable[[], Any]) -> Any:
    return make()


class UserLockError(LockLookupError):
    """The class cannot be used as a lock; the message says what is missing."""


@dataclass(frozen=True, slots=True)
class ForeignClass:
    """A user's lock class with the interface of a catalogue entry."""

    info: LockInfo
    cls: type

    def open(self, endpoints: Endpoints, key: str, ttl: float, *, construct: Construct = _here, **options: Any) -> Lock:
        """Open the lock. ``construct`` calls what creates the object, and returns it with plain methods."""
        made: list[Any] = []
        if _opens_itself(self.cls):
            opened = construct(lambda: _noted(made, self.cls.open(endpoints, key, ttl, **options)))  # type: ignore[attr-defined]
            return _OwnOpenLock(opened, (), construct, _own_manager(made[0]))
        setting = _ConstructorArguments(endpoints, key, ttl, self.info.asynchronous)
        opened = construct(lambda: self.cls(**_noted(made, {**_fill(self.cls, setting), **options})))
        manager = partial(_new_manager, self.cls, made[0]) if enters(self.cls) else None
        return _ForeignLock(opened, tuple(setting.clients), construct, manager)


def _noted(made: list[Any], value: Any) -> Any:
    made.append(value)
    return value


def _own_manager(lock: Any) -> Manager | None:
    """Return what makes the context manager of a lock with its own ``open``: its ``context``, or the lock itself."""
    if callable(getattr(lock, "context", None)):
        return lambda timeout: (lock.context(timeout), timeout)
    return (lambda _: (lock, UNLIMITED)) if enters(type(lock)) else None


def _new_manager(cls: type, arguments: Mapping[str, Any], timeout: float) -> tuple[Any, float]:
    """Return a new object of the lock, as in ``with Lock(..., blocking_timeout=timeout)``, and how long (s) it waits.

    It has the clients of the first object."""
    name = next((name for name in CONSTRUCTOR_WAIT_NAMES if name in _parameters(cls)), None)
    if name is None or name in arguments:
        return cls(**arguments), UNLIMITED
    return cls(**{**arguments, name: timeout}), timeout


def load(spec: str) -> LockClass:
    """Return the class named ``package.module:Class``; raises :class:`UserLockError` if it is not a lock that can be
    opened."""
    try:
        return usable(spec, load_object(spec))
    except (UserLockError, MissingLibrary):
        raise
    except UsageError as error:
        raise UserLockError(str(error)) from error


def usable(spec: str, cls: type) -> LockClass:
    """Return the user's class in the shape of a catalogue entry; raises :class:`UserLockError` if it is no lock."""
    if issubclass(cls, ProgramLock):
        return _program(cls, spec)
    missing = [name for name in ("acquire", "release") if not callable(getattr(cls, name, None))]
    if missing:
        raise UserLockError(f"{spec} is no lock: it has no method {' and no method '.join(missing)}")
    for name in ("acquire", "release"):
        method = getattr(cls, name)
        if inspect.isgeneratorfunction(method) or inspect.isasyncgenfunction(method):
            raise UserLockError(f"{spec}: {name} is a generator; it must be a method or a coroutine")
    if not _opens_itself(cls):
        _chosen(cls)  # raises if the constructor cannot be filled in
    return ForeignClass(_describe(cls, spec), cls)


def _program(cls: type[ProgramLock], spec: str) -> LockClass:
    """Check the adapter of a lock in another language: it needs a valid command and info."""
    command = getattr(cls, "command", None)
    if not isinstance(command, tuple) or not command or not all(isinstance(word, str) for word in command):
        raise UserLockError(f"{spec}: command must be the program and its arguments, a tuple of texts, got {command!r}")
    if not isinstance(getattr(cls, "info", None), LockInfo) or not cls.info.runtime:
        raise UserLockError(f"{spec}: info must be a LockInfo, with the image that its program is in as runtime")
    return cls


def optional_methods(lock: LockClass) -> tuple[str, ...]:
    """Return the optional methods of a lock that the harness calls, sorted. A foreign class that the harness opens has
    none but its ``with``, since other methods may mean something else."""
    kind: object = lock
    if isinstance(lock, ForeignClass):
        kind = lock.cls if _opens_itself(lock.cls) else None
    found = {name for name in OPTIONAL if callable(getattr(kind, name, None))}
    return tuple(sorted(found | ({"context"} if isinstance(lock, ForeignClass) and enters(lock.cls) else set())))


def constructor_default(lock: LockClass, name: str) -> Any:
    """Return the default of a constructor's parameter of a foreign class; None without one."""
    if not isinstance(lock, ForeignClass) or _opens_itself(lock.cls) or name not in _parameters(lock.cls):
        return None
    default = _parameters(lock.cls)[name].default
    return None if default is inspect.Parameter.empty else default


def _describe(cls: type, spec: str) -> LockInfo:
    own = getattr(cls, "info", None)
    if isinstance(own, LockInfo):
        return replace(own, asynchronous=_is_asynchronous(cls), lease=own.lease or _lease(cls))
    return LockInfo(
        name=spec,
        title=f"{cls.__name__} of {cls.__module__}",
        algorithm=((inspect.getdoc(cls) or "").strip().splitlines() or [""])[0],
        source=inspect.getsourcefile(cls) or cls.__module__,
        safety="E",
        kinds=_kinds(cls),
        limits=(),
        asynchronous=_is_asynchronous(cls),
        lease=_lease(cls),
    )


def _lease(cls: type) -> str:
    """Return the lease that the class states, else the ttl if its constructor takes one."""
    stated = getattr(cls, "lease", None)
    if isinstance(stated, str):
        name = stated.partition(":")[0]
        return "ttl" if not _opens_itself(cls) and _chosen(cls).get(name) == TTL_NAMES else stated
    return "ttl" if not _opens_itself(cls) and TTL_NAMES in _chosen(cls).values() else ""


def _is_asynchronous(cls: type) -> bool:
    """Return whether the lock's methods are coroutines."""
    return any(inspect.iscoroutinefunction(getattr(cls, name, None)) for name in ("acquire", "release"))


def _kinds(cls: type) -> tuple[str, ...]:
    """Return the kinds that the class declares (``kinds``), else those that its constructor's parameters allow."""
    if hasattr(cls, "kinds"):
        return tuple(cls.kinds)
    if _opens_itself(cls):
        return (*SINGLE_KEY_KINDS, "redis-independent")
    rows = _chosen(cls).values()
    takes_many = not {NODES_NAMES, ADDRESSES_NAMES, CONNECTION_LIST_NAMES}.isdisjoint(rows)
    return ("redis-independent", "redis-single") if takes_many else SINGLE_KEY_KINDS


def _opens_itself(cls: type) -> bool:
    return callable(getattr(cls, "open", None))


# Filling in the constructor's parameters


@dataclass(slots=True)
class _ConstructorArguments:
    """Values for a constructor's parameters; remembers the clients that it opened."""

    endpoints: Endpoints
    key: str
    ttl: float
    asynchronous: bool
    clients: list[CountsUnanswered] = field(default_factory=list)

    def client(self) -> CountsUnanswered:
        return self._opened(self.endpoints)

    def client_of_each(self) -> list[CountsUnanswered]:
        if self.endpoints.kind == "redis-sentinel":
            return [self.client()]
        kind = self.endpoints.kind
        return [self._opened(Endpoints(kind, (address,))) for address in self.endpoints.addresses]

    def _opened(self, endpoints: Endpoints) -> CountsUnanswered:
        """Open a client with the library's defaults, as libraries expect. redis-py is imported here, since a lock of
        another service may run without it."""
        client: CountsUnanswered
        if self.asynchronous:
            from .redis_asyncio_client import open_client as open_asynchronously

            client = open_asynchronously(endpoints)
        else:
            from .redis_client import open_client

            client = open_client(endpoints)
        self.clients.append(client)
        return client

    def value_of(self, row: tuple[str, ...]) -> Any:
        makers: Mapping[tuple[str, ...], Callable[[], Any]] = {
            REDIS_NAMES: self.client,
            NODES_NAMES: self.client_of_each,
            ADDRESSES_NAMES: lambda: list(self.endpoints.addresses),
            CONNECTION_LIST_NAMES: lambda: [{"host": h, "port": p, "db": 0} for h, p in self.endpoints.addresses],
            KEY_NAMES: lambda: self.key,
            TTL_NAMES: lambda: self.ttl,
        }
        return makers[row]()


def _fill(cls: type, setting: _ConstructorArguments) -> dict[str, Any]:
    return {name: setting.value_of(row) for name, row in _chosen(cls).items()}


def _chosen(cls: type) -> dict[str, tuple[str, ...]]:
    """Map parameter names to their rows of the table. Raises if the constructor needs a parameter that is not in the
    table."""
    parameters = _parameters(cls)
    chosen: dict[str, tuple[str, ...]] = {
        name: row for row in ROWS if (name := next((n for n in row if n in parameters), None))
    }
    unknown = [p.name for p in parameters.values() if p.default is p.empty and p.name not in chosen]
    if unknown:
        known = "; ".join(" ".join(row) for row in ROWS)
        raise UserLockError(
            f"{cls.__module__}:{cls.__qualname__} needs {', '.join(unknown)}, and only these can be filled in, "
            f"one of each group: {known}. Give the others defaults, or add a classmethod open(endpoints, key, ttl)."
        )
    return chosen


def _parameters(cls: type) -> dict[str, inspect.Parameter]:
    by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    try:
        parameters = inspect.signature(cls).parameters
    except ValueError as error:
        raise UserLockError(f"{cls.__module__}:{cls.__qualname__} does not say its constructor's parameters") from error
    return {name: p for name, p in parameters.items() if p.kind in by_name}


# Using the lock


class _ForeignLock:
    """Converts another library's results and errors into those of the Lock protocol."""

    def __init__(
        self, lock: Any, clients: tuple[CountsUnanswered, ...], construct: Construct, manager: Manager | None
    ) -> None:
        self._lock = lock
        self._clients = clients
        self._parameters = inspect.signature(lock.acquire).parameters
        if manager is not None:
            self.context = partial(self._context, construct, manager)

    def acquire(self, timeout: float) -> Grant | None:
        before = self._unanswered()
        grant = self._wait(timeout)
        if grant is None and self._unanswered() > before:
            raise Indeterminate("not acquired, but an earlier answer was lost: it may be held by this very client")
        return grant

    def _wait(self, timeout: float) -> Grant | None:
        has_blocking = "blocking" in self._parameters
        wait_name = next((name for name in WAIT_NAMES if name in self._parameters), None)
        if wait_name is None or (has_blocking and timeout <= 0):
            once = {"blocking": False} if has_blocking else {}
            return poll(lambda: self._try(once), timeout)
        return self._try({wait_name: timeout, **({"blocking": True} if has_blocking else {})})

    def _try(self, arguments: Mapping[str, Any]) -> Grant | None:
        with self._outcome():
            answer = self._lock.acquire(**arguments)
        return answer if isinstance(answer, Grant) else Grant() if answer else None

    def release(self) -> None:
        with self._outcome(refusals=REFUSAL_NAMES):
            self._lock.release()

    def _context(self, construct: Construct, manager: Manager, timeout: float) -> LockContext:
        def make() -> Context:
            lock, limit = manager(timeout)
            if isinstance(lock, Context):
                return lock
            return Context(lock, lambda: self._outcome(refusals=REFUSAL_NAMES), limit)

        context: LockContext = construct(make)
        return context

    @contextmanager
    def _outcome(self, refusals: tuple[str, ...] = ()) -> Iterator[None]:
        before = self._unanswered()
        try:
            yield
        except (LockError, Indeterminate, MemoryError):  # out of memory is no outcome of a call
            raise
        except Exception as error:
            text = f"{type(error).__name__}: {error}"[:300]
            refused = any(part in type(error).__name__ for part in refusals)
            if refused and self._unanswered() == before:
                raise LockError(text) from error
            raise Indeterminate(text) from error

    def _unanswered(self) -> int:
        return sum(client.unanswered for client in self._clients)


class _OwnOpenLock(_ForeignLock):
    """A class with its own ``open``: its optional methods mean what ours mean, so they are passed on."""

    def __init__(
        self, lock: Any, clients: tuple[CountsUnanswered, ...], construct: Construct, manager: Manager | None
    ) -> None:
        super().__init__(lock, clients, construct, manager)
        for name in ("acquire_shared", "extend", "still_valid", "increment"):
            if callable(getattr(lock, name, None)):
                setattr(self, name, getattr(lock, name))
