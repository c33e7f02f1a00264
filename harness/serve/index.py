"""Index of the runs in a store: one cached row for each run, read again when its files change.

A damaged run does not hide the others: its row says what is wrong with it.
"""

from __future__ import annotations

import errno
import math
import os
import re
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from harness import plan as plans
from harness.documents.heads import HeadFault, RunHead
from harness.documents.run import SCHEMA
from harness.run import store as stores
from harness.wording import first_sentence

from . import files

LARGEST: Final = 256 * 1024 * 1024
"""The most bytes of a file that is read as a whole."""
FRESH_S: Final = 0.5
"""The store is not scanned again within this time."""
SETTLED_NS: Final = 60_000_000_000
TURNS: Final = 10
"""Results unchanged for SETTLED_NS are checked in one of so many scans only: with many runs, most are unchanged."""
STATES: Final = ("invalid", "unknown", "valid", "running", "broken")
"""States of a run. invalid: a violation was found; unknown: the checkers could not decide; valid: no violation was
found; running: it is being recorded; broken: it has no verdict."""
LONGEST: Final = 300
"""The most characters of a sentence in a row."""
USUAL: Final = plans.Plan(lock="").workload
_RUN: Final = re.compile(r"(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z(?:-(\d+))?")
_STARTED: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)


class _PlanHead(msgspec.Struct):
    """The fields that are read from ``plan.toml``."""

    lock: str
    seed: int = 0
    cluster: str = "sim"
    faults: list[HeadFault] = []
    workload: str = ""
    title: str = ""


class Unreadable(Exception):
    """A file with unexpected content; the message is a sentence."""


@dataclass(slots=True)
class Run:
    """One run.

    ``folder`` is its path in the store (lock's folder, run's folder). ``when`` is in UTC, as in
    ``2026-11-21T05:55:37Z``, empty if unknown. ``purpose`` says why it ran, if that is unusual. ``trouble`` says what
    is wrong with it, empty if nothing is.
    """

    folder: tuple[str, str]
    state: str
    lock: str
    when: str
    seed: int | None = None
    cluster: str = ""
    faults: tuple[str, ...] = ()
    operations: int | None = None
    sentence: str = ""
    purpose: str = ""
    trouble: str = ""
    text: str = field(init=False, repr=False, compare=False)
    """The text that a search looks at, in lower case."""

    def __post_init__(self) -> None:
        words = (
            self.lock,
            *self.folder,
            self.when,
            self.cluster,
            *self.faults,
            self.sentence,
            self.purpose,
            self.trouble,
        )
        self.text = "\n".join(words).lower()


_decode: Final = msgspec.json.Decoder(RunHead).decode


class _Stamp(NamedTuple):
    """Identity and time of a run's results, or of its folder if it has none (``changed_ns`` is then infinite, since it
    may still change). If the stamp differs, the row is made again."""

    changed_ns: float
    content: int = 0
    inode: int = 0
    recording: bool = False


class Index:
    """The runs of ``store``. Several threads may call it at the same time."""

    def __init__(self, store: Path) -> None:
        self.store = store
        self._seen: dict[tuple[str, str], tuple[_Stamp, Run]] = {}
        self._runs: list[Run] = []
        self._looked = -math.inf
        self._turn = 0
        self._one_at_a_time = threading.Lock()

    def runs(self) -> list[Run]:
        """Return all runs of the store, a moment old at most, the newest first.

        Callers must not change the list. A changed store gives a new list.
        """
        # While one thread scans the store, other threads get the earlier list, if there is one.
        if self._stale() and self._one_at_a_time.acquire(blocking=self._looked < 0):
            try:
                if self._stale():
                    self._look()
                    self._looked = time.monotonic()
            finally:
                self._one_at_a_time.release()
        return self._runs

    def _stale(self) -> bool:
        return time.monotonic() - self._looked >= FRESH_S

    def run(self, lock: str, name: str) -> Run | None:
        """Return one run as it is now; None if the folder does not exist or has no run."""
        folder = files.run_folder(self.store, lock, name)
        return None if folder is None or not _may_be_run(folder) else _read((lock, name), folder, _stamp(str(folder)))

    def _look(self) -> None:
        seen: dict[tuple[str, str], tuple[_Stamp, Run]] = {}
        changed = False
        settled = time.time_ns() - SETTLED_NS
        self._turn += 1
        for number, (place, path) in enumerate(_run_folders(self.store), self._turn):
            known = self._seen.get(place)
            if known is None and not _may_be_run(Path(path)):
                continue
            if known is None or not (number % TURNS and known[0].changed_ns < settled):
                stamp = _stamp(path)
                if known is None or known[0] != stamp:
                    changed = True
                    known = (stamp, _read(place, Path(path), stamp))
            seen[place] = known
        if changed or len(seen) != len(self._seen):
            self._runs = sorted((run for _, run in seen.values()), key=lambda run: (run.when, run.folder), reverse=True)
        self._seen = seen


def _run_folders(store: Path) -> Iterator[tuple[tuple[str, str], str]]:
    """Yield the folders that may be runs: their places in the store, and their paths."""
    for lock in _scan(store):
        if lock.name not in stores.NOT_LOCKS and _is_folder(lock):
            for run in _scan(Path(lock)):
                yield (lock.name, run.name), run.path


def _scan(folder: Path) -> list[os.DirEntry[str]]:
    with suppress(OSError), os.scandir(folder) as entries:
        return [entry for entry in entries if files.plain(entry.name)]
    return []


