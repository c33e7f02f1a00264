"""Make the trace of a run: decode the log of its messages, and find the calls that they belong to in its history."""

from __future__ import annotations

from bisect import bisect_right

from harness.documents.messages import SCHEMA, MessageTrace
from harness.history import TYPES, History
from harness.sim.call_finder import LOCK_CALLS

from .decoding import KEEPS_ALIVE, Rendering, decode
from .log import LogHead
from .scripts import script_names
from .streams import Piece, Streams
from .windows import MOST, MOST_AROUND, within


def build(head: LogHead, streams: Streams, history: History) -> MessageTrace:
    """Return the trace of a run whose log has this head, and these connections."""
    decoded = decode(streams.connections, head.service, simulated=head.backend == "sim")
    kept = list(enumerate(decoded.exchanges, 1))
    most = MOST
    if head.windows:
        kept = [pair for pair in kept if within(head.windows, pair[1].since, pair[1].until)]
        most = MOST_AROUND
    scripts = script_names([*head.sources.values(), *head.imported]) if head.service == "redis" else {}
    rendering = Rendering(head.service, scripts, head.sources, _Calls(history).of)
    return MessageTrace(
        schema=SCHEMA,
        kind=head.kind,
        backend=head.backend,
        mode=head.mode,
        total=len(decoded.exchanges),
        commands=decoded.commands(),
        windows=head.windows,
        dropped=len(kept[most:]),
        full_ns=streams.full_ns,
        undecoded=tuple(decoded.undecoded),
        sources=head.sources,
        messages=tuple(rendering.message(number, one) for number, one in kept[:most]),
    )


class _Calls:
    """The entries that invoke calls of locks, by process."""

    def __init__(self, history: History) -> None:
        self._indices: dict[int, list[int]] = {}
        self._times: dict[int, list[int]] = {}
        self._f = history.f
        invoke = TYPES.index("invoke")
        for index, (type_, f) in enumerate(zip(history.type, history.f, strict=True)):
            if type_ == invoke and f in LOCK_CALLS:
                self._indices.setdefault(history.process[index], []).append(index)
                self._times.setdefault(history.process[index], []).append(history.time[index])

    def of(self, name: str, piece: Piece) -> int | None:
        """Return the index of the call that sent a request of this name in a piece, None if it is not known."""
        if piece.process is None or piece.sent is None:
            return None
        at = bisect_right(self._times.get(piece.process, ()), piece.sent)
        found = self._indices[piece.process][at - 1] if at else None
        return None if found is not None and name in KEEPS_ALIVE and self._f[found] != "extend" else found
