"""Many TCP connections over one byte stream, such as the stdin and stdout of a program.

Both ends run a :class:`Multiplexer`, each in one thread. One end opens streams, and the other end connects a socket for
each of them. The bytes are frames (:data:`HEADER`). A stream that nobody reads does not stop the others: each end sends
at most :data:`WINDOW` bytes of a stream before the other end has delivered them, so buffers are bounded as well.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import struct
import threading
import time
from collections.abc import Callable
from typing import Final, Protocol

HEADER: Final = struct.Struct(">BIH")
"""Kind of the frame, number of the stream, and number of bytes that follow."""
READY, OPEN, DATA, END, RESET, CREDIT = range(1, 7)
"""Kinds of frames. READY: the other end works. OPEN: a stream begins, and its target follows. END: this end sends no
more data in the stream. RESET: the stream is broken. CREDIT: so many bytes of the stream were delivered."""
NUMBER: Final = struct.Struct(">I")
PIECE: Final = 1 << 14
"""Bytes of one read from a socket, and of the data in one frame."""
WINDOW: Final = 1 << 18
"""Bytes of a stream that may be under way."""
BACKLOG: Final = 1 << 16
"""Bytes that wait for the carrier before sockets are no longer read: more would delay frames of other streams."""
HALF_CLOSED_S: Final = 5.0
"""Seconds that a stream lasts without data after one end has closed it. A program that has given up on a frozen server
looks like one that has only closed its direction, and the server never closes the other one."""
LINGER_NONE: Final = struct.pack("ii", 1, 0)
"""Value of SO_LINGER with which a socket is aborted (RST) when it is closed."""
Connect = Callable[[bytes], socket.socket]
"""Begins a connection to the target of an OPEN frame. Returns a socket in non-blocking mode that need not be connected
yet. Raises OSError if there is no such target."""


class BrokenCarrier(Exception):
    """The bytes of the other end are no frames."""


class Carrier(Protocol):
    """The byte stream that carries the frames, in non-blocking mode."""

    def reading(self) -> int:
        """Return the file descriptor to wait on before :meth:`receive`."""

    def writing(self) -> int:
        """Return the file descriptor to wait on before :meth:`send`, another one than that of :meth:`reading`."""

    def receive(self) -> bytes | None:
        """Return bytes of the other end, ``b""`` if none are there yet, None if it has ended. Raises OSError."""

    def send(self, data: memoryview) -> int:
        """Return how many bytes were sent. Raises BlockingIOError if none can be, another OSError if it has ended."""


class _Stream:
    """One connection. ``credit`` is the number of bytes that may still be sent to the other end."""

    def __init__(self, number: int, sock: socket.socket) -> None:
        self.number = number
        self.socket = sock
        self.credit = WINDOW
        self.waiting = bytearray()
        """Bytes for the socket."""
        self.delivered = 0
        """Bytes written to the socket that the other end does not know of yet."""
        self.connected = False
        self.end_sent = self.end_received = False
        self.half_closed_s = 0.0
        """Time of the last event after one end has closed, 0 before."""
        self.events = 0


class Multiplexer:
    """One end. ``connect`` serves the streams that the other end opens; without it none can be opened there.

    :meth:`serve` runs until the carrier ends or :meth:`stop` is called; then all connections are closed.
    """

    def __init__(self, carrier: Carrier, connect: Connect | None = None) -> None:
        self._carrier = carrier
        self._connect = connect
        self._selector = selectors.DefaultSelector()
        self._streams: dict[int, _Stream] = {}
        self._listeners: dict[bytes, socket.socket] = {}
        self._received = bytearray()
        self._outgoing = bytearray()
        self._last = 0
        self._stopping = False
        self._lock = threading.Lock()
        self._wake, self._woken = socket.socketpair()
        self._woken.setblocking(False)
        self.ready = threading.Event()
        """Set once the other end works."""

    # Called by any thread.

    def listen(self, target: bytes) -> tuple[str, int]:
        """Return the loopback address at which connections to ``target`` are accepted from now on. Raises OSError."""
        with self._lock:
            if self._stopping:
                raise ConnectionError("the connection to the containers has ended")
            if target not in self._listeners:
                listener = socket.create_server(("127.0.0.1", 0), backlog=128)
                listener.setblocking(False)
                self._listeners[target] = listener
                self._wake.send(b"\0")
            address: tuple[str, int] = self._listeners[target].getsockname()
            return address

    def stop(self) -> None:
        """Let :meth:`serve` return."""
        with self._lock:
            self._stopping = True
            with contextlib.suppress(OSError):
                self._wake.send(b"\0")

    # Called by the thread that serves.

    def serve(self) -> None:
        """Carry data until the carrier ends. Raises :class:`BrokenCarrier`."""
        self._selector.register(self._carrier.reading(), selectors.EVENT_READ, self._hear)
        self._selector.register(self._woken, selectors.EVENT_READ, self._look_for_listeners)
        self._frame(READY, 0)
        writing = False
        try:
            while not self._stopping:
                if self._outgoing:
                    self._flush()
                if bool(self._outgoing) != writing:
                    writing = not writing
                    self._watch_writing(writing)
                for key, events in self._selector.select(1.0):
                    if callable(key.data):
                        key.data()
                    elif key.data.number in self._streams:
                        self._serve_stream(key.data, events)
                self._end_half_closed()
        except (EOFError, OSError):
            pass  # the carrier has ended
        finally:
            self._close()

    def _watch_writing(self, wanted: bool) -> None:
        """Send when the carrier can take data. Sockets are read again once little waits for it."""
        if wanted:
            self._selector.register(self._carrier.writing(), selectors.EVENT_WRITE, self._flush)
        else:
            self._selector.unregister(self._carrier.writing())

    def _flush(self) -> None:
        full = len(self._outgoing) >= BACKLOG
        with contextlib.suppress(BlockingIOError), memoryview(self._outgoing) as view:
            sent = self._carrier.send(view)
            view.release()
            del self._outgoing[:sent]
        if full and len(self._outgoing) < BACKLOG:
            for stream in self._streams.values():
                self._watch(stream)

    def _frame(self, kind: int, number: int, data: bytes = b"") -> None:
        full = len(self._outgoing) >= BACKLOG
        self._outgoing += HEADER.pack(kind, number, len(data)) + data
        if not full and len(self._outgoing) >= BACKLOG:
            for stream in self._streams.values():
                self._watch(stream)

    # Frames of the other end.

    def _hear(self) -> None:
        data = self._carrier.receive()
        if data is None:
            raise EOFError
        self._received += data
        start = 0
        while len(self._received) - start >= HEADER.size:
            kind, number, size = HEADER.unpack_from(self._received, start)
            if not READY <= kind <= CREDIT or size > PIECE:
                raise BrokenCarrier(f"got {bytes(self._received[start : start + 80])!r}, expected a frame")
            end = start + HEADER.size + size
            if len(self._received) < end:
                break
            self._take(kind, number, bytes(self._received[start + HEADER.size : end]))
            start = end
        del self._received[:start]

    def _take(self, kind: int, number: int, data: bytes) -> None:
        if kind == READY:
            self.ready.set()
        elif kind == OPEN:
            self._open(number, data)
        elif (stream := self._streams.get(number)) is None:
            return  # it has ended here already
        elif kind == DATA:
            stream.waiting += data
            self._write(stream)
        elif kind == END:
            stream.end_received = True
            self._touch(stream)
            self._write(stream)
        elif kind == CREDIT:
            stream.credit += NUMBER.unpack(data)[0]
            self._watch(stream)
        else:
            self._drop(stream, abort=True)

    def _open(self, number: int, target: bytes) -> None:
        try:
            if self._connect is None:
                raise ConnectionRefusedError
            sock = self._connect(target)
        except OSError:
            self._frame(RESET, number)
        else:
            stream = self._streams[number] = _Stream(number, sock)
            self._watch(stream)

    # Local sockets.

    def _look_for_listeners(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._woken.recv(4096)
        with self._lock:
            for target, listener in self._listeners.items():
                if listener not in self._selector.get_map():
                    accept = _Accept(self, target, listener)
                    self._selector.register(listener, selectors.EVENT_READ, accept)

    def accepted(self, target: bytes, sock: socket.socket) -> None:
        """Open a stream for a connection that a listener accepted."""
        self._last += 1
        stream = self._streams[self._last] = _Stream(self._last, sock)
        stream.connected = True
        self._frame(OPEN, stream.number, target)
        self._watch(stream)

    def _serve_stream(self, stream: _Stream, events: int) -> None:
        if not stream.connected:
            self._finish_connecting(stream)
            return
        if events & selectors.EVENT_WRITE:
            self._write(stream)
        if events & selectors.EVENT_READ and stream.number in self._streams:
            self._read(stream)

    def _finish_connecting(self, stream: _Stream) -> None:
        if stream.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self._break(stream)
            return
        stream.connected = True
        self._write(stream)

    def _read(self, stream: _Stream) -> None:
        try:
            data = stream.socket.recv(min(PIECE, stream.credit))
        except BlockingIOError:
            return
        except OSError:
            self._break(stream)
            return
        self._touch(stream)
        if data:
            stream.credit -= len(data)
            self._frame(DATA, stream.number, data)
        else:
            stream.end_sent = True
            self._touch(stream)
            self._frame(END, stream.number)
        self._end_if_over(stream)

    def _write(self, stream: _Stream) -> None:
        """Write what waits, and pass on the end of the data behind it."""
        if stream.connected:
            try:
                while stream.waiting:
                    sent = stream.socket.send(stream.waiting)
                    del stream.waiting[:sent]
                    stream.delivered += sent
                if stream.end_received:
                    stream.socket.shutdown(socket.SHUT_WR)
            except BlockingIOError:
                pass
            except OSError:
                self._break(stream)
                return
            if stream.delivered >= WINDOW // 2:
                self._frame(CREDIT, stream.number, NUMBER.pack(stream.delivered))
                stream.delivered = 0
            self._touch(stream)
        self._end_if_over(stream)

    def _end_if_over(self, stream: _Stream) -> None:
        if stream.end_sent and stream.end_received and not stream.waiting:
            self._drop(stream)
        else:
            self._watch(stream)

    def _watch(self, stream: _Stream) -> None:
        """Let the selector wait for what the stream can use now."""
        events = 0
        if stream.waiting or not stream.connected:
            events |= selectors.EVENT_WRITE
        if stream.connected and not stream.end_sent and stream.credit and len(self._outgoing) < BACKLOG:
            events |= selectors.EVENT_READ
        if events == stream.events:
            return
        if not stream.events:
            self._selector.register(stream.socket, events, stream)
        elif events:
            self._selector.modify(stream.socket, events, stream)
        else:
            self._selector.unregister(stream.socket)
        stream.events = events

    def _touch(self, stream: _Stream) -> None:
        if stream.end_sent or stream.end_received:
            stream.half_closed_s = time.monotonic()

    def _end_half_closed(self) -> None:
        now = time.monotonic()
        for stream in list(self._streams.values()):
            if stream.half_closed_s and now - stream.half_closed_s > HALF_CLOSED_S:
                self._break(stream)

    def _break(self, stream: _Stream) -> None:
        """End a stream whose socket failed."""
        self._frame(RESET, stream.number)
        self._drop(stream, abort=True)

    def _drop(self, stream: _Stream, *, abort: bool = False) -> None:
        del self._streams[stream.number]
        if stream.events:
            self._selector.unregister(stream.socket)
            stream.events = 0
        if abort:
            with contextlib.suppress(OSError):
                stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_NONE)
        stream.socket.close()

    def _close(self) -> None:
        with self._lock:
            self._stopping = True
            for listener in self._listeners.values():
                listener.close()
            for stream in list(self._streams.values()):
                self._drop(stream, abort=True)
            self._selector.close()
            self._wake.close()
            self._woken.close()


class _Accept:
    """Accepts the connections of one listener."""

    def __init__(self, ends: Multiplexer, target: bytes, listener: socket.socket) -> None:
        self._ends = ends
        self._target = target
        self._listener = listener

    def __call__(self) -> None:
        with contextlib.suppress(OSError):
            sock, _ = self._listener.accept()
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._ends.accepted(self._target, sock)
