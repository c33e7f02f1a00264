"""Simulated TCP client sockets: the replacement of ``socket.socket`` for code that runs on a simulated host.

Errors have the classes and numbers that Linux uses, since client libraries react to them. Sockets cannot listen: server
programs on simulated hosts are services (:mod:`harness.sim.service`).
"""

from __future__ import annotations

import errno
import io
import math
import os
import socket as real
import stat
from collections.abc import Iterable
from typing import Any, Final

from greenlet import getcurrent

from .hosts import SimHost
from .kernel import RUNNING, SECOND, Task
from .missing import missing_attribute
from .network import ConnectionAttempt, HalfStream

try:
    import fcntl
except ImportError:  # Windows: no code there can call it
    fcntl = None  # type: ignore[assignment]

FIRST_FD: Final = 1 << 20
"""File descriptors of simulated sockets start here, far above those that the operating system assigns."""
_fstat: Final = os.fstat

_TRY_AGAIN: Final = os.strerror(errno.EAGAIN)


class _LoopbackStream:
    """One direction between two sockets of one host. Data arrives at once."""

    def __init__(self, other: SimSocket) -> None:
        self._other = other
        self.closed = False

    def send(self, data: bytes) -> None:
        if self._other.fileno() == -1:
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
        self._other.arrived_locally(data)

    def end(self, *, reset: bool) -> None:
        if not self.closed:
            self.closed = True
            self._other.ended(reset=reset)


