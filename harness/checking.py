"""Holds a stored history against a model: whose history it is does not matter."""

from __future__ import annotations

import importlib
import inspect
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from checkers.base import Json, Verdict
from checkers.linearizability.blame import blamed
from checkers.linearizability.check import Checked, ModelError
from checkers.linearizability.check import check as linearizable
from checkers.linearizability.search import Budget
from checkers.models import MODELS, Model

from .errors import UsageError, unknown_name
from .history import History, HistoryError
from .history.calls import Calls
from .history.edn_values import Keyed
from .history.files import calls_of, read_calls
from .store import HISTORY

SCHEMA = 1
JUDGED = 2_000_000
"""Entries of a history of which it is said who is to blame; for that it is read as a whole."""
Progress = Callable[[float, str], None]
"""Is told the fraction done, and of what."""


@dataclass(frozen=True, slots=True)
class Report:
    """What became of a check; ``reading`` and ``checking`` in seconds."""

    checked: Checked
    file: str
    model: str
    reading: float
    checking: float

    @property
    def verdict(self) -> Verdict:
        return self.checked.verdict

    def to_json(self) -> Json:
        """The document that ``harness check --json`` prints."""
        return {
            "schema": SCHEMA,
            "file": self.file,
            "model": self.model,
            **self.verdict.to_json(),
            "algorithm": "quick" if self.checked.quick else "search",
            "keys_searched": self.checked.searched,
            "seconds": {"reading": round(self.reading, 6), "checking": round(self.checking, 6)},
        }


def check(
    history: History | Path | str,
    model: Model | str,
    *,
    options: Mapping[str, Any] | None = None,
    budget: Budget | None = None,
    workers: int = 0,
    keyed: Keyed = "auto",
    key: str | None = None,
    progress: Progress | None = None,
) -> Report:
    """Is ``history`` linearizable?

    ``history`` is one in memory, a file (``.jsonl``, or Jepsen's or Knossos' ``.edn``, each also with ``.gz``), or the
    folder of a run. ``model`` is a name of ``harness list models``, ``package.module:Class``, or a model; ``options``
    are the arguments of its constructor. ``key`` restricts the check to one key. ``keyed`` says whether values in an
    ``.edn`` are ``[key value]`` pairs (jepsen.independent): auto, yes or no. Raises UsageError for a file, model or
    option that cannot be used.
    """
    name = model if isinstance(model, str) else type(model).__name__
    found = find_model(model, options or {}) if isinstance(model, str) else model
    begin = time.perf_counter()
    file, calls = _read(history, found, keyed, progress)
    if isinstance(model, str):
        found = _starting(found, calls, options or {})
    if key is not None:
        if key not in calls.keys:
            raise unknown_name("key", key, calls.keys)
        calls = calls.pick(calls.key == calls.keys.index(key))
    middle = time.perf_counter()
    if progress:
        progress(1.0, "checking: the first time on a machine takes some seconds more")
    try:
        checked = linearizable(calls, found, name=name, budget=budget, workers=workers)
    except ModelError as error:
        raise UsageError(f"{file}: {error}" if file else str(error)) from error
    if not calls.complete and checked.verdict.valid:
        doubt = f"the file is cut off in its last line; up to there, {checked.verdict.explanation}"
        checked = replace(checked, verdict=replace(checked.verdict, valid=None, explanation=doubt))
    ours = not file or ".jsonl" in Path(file).suffixes
    if checked.verdict.evidence and calls.settings and ours and calls.entries <= JUDGED:
        checked = replace(checked, verdict=_judged(checked.verdict, history))
    pictures = tuple(replace(picture, file=file) for picture in checked.pictures)
    checked = replace(checked, pictures=pictures)
    return Report(checked, file, name, middle - begin, time.perf_counter() - middle)


def _judged(verdict: Verdict, given: History | Path | str) -> Verdict:
    """The verdict with who is to blame, where leases and clocks are on record: in histories of ours."""
    try:
        history = (given if isinstance(given, History) else History.salvage(_file(given))[0]).in_order()
    except HistoryError:
        return verdict  # it has not all that histories of ours have
    evidence = tuple(blamed(violation, history) for violation in verdict.evidence)
    explanation = verdict.explanation.replace(verdict.evidence[0].sentence, evidence[0].sentence, 1)
    return replace(verdict, evidence=evidence, explanation=explanation)


def _file(given: Path | str) -> Path:
    """The history in a folder: of a run of ours, or of one of Jepsen's."""
    path = Path(given)
    if not path.is_dir():
        return path
    theirs = path / "history.edn"
    return theirs if theirs.exists() and not (path / HISTORY).exists() else path / HISTORY


def _read(history: History | Path | str, model: Model, keyed: Keyed, progress: Progress | None) -> tuple[str, Calls]:
    if isinstance(history, History):
        return "", calls_of(history, model.wants)
    path = _file(history)

    def read(done: int, total: int) -> None:
        if progress:
            progress(done / max(1, total), f"reading: {done / max(1, total):.0%}")

    try:
        return str(path), read_calls(path, model.wants, keyed=keyed, progress=read)
    except HistoryError as error:
        raise UsageError(str(error)) from error


def _starting(model: Model, calls: Calls, options: Mapping[str, Any]) -> Model:
    """Registers of our own runs begin at 0, unless something else is asked for."""
    if calls.settings and "initial" not in options and "initial" in inspect.signature(type(model)).parameters:
        return type(model)(**{**options, "initial": 0})
    return model


def find_model(name: str, options: Mapping[str, Any]) -> Model:
    """The model called ``name``, or the class ``package.module:Class``; UsageError says what is wrong with either."""
    kind = _class(name) if ":" in name else MODELS.get(name)
    if kind is None:
        raise unknown_name("model", name, MODELS)
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


def _class(name: str) -> type[Model]:
    module, _, attribute = name.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found = getattr(importlib.import_module(module), attribute)
    except ModuleNotFoundError as error:
        raise UsageError(f"{name}: {error}") from error
    except AttributeError as error:
        raise UsageError(f"{name}: the module {module} has no {attribute!r}") from error
    except Exception as error:
        raise UsageError(f"{name}: importing {module} failed: {type(error).__name__}: {error}") from error
    if not inspect.isclass(found):
        raise UsageError(f"{name} is not a model: it is no class")
    missing = [part for part in ("initial", "step") if getattr(found, part, None) in (None, vars(Model)[part])]
    if not isinstance(getattr(found, "fs", None), set | frozenset):
        missing.append("fs")
    if missing:
        raise UsageError(f"{name} is not a model: it has no {missing[0]!r}; docs/checking.md has an example")
    return found if issubclass(found, Model) else type(found.__name__, (found, Model), {})
