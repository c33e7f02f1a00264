"""``select.select``, ``select.poll``, ``select.epoll`` and ``selectors.DefaultSelector`` for simulated sockets."""

from __future__ import annotations

import select as real
import selectors
from collections.abc import Iterable
from typing import Any, Final

from greenlet import getcurrent

from .kernel import SECOND, Task
from .missing import missing_attribute
from .sockets import FIRST_FD, SimSocket, find_socket

_REAL_POLL: Final = getattr(real, "poll", None)
"""``select.poll``, which Windows lacks."""

_EPOLL: Final = getattr(real, "epoll", None)
_SELECTOR: Final = selectors.DefaultSelector
"""The classes, before the simulation replaces them. Linux alone has the first one."""


def _wait(task: Task, reads: list[SimSocket], writes: list[SimSocket], timeout: float | None) -> None:
    """Return when one of the sockets is ready, or after ``timeout`` seconds."""
    for sock in reads:
        if sock.readable:
            return
    for sock in writes:
        if sock.writable:
            return
    deadline = None if timeout is None else task.kernel.now + _nanoseconds(timeout)
    watched = [*reads, *writes]
    for sock in watched:
        sock.watch(task)
    try:
        while not any(sock.readable for sock in reads) and not any(sock.writable for sock in writes):
            left = None if deadline is None else deadline - task.kernel.now
            if (left is not None and left <= 0) or not task.park(left):
                return
    finally:
        for sock in watched:
            sock.unwatch(task)


def _nanoseconds(timeout: float) -> int:
    """Convert a time-out (s). One of 0.5 ns lasts 1 ns: in no time, an event loop asks for ever."""
    return max(1, int(timeout * SECOND)) if timeout > 0 else 0


def select(
    task: Task, rlist: Iterable[Any], wlist: Iterable[Any], xlist: Iterable[Any], timeout: float | None = None
) -> tuple[list[Any], list[Any], list[Any]]:
    """Wait as select(2) does. The third list of the result is always empty: there is no out-of-band data."""
    del xlist
    reads = [(item, find_socket(task, item)) for item in rlist]
    writes = [(item, find_socket(task, item)) for item in wlist]
    _wait(task, [sock for _, sock in reads], [sock for _, sock in writes], timeout)
    return (
        [item for item, sock in reads if sock.readable],
        [item for item, sock in writes if sock.writable],
        [],
    )


class SimPoll:
    """The object that ``select.poll()`` returns on a simulated host. Time-outs are in milliseconds."""

    def __init__(self) -> None:
        self._masks: dict[int, int] = {}

    def register(self, fd: Any, eventmask: int = real.POLLIN | real.POLLPRI | real.POLLOUT) -> None:
        self._masks[fd if isinstance(fd, int) else fd.fileno()] = eventmask

    modify = register

    def unregister(self, fd: Any) -> None:
        del self._masks[fd if isinstance(fd, int) else fd.fileno()]

    def poll(self, timeout: float | None = None) -> list[tuple[int, int]]:
        if self._masks and max(self._masks) < FIRST_FD:
            return self._poll_files(timeout)
        task = _current_task()
        socks = {fd: find_socket(task, fd) for fd in self._masks}
        reads = [sock for fd, sock in socks.items() if self._masks[fd] & real.POLLIN]
        writes = [sock for fd, sock in socks.items() if self._masks[fd] & real.POLLOUT]
        _wait(task, reads, writes, None if timeout is None or timeout < 0 else timeout / 1000)
        ready = [(fd, self._events(fd, sock)) for fd, sock in socks.items()]
        return [(fd, events) for fd, events in ready if events]

    def _poll_files(self, timeout: float | None) -> list[tuple[int, int]]:
        """Wait in real time for descriptors of the real machine: ``subprocess`` polls its pipes."""
        assert _REAL_POLL is not None
        poller = _REAL_POLL()
        for fd, mask in self._masks.items():
            poller.register(fd, mask)
        ready: list[tuple[int, int]] = poller.poll(timeout)
        return ready

    def _events(self, fd: int, sock: SimSocket) -> int:
        events = real.POLLIN if sock.readable else 0
        events |= real.POLLOUT if sock.writable else 0
        return (events & self._masks[fd]) | (real.POLLHUP if sock.hung_up else 0)


class SimEpoll(SimPoll):
    """The object that ``select.epoll()`` returns on a simulated host: level-triggered, and time-outs are in seconds."""

    def __init__(self, sizehint: int = -1, flags: int = 0) -> None:
        del sizehint, flags
        super().__init__()
        self.closed = False

    def register(self, fd: Any, eventmask: int = real.EPOLLIN | real.EPOLLPRI | real.EPOLLOUT) -> None:
        if eventmask & (real.EPOLLET | real.EPOLLONESHOT):
            task = _current_task()
            task.kernel.unsupported.setdefault("edge-triggered or one-shot select.epoll", task.host.name)
            raise NotImplementedError("the simulator has no edge-triggered and no one-shot epoll")
        super().register(fd, eventmask)

    modify = register

    def poll(self, timeout: float | None = None, maxevents: int = -1) -> list[tuple[int, int]]:
        del maxevents
        if self.closed:
            raise ValueError("I/O operation on closed epoll object")
        return super().poll(None if timeout is None else timeout * 1000)

    def __getattr__(self, name: str) -> Any:
        raise missing_attribute(self, name, _EPOLL, "select.epoll")

    def close(self) -> None:
        self.closed = True

    def __enter__(self) -> SimEpoll:
        return self

    def __exit__(self, *args: object) -> None:
        self.close()


class SimSelector(selectors._BaseSelectorImpl):
    """The object that ``selectors.DefaultSelector()`` returns on a simulated host."""

    _fd_to_key: dict[int, selectors.SelectorKey]

    def __init__(self) -> None:
        super().__init__()
        self._sockets: dict[int, SimSocket] = {}

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        key = super().register(fileobj, events, data)
        self._sockets[key.fd] = find_socket(_current_task(), key.fd)
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        key = super().unregister(fileobj)
        del self._sockets[key.fd]
        return key

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        found = self._ready()
        if found or (timeout is not None and timeout <= 0):  # event loops ask often when they have more to do
            return found
        keys = self._fd_to_key.values()
        reads = [self._sockets[key.fd] for key in keys if key.events & selectors.EVENT_READ]
        writes = [self._sockets[key.fd] for key in keys if key.events & selectors.EVENT_WRITE]
        _wait(_current_task(), reads, writes, timeout)
        return self._ready()

    def __getattr__(self, name: str) -> Any:
        raise missing_attribute(self, name, _SELECTOR, "selectors.DefaultSelector")

    def _ready(self) -> list[tuple[selectors.SelectorKey, int]]:
        found = []
        for fd, key in self._fd_to_key.items():
            sock = self._sockets[fd]
            events = selectors.EVENT_READ if key.events & selectors.EVENT_READ and sock.readable else 0
            if key.events & selectors.EVENT_WRITE and sock.writable:
                events |= selectors.EVENT_WRITE
            if events:
                found.append((key, events))
        return found


def _current_task() -> Task:
    task = getcurrent()
    assert isinstance(task, Task)
    return task
