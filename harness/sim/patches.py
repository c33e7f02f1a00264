"""Makes the standard library virtual for code that runs on a simulated host, and leaves it alone for all other code.

Each replaced function asks one question, "which host am I on?": the greenlet that runs is a
:class:`~harness.sim.kernel.Task` or it is not. Threads of the operating system and code outside the simulation are on
no host and get the real thing, so the replacement is invisible to them. Modules that took a function by name (``from
time import sleep``) are found and given the replacement too.
"""

from __future__ import annotations

import _thread
import _threading_local
import atexit
import contextlib
import datetime as datetime_module
import fcntl
import importlib.metadata
import itertools
import math
import os
import queue
import random
import select
import selectors
import socket
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from functools import cache, wraps
from typing import Any, Final

from greenlet import getcurrent

from . import captured, pools, threads
from . import select as sim_select
from .kernel import BOOT, DEAD, SECOND, Closed, Task
from .sockets import SimSocket, control, pair

_NODE: Final = 0x0242AC110002
"""What ``uuid.getnode`` answers on every simulated host (containers of one machine look much like this)."""
_UUID_EPOCH: Final = 0x01B21DD213814000
_PID: Final = 4242
Virtual = Callable[..., Any]
SUPPORTED: Final = sys.version_info < (3, 13)
NEEDS: Final = "the simulator needs CPython 3.11 or 3.12: 3.13 rebuilt the inside of threading, which it replaces"


def _dispatch(real: Callable[..., Any], virtual: Virtual) -> Callable[..., Any]:
    @wraps(real)
    def either(*args: Any, **kwargs: Any) -> Any:
        task = getcurrent()
        if type(task) is Task:
            return virtual(task, *args, **kwargs)
        return real(*args, **kwargs)

    return either


# Clocks.


def _monotonic_ns(task: Task) -> int:
    task.saw_clock()
    return task.kernel.now


def _wall_ns(task: Task) -> int:
    task.saw_clock()
    return int(task.host.wall_ns())


def _monotonic(real: Callable[[], float]) -> Callable[[], float]:
    """``time.monotonic`` by hand: client libraries call it several times a command."""

    def either() -> float:
        task = getcurrent()
        if type(task) is not Task:
            return real()
        task.saw_clock()
        return task.kernel.now / SECOND

    return either


def _cpu_ns(task: Task) -> int:
    return task.kernel.now - BOOT


def _seconds(read: Callable[[Task], int]) -> Virtual:
    return lambda task: read(task) / SECOND


def _clock_gettime_ns(task: Task, clock: int) -> int:
    if clock == time.CLOCK_REALTIME:
        return _wall_ns(task)
    return _monotonic_ns(task)


def _sleep(task: Task, seconds: float) -> None:
    if seconds < 0:
        raise ValueError("sleep length must be non-negative")
    deadline = task.kernel.now + math.ceil(seconds * SECOND)
    while task.park(deadline - task.kernel.now):
        """A stray wake-up: sleep on."""


def _of_now(real: Callable[..., Any]) -> Virtual:
    """For ``localtime``, ``gmtime`` and ``ctime``, which read the clock if they are given no time."""
    return lambda task, secs=None: real(_wall_ns(task) / SECOND if secs is None else secs)


def _strftime(task: Task, fmt: str, *when: Any) -> str:
    return _REAL_STRFTIME(fmt, *(when or (_REAL_LOCALTIME(_wall_ns(task) / SECOND),)))


_VERSION = cache(importlib.metadata.version)
_REAL_STRFTIME = time.strftime
_REAL_LOCALTIME = time.localtime


class _SharedName(type):
    """Classes that stand for a real class and a simulated one: instances of either are instances of it."""

    stands_for: tuple[type, ...]

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls.stands_for)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, cls.stands_for)


_Datetime = datetime_module.datetime
_Date = datetime_module.date


class _DatetimeName(_Datetime, metaclass=_SharedName):
    """``datetime.datetime``, whose ``now`` asks the host."""

    stands_for = (_Datetime,)

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        return _Datetime(*args, **kwargs)

    @classmethod
    def now(cls, tz: Any = None) -> Any:
        task = getcurrent()
        return _Datetime.fromtimestamp(_wall_ns(task) / SECOND, tz) if type(task) is Task else _Datetime.now(tz)

    @classmethod
    def today(cls) -> Any:
        return cls.now()

    @classmethod
    def utcnow(cls) -> Any:
        return cls.now(datetime_module.UTC).replace(tzinfo=None)


class _DateName(_Date, metaclass=_SharedName):
    """``datetime.date``, whose ``today`` asks the host."""

    stands_for = (_Date,)

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        return _Date(*args, **kwargs)

    @classmethod
    def today(cls) -> Any:
        task = getcurrent()
        return _Date.fromtimestamp(_wall_ns(task) / SECOND) if type(task) is Task else _Date.today()


