"""Replace parts of the standard library, so that code on a simulated host uses simulated time, sockets and threads.

Each replaced function checks whether the running greenlet is a :class:`~harness.sim.kernel.Task`. If so, it uses the
simulation; otherwise it calls the real function, so real threads and code outside the simulation notice no difference.
Modules that imported a function by name (``from time import sleep``) get the replacement too
(:mod:`harness.sim.captured`).
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import importlib.metadata
import os
import platform
import queue
import select
import selectors
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Final

from greenlet import getcurrent

from harness.errors import UsageError

from . import captured, clocks, environment, pools, randomness, threads
from . import select as sim_select
from .dispatch import Replacement, StandsForClasses, bound_alike, dispatch, dispatch_new
from .kernel import DEAD, SimulationClosed, Task, Unsupported
from .sockets import FIRST_FD, SimSocket, control_socket, find_socket, socketpair, stat_descriptor

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

TESTED: Final = "3.11, 3.12 or 3.13"
"""The versions of CPython on which CI runs the simulator."""
_PID: Final = 4242
"""Result of ``os.getpid`` on every simulated host."""
_PARENT_PID: Final = 4241
"""Result of ``os.getppid`` on every simulated host."""
_LACKING: Final = {"_posixshmem": ("shm_open",), "signal": ("alarm", "setitimer")}
"""Functions that the simulator lacks, by module: memory that the machine's processes share, and timers of real time."""
_VERSION = cache(importlib.metadata.version)
_INHERITED: Final = object()
"""Original value of an attribute that a class inherits."""

# Sockets.

_Socket = socket.socket


class _VirtualSocket(_Socket, metaclass=StandsForClasses):
    """``socket.socket``, which creates a simulated socket on a simulated host."""

    stands_for = (_Socket, SimSocket)

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        if cls is not _VirtualSocket:
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


def _host_entry(task: Task, host: str) -> tuple[str, list[str], list[str]]:
    """Return name, other names and addresses of a simulated host, whose address is its name."""
    address = _gethostbyname(task, host)
    return address, [], [address]


def _getnameinfo(task: Task, address: tuple[str, int], flags: int) -> tuple[str, str]:
    del flags
    return _gethostbyname(task, address[0]), str(address[1])


def _socket_replacements() -> Iterator[Replacement]:
    yield socket, "socket", _VirtualSocket
    yield socket, "getaddrinfo", dispatch(socket.getaddrinfo, _getaddrinfo)
    yield socket, "socketpair", dispatch(socket.socketpair, lambda task, *args: socketpair(task))  # noqa: ARG005
    if fcntl is not None:
        yield fcntl, "fcntl", _by_descriptor(fcntl.fcntl, control_socket)
    yield socket, "gethostbyname", dispatch(socket.gethostbyname, _gethostbyname)
    yield socket, "gethostbyname_ex", dispatch(socket.gethostbyname_ex, _host_entry)
    yield socket, "gethostbyaddr", dispatch(socket.gethostbyaddr, _host_entry)
    yield socket, "getnameinfo", dispatch(socket.getnameinfo, _getnameinfo)
    yield socket, "gethostname", dispatch(socket.gethostname, lambda task: task.host.name)
    yield select, "select", dispatch(select.select, sim_select.select)
    if hasattr(select, "poll"):  # Windows lacks it
        yield select, "poll", dispatch(select.poll, lambda task: sim_select.SimPoll())  # noqa: ARG005
    if hasattr(select, "epoll"):  # Linux alone has it
        yield select, "epoll", dispatch_new(select.epoll, sim_select.SimEpoll)
    yield selectors, "DefaultSelector", dispatch(selectors.DefaultSelector, lambda task: sim_select.SimSelector())  # noqa: ARG005
    if "grpc" in sys.modules:  # slow to import, and only the clients of some locks use it
        from . import grpc_channel

        for owner, name, fn in grpc_channel.virtual():
            yield owner, name, dispatch(getattr(owner, name), fn)
    if "asyncio" in sys.modules:
        from . import event_loops

        yield from event_loops.replacements()
    if "uvloop" in sys.modules:  # waits in libuv, for real sockets
        uvloop = sys.modules["uvloop"]
        yield uvloop, "Loop", dispatch(vars(uvloop)["Loop"], _lacking("uvloop"))
    if "gevent" in sys.modules:  # waits in its own hub, for real sockets
        from gevent.hub import Hub

        yield Hub, "__init__", dispatch(Hub.__init__, _lacking("gevent"))
    # libpq has sockets of its own: a client would look for a simulated server in the real network.
    if "psycopg" in sys.modules:
        from psycopg import generators

        yield generators, "connect", dispatch(generators.connect, _lacking("psycopg.connect"))
    if "psycopg2" in sys.modules:
        psycopg2 = sys.modules["psycopg2"]
        yield psycopg2, "_connect", dispatch(vars(psycopg2)["_connect"], _lacking("psycopg2.connect"))