class SimSocket:
    """A TCP client socket of a simulated host, with the interface of ``socket.socket``."""

    family = real.AF_INET
    type = real.SOCK_STREAM
    proto = real.IPPROTO_TCP

    def __init__(self, task: Task) -> None:
        self._host: SimHost = task.host
        self._life = task.life
        self._fd = FIRST_FD + task.kernel.next_number()
        self._timeout: float | None = None
        self._timeout_ns: int | None = None
        self._out: HalfStream | _LoopbackStream | None = None
        self._inbox = b""
        self._eof = False
        self._error: int | None = None
        self._shut = False
        self._waiters: dict[Task, None] = {}
        self._peer: tuple[str, int] | None = None
        self._pending = False
        self._attempt: ConnectionAttempt | None = None
        self._broken = False
        self._kernel = task.kernel
        self._host.sockets[self] = None

    @property
    def peer(self) -> str | None:
        return None if self._peer is None else self._peer[0]

    # Connecting.

    def connect(self, address: tuple[str, int]) -> None:
        """Connect as connect(2) does.

        Raises ConnectionRefusedError if nothing listens there, TimeoutError if the host cannot be reached within the
        socket's time-out, BlockingIOError on a non-blocking socket, and OSError for an unknown host.
        """
        host, port = self._host.network.resolve(address[0]), address[1]
        self._peer = (host, port)
        if host not in self._host.network.hosts:
            raise OSError(errno.EHOSTUNREACH, os.strerror(errno.EHOSTUNREACH))
        self._pending = True
        self._attempt = self._host.network.connect(self._host.name, host, port, self, self._connected)
        if self._timeout == 0:
            raise BlockingIOError(errno.EINPROGRESS, os.strerror(errno.EINPROGRESS))
        while self._pending:
            if not self._wait():
                self._abort()
                raise TimeoutError("timed out")
        self._raise_error()

    def connect_locally(self, other: SimSocket) -> None:
        """Make this socket send to ``other`` on the same host, as one end of a ``socketpair``."""
        self._out = _LoopbackStream(other)

    def connect_ex(self, address: tuple[str, int]) -> int:
        try:
            self.connect(address)
        except OSError as error:
            return error.errno or errno.ETIMEDOUT
        return 0

    def _connected(self, out: HalfStream | None) -> None:
        if self._shut:
            if out is not None:
                out.end(reset=True)
            return
        self._pending = False
        if out is None:
            self._error = errno.ECONNREFUSED
        self._out = out
        self._wake()

    # Data.

    def sendall(self, data: Any, flags: int = 0) -> None:  # noqa: ARG002
        self.send(data)

    def send(self, data: Any, flags: int = 0) -> int:  # noqa: ARG002
        out = self._out
        if self._error is not None or out is None or self._shut or self._broken or out.closed:
            self._raise_error()
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
        host = self._host
        data = bytes(data)
        peer = self._peer
        if peer is not None:
            if host.on_send is not None:
                host.on_send(peer[0], data)
                if self._life.state != RUNNING:
                    self._current().park(0)
            host.last_sent = host.kernel.now, peer[0], data
        out.send(data)
        return len(data)

    def sendmsg(self, buffers: Iterable[Any], ancdata: Iterable[Any] = (), flags: int = 0, address: Any = None) -> int:
        del ancdata, address
        return self.send(b"".join(buffers), flags)

    def recv(self, size: int, flags: int = 0) -> bytes:
        inbox = self._inbox
        if not inbox:
            if self._timeout_ns == 0 and not self._eof and self._error is None and not self._shut:
                raise BlockingIOError(errno.EAGAIN, _TRY_AGAIN)
            if not self._readable():
                return b""
            inbox = self._inbox
        if not flags & real.MSG_PEEK:
            self._inbox = inbox[size:]
        return inbox[:size]

    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
        view = memoryview(buffer).cast("B")
        data = self.recv(nbytes or len(view), flags)
        view[: len(data)] = data
        return len(data)

    def _readable(self) -> bool:
        """Wait for data. Return False at the end of the stream."""
        while not self._inbox:
            self._raise_error()
            if self._eof or self._shut:
                return False
            if self._timeout_ns == 0:
                raise BlockingIOError(errno.EAGAIN, _TRY_AGAIN)
            if not self._wait() and not self._inbox:
                raise TimeoutError("timed out")
        return True

    # Data and errors from the network.

    def arrived(self, data: bytes) -> None:
        if not self._shut:
            self._inbox = self._inbox + data if self._inbox else data
            for task in list(self._waiters):
                task.wake_immediately()

    def arrived_locally(self, data: bytes) -> None:
        """Accept data from another task of the same host, without switching to the reader."""
        if not self._shut:
            self._inbox += data
            self._wake()

    def ended(self, *, reset: bool) -> None:
        if reset:  # data that arrived earlier can still be read, as on Linux
            self._broken = True
            if not self._eof:  # after an orderly end a reader sees only that end, and a writer EPIPE
                self._error = errno.ECONNRESET
        self._eof = True
        self._wake()

    def _wake(self) -> None:
        for task in list(self._waiters):
            task.wake()

    def _current(self) -> Task:
        task = getcurrent()
        if not isinstance(task, Task):
            raise OSError(errno.EBADF, "a simulated socket was used by code that runs on no simulated host")
        return task

    def _wait(self) -> bool:
        task = self._current()
        self._waiters[task] = None
        try:
            return task.park(self._timeout_ns)
        finally:
            self._waiters.pop(task, None)

    def watch(self, task: Task) -> None:
        """Wake ``task`` whenever the socket's readiness changes, until :meth:`unwatch`."""
        self._waiters[task] = None

    def unwatch(self, task: Task) -> None:
        self._waiters.pop(task, None)

    @property
    def readable(self) -> bool:
        return bool(self._inbox) or self._eof or self._error is not None or self._shut

    @property
    def hung_up(self) -> bool:
        return self._eof and self._out is not None and self._out.closed

    @property
    def writable(self) -> bool:
        return not self._pending

    def _raise_error(self) -> None:
        if self._shut and self._fd == -1:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        if self._error is not None:
            number, self._error = self._error, None
            self._eof = True
            raise OSError(number, os.strerror(number))

    # Closing.

    def _abort(self) -> None:
        self._shut = True
        if self._attempt is not None:
            self._attempt.cancel()

    def abandon(self) -> None:
        """End the socket because its process was killed: the other end sees a reset."""
        self._abort()
        if self._out is not None:
            self._out.end(reset=True)

    def reset(self) -> None:
        """Break the connection: both ends see a reset."""
        self.ended(reset=True)
        if self._out is not None:
            self._out.end(reset=True)

    def shutdown(self, how: int) -> None:
        if self._out is None:
            raise OSError(errno.ENOTCONN, os.strerror(errno.ENOTCONN))
        if how in (real.SHUT_WR, real.SHUT_RDWR):
            self._out.end(reset=False)
        if how in (real.SHUT_RD, real.SHUT_RDWR):
            self._eof = True
        self._wake()

    def close(self) -> None:
        if self._fd == -1:
            return
        self._fd = -1
        self._abort()
        self._host.sockets.pop(self, None)
        if self._out is not None and not self._kernel.closing:
            self._out.end(reset=False)
        self._wake()

    def detach(self) -> int:
        fd, self._fd = self._fd, -1
        return fd

    def __enter__(self) -> SimSocket:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # Options and information.

    def settimeout(self, value: float | None) -> None:
        if value != self._timeout:
            if value is not None and value < 0:
                raise ValueError("Timeout value out of range")
            self._timeout = value
            self._timeout_ns = None if value is None else math.ceil(value * SECOND)  # CPython rounds up, too

    def gettimeout(self) -> float | None:
        return self._timeout

    def setblocking(self, flag: bool) -> None:
        self.settimeout(None if flag else 0.0)

    def getblocking(self) -> bool:
        return self._timeout != 0

    def setsockopt(self, *args: Any) -> None:
        """Ignore the option: all of them tune what is not simulated."""

    def getsockopt(self, level: int, name: int, buflen: int = 0) -> int:  # noqa: ARG002
        if level == real.SOL_SOCKET and name == real.SO_ERROR:
            number, self._error = self._error or 0, None
            return number
        return 0

    def fileno(self) -> int:
        return self._fd

    def getpeername(self) -> tuple[str, int]:
        if self._peer is None:
            raise OSError(errno.ENOTCONN, os.strerror(errno.ENOTCONN))
        return self._peer

    def getsockname(self) -> tuple[str, int]:
        return (self._host.name, 40_000 + self._fd % 20_000)

    def makefile(self, mode: str = "r", buffering: int | None = None, **text: Any) -> Any:
        """Return a file object over the socket; PyMySQL reads through one."""
        raw = real.SocketIO(self, "".join(sorted(set(mode) & {"r", "w"})))  # type: ignore[arg-type]
        size = io.DEFAULT_BUFFER_SIZE if buffering is None or buffering < 0 else buffering
        if size == 0:
            return raw
        if "r" in mode and "w" in mode:
            file: Any = io.BufferedRWPair(raw, raw, size)
        else:
            file = io.BufferedReader(raw, size) if "r" in mode else io.BufferedWriter(raw, size)
        return file if "b" in mode else io.TextIOWrapper(file, **text)

    def __getattr__(self, name: str) -> Any:
        raise missing_attribute(self, name, real.socket, "socket")

    def _decref_socketios(self) -> None:
        """Do nothing. ``socket.SocketIO`` calls this method when it closes."""


