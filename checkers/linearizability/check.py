"""Decide whether a history is linearizable, and explain it if it is not.

Each key is checked by itself, since a history is linearizable if and only if the history of each key is (Herlihy and
Wing, "Linearizability: a correctness condition for concurrent objects", 1990, locality). A key is decided by the fast
algorithm of its model, or by the search if there is none or it cannot decide. Before a failure of a fast algorithm is
reported, the search confirms it on the part of the history that the algorithm blames.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from harness.checkers.base import CAP, Verdict, Violation
from harness.checkers.models import (
    OWNED,
    AppendOnlyList,
    CasRegister,
    ElementSet,
    FifoLock,
    FifoQueue,
    KeyValue,
    Model,
    Mutex,
    Register,
    Semaphore,
    Stack,
    WithRefusals,
)
from harness.history.calls import REFUSED, Calls

from .problem import Budget, Disagreement, QuickResult
from .split import split

if TYPE_CHECKING:
    from .findings import Findings
    from .picture import Picture


class ModelError(ValueError):
    """The model does not fit this history; the message says why."""


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of a check.

    ``pictures`` are of the explained keys. ``quick`` says whether a fast algorithm for exactly this model decided,
    ``searched`` how many keys needed a search. ``ignored`` counts, by function, the calls of functions that the model
    does not describe.
    """

    verdict: Verdict
    pictures: tuple[Picture, ...]
    quick: bool
    searched: int
    ignored: Mapping[str, int] = field(default_factory=dict)


def check(
    calls: Calls,
    model: Model,
    *,
    name: str = "",
    budget: Budget | None = None,
    workers: int = 0,
    quick: bool = True,
) -> Checked:
    """Check ``calls`` against ``model``, which messages call ``name``.

    ``budget`` is for all searches together; a key that they cannot decide within it is unknown. ``workers`` is the
    number of threads that search (0: as many as there are processors). With ``quick=False`` every key is searched.
    Raises :class:`ModelError` if the history has calls whose effect the model would have to know, only calls of
    functions that the model does not describe, or values that the model cannot read.
    """
    budget = budget or Budget()
    name = name or type(model).__name__
    made = _calls_by_function(calls)
    _refuse_misfit(calls, made, model, name)
    ignored = {f: count for f, count in made.items() if f not in model.fs}
    mine = calls.pick(calls.named(sorted(model.fs))) if ignored else calls
    algorithm = quick_algorithm(model) if quick else None
    deadline = time.monotonic() + budget.seconds
    whole = mine
    try:
        mine = split(mine, model)
        outcome = algorithm(mine) if algorithm else QuickResult(undecided=tuple(np.unique(mine.key).tolist()))
        findings = None
        if outcome.failures or outcome.undecided:
            from .findings import Investigation  # late: a correct history needs none of it

            workers = workers or os.cpu_count() or 1
            searches = Investigation(mine, model, name, budget=budget, deadline=deadline, workers=workers)
            findings = searches.findings(outcome)
    except (Disagreement, MemoryError):
        raise
    except (Exception, SystemExit) as error:  # any exception, since a user may have written the model
        what = error if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
        raise ModelError(f"the model {name} cannot read this history: {what}") from error
    pictures = findings.pictures if findings else ()
    return Checked(_verdict(whole, name, findings), pictures, algorithm is not None, len(outcome.undecided), ignored)


def _calls_by_function(calls: Calls) -> dict[str, int]:
    """Return the number of calls of each function that has any."""
    counts = np.bincount(calls.f, minlength=len(calls.fs)).tolist()
    return {f: count for f, count in zip(calls.fs, counts, strict=True) if count}


def _refuse_misfit(calls: Calls, made: Mapping[str, int], model: Model, name: str) -> None:
    """Raise :class:`ModelError` if ``model`` cannot judge the history, whose calls are counted in ``made``."""
    refused = sorted(made.keys() & model.refuses)
    if refused:
        raise ModelError(f"the model {name} does not define what {', '.join(refused)} does to the value")
    if made and not model.fs & set(calls.fs):  # all names count, since those of failed calls show that the model fits
        raise ModelError(
            f"no call of the history fits the model {name}: expected calls of {', '.join(sorted(model.fs))}, "
            f"got only {', '.join(sorted(made))}"
        )
    if model.timed and len(calls) and (calls.began == calls.invoked).all():
        raise ModelError(f"the model {name} needs the times of the calls, and the history has none")


