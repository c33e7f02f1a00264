"""Threads of simulated hosts: each ``threading.Thread`` that a task starts runs as another task of the same host.

The documented methods of ``threading.Thread`` are replaced, and the functions of ``threading`` that return threads.
They use nothing private of ``threading``, since releases of Python change it: until 3.12 a lock represents a started
thread, and since 3.13 a handle. The class itself stays, because classes of client libraries derive from it.
"""

from __future__ import annotations

import _thread
import _threading_local
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

from greenlet import GreenletExit, getcurrent

from harness.errors import LockFailed, ThreadInterrupted, uncallable_hook

from .dispatch import Replacement, StandsForClasses, Virtual, dispatch, dispatch_new
from .kernel import DEAD, SimulationClosed, Task
from .locks import SimLock, SimRLock

_KEY: Final = "_simulated_thread"
"""Attribute of a simulated ``threading.Thread`` that holds its :class:`_ThreadState`. Other threads do not have it."""


class _ThreadState:
    """State of a simulated thread, beside its ``threading.Thread``."""

    __slots__ = ("running", "started", "task")

    def __init__(self) -> None:
        self.task: Task | None = None
        self.started = False
        self.running = SimLock()
        """Held from the start of the thread to its end; ``join`` waits for it."""
        self.running.acquire()


def _state_of(thread: threading.Thread) -> _ThreadState | None:
    found: _ThreadState | None = thread.__dict__.get(_KEY)
    return found


def is_simulated(thread: threading.Thread) -> bool:
    """Return True if a simulated task has started this thread."""
    return _state_of(thread) is not None


# Methods of Thread.


def _start(parent: Task, thread: threading.Thread) -> None:
    if _state_of(thread) is not None:
        raise RuntimeError("threads can only be started once")
    state = thread.__dict__[_KEY] = _ThreadState()
    state.task = parent.kernel.spawn(parent.host, parent.life, _main, parent, thread, state)
    while not state.started:
        parent.park()


def _main(parent: Task, thread: threading.Thread, state: _ThreadState) -> None:
    """Run the thread, as the first function of its task."""
    task = getcurrent()
    assert isinstance(task, Task)
    task.thread = thread
    state.started = True
    parent.wake()
    _set_hooks()
    try:
        thread.run()
    except (SimulationClosed, GreenletExit):
        raise
    except BaseException:  # noqa: BLE001 - as real threads do: the hook ignores SystemExit
        if not task.kernel.closing and task.life.state != DEAD:  # a thread of a killed process reports nothing
            threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), thread)))
    finally:
        state.running.release()


def _set_hooks() -> None:
    """Install the hooks of debuggers and of programs that measure coverage, as each new thread does."""
    trace, profile = threading.gettrace(), threading.getprofile()
    if trace is not None:
        sys.settrace(trace)
    if profile is not None:
        sys.setprofile(profile)


def _join(state: _ThreadState, timeout: float | None = None) -> None:
    if state.task is getcurrent():
        raise RuntimeError("cannot join current thread")
    if state.running.acquire(timeout=-1 if timeout is None else max(timeout, 0)):
        state.running.release()


def _is_alive(state: _ThreadState) -> bool:
    return state.started and state.running.locked()


def _ident(state: _ThreadState) -> int | None:
    return None if state.task is None else state.task.ident