def socketpair(task: Task) -> tuple[SimSocket, SimSocket]:
    """Return two connected sockets of the task's host, as ``socket.socketpair`` does."""
    one, other = SimSocket(task), SimSocket(task)
    one.connect_locally(other)
    other.connect_locally(one)
    return one, other


def control_socket(task: Task, fd: Any, cmd: int, arg: int = 0) -> int:
    """Do what ``fcntl.fcntl`` does, for a simulated socket: get or set O_NONBLOCK, and get FD_CLOEXEC."""
    sock = find_socket(task, fd)
    if cmd == fcntl.F_GETFD:
        return fcntl.FD_CLOEXEC
    if cmd == fcntl.F_GETFL:
        return os.O_RDWR | (0 if sock.getblocking() else os.O_NONBLOCK)
    if cmd == fcntl.F_SETFL:
        sock.setblocking(not arg & os.O_NONBLOCK)
    return 0


def stat_descriptor(task: Task, fd: int) -> os.stat_result:
    """Do what ``os.fstat`` does: a simulated socket is a socket, and other descriptors are those of this process."""
    if not isinstance(fd, int) or fd < FIRST_FD:
        return _fstat(fd)
    find_socket(task, fd)
    return os.stat_result((stat.S_IFSOCK | 0o777, fd, 0, 1, 0, 0, 0, 0, 0, 0))


def find_socket(task: Task, fileobj: Any) -> SimSocket:
    """Return the simulated socket of a descriptor, a socket, or an object with ``fileno``.

    Raises OSError (EBADF) if the task's host has none.
    """
    if isinstance(fileobj, SimSocket):
        return fileobj
    number = fileobj if isinstance(fileobj, int) else fileobj.fileno()
    for sock in task.host.sockets:
        if isinstance(sock, SimSocket) and sock.fileno() == number:
            return sock
    raise OSError(errno.EBADF, f"descriptor {number} is not a simulated socket of {task.host.name}")
