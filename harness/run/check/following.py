"""Judge histories while they are recorded: find two holders at once, and everything else at the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import msgspec

from harness.checkers.base import Verdict, Violation
from harness.checkers.linearizability.check import Checked
from harness.checkers.models import FencedMutex, LeaseMutex, Model
from harness.checkers.online import Entry, HoldMonitor
from harness.errors import UsageError
from harness.history import NEMESIS, SECOND, HistoryError, OpType
from harness.history.calls import NEVER
from harness.history.recordings import OWN_LINE, ClockOffset, Recording, clock_offsets, recording_begun, take_own_line

from .checking import Report, check, find_model, history_files
from .listening import Listener, listening
from .recorded import EXCUSABLE

POLL_S: Final = 0.05
"""Seconds between two looks at the files."""
PART: Final = 1 << 16
"""Bytes of a file that are read at once."""


class _Line(msgspec.Struct):
    time: int
    process: int
    type: OpType
    f: str
    key: str | None = None
    node: str | None = None
    value: Any = None
    wall: int = 0


@dataclass(slots=True)
class _Source:
    """A history that grows. ``ended`` is True after its last entry, ``read`` the number of bytes read, and ``latest``
    the wall time (ns) of the last entry of a client."""

    path: Path
    recording: Recording | None = None
    """None for the history of a run."""
    begun: bool = False
    ended: bool = False
    read: int = 0
    latest: int = 0
    clients: set[str] = field(default_factory=set)


class Follower:
    """Takes the lines of histories as they are written.

    It has a monitor for each clock, which compares its holds exactly, and one that compares the holds of all clocks
    with their uncertainty. ``key`` restricts it to one key.
    """

    def __init__(self, model: Model, *, key: str | None = None, clock_error_ns: int | None = None) -> None:
        self.calls = 0
        """Calls that have ended."""
        self.lost = 0
        """Calls that recordings lost."""
        self.sources: dict[Path, _Source] = {}
        self._model, self._key, self._clock_error_ns = model, key, clock_error_ns
        self.online = type(model) in EXCUSABLE
        """True if violations of mutual exclusion are found before the end."""
        self._monitors: dict[str, HoldMonitor] = {}
        self._all = self._monitor()
        self._offsets: dict[str, ClockOffset] = {}
        self._decoder = msgspec.json.Decoder(_Line)

    def _monitor(self) -> HoldMonitor:
        return HoldMonitor(leased=isinstance(self._model, LeaseMutex), fenced=isinstance(self._model, FencedMutex))

    def source(self, path: Path) -> _Source:
        """Return the history at ``path``."""
        return self.sources.setdefault(path, _Source(path))

    def take(self, source: _Source, text: bytes) -> Violation | None:
        """Take whole lines of a history; return the first violation that they prove. Raises HistoryError."""
        if not source.begun:
            source.begun = True
            source.recording = recording_begun(str(source.path), text.partition(b"\n")[0])
        for line in text.splitlines():
            if source.recording is not None and line.startswith(OWN_LINE):
                found = self._take_own(source, source.recording, line)
            else:
                found = self._take_entry(source, line)
            if found is not None:
                return found
        return None

    def _take_own(self, source: _Source, recording: Recording, line: bytes) -> Violation | None:
        losses = len(recording.losses)
        take_own_line(recording, line)
        self._update_offsets()
        name = str(source.path)
        if len(recording.losses) > losses:
            self.lost = sum(one.recording.lost for one in self.sources.values() if one.recording)
            for monitor, offset in self._watching(recording.clock):
                monitor.lost(name, recording.losses[-1][0] + offset.offset_ns - offset.error_ns)
            return None
        source.ended = recording.closed
        found = None
        for monitor, offset in self._watching(recording.clock):
            found = found or monitor.complete(name, recording.complete_ns + offset.offset_ns - offset.error_ns)
        return found

    def _update_offsets(self) -> None:
        recordings = [one.recording for one in self.sources.values() if one.recording is not None]
        try:
            self._offsets = clock_offsets(recordings, self._clock_error_ns)
        except ValueError as error:
            raise UsageError(f"{error}; pass --clock-error") from error

    def _watching(self, clock: str) -> Iterator[tuple[HoldMonitor, ClockOffset]]:
        """Yield the monitors for entries on ``clock``, each with the offset with which it gets them. There is none for
        models that are judged at the end only."""
        if not self.online:
            return
        if clock not in self._monitors:
            self._monitors[clock] = self._monitor()
        yield self._monitors[clock], ClockOffset(0, 0)
        # From the first entry on, since another clock may appear at any time.
        if clock in self._offsets:
            yield self._all, self._offsets[clock]

    def _take_entry(self, source: _Source, line: bytes) -> Violation | None:
        try:
            entry = self._decoder.decode(line)
        except msgspec.MsgspecError as error:
            raise HistoryError(f"{source.path}: expected one history entry, got {line[:60]!r}: {error}") from error
        if entry.process == NEMESIS:
            source.ended = source.ended or entry.f == "stop"
            return self._end_of_run(source) if source.ended else None
        self.calls += entry.type != "invoke"
        source.latest = entry.wall
        client = entry.node or f"process {entry.process}"
        if source.recording is None:
            return self._take_of_run(source, entry, client)
        if self._key in (None, entry.key):
            for monitor, offset in self._watching(source.recording.clock):
                monitor.take(_entry(str(source.path), entry, client, offset))
        return None

    def _take_of_run(self, source: _Source, entry: _Line, client: str) -> Violation | None:
        """Take an entry of a run of ours. Each of its clients is a source, since they are written one by one."""
        name = f"{source.path} {client}"
        source.clients.add(name)
        found = None
        for monitor, offset in self._watching(str(source.path)):
            if self._key in (None, entry.key):
                monitor.take(_entry(name, entry, client, offset))
            found = monitor.complete(name, entry.time)
        return found

    def _end_of_run(self, source: _Source) -> Violation | None:
        found = None
        for monitor, _ in self._watching(str(source.path)):
            for name in source.clients:
                found = found or monitor.complete(name, NEVER)
        return found


def _entry(source: str, line: _Line, client: str, offset: ClockOffset) -> Entry:
    return Entry(
        source, line.time + offset.offset_ns, offset.error_ns, line.process, line.type, line.f, line.key or "", client,
        line.value,
    )  # fmt: skip


def follow(
    paths: Sequence[Path],
    model: str,
    *,
    options: Mapping[str, Any] | None = None,
    key: str | None = None,
    clock_error: float | None = None,
    store: Path | None = None,
    tell: Callable[[Follower], None] = lambda _: None,
    **others: Any,
) -> Report:
    """Follow histories until one proves a violation, or until all have ended; then check them as a whole.

    The arguments are those of :func:`harness.check`; a folder may get new files. A path may be ``unix:PATH`` or
    ``tcp:HOST:PORT``: then recorders connect there, and ``store`` is the folder that gets a file for each connection
    (default: a temporary one). ``tell`` is called after each look at the files. KeyboardInterrupt ends it as the end of
    the histories does.
    """
    begin = time.perf_counter()
    error_ns = None if clock_error is None else int(clock_error * SECOND)
    follower = Follower(find_model(model, options or {}), key=key, clock_error_ns=error_ns)
    file = ", ".join(map(str, paths))
    with listening(paths, store) as (files, listeners):
        try:
            found = _followed(follower, files, tell, listeners)
        except HistoryError as error:
            raise UsageError(str(error)) from error
        except KeyboardInterrupt:
            found = None
        if found is None and listeners and not follower.sources:
            raise UsageError(f"no recorder has connected to {file}")
        if found is None:
            whole = check(files, model, options=options, key=key, clock_error=clock_error, **others)
            return replace(whole, file=file)
    verdict = Verdict(False, found.sentence, (found,), {"calls": follower.calls, "violations": 1})
    checked = Checked(verdict, (), quick=True, searched=0)
    return Report(checked, file, model, time.perf_counter() - begin, 0.0)


def _followed(
    follower: Follower, paths: Sequence[Path], tell: Callable[[Follower], None], listeners: Sequence[Listener]
) -> Violation | None:
    while True:
        # First, so that all that these connections sent is read below.
        closed = {path for listener in listeners for path in listener.closed()}
        for path in _existing(paths):
            follower.source(path)
        while (grown := _next_lines(follower.sources.values())) is not None:
            if (found := follower.take(*grown)) is not None:
                return found
        for source in follower.sources.values():
            source.ended = source.ended or source.path in closed
        if problem := next((one.problem for one in listeners if one.problem), ""):
            raise UsageError(problem)
        tell(follower)
        if follower.sources and all(source.ended for source in follower.sources.values()):
            # A program may have connected meanwhile. It then waits to be accepted, or has a file that is not known yet.
            if all(listener.idle() for listener in listeners) and follower.sources.keys() >= _existing(paths):
                return None
            continue
        time.sleep(POLL_S)


def _existing(paths: Sequence[Path]) -> set[Path]:
    """Return the files that are there; others may appear later."""
    return {path for path in history_files(paths) if path.is_file()}


def _next_lines(sources: Iterable[_Source]) -> tuple[_Source, bytes] | None:
    """Return the next lines of the history that is read the least, so that none is far ahead of the others."""
    for source in sorted(sources, key=lambda one: one.latest):
        if text := _read_lines(source):
            return source, text
    return None


def _read_lines(source: _Source) -> bytes:
    """Return the next whole lines of a file, b"" if there are none yet."""
    try:
        with source.path.open("rb") as file:
            file.seek(source.read)
            text = file.read(PART)
            while text and b"\n" not in text and (more := file.read(PART)):
                text += more
    except FileNotFoundError:
        return b""
    text = text[: text.rfind(b"\n") + 1]
    source.read += len(text)
    return text