# Machines.


def _uname_replacements() -> Iterator[Replacement]:
    """Yield the functions that return the machine's name among other facts. ``platform.node`` calls one of them."""
    if hasattr(os, "uname"):  # Windows lacks it
        system, _, *others = os.uname()
        yield os, "uname", dispatch(os.uname, lambda task: os.uname_result((system, task.host.name, *others)))
    real = platform.uname()  # platform keeps its first result, which must not have the name of a simulated host

    def uname(task: Task) -> platform.uname_result:
        return platform.uname_result(real.system, task.host.name, real.release, real.version, real.machine)

    yield platform, "uname", dispatch(platform.uname, uname)


# Processes.


def _unraisablehook(real: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Report no exception from ``__del__`` methods of killed processes, since in reality they would not run."""

    def either(args: Any) -> None:
        task = getcurrent()
        over = type(task) is Task and (task.kernel.closing or task.life.state == DEAD)
        if not over and args.exc_type is not SimulationClosed:
            real(args)

    return either


def _lacking(name: str) -> Callable[..., Any]:
    """Return a function that notes that the simulator lacks ``name``, and raises."""

    def refuse(task: Task, *args: Any, **kwargs: Any) -> Any:
        del args, kwargs
        task.kernel.unsupported.setdefault(name, task.host.name)
        raise Unsupported(errno.ENOSYS, f"{name} is not simulated")

    return refuse


def _by_descriptor(real: Callable[..., Any], simulated: Callable[..., Any]) -> Callable[..., Any]:
    """Return the replacement of a function whose first argument may be the descriptor of a simulated socket, or an
    object that has one; other descriptors are those of real files."""

    def virtual(task: Task, fd: Any, *args: Any, **kwargs: Any) -> Any:
        number = fd.fileno() if hasattr(fd, "fileno") else fd
        if isinstance(number, int) and number >= FIRST_FD:
            return simulated(task, fd, *args, **kwargs)
        return real(fd, *args, **kwargs)

    return dispatch(real, virtual)


def _of_descriptor(name: str, real: Callable[..., Any], simulated: Callable[..., Any]) -> Replacement:
    return os, name, _by_descriptor(real, simulated)


def _descriptor_replacements() -> Iterator[Replacement]:
    yield os, "fstat", dispatch(os.fstat, stat_descriptor)  # kazoo before 2.10 checks descriptors with it
    yield _of_descriptor("read", os.read, lambda task, fd, size: find_socket(task, fd).recv(size))
    yield _of_descriptor("write", os.write, lambda task, fd, data: find_socket(task, fd).send(data))
    yield _of_descriptor("close", os.close, lambda task, fd: find_socket(task, fd).close())
    if hasattr(os, "set_blocking"):  # on Windows since Python 3.12
        yield _of_descriptor(
            "set_blocking", os.set_blocking, lambda task, fd, on: find_socket(task, fd).setblocking(on)
        )
        yield _of_descriptor("get_blocking", os.get_blocking, lambda task, fd: find_socket(task, fd).getblocking())
    for name in ("dup", "dup2", *(["sendfile"] if hasattr(os, "sendfile") else [])):
        yield _of_descriptor(name, getattr(os, name), _lacking(f"os.{name}"))


def _lacking_replacements() -> Iterator[Replacement]:
    for module_name, names in _LACKING.items():
        try:
            module = importlib.import_module(module_name)
        except ImportError:  # Windows
            continue
        for name in names:
            if hasattr(module, name):
                yield module, name, dispatch(getattr(module, name), _lacking(f"{module_name}.{name}"))


def _register_exit_function(task: Task, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Callable[..., Any]:
    task.life.exit_functions.append((function, args, kwargs))
    return function


def _unregister_exit_function(task: Task, function: Callable[..., Any]) -> None:
    functions = task.life.exit_functions
    functions[:] = [one for one in functions if one[0] != function]


def _process_replacements() -> Iterator[Replacement]:
    yield os, "getpid", dispatch(os.getpid, lambda task: _PID)  # noqa: ARG005
    yield os, "getppid", dispatch(os.getppid, lambda task: _PARENT_PID)  # noqa: ARG005
    # They are called when a simulated process exits (harness.sim.exits), not when it is killed or the simulation ends.
    yield atexit, "register", dispatch(atexit.register, _register_exit_function)
    yield atexit, "unregister", dispatch(atexit.unregister, _unregister_exit_function)
    yield sys, "unraisablehook", _unraisablehook(sys.unraisablehook)
    # Cached: redis-py looks up its version at each connection, which reads a file.
    yield importlib.metadata, "version", _VERSION
    # The real one waits for real locks; this is the standard library's own implementation in Python.
    yield queue, "SimpleQueue", dispatch_new(queue.SimpleQueue, queue._PySimpleQueue)  # type: ignore[attr-defined]


def _replacements() -> Iterator[Replacement]:
    """Yield all replacements."""
    yield from clocks.replacements()
    yield from _socket_replacements()
    yield from _uname_replacements()
    yield from _descriptor_replacements()
    yield from threads.replacements()
    yield from pools.replacements()
    yield from randomness.replacements()
    yield from environment.replacements()
    yield from _process_replacements()
    yield from _lacking_replacements()


@cache
def why_unsupported() -> str | None:
    """Return why the simulator cannot run on this Python, or None if it can: a release may lack what it replaces."""
    try:
        for owner, name, _ in _replacements():
            getattr(owner, name)
        pools.forget_workers()
    except AttributeError as lacking:
        python = f"{platform.python_implementation()} {platform.python_version()}"
        return (
            f"the simulator does not work on {python}: {lacking}, and the simulator replaces it; "
            f"use CPython {TESTED}, or --cluster docker"
        )
    return None


_depth = 0
_ONE_AT_A_TIME: Final = threading.RLock()
"""Simulations in several threads wait for each other, since a process has one standard library."""


@contextlib.contextmanager
def virtual() -> Iterator[None]:
    """Install the replacements while the context is active. It may be nested, to keep them between runs."""
    global _depth  # noqa: PLW0603 - there is one standard library in a process
    with _ONE_AT_A_TIME:
        _depth += 1
        undo = _install() if _depth == 1 else []
        outer = _take_running_loop()
        try:
            yield
        finally:
            _depth -= 1
            _set_running_loop(outer)
            pools.forget_workers()
            for owner, name, original in undo:
                if original is _INHERITED:
                    delattr(owner, name)
                else:
                    setattr(owner, name, original)


def _take_running_loop() -> Any:
    """Return the event loop that this thread runs, as in a notebook, and let no simulated thread see it."""
    if "asyncio" not in sys.modules:
        return None
    loop = sys.modules["asyncio"]._get_running_loop()
    _set_running_loop(None)
    return loop


def _set_running_loop(loop: Any) -> None:
    if "asyncio" in sys.modules:
        sys.modules["asyncio"]._set_running_loop(loop)


def _install() -> list[Replacement]:
    """Install all replacements, and return (object, attribute, original value) for undoing them.

    Raises UsageError if gevent has replaced the same.
    """
    if getattr(sys.modules.get("gevent.monkey"), "saved", None):
        raise UsageError(
            "gevent has replaced parts of the standard library (gevent.monkey), which the simulator replaces, too; "
            "a lock that needs this cannot run on the simulator"
        )
    undo: list[Replacement] = []
    new_of: dict[int, Any] = {}
    for owner, name, new in list(_replacements()):
        original = vars(owner).get(name, _INHERITED)
        undo.append((owner, name, original))
        if original is _INHERITED:
            setattr(owner, name, new)
        else:
            setattr(owner, name, new_of.setdefault(id(original), bound_alike(new, original)))
    undo.extend(captured.replace(new_of))
    return undo