# Sockets.

_Socket = socket.socket


class _SocketName(_Socket, metaclass=_SharedName):
    """``socket.socket``, which is a simulated socket on a simulated host."""

    stands_for = (_Socket, SimSocket)

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        if cls is not _SocketName:
            return super().__new__(cls, *args, **kwargs)
        task = getcurrent()
        return SimSocket(task) if type(task) is Task else _Socket(*args, **kwargs)


def _getaddrinfo(task: Task, host: Any, port: Any, *args: Any, **kwargs: Any) -> list[Any]:
    del args, kwargs
    name = host.decode() if isinstance(host, bytes) else host
    if name in (None, "localhost", "127.0.0.1"):
        name = task.host.name
    name = task.host.network.resolve(name)
    if name not in task.host.network.hosts:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (name, int(port)))]


def _gethostbyname(task: Task, host: str) -> str:
    return str(_getaddrinfo(task, host, 0)[0][4][0])


# Threads.

_Local = threading.local


class _LocalName(_Local, metaclass=_SharedName):
    """``threading.local``, which keeps the standard library's own portable implementation's books in the simulation."""

    stands_for = (_Local, _threading_local.local)

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        if cls is not _LocalName:
            return super().__new__(cls, *args, **kwargs)
        task = getcurrent()
        return _threading_local.local() if type(task) is Task else _Local(*args, **kwargs)


def _start_thread(task: Task, fn: Any, args: Any, kwargs: Any = None) -> int:
    return threads.start_thread(task, fn, args, kwargs or {})


