"""Communication with programs in containers over stdin and stdout: raw lines, and JSON requests with answers.

Network faults do not affect this channel. Lines sent to a paused program wait in its pipe.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from concurrent.futures import TimeoutError as FutureTimeout
from itertools import count
from typing import Any, Final

import msgspec

HEADER: Final = struct.Struct(">BxxxL")
"""Header of each piece of output: stream (1 stdout, 2 stderr) and number of bytes (Docker Engine API, "attach")."""
STDERR: Final = 2


class Channel:
    """Stdin and output of one program; a thread reads the output and calls ``on_line``, and ``on_error`` with each line
    of its stderr.

    ``on_end`` is called when the program has ended; ``pid`` returns its process id on the engine's machine.
    """

    def __init__(
        self,
        raw: Any,
        on_line: Callable[[bytes], None],
        on_end: Callable[[], None],
        pid: Callable[[], int],
        on_error: Callable[[bytes], None] = lambda line: None,  # noqa: ARG005
    ) -> None:
        self.pid = pid
        self._raw = raw  # keeps the connection open
        self._socket: socket.socket = raw._sock
        self._socket.settimeout(None)
        self._on_line = on_line
        self._on_error = on_error
        self._on_end = on_end
        self._sending = threading.Lock()
        self.errors: list[str] = []
        """Last 20 lines of its stderr."""
        self._thread = threading.Thread(target=self._read, name="channel", daemon=True)
        self._thread.start()

    def send(self, line: bytes) -> None:
        """Write a line to the program's stdin; raise OSError if it has ended."""
        with self._sending:
            self._socket.sendall(line + b"\n")

    def end_input(self) -> None:
        """Close the program's stdin and continue to read its output."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Close the program's stdin and stop reading its output."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(2)
        with contextlib.suppress(OSError):
            self._raw.close()

    def _read(self) -> None:
        rests = {1: b"", STDERR: b""}
        try:
            with self._socket.makefile("rb", buffering=1 << 16) as stream:
                while len(header := stream.read(HEADER.size)) == HEADER.size:
                    which, size = HEADER.unpack(header)
                    *lines, rests[which] = (rests[which] + stream.read(size)).split(b"\n")
                    for line in lines:
                        self._take(which, line)
        except OSError:
            pass  # closed by this side
        finally:
            self._on_end()

    def _take(self, which: int, line: bytes) -> None:
        if which == STDERR:
            self.errors = [*self.errors[-19:], line.decode(errors="replace")]
            self._on_error(line)
        else:
            self._on_line(line)


class Unanswered(Exception):
    """A program did not answer in time, or has ended."""


class Refused(Exception):
    """A program answered with an error."""


class Conversation:
    """Requests and answers as JSON lines: ``{"id": 7, "op": ...}`` is answered by ``{"id": 7, "ok": ...}`` or
    ``{"id": 7, "error": ...}``. ``on_event`` is called with each line without ``id``."""

    def __init__(self, start: Callable[..., Channel], on_event: Callable[[dict[str, Any]], None]) -> None:
        self._on_event = on_event
        self._decode = msgspec.json.Decoder(dict[str, Any]).decode
        self._encode = msgspec.json.Encoder().encode
        self._waiting: dict[int, Future[Any]] = {}
        self._numbers = count(1)
        self.ended = threading.Event()
        self._channel = start(self._line, on_end=self._end)

    def request(self, op: str, **fields: Any) -> Future[Any]:
        """Send a request; the future's exception is :class:`Unanswered` or :class:`Refused`."""
        number = next(self._numbers)
        future: Future[Any] = Future()
        future.add_done_callback(lambda _: self._waiting.pop(number, None))
        self._waiting[number] = future
        try:
            self.tell(op, id=number, **fields)
        except Unanswered as error:
            with contextlib.suppress(InvalidStateError):  # set already, when the program ended
                future.set_exception(error)
        return future

    def ask(self, op: str, *, patience: float = 10.0, **fields: Any) -> Any:
        """Send a request and return its answer within ``patience`` seconds; raise :class:`Unanswered` or
        :class:`Refused`."""
        future = self.request(op, **fields)
        try:
            return future.result(patience)
        except FutureTimeout as error:
            future.cancel()
            raise Unanswered(f"no answer to {op!r} within {patience:g} s{self._said()}") from error

    def tell(self, op: str, **fields: Any) -> None:
        """Send a message that has no answer; raise :class:`Unanswered` if the program has ended."""
        if self.ended.is_set():
            raise Unanswered(f"{op!r}: the program has ended{self._said()}")
        try:
            self._channel.send(self._encode({"op": op, **fields}))
        except OSError as error:
            raise Unanswered(f"{op!r}: {error}{self._said()}") from error

    def close(self) -> None:
        self._channel.close()

    def _said(self) -> str:
        channel = getattr(self, "_channel", None)
        return f"; it said: {' | '.join(channel.errors[-3:])}" if channel and channel.errors else ""

    def _line(self, line: bytes) -> None:
        if not line.strip():
            return
        answer = self._decode(line)
        if "id" not in answer:
            self._on_event(answer)
            return
        future = self._waiting.get(answer["id"])
        if future is None:
            return
        with contextlib.suppress(InvalidStateError):  # the caller has given up
            if "error" in answer:
                future.set_exception(Refused(answer["error"]))
            else:
                future.set_result(answer.get("ok"))

    def _end(self) -> None:
        self.ended.set()
        for future in list(self._waiting.values()):
            with contextlib.suppress(InvalidStateError):
                future.set_exception(Unanswered(f"the program has ended{self._said()}"))
        self._on_event({"ended": True})
