"""Conversation with a program over its stdin and stdout: JSON requests with answers, and events.

Network faults do not affect it. Lines sent to a paused program wait in its pipe.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from concurrent.futures import TimeoutError as FutureTimeout
from itertools import count
from typing import Any, Final, Protocol

import msgspec

QUOTED: Final = 200
"""Bytes of a line that is no JSON object that are quoted."""


class LineChannel(Protocol):
    """Stdin and output of one program."""

    @property
    def errors(self) -> Sequence[str]:
        """Last lines of its stderr."""

    def send(self, line: bytes) -> None:
        """Write a line to the program's stdin; raise OSError if it has ended."""

    def close(self) -> None:
        """Close the program's stdin and stop reading its output."""


class Unanswered(Exception):
    """A program did not answer in time, or has ended."""


class Refused(Exception):
    """A program answered with an error."""


class Conversation:
    """Requests and answers as JSON lines: ``{"id": 7, "op": ...}`` is answered by ``{"id": 7, "ok": ...}`` or
    ``{"id": 7, "error": ...}``. ``on_event`` is called with each line without ``id``, with ``{"unreadable": text}`` for
    a line that is no JSON object, and with ``{"ended": True}`` when the program has ended."""

    def __init__(self, start: Callable[..., LineChannel], on_event: Callable[[dict[str, Any]], None]) -> None:
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

    def ask(
        self, op: str, *, patience: float = 10.0, meanwhile: Callable[[], None] = lambda: None, **fields: Any
    ) -> Any:
        """Send a request and return its answer within ``patience`` seconds; raise :class:`Unanswered` or
        :class:`Refused`. ``meanwhile`` is called after the request was sent."""
        future = self.request(op, **fields)
        meanwhile()
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
        try:
            answer = self._decode(line)
        except (ValueError, RecursionError):
            self._on_event({"unreadable": line[:QUOTED].decode(errors="replace")})
            return
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