def _excepthook(real: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Threads that end because the simulation does end in silence."""
    return lambda args: None if args.exc_type is Closed else real(args)


def _unraisablehook(real: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """What a process that was killed leaves behind is cleaned up (``__del__``) in silence: it would be gone."""

    def either(args: Any) -> None:
        task = getcurrent()
        over = type(task) is Task and (task.kernel.closing or task.life.state == DEAD)
        if not over and args.exc_type is not Closed:
            real(args)

    return either


def _hooks() -> Iterator[tuple[Any, str, Any]]:
    yield threading, "excepthook", _excepthook(threading.excepthook)
    yield sys, "unraisablehook", _unraisablehook(sys.unraisablehook)


# Chance.


def _uuid_time(task: Task) -> tuple[bytes, int]:
    stamp = _wall_ns(task) // 100 + _UUID_EPOCH + task.kernel.next_number()
    sequence = task.life.rng.getrandbits(14)
    fields = (stamp & 0xFFFFFFFF, stamp >> 32 & 0xFFFF, stamp >> 48 & 0xFFF, sequence >> 8, sequence & 0xFF, _NODE)
    return uuid.UUID(fields=fields, version=1).bytes, 0


_REAL_SEED = random.Random.seed


def _seed(self: random.Random, a: Any = None, version: int = 2) -> None:
    task = getcurrent()
    if a is None and type(task) is Task:
        a = task.life.rng.getrandbits(256)
    _REAL_SEED(self, a, version)


def _module_random() -> Iterator[tuple[Any, str, Any]]:
    """``random.random`` and its like, bound to a hidden generator of the module: on a host, to the host's."""
    hidden = random._inst
    for name in random.__all__:
        method = getattr(random, name)
        if getattr(method, "__self__", None) is hidden:
            yield random, name, _dispatch(method, _host_random(name))


def _host_random(name: str) -> Virtual:
    return lambda task, *args, **kwargs: getattr(task.life.rng, name)(*args, **kwargs)


def _replacements() -> Iterator[tuple[Any, str, Any]]:
    """(module or class, attribute, what stands there while a simulation runs)."""
    for name in ("monotonic", "perf_counter"):
        yield time, name, _monotonic(getattr(time, name))
        yield time, f"{name}_ns", _dispatch(getattr(time, f"{name}_ns"), _monotonic_ns)
    yield time, "time", _dispatch(time.time, _seconds(_wall_ns))
    yield time, "time_ns", _dispatch(time.time_ns, _wall_ns)
    for name in ("process_time", "thread_time"):
        yield time, name, _dispatch(getattr(time, name), _seconds(_cpu_ns))
        yield time, f"{name}_ns", _dispatch(getattr(time, f"{name}_ns"), _cpu_ns)
    yield time, "clock_gettime_ns", _dispatch(time.clock_gettime_ns, _clock_gettime_ns)
    yield (
        time,
        "clock_gettime",
        _dispatch(time.clock_gettime, lambda task, clock: _clock_gettime_ns(task, clock) / SECOND),
    )
    yield time, "sleep", _dispatch(time.sleep, _sleep)
    for name in ("localtime", "gmtime", "ctime"):
        yield time, name, _dispatch(getattr(time, name), _of_now(getattr(time, name)))
    yield time, "strftime", _dispatch(time.strftime, _strftime)
    yield datetime_module, "datetime", _DatetimeName
    yield datetime_module, "date", _DateName

    yield socket, "socket", _SocketName
    yield socket, "getaddrinfo", _dispatch(socket.getaddrinfo, _getaddrinfo)
    yield socket, "socketpair", _dispatch(socket.socketpair, lambda task, *args: pair(task))  # noqa: ARG005
    yield fcntl, "fcntl", _dispatch(fcntl.fcntl, control)
    yield socket, "gethostbyname", _dispatch(socket.gethostbyname, _gethostbyname)
    yield socket, "gethostname", _dispatch(socket.gethostname, lambda task: task.host.name)
    yield select, "select", _dispatch(select.select, sim_select.select)
    yield select, "poll", _dispatch(select.poll, lambda task: sim_select.SimPoll())  # noqa: ARG005
    yield selectors, "DefaultSelector", _dispatch(selectors.DefaultSelector, lambda task: sim_select.SimSelector())  # noqa: ARG005

    new_lock = _dispatch(_thread.allocate_lock, lambda task: threads.SimLock())  # noqa: ARG005
    yield _thread, "allocate_lock", new_lock
    yield threading, "Lock", new_lock
    yield threading, "_allocate_lock", new_lock
    yield threading, "RLock", _dispatch(threading.RLock, lambda task: threads.SimRLock())  # noqa: ARG005
    yield threading, "_start_new_thread", _dispatch(_thread.start_new_thread, _start_thread)
    yield _thread, "start_new_thread", _dispatch(_thread.start_new_thread, _start_thread)
    yield threading, "_set_sentinel", _dispatch(_thread._set_sentinel, threads.sentinel)  # type: ignore[attr-defined]
    yield threading, "get_ident", _dispatch(threading.get_ident, lambda task: task.ident)
    yield _thread, "get_ident", _dispatch(_thread.get_ident, lambda task: task.ident)
    yield threading, "get_native_id", _dispatch(threading.get_native_id, lambda task: task.ident)
    yield threading, "local", _LocalName
    yield from _hooks()
    yield queue, "SimpleQueue", _dispatch(queue.SimpleQueue, lambda task: queue._PySimpleQueue())  # type: ignore[attr-defined]  # noqa: ARG005

    yield os, "urandom", _dispatch(os.urandom, lambda task, size: task.life.rng.randbytes(size))
    # A simulated process ends in a kill or with the simulation: neither runs what was registered.
    yield atexit, "register", _dispatch(atexit.register, lambda task, fn, *args, **kwargs: fn)  # noqa: ARG005
    yield atexit, "unregister", _dispatch(atexit.unregister, lambda task, fn: None)  # noqa: ARG005
    yield os, "getpid", _dispatch(os.getpid, lambda task: _PID)  # noqa: ARG005
    # redis-py asks for its own at each connection, which reads a file: no simulation sees packages come and go.
    yield importlib.metadata, "version", _VERSION
    yield uuid, "getnode", _dispatch(uuid.getnode, lambda task: _NODE)  # noqa: ARG005
    yield uuid, "_generate_time_safe", _dispatch(uuid._generate_time_safe, _uuid_time)  # type: ignore[attr-defined]
    yield random.Random, "seed", _seed
    yield from _module_random()
    yield from pools.replacements()
    if "grpc" in sys.modules:  # dear to import, and only some locks' clients speak it
        from . import grpc_channel

        for owner, name, fn in grpc_channel.virtual():
            yield owner, name, _dispatch(getattr(owner, name), fn)


_depth = 0
_ONE_AT_A_TIME: Final = threading.RLock()
"""There is one standard library in a process: simulations in other threads wait for each other."""


@contextlib.contextmanager
def virtual() -> Iterator[None]:
    """While inside, code on simulated hosts lives on virtual time. May be nested, to keep it between runs."""
    global _depth  # noqa: PLW0603 - there is one standard library in a process
    if not SUPPORTED:
        raise RuntimeError(NEEDS)
    with _ONE_AT_A_TIME:
        _depth += 1
        undo = _install() if _depth == 1 else []
        # Threads have the same names in each run.
        threading._counter = itertools.count(1).__next__  # type: ignore[attr-defined]
        try:
            yield
        finally:
            _depth -= 1
            pools.forget()
            for owner, name, original in undo:
                setattr(owner, name, original)


def _install() -> list[tuple[Any, str, Any]]:
    """Put all replacements in place; returns what puts the originals back."""
    undo: list[tuple[Any, str, Any]] = []
    new_of: dict[int, Any] = {}
    for owner, name, new in list(_replacements()):
        original = owner.__dict__[name]
        new_of.setdefault(id(original), new)
        undo.append((owner, name, original))
    for owner, name, original in undo:
        setattr(owner, name, new_of[id(original)])
    undo.extend(captured.replace(new_of))
    undo.append((threading, "_counter", threading._counter))  # type: ignore[attr-defined]
    return undo
