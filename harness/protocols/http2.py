"""Recorded gRPC calls: the messages of HTTP/2 streams, decoded by hyperframe and hpack."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from hpack import Decoder
from hpack.exceptions import HPACKError
from hyperframe.exceptions import HyperframeError
from hyperframe.frame import ContinuationFrame, DataFrame, Frame, HeadersFrame

from .messages import Unreadable

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_HEADER: Final = 9
_PREFIX: Final = 5
_TABLE: Final = 1 << 16
"""Largest table of compressed headers that a side may have allowed the other."""


class Piece(NamedTuple):
    """A part of a stream: a block of headers, or a message of gRPC."""

    stream: int
    headers: dict[str, str] | None
    message: bytes = b""


@dataclass(slots=True)
class _Block:
    """Headers that are not complete yet."""

    stream: int
    data: bytes


class Direction:
    """What one side of a connection sends."""

    def __init__(self, *, client: bool) -> None:
        self._rest = b""
        self._preface = len(PREFACE) if client else 0
        self._decoder = Decoder()
        self._decoder.max_allowed_table_size = _TABLE
        self._block: _Block | None = None
        self._messages: dict[int, bytes] = {}

    def add(self, data: bytes) -> Iterator[Piece]:
        """Yield what is complete with this data. Raises :class:`~.messages.Unreadable`."""
        self._rest += data
        if self._preface:
            if len(self._rest) < self._preface:
                return
            self._rest, self._preface = self._rest[self._preface :], 0
        try:
            while (frame := self._frame()) is not None:
                yield from self._pieces(frame)
        except (HyperframeError, HPACKError, UnicodeDecodeError) as error:
            raise Unreadable(f"not HTTP/2: {error}") from None

    def _frame(self) -> Frame | None:
        if len(self._rest) < _HEADER:
            return None
        frame, size = Frame.parse_frame_header(memoryview(self._rest[:_HEADER]))
        end = _HEADER + size
        if len(self._rest) < end:
            return None
        frame.parse_body(memoryview(self._rest[_HEADER:end]))
        self._rest = self._rest[end:]
        return frame

    def _pieces(self, frame: Frame) -> Iterator[Piece]:
        if isinstance(frame, DataFrame):
            yield from self._add_data(frame.stream_id, bytes(frame.data))
        elif isinstance(frame, HeadersFrame | ContinuationFrame):
            before = self._block.data if self._block is not None else b""
            self._block = _Block(frame.stream_id, before + bytes(frame.data))
            if "END_HEADERS" in frame.flags:
                found = self._decoder.decode(self._block.data)
                yield Piece(self._block.stream, {str(name): str(value) for name, value in found})
                self._block = None

    def _add_data(self, stream: int, data: bytes) -> Iterator[Piece]:
        rest = self._messages.get(stream, b"") + data
        while len(rest) >= _PREFIX:
            end = _PREFIX + int.from_bytes(rest[1:_PREFIX], "big")
            if len(rest) < end:
                break
            if rest[0]:
                raise Unreadable("a compressed message of gRPC")
            yield Piece(stream, None, rest[_PREFIX:end])
            rest = rest[end:]
        self._messages[stream] = rest
