"""Check of any history, ours or one of Jepsen or Knossos, for linearizability against a model."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from harness.checkers.base import Verdict
from harness.checkers.linearizability.check import Checked, ModelError
from harness.checkers.linearizability.check import check as linearizable
from harness.checkers.linearizability.problem import Budget
from harness.checkers.model_catalogue import MODELS
from harness.checkers.models import Model, WithRefusals
from harness.errors import UsageError, unknown_name
from harness.history import SECOND, History, HistoryError
from harness.history.calls import Calls, Keyed
from harness.history.files import calls_of, read_calls
from harness.history.merging import merged, widened
from harness.history.recordings import ClockOffset
from harness.history.run_history import read_run_history
from harness.run.store import HISTORY

from .recorded import Recordings, check_recordings, read_recordings

if TYPE_CHECKING:
    from harness.documents import CheckDocument

MAX_ENTRIES_FOR_CAUSES = 2_000_000
"""Entries of the longest history for which the causes of violations are named; that needs all of it in memory."""
RECORDING_SUFFIX = ".jsonl"
"""The names of recordings in a folder end so."""
Failures = Literal["ignored", "evidence"]
"""What failed calls say: nothing, or what :attr:`Model.refusals` says of them."""
Progress = Callable[[float, str], None]
"""Callback with the fraction done (0 to 1) and what is being done."""


@dataclass(frozen=True, slots=True)
class Report:
    """Result of a check; ``reading`` and ``checking`` are the seconds that each took."""

    checked: Checked
    file: str
    model: str
    reading: float
    checking: float

    @property
    def verdict(self) -> Verdict:
        return self.checked.verdict

    @property
    def document(self) -> CheckDocument:
        """The document that ``harness check --json`` prints."""
        from harness.documents import convert  # late: only this output needs documents
        from harness.documents.check import SCHEMA, CheckDocument

        found = {
            "schema": SCHEMA,
            "file": self.file,
            "model": self.model,
            **self.verdict.to_json(),
            "algorithm": "quick" if self.checked.quick else "search",
            "keys_searched": self.checked.searched,
            "ignored_calls": self.checked.ignored,
            "seconds": {"reading": round(self.reading, 6), "checking": round(self.checking, 6)},
        }
        return convert(found, CheckDocument, "the check")


def check(
    history: History | Path | str | Sequence[Path],
    model: Model | str,
    *,
    options: Mapping[str, Any] | None = None,
    budget: Budget | None = None,
    workers: int = 0,
    keyed: Keyed = "auto",
    key: str | None = None,
    failures: Failures = "ignored",
    clock_error: float | None = None,
    progress: Progress | None = None,
) -> Report:
    """Check whether ``history`` is linearizable.

    ``history`` is a :class:`History`, a file (``.jsonl``, or ``.edn`` of Jepsen or Knossos, each also with ``.gz``) or
    the folder of a run; or several recordings of ``harness.record``, or a folder of them, which are checked as one
    history. ``model`` is a name of ``harness list models``, ``package.module:Class``, or a model; ``options`` are the
    arguments of its constructor. ``key`` restricts the check to one key. ``keyed`` says whether values in an ``.edn``
    are ``[key value]`` pairs (jepsen.independent): auto, yes or no. With ``failures`` = ``evidence`` a call that failed
    must have been refused for a reason, such as an acquire of a lock that is held. ``clock_error`` is the error in
    seconds of the wall clocks of recordings that state none. Raises UsageError for a file, model or option that cannot
    be used.
    """
    name = model if isinstance(model, str) else type(model).__name__
    found = find_model(model, options or {}) if isinstance(model, str) else model
    paths = [] if isinstance(history, History) else history_files(history)
    search = _Search(", ".join(map(str, paths)), name, key, budget, workers)
    begin = time.perf_counter()
    refusals = _refusals(found, name, failures)
    recordings = None if isinstance(history, History) else _recordings(paths, found, clock_error)
    if recordings is not None:
        if refusals:
            raise UsageError("--failures evidence: not for recordings, in which calls may be missing")
        middle = time.perf_counter()
        checked = check_recordings(recordings, found, partial(search.check, found))
    else:
        given = history if isinstance(history, History) else paths[0]
        calls = _read(given, found, keyed, refusals, progress)
        if isinstance(model, str):
            found = _starting(found, calls, options or {})
        middle = time.perf_counter()
        if progress:
            progress(1.0, "checking")
        checked = search.check_history(WithRefusals(found) if refusals else found, calls, given)
    return Report(checked, search.file, name, middle - begin, time.perf_counter() - middle)


@dataclass(frozen=True, slots=True)
class _Search:
    """How calls are checked; of one ``key`` only, if it is given. ``file`` and ``model`` are the names in messages."""

    file: str
    model: str
    key: str | None
    budget: Budget | None
    workers: int

    def check(self, model: Model, calls: Calls) -> Checked:
        calls = calls if self.key is None else _calls_of_key(calls, self.key)
        try:
            return linearizable(calls, model, name=self.model, budget=self.budget, workers=self.workers)
        except ModelError as error:
            raise UsageError(f"{self.file}: {error}" if self.file else str(error)) from error

    def check_history(self, model: Model, calls: Calls, given: History | Path) -> Checked:
        """Check the calls of one history, and judge violations by what else it says."""
        checked = self.check(model, calls)
        if checked.verdict.valid is False and calls.settings.get("machine_clocks"):
            checked = _certain(checked, calls, given, partial(self.check, model))
        pictures = tuple(replace(picture, file=self.file) for picture in checked.pictures)
        return replace(checked, verdict=_explained(checked.verdict, calls, given), pictures=pictures)


def _refusals(model: Model, name: str, failures: Failures) -> frozenset[str]:
    """Return what failed calls say by the model; nothing if they are ignored."""
    if failures != "evidence":
        return frozenset()
    if not model.refusals:
        raise UsageError(f"--failures evidence: the model {name} does not say what a failed call means")
    return model.refusals


def _explained(verdict: Verdict, calls: Calls, given: History | Path) -> Verdict:
    """Return the verdict, in doubt if the history is truncated, with the causes of violations if they are known."""
    if not calls.complete and verdict.valid:
        return _doubted(verdict)
    ours = isinstance(given, History) or ".jsonl" in given.suffixes
    if verdict.evidence and calls.settings and ours and calls.entries <= MAX_ENTRIES_FOR_CAUSES:
        return _with_causes(verdict, given)
    return verdict


def _certain(checked: Checked, calls: Calls, given: History | Path, check_calls: Callable[[Calls], Checked]) -> Checked:
    """Return the result for a run on several machines: unknown if the errors of their clocks may explain the violation.

    As for recordings, the calls of each machine are widened by the error of its clock."""
    from harness.checkers.machine_clocks import doubted, machines_of  # imported here: few histories have several clocks

    machines = machines_of(given if isinstance(given, History) else History.salvage(given)[0])
    client = np.array(calls.clients, dtype=object)[calls.client]
    parts = [
        widened(calls.pick(np.isin(client, list(machine.clients))), ClockOffset(0, machine.error_ns))
        for machine in machines
    ]
    if check_calls(merged(parts)).verdict.valid is False:
        return checked
    return replace(checked, verdict=doubted(checked.verdict, machines))


def _calls_of_key(calls: Calls, key: str) -> Calls:
    if key not in calls.keys:
        raise unknown_name("key", key, calls.keys)
    return calls.pick(calls.key == calls.keys.index(key))


def _doubted(verdict: Verdict) -> Verdict:
    """Return the unknown verdict on a truncated file whose readable part is valid."""
    doubt = f"the file is truncated in its last line; up to there, {verdict.explanation}"
    return replace(verdict, valid=None, explanation=doubt)


def _with_causes(verdict: Verdict, given: History | Path) -> Verdict:
    """Return the verdict with the cause of each violation. Our own histories record the leases and clocks needed."""
    from harness.checkers.linearizability.blame import blamed  # imported here: only violations need it

    try:
        history = (given if isinstance(given, History) else read_run_history(given)[0]).in_order()
    except HistoryError:
        return verdict  # not one of our histories
    evidence = tuple(blamed(violation, history) for violation in verdict.evidence)
    explanation = verdict.explanation.replace(verdict.evidence[0].sentence, evidence[0].sentence, 1)
    return replace(verdict, evidence=evidence, explanation=explanation)


def history_files(given: Path | str | Sequence[Path]) -> list[Path]:
    """Return the files of a history that may be given as the folder of one of our runs, of a Jepsen test, or of
    recordings."""
    paths = [Path(given)] if isinstance(given, str | Path) else [Path(path) for path in given]
    return [file for path in paths for file in (_in_folder(path) if path.is_dir() else [path])]


def _in_folder(folder: Path) -> list[Path]:
    jepsen = folder / "history.edn"
    if (folder / HISTORY).exists():
        return [folder / HISTORY]
    if jepsen.exists():
        return [jepsen]
    return sorted(folder.glob(f"*{RECORDING_SUFFIX}")) or [folder / HISTORY]


def _recordings(paths: Sequence[Path], model: Model, clock_error: float | None) -> Recordings | None:
    try:
        error_ns = None if clock_error is None else int(clock_error * SECOND)
        return read_recordings(paths, model, error_ns) if all(path.suffix != ".edn" for path in paths) else None
    except HistoryError as error:
        raise UsageError(str(error)) from error


def _read(
    history: History | Path, model: Model, keyed: Keyed, refusals: Collection[str], progress: Progress | None
) -> Calls:
    if isinstance(history, History):
        return calls_of(history, model.wants, refusals)

    def read(done: int, total: int) -> None:
        if progress:
            progress(done / max(1, total), f"reading: {done / max(1, total):.0%}")

    try:
        return read_calls(history, model.wants, keyed=keyed, clients=model.clients, refusals=refusals, progress=read)
    except HistoryError as error:
        raise UsageError(str(error)) from error


def _starting(model: Model, calls: Calls, options: Mapping[str, Any]) -> Model:
    """Return the model with 0 as the initial value for histories of our own runs, whose registers begin at 0, unless
    the options say otherwise."""
    if calls.settings and "initial" not in options and "initial" in inspect.signature(type(model)).parameters:
        return type(model)(**{**options, "initial": 0})
    return model


def find_model(name: str, options: Mapping[str, Any]) -> Model:
    """Return the model with this name, or an instance of the class ``package.module:Class``; raises UsageError."""
    kind = MODELS.find(name)
    parameters = [parameter for parameter in inspect.signature(kind).parameters.values() if parameter.name != "self"]
    known = [parameter.name for parameter in parameters]
    for option in options:
        if option not in known:
            if not known:
                raise UsageError(f"the model {name} has no options, got {option!r}")
            raise unknown_name(f"option of the model {name}", option, known)
    named = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    missing = [p.name for p in named if p.default is p.empty and p.name not in options]
    if missing:
        raise UsageError(f"the model {name} needs --model-option {missing[0]}=...")
    try:
        return kind(**options)
    except (TypeError, ValueError) as error:
        raise UsageError(f"the model {name}: {error}") from error
