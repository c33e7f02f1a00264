"""What runs there are in a store: one row each, kept until what it was made of changes.

Nothing that lies in a store can stop the rest from being shown: a run that cannot be understood is a row that says so.
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

from .. import plan as plans
from .. import store as stores
from . import files

SCHEMA: Final = 1
"""Of ``results.json``."""
LARGEST: Final = 256 * 1024 * 1024
"""Bytes of a file that is read whole."""
FRESH_S: Final = 0.5
"""The store is not looked at again within so much time."""
SETTLED_NS: Final = 60_000_000_000
TURNS: Final = 10
"""Results that have not changed for so long are looked at every so many times only: with many runs, most have not."""
STATES: Final = ("invalid", "unknown", "valid", "running", "broken")
"""Of a run: a violation was found, nobody can tell, none was found, it is being recorded, it has no verdict."""
LONGEST: Final = 300
"""Characters of a sentence in a row."""
USUAL: Final = plans.Plan(lock="").workload
_RUN: Final = re.compile(r"(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z(?:-(\d+))?")
_STARTED: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)
_SENTENCE: Final = re.compile(r".*?[.!?](?=\s|$)", re.DOTALL)


class _Cluster(msgspec.Struct):
    backend: str = ""
    kind: str = ""
    servers: list[str] = []
    clients: list[str] = []


class _Fault(msgspec.Struct):
    fault: str = ""


class _Purpose(msgspec.Struct):
    """What a run did, and what for."""

    workload: str = ""
    title: str = ""


class _Stats(msgspec.Struct):
    operations: int | None = None


class Checker(msgspec.Struct):
    """What one checker said."""

    valid: bool | None = None
    explanation: str = ""


class _Plan(msgspec.Struct):
    """What is looked at of ``plan.toml``."""

    lock: str
    seed: int = 0
    cluster: str = "sim"
    faults: list[_Fault] = []
    workload: str = ""
    title: str = ""


class Results(msgspec.Struct):
    """What is looked at of ``results.json``; the rest of it is not even decoded."""

    valid: bool | None
    schema: int = SCHEMA
    summary: str = ""
    unknown_because: list[str] = []
    lock: str = ""
    lock_title: str = ""
    seed: int | None = None
    started_at: str = ""
    command: str = ""
    cluster: _Cluster = msgspec.field(default_factory=_Cluster)
    faults: list[_Fault] = []
    plan: _Purpose = msgspec.field(default_factory=_Purpose)
    stats: _Stats = msgspec.field(default_factory=_Stats)
    checkers: dict[str, Checker] = {}


class Unreadable(Exception):
    """A file that is not what it should be; the message is a sentence."""


@dataclass(slots=True)
class Run:
    """One run. ``folder`` is its path in the store (lock's folder, run's folder); ``when`` is in UTC, as in
    ``2026-11-21T05:55:37Z``, empty if nobody knows; ``purpose`` says what it was for, if that is not the usual, and
    ``trouble`` what is wrong with it, empty if nothing is."""

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
    """What a search looks at, in small letters."""

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


_decode: Final = msgspec.json.Decoder(Results).decode


class _Stamp(NamedTuple):
    """Of a run's results, or of its folder if it has none (then nothing is ever settled: ``changed_ns`` is infinite).
    Another one means that the row has to be made again."""

    changed_ns: float
    content: int = 0
    inode: int = 0
    recording: bool = False


class Index:
    """The runs of ``store``. May be asked by several threads at a time."""

    def __init__(self, store: Path) -> None:
        self.store = store
        self._seen: dict[tuple[str, str], tuple[_Stamp, Run]] = {}
        self._runs: list[Run] = []
        self._looked = -math.inf
        self._turn = 0
        self._one_at_a_time = threading.Lock()

    def runs(self) -> list[Run]:
        """All runs, as the store has them now or had them a moment ago; the newest first. Not to be changed; another
        list when anything has changed."""
        # Who comes while somebody else is looking gets what was there before, if anything was.
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
        """One run as it is at this moment; None if there is no such folder, or no run in it."""
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
    """What may be runs: their places in the store, and their paths."""
    for lock in _scan(store):
        if lock.name not in files.NO_LOCKS and _is_folder(lock):
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
    """Is this a run, whole or not, and not something else that people keep in a store?"""
    if _RUN.fullmatch(path.name):
        return not path.is_symlink()
    return not path.is_symlink() and any(
        os.path.lexists(path / name) for name in (stores.RESULTS, stores.HISTORY, stores.PLAN)
    )


def _read(place: tuple[str, str], folder: Path, stamp: _Stamp) -> Run:
    """The row of a run, whatever has become of it."""
    try:
        results = read_results(folder)
    except Unreadable as problem:
        return _from_plan(place, folder, "broken", str(problem))
    if results is not None:
        return _from_results(place, results)
    if stamp.recording:
        return _from_plan(place, folder, "running", "")
    return _from_plan(place, folder, "broken", _why_without(folder))


def read_results(folder: Path) -> Results | None:
    """``results.json``, None if there is none; :class:`Unreadable` if it is no such document."""
    path = folder / stores.RESULTS
    try:
        if not os.path.lexists(path):
            return None
        results = _decode(files.read(path, LARGEST))
    except (OSError, ValueError, RecursionError) as error:  # msgspec's are ValueErrors
        raise Unreadable(f"{stores.RESULTS} cannot be read: {why(error)}.") from error
    if results.schema != SCHEMA:
        raise Unreadable(f"{stores.RESULTS} has schema {results.schema}: this harness reads schema {SCHEMA}.")
    return results


def why(error: Exception) -> str:
    """Why a file could not be read, in words without the place of the file."""
    if isinstance(error, OSError):
        said = "it is a link" if error.errno == errno.ELOOP else error.strerror or "nobody knows why"
    elif isinstance(error, msgspec.ValidationError):
        said = plans.told(error)
    else:
        said = "objects in objects without end" if isinstance(error, RecursionError) else str(error).rstrip(".")
    return said[:1].lower() + said[1:]


def _why_without(folder: Path) -> str:
    if not folder.is_dir():
        return "There is a file where the folder of a run should be."
    if not os.access(folder, os.R_OK | os.X_OK):
        return "The folder cannot be read: permission denied."
    if not os.path.lexists(folder / stores.HISTORY):
        return f"Nothing was recorded: there is neither a {stores.HISTORY} nor a {stores.RESULTS}."
    if not files.is_file(folder / stores.HISTORY):
        return f"{stores.HISTORY} is not a file, and there is no {stores.RESULTS}."
    return "The run ended before there was a verdict: it was killed, or is being checked at this moment."


def _from_results(place: tuple[str, str], results: Results) -> Run:
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
        sentence=_first(results.summary),
        purpose=_purpose(results.plan.workload, results.plan.title),
    )


def _from_plan(place: tuple[str, str], folder: Path, state: str, trouble: str) -> Run:
    """What the plan says of a run that has no results, if it says anything; else its folder's name."""
    when, seed = _from_name(place[1])
    try:
        plan = _decode_plan(files.read(folder / stores.PLAN, LARGEST))
    except (OSError, ValueError, RecursionError):
        return Run(place, state, place[0], when, seed, trouble=trouble)
    return Run(
        place, state, plan.lock, when, plan.seed, plan.cluster, _names(plan.faults),
        purpose=_purpose(plan.workload, plan.title), trouble=trouble,
    )  # fmt: skip


def _decode_plan(data: bytes) -> _Plan:
    return msgspec.toml.decode(data, type=_Plan)


def _purpose(workload: str, title: str) -> str:
    """The title of a run's plan, and the workload if it is not that of most runs; often neither."""
    parts = (title, f"workload {workload}" if workload not in ("", USUAL) else "")
    return sys.intern(_short(" · ".join(part for part in parts if part)))


def _names(faults: list[_Fault]) -> tuple[str, ...]:
    return tuple(sorted({sys.intern(fault.fault) for fault in faults} - {""}))


def when_of(name: str) -> str:
    """When that began whose folder has this name, in UTC; empty if the name does not say."""
    return _from_name(name)[0]


def _from_name(name: str) -> tuple[str, int | None]:
    """When a run began and its seed, as the name of its folder has them."""
    found = _RUN.match(name)
    if found is None:
        return "", None
    year, month, day, hour, minute, second, seed = found.groups()
    return f"{year}-{month}-{day}T{hour}:{minute}:{second}Z", None if seed is None else int(seed)


def _first(summary: str) -> str:
    """The first sentence of a summary."""
    found = _SENTENCE.match(summary)
    return _short(found.group() if found else summary)


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
