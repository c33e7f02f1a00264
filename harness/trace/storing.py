"""Make the log of a run's messages that is stored: not decoded, but with what is known only at the time of the run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from harness.checkers.base import Violation
from harness.documents.messages import TraceMode
from harness.history import History
from harness.sim.message_log import REQUEST
from harness.sim.places import source_name

from .log import PIECE, SCHEMA, LoggedMessages, LogHead, Place, pack_log
from .parsers import DECODED
from .scripts import imported_texts
from .windows import SHORT, windows_of

MOST_SOURCE: Final = 100_000
"""Number of characters of a source file that are kept."""
MOST_SOURCES: Final = 20
_OURS: Final = Path(__file__).parents[2]
"""Folder with the package ``harness``, which names of sources on other hosts may begin with."""


@dataclass(frozen=True, slots=True)
class TracedRun:
    """A run as far as its trace says it. ``service`` is the one whose protocol the messages are in."""

    kind: str
    service: str
    backend: str
    mode: TraceMode


def may_keep(mode: TraceMode, service: str) -> bool:
    """Return whether anything of a run may be kept, so that its messages are worth recording. Around violations only
    messages are kept that can be decoded."""
    return mode == "on" or (mode == "violations" and service in DECODED)


def stored_log(
    logged: LoggedMessages, run: TracedRun, history: History, violations: Iterable[Violation]
) -> bytes | None:
    """Return the contents of the file with the log; None if nothing of the run is to be kept.

    In mode ``on`` the trace has the whole run, in mode ``violations`` the time around its violations, or the whole run
    if it has at most :data:`~.windows.SHORT` requests and can be decoded.
    """
    if not may_keep(run.mode, run.service) or not _has_requests(logged.batches, 1):
        return None
    short = run.mode == "on" or not _has_requests(logged.batches, SHORT + 1)
    windows = () if short else windows_of(violations, history)
    if not short and not windows:
        return None
    return pack_log(_head(logged, run, windows), logged.batches)


def _has_requests(batches: Iterable[bytes], number: int) -> bool:
    """Return whether so many requests, or more, were logged."""
    decode = msgspec.msgpack.Decoder(list[list[Any]]).decode
    for batch in batches:
        number -= sum(entry[0] == REQUEST or (entry[0] == PIECE and not entry[1] & 1) for entry in decode(batch))
        if number <= 0:
            return True
    return False


def _head(logged: LoggedMessages, run: TracedRun, windows: tuple[tuple[int, int], ...]) -> LogHead:
    if logged.sources is None:
        names, texts = _named_sources(logged.places)
    else:
        names, texts = {name: name for name in logged.sources}, logged.sources
    scripted = run.service == "redis"
    paths = {path: texts[name] for path, name in names.items()} if scripted else {}
    return LogHead(
        schema=SCHEMA,
        kind=run.kind,
        service=run.service,
        backend=run.backend,
        mode=run.mode,
        windows=windows,
        places=tuple(place._replace(file=names.get(place.file, "")) for place in logged.places),
        sources=texts,
        imported=tuple(other for path, text in paths.items() for other in imported_texts(_OURS / path, text) if other),
    )


def _named_sources(places: Iterable[Place]) -> tuple[dict[str, str], dict[str, str]]:
    """Return names by the paths of the first source files that sent requests, those that can be read, and their texts
    by name."""
    names: dict[str, str] = {}
    texts: dict[str, str] = {}
    for file in dict.fromkeys(place.file for place in places):
        if len(names) < MOST_SOURCES:
            try:
                text = Path(file).read_text(encoding="utf-8", errors="replace")[:MOST_SOURCE]
            except OSError:
                continue
            name = names[file] = source_name(Path(file), texts)
            texts[name] = text
    return names, texts