def quick_algorithm(model: Model) -> Callable[[Calls], QuickResult] | None:
    """Return the fast algorithm for exactly this model; a derived class may change its meaning."""
    if type(model.model if isinstance(model, WithRefusals) else model) in (Register, CasRegister):
        return lambda calls: _register(calls, model)
    if isinstance(model, WithRefusals):
        granted = quick_algorithm(model.model)
        return None if granted is None else lambda calls: _with_refusals(granted, calls, model)
    kind = type(model)
    if isinstance(model, Mutex | Semaphore) and kind in (Mutex, Semaphore):
        from . import deadlines  # late, like the others: one is enough

        return lambda calls: deadlines.check(calls, model)
    if isinstance(model, FifoLock) and kind is FifoLock:
        from . import fifo

        return lambda calls: fifo.check(calls, model)
    if kind in OWNED:
        from . import definite

        return lambda calls: definite.check(calls, model)
    if isinstance(model, KeyValue) and kind is KeyValue:
        from . import chains

        return lambda calls: chains.check(calls, model)
    return _monitor(kind)


def _register(calls: Calls, model: Model) -> QuickResult:
    """Return the result for a register, with or without failed calls: of a small history in plain Python, if that
    decides it."""
    from . import small

    decided = small.check(calls, model)
    if decided is not None:
        return decided
    from . import chains

    if isinstance(model, WithRefusals):
        register = model.model
        assert isinstance(register, Register)
        return _with_refusals(lambda granted: chains.check(granted, register), calls, model)
    assert isinstance(model, Register)
    return chains.check(calls, model)


def _monitor(kind: type[Model]) -> Callable[[Calls], QuickResult] | None:
    """Return the algorithm for the unambiguous histories of a collection."""
    if kind is FifoQueue:
        from .queues import check_queues

        return check_queues
    if kind is Stack:
        from .stacks import check_stacks

        return check_stacks
    if kind is ElementSet:
        from . import sets

        return sets.check
    if kind is AppendOnlyList:
        from . import lists

        return lambda calls: lists.check(calls, ordered=True)
    return None


def _with_refusals(granted: Callable[[Calls], QuickResult], calls: Calls, model: WithRefusals) -> QuickResult:
    """Return the result for all calls by the algorithm ``granted`` for those that did not fail: a key that is wrong
    without its failed calls is wrong with them, and one that is not needs a search if it has any."""
    failed = calls.named([REFUSED + f for f in sorted(model.model.refusals)])
    rows = np.flatnonzero(~failed)
    outcome = granted(calls.pick(rows))
    failures = tuple(replace(one, rows=tuple(rows[list(one.rows)].tolist())) for one in outcome.failures)
    searched = {*outcome.undecided, *np.unique(calls.key[failed]).tolist()} - {one.key for one in failures}
    return QuickResult(failures, tuple(sorted(searched)))


def _verdict(calls: Calls, name: str, findings: Findings | None) -> Verdict:
    stats = {
        "calls": len(calls),
        "keys": int(np.count_nonzero(np.bincount(calls.key))),
        "unknown_outcomes": int((calls.known == 0).sum()),
        "failed_calls": calls.failed,
        "refused_calls": int(calls.named([f for f in calls.fs if f.startswith(REFUSED)]).sum()),
        "configurations": findings.tried if findings else 0,
    }
    if findings and findings.count:
        return _invalid(findings.violations, findings.count, stats)
    if findings and findings.unknown:
        return Verdict(None, "; ".join(findings.unknown[:3]), (), {**stats, "violations": 0})
    if not len(calls):
        return Verdict(None, _nothing_to_check(calls, name), (), stats)
    keys = stats["keys"]
    where = f" of {keys} keys, each by itself," if keys > 1 else ""
    number = "1 call fits" if len(calls) == 1 else f"{len(calls)} calls{where} fit"
    return Verdict(True, f"{number} an order that the model {name} allows", (), {**stats, "violations": 0})


def _nothing_to_check(calls: Calls, name: str) -> str:
    if not calls.failed:
        return f"nothing to check: the history has no call that the model {name} describes"
    return (
        f"nothing to check: every call that the model {name} describes failed, so none happened; Knossos calls such a "
        "history valid, but it proves nothing"
    )


def _invalid(violations: Sequence[Violation], count: int, stats: dict[str, int]) -> Verdict:
    shown = tuple(sorted(violations, key=lambda found: found.involved[0]["indices"][0])[:CAP])
    others = f" (and {count - 1} more key{'s are' if count > 2 else ' is'} not linearizable)" if count > 1 else ""
    return Verdict(False, shown[0].sentence + others, shown, {**stats, "violations": count})
