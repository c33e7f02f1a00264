"""Opens a lock class that is not in the catalogue, given as ``package.module:Class``.

The class needs ``acquire`` and ``release``. It is opened by its own ``open(endpoints, key, ttl)`` classmethod where it
has one; else its constructor's parameters are filled in by their names:

==================================================  ============================================================
``redis redis_client client conn connection``       a redis-py client
``nodes masters clients``                           a list of redis-py clients, one a server
``servers endpoints addresses``                     a list of (host, port) pairs
``connection_list``                                 a list of ``{"host": .., "port": .., "db": 0}`` (redlock-py)
``key name resource lock_name``                     the key
``ttl expire lease lease_s auto_release_time timeout``  the ttl in seconds
==================================================  ============================================================

Of each row the first name that the constructor has is filled in; every other parameter needs a default. ``acquire`` is
given its waiting time by name (``blocking_timeout timeout wait wait_s``), and ``blocking=True`` if it has that too (for
no waiting at all: ``blocking=False`` alone); one that cannot wait is called again and again. Its answer: a
:class:`Grant` is passed on, anything else that is true is a grant without fence and validity, anything false means not
acquired.

Requests whose answers were lost are only counted on clients that the harness opened (the first two rows): a "not
acquired" after one is reported as unknown, since redis-py may have sent the request twice. A class with an ``open`` of
its own is expected to raise :class:`Indeterminate` itself. A class that opens its own connections (``servers``,
``connection_list``) can be neither counted nor asked: its "not acquired" is taken at its word, and where it has
swallowed a lost answer, its lock may seem to be stuck for a ttl.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from lock_impls.base import Endpoints, Grant, Indeterminate, Lock, LockClass, LockError, LockInfo, LockLookupError
from lock_impls.polling import poll
from lock_impls.program import ProgramLock
from lock_impls.redis_client import SINGLE_KEY_KINDS, Client, open_client

REDIS_NAMES: Final = ("redis", "redis_client", "client", "conn", "connection")
NODES_NAMES: Final = ("nodes", "masters", "clients")
ADDRESSES_NAMES: Final = ("servers", "endpoints", "addresses")
CONNECTION_LIST_NAMES: Final = ("connection_list",)
KEY_NAMES: Final = ("key", "name", "resource", "lock_name")
TTL_NAMES: Final = ("ttl", "expire", "lease", "lease_s", "auto_release_time", "timeout")
ROWS: Final = (REDIS_NAMES, NODES_NAMES, ADDRESSES_NAMES, CONNECTION_LIST_NAMES, KEY_NAMES, TTL_NAMES)

WAIT_NAMES: Final = ("blocking_timeout", "timeout", "wait", "wait_s")

REFUSALS: Final = ("NotAcquired", "LockNotOwned", "NotOwned", "LockError", "ReleaseUnlocked")
"""Parts of the class names by which libraries say: refused, you do not hold it."""


class UserLockError(LockLookupError):
    """The class cannot be used as a lock; the message says what is missing."""


@dataclass(frozen=True, slots=True)
class ForeignClass:
    """A usable class of somebody else's, in the shape of a catalogue entry."""

    info: LockInfo
    cls: type

    def open(self, endpoints: Endpoints, key: str, ttl: float, **options: Any) -> Lock:
        if _opens_itself(self.cls):
            opened = self.cls.open(endpoints, key, ttl, **options)  # type: ignore[attr-defined]
            return _SeamLock(opened, clients=())
        setting = _Setting(endpoints, key, ttl)
        arguments = _fill(self.cls, setting)
        return _ForeignLock(self.cls(**arguments, **options), tuple(setting.clients))


def load(spec: str) -> LockClass:
    """The class named ``package.module:Class``; raises :class:`UserLockError` if it is no lock that can be opened."""
    cls = load_class(spec)
    if issubclass(cls, ProgramLock):
        return _program(cls, spec)
    missing = [name for name in ("acquire", "release") if not callable(getattr(cls, name, None))]
    if missing:
        raise UserLockError(f"{spec} is no lock: it has no method {' and no method '.join(missing)}")
    for name in ("acquire", "release"):
        method = getattr(cls, name)
        if inspect.iscoroutinefunction(method) or inspect.isgeneratorfunction(method):
            raise UserLockError(f"{spec}: {name} is async or a generator; the lock must have a plain method")
    if not _opens_itself(cls):
        _chosen(cls)  # raises if the constructor cannot be filled in
    return ForeignClass(_describe(cls, spec), cls)


def _program(cls: type[ProgramLock], spec: str) -> LockClass:
    """A lock in another language is one of ours, if its adapter says all that it has to."""
    command = getattr(cls, "command", None)
    if not isinstance(command, tuple) or not command or not all(isinstance(word, str) for word in command):
        raise UserLockError(f"{spec}: command must be the program and its arguments, a tuple of texts, got {command!r}")
    if not isinstance(getattr(cls, "info", None), LockInfo) or not cls.info.runtime:
        raise UserLockError(f"{spec}: info must be a LockInfo, with the image that its program is in as runtime")
    return cls


def sharable(lock: LockClass) -> bool:
    """Can it be held by several at once? A class of somebody else's that the harness opens is only ever acquired."""
    kind: object = lock
    if isinstance(lock, ForeignClass):
        kind = lock.cls if _opens_itself(lock.cls) else None
    return callable(getattr(kind, "acquire_shared", None))


