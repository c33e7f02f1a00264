"""Make the trace of a run of what was logged, of its history and of its violations."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from harness.checkers.base import Violation
from harness.documents.messages import SCHEMA, MessageTrace, TraceMode
from harness.history import TYPES, History

from .decoding import KEEPS_ALIVE, Decoded, Exchange, Rendering, decode
from .scripts import script_names
from .streams import Piece, Streams
from .windows import MOST, SHORT, Window, windows_of, within

LOCK_CALLS: Final = frozenset({"acquire", "extend", "check", "release", "add"})
MOST_SOURCE: Final = 100_000
"""Number of characters of a source file that are kept."""
MOST_SOURCES: Final = 20


def build(
    streams: Streams, *, kind: str, service: str, backend: str, mode: TraceMode, history: History,
    violations: Iterable[Violation],
) -> MessageTrace | None:  # fmt: skip
    """Return the trace of a run; None if nothing of it is to be kept.

    With ``mode`` ``on`` the whole run is kept, with ``violations`` the time around its violations, or the whole run if
    it has at most :data:`~.windows.SHORT` requests.
    """
    asked = sum(piece.to_server for connection in streams.connections for piece in connection.pieces)
    windows = () if mode == "on" or asked <= SHORT else windows_of(violations, history)
    if not asked or mode == "off" or (mode == "violations" and not windows and asked > SHORT):
        return None
    decoded = decode(streams.connections, service, simulated=backend == "sim")
    kept = [pair for pair in enumerate(decoded.exchanges, 1) if within(windows, pair[1].since, pair[1].until)]
    return _trace(decoded, kept[:MOST], len(kept), service, windows, streams, history, (kind, backend, mode))


def _trace(
    decoded: Decoded, kept: Sequence[tuple[int, Exchange]], wanted: int, service: str, windows: tuple[Window, ...],
    streams: Streams, history: History, about: tuple[str, str, TraceMode],
) -> MessageTrace:  # fmt: skip
    kind, backend, mode = about
    texts = _sources(exchange for _, exchange in kept)
    names = _names(texts)
    rendering = Rendering(service, script_names(texts), names, _Calls(history).of)
    return MessageTrace(
        schema=SCHEMA,
        kind=kind,
        backend=backend,
        mode=mode,
        total=len(decoded.exchanges),
        commands=decoded.commands(),
        windows=windows,
        dropped=wanted - len(kept),
        full_ns=streams.full_ns,
        undecoded=tuple(decoded.undecoded),
        sources={names[str(path)]: text[:MOST_SOURCE] for path, text in texts.items()},
        messages=tuple(rendering.message(number, one) for number, one in kept),
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


def _sources(exchanges: Iterable[Exchange]) -> dict[Path, str]:
    """Return the texts of the source files that sent requests, those that can be read."""
    found: dict[Path, str] = {}
    places = (one.asked.place for one in exchanges if one.asked is not None and one.asked.place is not None)
    for file in dict.fromkeys(place.file for place in places):
        if len(found) < MOST_SOURCES:
            try:
                found[Path(file)] = Path(file).read_text(encoding="utf-8", errors="replace")
            except OSError:
                continue
    return found


def _names(paths: Iterable[Path]) -> dict[str, str]:
    """Return short names of files that differ: the file and the folders above it that are packages."""
    found: dict[str, str] = {}
    for path in paths:
        parts = [path.name]
        folder = path.parent
        while (folder / "__init__.py").is_file():
            parts.insert(0, folder.name)
            folder = folder.parent
        name = "/".join(parts)
        found[str(path)] = name if name not in found.values() else str(path)
    return found
