"""The work of exploration, on a worker: visit a pair, and run a failure of an earlier night again."""

from __future__ import annotations

import hashlib
import time
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace as with_

from harness.documents.exploration import ExploredFailure, Pair, PairVisit
from harness.errors import HarnessError
from harness.files import write_file
from harness.plan import Expect, dump
from harness.run.runs import run
from harness.run.store import safe_name, store_errors
from harness.run.verdicts.expectation import judge
from harness.run.verdicts.observed_mechanism import observed_mechanism
from harness.search.findings import FoundFailure, make_finding
from harness.search.in_workers import search
from harness.search.request import HuntRequest
from harness.search.rounds import Round, RoundResult
from harness.search.vocabulary import Vocabulary, learn_vocabulary

CANDIDATES: Final = "candidates"
"""Folder of the store with the scenarios of failures that exploration found."""
SCHEDULES: Final = 12
"""Schedules of one visit: few, so that a night visits many pairs."""


class VisitResult(msgspec.Struct, frozen=True, kw_only=True):
    """A visit with the failures that it found."""

    visit: PairVisit
    failures: tuple[ExploredFailure, ...] = ()


def visit(pair: Pair, number: int, seed: int, found_at: datetime, store: Path) -> VisitResult:
    """Hunt a lock under one family of faults for one round, and store what fails."""
    began = time.monotonic()
    here = PairVisit(**pair._asdict(), seed=seed, round=number)
    try:
        request = HuntRequest(
            lock=pair.lock, faults=(pair.fault,), accept=("known-limits",), seed=seed, schedules=SCHEDULES
        ).completed()
        searched = search(Round(request=request, number=number, vocabulary=_vocabulary(pair.lock, request.kind)))
        command = f"harness hunt {pair.lock} --faults {pair.fault} --seed {seed} --schedules {SCHEDULES}"
        findings = [make_finding(one, command=command, round_=number, store=store) for one in searched.failures]
        failures = tuple(_explored(found, pair, found_at) for found in findings if found is not None)
    except Exception as error:  # noqa: BLE001 - one broken visit must not end the night
        return VisitResult(visit=with_(here, error=_text(error), seconds=round(time.monotonic() - began, 3)))
    for failure in failures:
        _keep_candidate(failure, store)
    return VisitResult(visit=_counted(here, searched, failures, time.monotonic() - began), failures=failures)


def _counted(
    here: PairVisit, searched: RoundResult, failures: tuple[ExploredFailure, ...], seconds: float
) -> PairVisit:
    return with_(
        here,
        schedules=searched.schedules,
        judged=searched.judged,
        seconds=round(seconds, 3),
        limits=tuple(dict.fromkeys(one.kind.limit for one in searched.limits)),
        failures=tuple(one.name for one in failures),
        error="" if searched.judged else next(iter(searched.errors), "no schedule could be judged"),
    )


@cache
def _vocabulary(lock: str, kind: str) -> Vocabulary:
    """Learn what a lock's clients do once for all its families."""
    return learn_vocabulary(HuntRequest(lock=lock, kind=kind).completed())


def _explored(found: FoundFailure, pair: Pair, found_at: datetime) -> ExploredFailure:
    checker = found.failure.kind.checker
    result = run(found.plan, store=None)
    violation = result.decision.properties[checker].violation
    if violation is None:
        raise HarnessError(f"{checker} found no violation when the schedule was run again")
    mechanism = observed_mechanism(violation, result.history, tuple(spec.fault for spec in found.plan.faults))
    cause = f"{pair.lock} {checker} {mechanism.cause} {' '.join(mechanism.order)}"
    name = f"{safe_name(pair.lock)}-{checker}-{hashlib.sha256(cause.encode()).hexdigest()[:6]}"
    return ExploredFailure(
        name=name,
        lock=pair.lock,
        fault=pair.fault,
        release=pair.release,
        found_at=found_at,
        checker=checker,
        mechanism=mechanism,
        summary=found.summary,
        lines=tuple(found.story.lines()),
        plan=with_(found.plan, expect=Expect(safe=False, invalid=(checker,), mechanism=mechanism)),
        folder=None if found.folder is None else str(found.folder),
    )


def _keep_candidate(failure: ExploredFailure, store: Path) -> None:
    folder = store / CANDIDATES
    with store_errors(store):
        folder.mkdir(parents=True, exist_ok=True)
    write_file(folder / f"{failure.name}.toml", dump(failure.plan))


def repeat(failure: ExploredFailure) -> ExploredFailure:
    """Run a failure of an earlier night again, and say whether it still happens for the same reason."""
    assert failure.plan.expect is not None
    try:
        result = run(failure.plan, store=None)
    except Exception as error:  # noqa: BLE001 - one broken run must not end the night
        return with_(failure, state="error", why=_text(error))
    judgement = judge(failure.plan.expect, result.verdicts, result.history, result.decision)
    still = judgement.state == "as-expected"
    return with_(failure, state="known" if still else "gone", why=f"{judgement.state}: {judgement.why}")


def _text(error: Exception) -> str:
    return str(error) if isinstance(error, HarnessError) else f"{type(error).__name__}: {error}"
