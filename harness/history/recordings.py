"""The entries that a recorder of an application (``harness.record``) writes about its recording and its clocks.

Times of one *clock* are comparable: all processes of a machine read the same monotonic clock. Those of several machines
are related by their wall clocks, whose errors the kernel bounds, or the user.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from . import SECOND, HistoryError
from .files import line_blocks
from .pairing import RECORDING

OWN_LINE: Final = b'{"process":-1,'
"""The beginning of each line that is about the recording. The recorder writes ``process`` first in these."""
DRIFT: Final = 1e-3
"""The most that the rates of a monotonic clock and of true time differ; the kernel corrects at most half of that."""

LEAST_GAP_NS: Final = SECOND
"""The shortest time between two readings that counts. It is longer than those of a recorder that is not paused, so that
the error of a clock is the same from the beginning on."""


class _OwnLine(msgspec.Struct):
    time: int
    wall: int
    f: str
    value: dict[str, Any] = {}


@dataclass(slots=True)
class Recording:
    """What a recording says about itself. Times are in ns, on the monotonic clock.

    ``clock`` is the name of the monotonic clock. ``offset_low`` and ``offset_high`` are the least and the largest
    difference of the wall clock to it, ``error_ns`` the largest error that the kernel stated for the wall clock (None
    if it once stated none), and ``gap_ns`` the longest time between two readings. ``losses`` has the times in which
    calls began that are missing, and ``lost`` is their number. Every entry from before ``complete_ns`` is there.
    ``closed`` is False if the recording has no end.
    """

    source: str
    clock: str
    offset_low: int
    offset_high: int
    error_ns: int | None
    complete_ns: int
    gap_ns: int = 0
    losses: list[tuple[int, int]] = field(default_factory=list)
    lost: int = 0
    closed: bool = False

    def take(self, line: bytes) -> None:
        """Read a line about the recording; the first one may be read again. Raises :class:`msgspec.MsgspecError`,
        KeyError or TypeError if it is malformed."""
        entry = _DECODER.decode(line)
        if entry.f == "lost":
            self.losses.append((entry.value["from_ns"], entry.time))
            self.lost += entry.value["calls"]
            return
        offset = entry.wall - entry.time
        self.offset_low, self.offset_high = min(self.offset_low, offset), max(self.offset_high, offset)
        self.gap_ns = max(self.gap_ns, entry.time - self.complete_ns)
        self.complete_ns = max(self.complete_ns, entry.time)
        if entry.f == "stop":
            self.closed = True
        else:
            error = entry.value["error_ns"]
            self.error_ns = None if error is None or self.error_ns is None else max(self.error_ns, error)


_DECODER: Final = msgspec.json.Decoder(_OwnLine)


def recording_begun(source: str, line: bytes) -> Recording | None:
    """Return the recording that begins with ``line``; None if the line is not the beginning of a recording."""
    if not line.startswith(OWN_LINE):
        return None
    try:
        entry = _DECODER.decode(line)
        if entry.f != "start" or RECORDING not in entry.value:
            return None
        offset, error = entry.wall - entry.time, entry.value["error_ns"]
        clock = entry.value["boot"] or f"the clock of {entry.value['recording']}"
    except (msgspec.MsgspecError, KeyError) as problem:
        raise HistoryError(f"{source}, line 1: the beginning of the recording is malformed: {problem}") from problem
    return Recording(source, clock, offset, offset, error, entry.time)


def read_recording(path: Path) -> Recording | None:
    """Return what the recording at ``path`` says about itself; None if the file is not a recording."""
    found: Recording | None = None
    for text in line_blocks(path):
        if found is None and (found := recording_begun(str(path), text.partition(b"\n")[0])) is None:
            return None
        for line in own_lines(text):
            take_own_line(found, line)
    return found


def own_lines(text: bytes) -> Iterator[bytes]:
    """Yield the lines about the recording in ``text``, which begins with a line. A truncated last line is left out."""
    text = b"\n" + text
    at = text.find(b"\n" + OWN_LINE)
    while at >= 0:
        end = text.find(b"\n", at + 1)
        if end < 0:
            return
        yield text[at + 1 : end]
        at = text.find(b"\n" + OWN_LINE, end)


def take_own_line(recording: Recording, line: bytes) -> None:
    """Read a line about the recording. Raises :class:`HistoryError` if it is malformed."""
    try:
        recording.take(line)
    except (msgspec.MsgspecError, KeyError, TypeError) as problem:
        raise HistoryError(f"{recording.source}: malformed line of the recorder, {line[:60]!r}: {problem}") from problem


@dataclass(frozen=True, slots=True)
class ClockOffset:
    """The true time of an instant is its monotonic time plus ``offset_ns``, give or take ``error_ns``."""

    offset_ns: int
    error_ns: int


def clock_offsets(recordings: Sequence[Recording], clock_error_ns: int | None = None) -> dict[str, ClockOffset]:
    """Return the offset of each clock.

    ``clock_error_ns`` is the error of the wall clocks for which the kernel states none. Raises ValueError if it is None
    and needed: one clock alone needs none. If a wall clock was set meanwhile, the error grows by as much.
    """
    by_clock: dict[str, list[Recording]] = {}
    for one in recordings:
        by_clock.setdefault(one.clock, []).append(one)
    if len(by_clock) == 1 and clock_error_ns is None:
        clock_error_ns = 0
    return {clock: _offset(those, clock_error_ns) for clock, those in by_clock.items()}


def _offset(recordings: Sequence[Recording], clock_error_ns: int | None) -> ClockOffset:
    errors = [clock_error_ns if one.error_ns is None else one.error_ns for one in recordings]
    known = [error for error in errors if error is not None]
    if len(known) < len(errors):
        source = recordings[errors.index(None)].source
        raise ValueError(f"{source}: its kernel states no error of the wall clock, as it does if NTP synchronizes it")
    low, high = min(one.offset_low for one in recordings), max(one.offset_high for one in recordings)
    drift = int(DRIFT * max(LEAST_GAP_NS, *(one.gap_ns for one in recordings)))
    return ClockOffset((low + high) // 2, (high - low + 1) // 2 + max(known) + drift)