def _name_unnamed(real: Callable[..., None]) -> Virtual:
    """Return ``Thread.__init__`` with the names that a new process would give, independent of earlier threads of
    this process."""

    def init(
        task: Task,
        thread: threading.Thread,
        group: None = None,
        target: Callable[..., Any] | None = None,
        name: str | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        if not name:
            name = f"Thread-{task.kernel.next_thread_number()}"
            function = getattr(target, "__name__", None)
            if function is not None:
                name += f" ({function})"
        if wrong := uncallable_hook():
            raise LockFailed(f"{wrong}, so no thread can be started; code under test may set it to a function only")
        real(thread, group, target, name, *args, **kwargs)

    return init


def _dispatch(real: Callable[..., Any], virtual: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method of ``Thread`` that calls ``virtual`` for a simulated thread, and ``real`` for any other."""

    def either(thread: threading.Thread, *args: Any, **kwargs: Any) -> Any:
        state = _state_of(thread)
        return real(thread, *args, **kwargs) if state is None else virtual(state, *args, **kwargs)

    return either


def _representation(real: Callable[[Any], str]) -> Callable[[Any], str]:
    def either(thread: threading.Thread) -> str:
        state = _state_of(thread)
        if state is None:
            return real(thread)
        status = "started" if _is_alive(state) else "stopped"
        return f"<{type(thread).__name__}({thread.name}, {status}{' daemon' * thread.daemon} {_ident(state)})>"

    return either


def _set_daemon(real: Callable[[Any, bool], None]) -> Callable[[Any, bool], None]:
    def either(thread: threading.Thread, daemonic: bool) -> None:
        if _state_of(thread) is not None:
            raise RuntimeError("cannot set daemon status of active thread")
        real(thread, daemonic)

    return either


# Functions of the modules.


def _start_new_thread(
    parent: Task, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any] | None = None
) -> int:
    """Do what ``_thread.start_new_thread`` does, on the parent's host. Returns the thread's identifier."""
    task = parent.kernel.spawn(parent.host, parent.life, lambda: function(*args, **(kwargs or {})))
    return task.ident


def end_main_thread(task: Task) -> None:
    """Let other threads see that the main thread, which is this task's, has ended."""
    state = _state_of(_thread_of(task))
    if state is not None and state.running.locked():
        state.running.release()


def join_others(task: Task) -> None:
    """Wait for all other threads of the task's process that are no daemons, also those that start meanwhile."""
    while others := lasting_threads(task):
        for thread in others:
            thread.join()


def lasting_threads(task: Task) -> list[threading.Thread]:
    """Return the other threads of the task's process that are no daemons. The process cannot end before them."""
    threads = [other.thread for other in task.kernel.tasks_of(task.life) if other is not task]
    return [thread for thread in threads if thread is not None and not thread.daemon and thread.is_alive()]


def _interrupt_main(task: Task, signum: int = signal.SIGINT) -> None:  # noqa: ARG001 - all signals interrupt alike
    """Interrupt the main thread of the task's process where it waits, as a handler of signals that raises does."""
    _interrupt_later(task.life.main or task)


def _interrupt_later(main: Task) -> None:
    main.kernel.ready.append((main.life, _interrupt, (main,)))


def _interrupt(main: Task) -> None:
    if main.dead or main.life.state == DEAD:
        return
    if main.parked:
        main.interrupt(ThreadInterrupted("_thread.interrupt_main was called"))
    else:
        _interrupt_later(main)  # another task has woken it, and it will run before this


def _main_thread(task: Task) -> threading.Thread:
    return _thread_of(task.life.main or task)


def _thread_of(task: Task) -> threading.Thread:
    """Return the task's thread, creating one for a task that no thread started (as ``threading`` does)."""
    if task.thread is None:
        if task is task.life.main:
            task.thread = threading.Thread(name="MainThread", daemon=False)
        else:
            task.thread = threading.Thread(name=f"Dummy-{task.kernel.next_thread_number()}", daemon=True)
        state = task.thread.__dict__[_KEY] = _ThreadState()
        state.task, state.started = task, True
    thread: threading.Thread = task.thread
    return thread


def _enumerate(task: Task) -> list[threading.Thread]:
    """Return the threads of the task's process."""
    return [_thread_of(other) for other in task.kernel.tasks_of(task.life)]


def _thread_methods() -> Iterator[Replacement]:
    thread: Any = threading.Thread
    yield thread, "__init__", dispatch(thread.__init__, _name_unnamed(thread.__init__))
    yield thread, "__repr__", _representation(thread.__repr__)
    yield thread, "start", dispatch(thread.start, _start)
    yield thread, "join", _dispatch(thread.join, _join)
    yield thread, "is_alive", _dispatch(thread.is_alive, _is_alive)
    for name in ("ident", "native_id"):
        yield thread, name, property(_dispatch(getattr(thread, name).fget, _ident))
    yield thread, "daemon", thread.daemon.setter(_set_daemon(thread.daemon.fset))


_Local = threading.local


class _VirtualLocal(_Local, metaclass=StandsForClasses):
    """``threading.local``, which on a simulated host is the standard library's implementation in pure Python."""

    stands_for = (_Local, _threading_local.local)

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        if cls is not _VirtualLocal:
            return super().__new__(cls, *args, **kwargs)
        task = getcurrent()
        return _threading_local.local() if type(task) is Task else _Local(*args, **kwargs)


def replacements() -> Iterator[Replacement]:
    """Yield the replacements by which threads and locks are simulated.

    ``threading`` has some of these functions a second time under private names. They are replaced too, like all
    references that modules hold (:mod:`harness.sim.captured`).
    """
    yield from _thread_methods()
    new_lock = dispatch_new(_thread.allocate_lock, SimLock)
    yield _thread, "allocate_lock", new_lock
    if threading.Lock is not _thread.allocate_lock:  # since 3.13
        yield threading, "Lock", dispatch_new(threading.Lock, SimLock)
    yield threading, "RLock", dispatch_new(threading.RLock, SimRLock)
    yield threading, "local", _VirtualLocal
    yield _thread, "start_new_thread", dispatch(_thread.start_new_thread, _start_new_thread)
    yield _thread, "get_ident", dispatch(_thread.get_ident, lambda task: task.ident)
    yield _thread, "get_native_id", dispatch(_thread.get_native_id, lambda task: task.ident)
    yield threading, "current_thread", dispatch(threading.current_thread, _thread_of)
    yield _thread, "interrupt_main", dispatch(_thread.interrupt_main, _interrupt_main)
    yield threading, "main_thread", dispatch(threading.main_thread, _main_thread)
    yield threading, "enumerate", dispatch(threading.enumerate, _enumerate)
    yield threading, "active_count", dispatch(threading.active_count, lambda task: len(_enumerate(task)))
