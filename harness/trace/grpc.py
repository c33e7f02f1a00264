"""Calls of etcd's gRPC API: all methods, and the frames by which the simulator replaces HTTP/2."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import ClassVar

from harness.protocols.etcd import EtcdParser
from harness.protocols.http2 import Piece
from harness.sim.grpc_wire import MESSAGE, OPEN, REQUEST, STATUS, split


class WholeEtcdParser(EtcdParser):
    """Leaves nothing out, and takes each status of a failure as a reply."""

    codes: ClassVar[Collection[int]] = range(1, 17)
    left_out: ClassVar[Collection[str]] = ()


class SimulatedEtcdParser(WholeEtcdParser):
    """A parser for the simulator's frames."""

    def __init__(self) -> None:
        super().__init__()
        self._in, self._out = _Frames(), _Frames()
        self._grpc = True


class _Frames:
    """Cuts the simulator's frames of one side into parts of streams."""

    def __init__(self) -> None:
        self._rest = b""

    def add(self, data: bytes) -> Iterator[Piece]:
        frames, self._rest = split(self._rest + data)
        for kind, call, body in frames:
            if kind in (OPEN, REQUEST):
                path, _, message = body.partition(b"\0")
                yield Piece(call, {":path": path.decode()})
                if kind == REQUEST:
                    yield Piece(call, None, message)
            elif kind == MESSAGE:
                yield Piece(call, None, body)
            elif kind == STATUS:
                yield Piece(call, {"grpc-status": str(body[0]), "grpc-message": body[1:].decode(errors="replace")})