def load_class(spec: str) -> type:
    """Any class named ``package.module:Class``, also from the working directory; raises :class:`UserLockError`."""
    module_name, _, class_name = spec.partition(":")
    if not module_name or not class_name:
        raise UserLockError(f"{spec!r} is not of the form package.module:Class")
    return _class_of(_import(module_name, spec), class_name, spec)


def _import(module_name: str, spec: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:  # a console script does not look into the working directory, where users keep their locks
        sys.path.insert(0, here)
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and (module_name == error.name or module_name.startswith(f"{error.name}.")):
            raise UserLockError(f"{spec}: there is no module {error.name!r} (looked in {here} and sys.path)") from error
        raise UserLockError(f"{spec}: {module_name} imports {error.name!r}, which is not installed") from error
    except (Exception, SystemExit) as error:  # the module is the user's: anything may come out of it
        raise UserLockError(f"{spec}: importing {module_name} failed: {type(error).__name__}: {error}") from error


def _class_of(module: ModuleType, class_name: str, spec: str) -> type:
    found = getattr(module, class_name, None)
    if isinstance(found, type):
        return found
    classes = [name for name, value in vars(module).items() if isinstance(value, type)]
    near = difflib.get_close_matches(class_name, classes, 1, 0.4)
    hint = f"; did you mean {near[0]}?" if near else ""
    what = "no class" if found is None else f"a {type(found).__name__}, not a class,"
    raise UserLockError(f"{spec}: {module.__name__} has {what} called {class_name!r}{hint}")


def _describe(cls: type, spec: str) -> LockInfo:
    own = getattr(cls, "info", None)
    if isinstance(own, LockInfo):
        return own
    return LockInfo(
        name=spec,
        title=f"{cls.__name__} of {cls.__module__}",
        algorithm=((inspect.getdoc(cls) or "").strip().splitlines() or [""])[0],
        source=inspect.getsourcefile(cls) or cls.__module__,
        safety="E",
        kinds=_kinds(cls),
    )


def _kinds(cls: type) -> tuple[str, ...]:
    """What the class says itself (``kinds``), else what its constructor can be given."""
    if hasattr(cls, "kinds"):
        return tuple(cls.kinds)
    if _opens_itself(cls):
        return (*SINGLE_KEY_KINDS, "redis-independent")
    rows = _chosen(cls).values()
    takes_many = not {NODES_NAMES, ADDRESSES_NAMES, CONNECTION_LIST_NAMES}.isdisjoint(rows)
    return ("redis-independent", "redis-single") if takes_many else SINGLE_KEY_KINDS


def _opens_itself(cls: type) -> bool:
    return callable(getattr(cls, "open", None))


# Filling in the constructor


@dataclass(slots=True)
class _Setting:
    """What a constructor can be given; remembers the clients that it opened."""

    endpoints: Endpoints
    key: str
    ttl: float
    clients: list[Client] = field(default_factory=list)

    def client(self) -> Client:
        return self._opened(self.endpoints)

    def client_of_each(self) -> list[Client]:
        if self.endpoints.kind == "redis-sentinel":
            return [self.client()]
        kind = self.endpoints.kind
        return [self._opened(Endpoints(kind, (address,))) for address in self.endpoints.addresses]

    def _opened(self, endpoints: Endpoints) -> Client:
        client = open_client(endpoints)  # all defaults: what libraries count on
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


def _fill(cls: type, setting: _Setting) -> dict[str, Any]:
    return {name: setting.value_of(row) for name, row in _chosen(cls).items()}


def _chosen(cls: type) -> dict[str, tuple[str, ...]]:
    """Parameter name → its row of the table. Raises if the constructor asks for something the table does not know."""
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
    """Turns another library's answers and errors into the seam's."""

    def __init__(self, lock: Any, clients: tuple[Client, ...]) -> None:
        self._lock = lock
        self._clients = clients
        self._parameters = inspect.signature(lock.acquire).parameters

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
        answer = self._outcome(lambda: self._lock.acquire(**arguments))
        return answer if isinstance(answer, Grant) else Grant() if answer else None

    def release(self) -> None:
        self._outcome(self._lock.release, refusals=REFUSALS)

    def _outcome(self, call: Callable[[], Any], refusals: tuple[str, ...] = ()) -> Any:
        before = self._unanswered()
        try:
            return call()
        except (LockError, Indeterminate):
            raise
        except Exception as error:
            text = f"{type(error).__name__}: {error}"[:300]
            refused = any(part in type(error).__name__ for part in refusals)
            if refused and self._unanswered() == before:
                raise LockError(text) from error
            raise Indeterminate(text) from error

    def _unanswered(self) -> int:
        return sum(client.unanswered for client in self._clients)


class _SeamLock(_ForeignLock):
    """A class with our own ``open``: its other methods mean what ours mean, so they are passed on."""

    def __init__(self, lock: Any, clients: tuple[Client, ...]) -> None:
        super().__init__(lock, clients)
        for name in ("acquire_shared", "extend", "still_valid", "increment"):
            if callable(getattr(lock, name, None)):
                setattr(self, name, getattr(lock, name))