def _is_folder(entry: os.DirEntry[str]) -> bool:
    with suppress(OSError):
        return entry.is_dir(follow_symlinks=False)
    return False


def _stamp(folder: str) -> _Stamp:
    try:
        results = os.lstat(f"{folder}/{stores.RESULTS}")
    except OSError:
        return _stamp_without_results(folder)
    return _Stamp(results.st_mtime_ns, results.st_size, results.st_ino)


def _stamp_without_results(folder: str) -> _Stamp:
    with suppress(OSError):
        return _Stamp(math.inf, os.lstat(folder).st_mtime_ns, recording=files.recording(Path(folder)))
    return _Stamp(math.inf)


def _may_be_run(path: Path) -> bool:
    """Return whether the folder is a run, complete or not, and not something else that a user keeps in the store."""
    if _RUN.fullmatch(path.name):
        return not path.is_symlink()
    return not path.is_symlink() and any(
        os.path.lexists(path / name) for name in (stores.RESULTS, stores.HISTORY, stores.PLAN)
    )


def _read(place: tuple[str, str], folder: Path, stamp: _Stamp) -> Run:
    """Return the row of a run, damaged or not."""
    try:
        results = read_results(folder)
    except Unreadable as problem:
        return _from_plan(place, folder, "broken", str(problem))
    if results is not None:
        return _from_results(place, results)
    if stamp.recording:
        return _from_plan(place, folder, "running", "")
    return _from_plan(place, folder, "broken", _why_without(folder))


def read_results(folder: Path) -> RunHead | None:
    """Return ``results.json``, None if it does not exist; raises :class:`Unreadable` if it is not such a document."""
    path = folder / stores.RESULTS
    try:
        if not os.path.lexists(path):
            return None
        results = _decode(files.read(path, LARGEST))
    except (OSError, ValueError, RecursionError) as error:  # errors of msgspec are ValueErrors
        raise Unreadable(f"{stores.RESULTS} cannot be read: {why(error)}.") from error
    if not 1 <= results.schema <= SCHEMA:
        raise Unreadable(f"{stores.RESULTS} has schema {results.schema}: this harness reads schemas 1 to {SCHEMA}.")
    return results


def why(error: Exception) -> str:
    """Say why a file could not be read, without its path."""
    if isinstance(error, OSError):
        reason = "it is a link" if error.errno == errno.ELOOP else error.strerror or "unknown error"
    elif isinstance(error, msgspec.ValidationError):
        reason = plans.validation_message(error)
    else:
        reason = "it nests too deeply" if isinstance(error, RecursionError) else str(error).rstrip(".")
    return reason[:1].lower() + reason[1:]


def _why_without(folder: Path) -> str:
    if not folder.is_dir():
        return "Expected the folder of a run, found a file."
    if not os.access(folder, os.R_OK | os.X_OK):
        return "The folder cannot be read: permission denied."
    if not os.path.lexists(folder / stores.HISTORY):
        return f"Nothing was recorded: there is neither a {stores.HISTORY} nor a {stores.RESULTS}."
    if not files.is_file(folder / stores.HISTORY):
        return f"{stores.HISTORY} is not a file, and there is no {stores.RESULTS}."
    return "The run has no verdict: it was killed, or its history is being checked now."


def _from_results(place: tuple[str, str], results: RunHead) -> Run:
    when, seed = _from_name(place[1])
    return Run(
        folder=place,
        state={True: "valid", False: "invalid", None: "unknown"}[results.valid],
        lock=results.lock or place[0],
        when=results.started_at if _STARTED.fullmatch(results.started_at) else when,
        seed=seed if results.seed is None else results.seed,
        cluster=results.cluster.backend,
        faults=_names(results.faults),
        operations=results.stats.operations,
        sentence=_short(results.reason or first_sentence(results.summary)),
        purpose=_purpose(results.plan.workload, results.plan.title),
    )


def _from_plan(place: tuple[str, str], folder: Path, state: str, trouble: str) -> Run:
    """Return the row of a run without results, from its plan if that is readable; otherwise from the name of its
    folder."""
    when, seed = _from_name(place[1])
    try:
        plan = _decode_plan(files.read(folder / stores.PLAN, LARGEST))
    except (OSError, ValueError, RecursionError):
        return Run(place, state, place[0], when, seed, trouble=trouble)
    return Run(
        place, state, plan.lock, when, plan.seed, plan.cluster, _names(plan.faults),
        purpose=_purpose(plan.workload, plan.title), trouble=trouble,
    )  # fmt: skip


def _decode_plan(data: bytes) -> _PlanHead:
    return msgspec.toml.decode(data, type=_PlanHead)


def _purpose(workload: str, title: str) -> str:
    """Return the title of a run's plan, and the workload if it is an unusual one; often empty."""
    parts = (title, f"workload {workload}" if workload not in ("", USUAL) else "")
    return sys.intern(_short(" · ".join(part for part in parts if part)))


def _names(faults: list[HeadFault]) -> tuple[str, ...]:
    return tuple(sorted({sys.intern(fault.fault) for fault in faults} - {""}))


def when_of(name: str) -> str:
    """Return when a run began, in UTC, from the name of its folder; empty if the name does not contain the time."""
    return _from_name(name)[0]


def _from_name(name: str) -> tuple[str, int | None]:
    """Return when a run began and its seed, from the name of its folder."""
    found = _RUN.match(name)
    if found is None:
        return "", None
    year, month, day, hour, minute, second, seed = found.groups()
    return f"{year}-{month}-{day}T{hour}:{minute}:{second}Z", None if seed is None else int(seed)


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
