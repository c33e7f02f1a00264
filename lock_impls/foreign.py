"""Open a lock class that is not in the catalogue, given as ``package.module:Class``.

The class needs ``acquire`` and ``release``. If it has a classmethod ``open(endpoints, key, ttl)``, that opens it;
otherwise its constructor's parameters are filled in by name (:mod:`.constructor_arguments`). How its methods are called
is in :mod:`.foreign_lock`.

If the class has ``__enter__`` or ``__aenter__``, each ``with`` uses an object of its own, with the same clients. Its
waiting time is filled in if the constructor has a parameter for it (``blocking_timeout acquire_timeout wait wait_s``).

If the class has ``extend`` or ``reacquire``, it prolongs the lease to a whole ttl (:mod:`.prolonging`).

If a grant does not say how long it is valid, its lease is what the class states as ``lease``: ``ttl``, a duration such
as ``10s``, or a constructor's parameter with its unit, such as ``px:ms``. A class without ``lease`` has the ttl as its
lease if the constructor has a parameter for it. A class that renews its leases states ``lease = ""``.

If the class states an ``origin`` (:mod:`.origins`), documents and pages repeat it.

If the class states ``shareable = True``, threads or tasks of a client may use one object of it at the same time.

If ``acquire`` or ``release`` is a coroutine, the clients are those of ``redis.asyncio``, and the coroutines run in one
event loop of the client's process (:mod:`.asynchronous`).

Lost answers are counted only on clients that the harness opened (the first two rows of the table). After a lost answer
"not acquired" is reported as an unknown outcome, because redis-py may have sent the request twice. A class with its own
``open`` is expected to raise :class:`.base.Indeterminate` itself. If a class opens its own connections (``servers``,
``connection_list``), its lost answers cannot be counted, and its "not acquired" is accepted as it is. If it hides a
lost answer, its lock may seem stuck for a ttl.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from harness.errors import MissingLibrary, UsageError
from harness.plugins import load_object

from .base import Endpoints, Lock, LockClass, LockInfo
from .constructor_arguments import (
    ADDRESSES_NAMES,
    CONNECTION_LIST_NAMES,
    NODES_NAMES,
    TTL_NAMES,
    ConstructorArguments,
    UserLockError,
    chosen_rows,
    fill,
    parameters_of,
)
from .contexts import UNLIMITED, enters
from .foreign_lock import Construct, ForeignLock, Manager, OwnOpenLock
from .origins import Origin
from .program import ProgramLock
from .prolonging import prolonging
from .redis_failures import ONE_SLOT_KINDS, SINGLE_KEY_KINDS

CONSTRUCTOR_WAIT_NAMES: Final = ("blocking_timeout", "acquire_timeout", "wait", "wait_s")
"""Parameters of a constructor that set how long ``with`` waits. ``timeout`` is none: in a constructor it is the ttl."""
OPTIONAL: Final = ("acquire_shared", "context", "extend", "increment", "still_valid")
"""Methods of a lock that the harness calls if the lock has them."""


def _here(make: Callable[[], Any]) -> Any:
    return make()


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
            return OwnOpenLock(opened, (), construct, _own_manager(made[0]))
        setting = ConstructorArguments(endpoints, key, ttl, self.info.asynchronous)
        opened = construct(lambda: self.cls(**_noted(made, {**fill(self.cls, setting), **options})))
        manager = partial(_new_manager, self.cls, made[0]) if enters(self.cls) else None
        return ForeignLock(opened, tuple(setting.clients), construct, manager, prolonging(self.cls, ttl))


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
    name = next((name for name in CONSTRUCTOR_WAIT_NAMES if name in parameters_of(cls)), None)
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
        chosen_rows(cls)  # raises if the constructor cannot be filled in
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
    none but its ``with`` and ``extend``, since other methods may mean something else."""
    if not isinstance(lock, ForeignClass):
        return _own_methods(lock)
    found = {"context"} if enters(lock.cls) else set()
    if _opens_itself(lock.cls):
        found.update(_own_methods(lock.cls))
    elif prolonging(lock.cls, 1.0) is not None:
        found.add("extend")
    return tuple(sorted(found))


def _own_methods(kind: object) -> tuple[str, ...]:
    return tuple(sorted(name for name in OPTIONAL if callable(getattr(kind, name, None))))


def constructor_default(lock: LockClass, name: str) -> Any:
    """Return the default of a constructor's parameter of a foreign class; None without one."""
    if not isinstance(lock, ForeignClass) or _opens_itself(lock.cls) or name not in parameters_of(lock.cls):
        return None
    default = parameters_of(lock.cls)[name].default
    return None if default is inspect.Parameter.empty else default


def _describe(cls: type, spec: str) -> LockInfo:
    own = getattr(cls, "info", None)
    if isinstance(own, LockInfo):
        return replace(own, asynchronous=_is_asynchronous(cls), lease=own.lease or _lease(cls), origin=_origin(cls))
    return LockInfo(
        name=spec,
        title=f"{cls.__name__} of {cls.__module__}",
        algorithm=((inspect.getdoc(cls) or "").strip().splitlines() or [""])[0],
        source=inspect.getsourcefile(cls) or cls.__module__,
        safety="E",
        kinds=_kinds(cls),
        limits=(),
        asynchronous=_is_asynchronous(cls),
        shareable=getattr(cls, "shareable", False) is True,
        lease=_lease(cls),
        origin=_origin(cls),
    )


def _origin(cls: type) -> Origin | None:
    """Return the origin in the class's own body: it says nothing about subclasses."""
    stated = vars(cls).get("origin")
    return stated if isinstance(stated, Origin) else None


def _lease(cls: type) -> str:
    """Return the lease that the class states, else the ttl if its constructor takes one."""
    stated = getattr(cls, "lease", None)
    if isinstance(stated, str):
        name = stated.partition(":")[0]
        return "ttl" if not _opens_itself(cls) and chosen_rows(cls).get(name) == TTL_NAMES else stated
    return "ttl" if not _opens_itself(cls) and TTL_NAMES in chosen_rows(cls).values() else ""


def _is_asynchronous(cls: type) -> bool:
    """Return whether the lock's methods are coroutines."""
    return any(inspect.iscoroutinefunction(getattr(cls, name, None)) for name in ("acquire", "release"))


def _kinds(cls: type) -> tuple[str, ...]:
    """Return the kinds that the class declares (``kinds``), else those that its constructor's parameters allow."""
    if hasattr(cls, "kinds"):
        if isinstance(cls.kinds, str) or not all(isinstance(kind, str) for kind in cls.kinds):
            raise UserLockError(f'kinds must be names such as ("postgres",), got {cls.kinds!r}')
        return tuple(cls.kinds)
    if _opens_itself(cls):
        return (*ONE_SLOT_KINDS, "redis-independent")
    rows = chosen_rows(cls).values()
    takes_many = not {NODES_NAMES, ADDRESSES_NAMES, CONNECTION_LIST_NAMES}.isdisjoint(rows)
    if takes_many:
        return ("redis-independent", "redis-single")
    return SINGLE_KEY_KINDS if _is_asynchronous(cls) else ONE_SLOT_KINDS


def _opens_itself(cls: type) -> bool:
    return callable(getattr(cls, "open", None))
