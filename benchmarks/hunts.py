"""Does a hunt find every documented failure, how soon, and how small does it make it?

Each unsafe scenario that the simulator can play is hunted without being told: the hunt knows the lock and its
surroundings (servers, their options, what clients do, whether the resource checks fences) and the families of faults,
and nothing of times, triggers, targets or settings. It counts as found when a failure was shrunk that a checker of
the scenario's ``expect.invalid`` finds. Times are those of one processor, with the shrinking and the story.

    python -m benchmarks.hunts [--only 'rl-*'] [--budget 60] [--workers 2] [--out FILE]

prints a line each, and a summary; ends with 1 if one was not found.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from fnmatch import fnmatch
from multiprocessing import get_context
from pathlib import Path
from typing import Final

import msgspec

from harness.errors import HarnessError
from harness.plan import Plan
from harness.run.plans.completion import complete
from harness.scenarios import catalogue
from harness.search.request import NO_FAULT, HuntRequest
from harness.search.rounds import Round, ShrunkFailure, search
from harness.search.stories.story import story_of
from harness.search.trials import run_trial
from harness.search.vocabulary import learn_vocabulary
from harness.studies.nightly_cases import refusal

BUDGET: Final = 60.0
SCHEDULES: Final = (60, 250)
"""Of a round, for one fault at most and for more: it takes longer to be led to where two meet."""


class Row(msgspec.Struct, frozen=True):
    """``seconds`` of processor time; without a ``plan`` nothing was found in them."""

    name: str
    seconds: float
    schedules: int
    clients: int = 0
    faults: int = 0
    steps: int = 0
    broken: tuple[str, ...] = ()
    plan: Plan | None = None
    error: str = ""


def request_of(plan: Plan) -> HuntRequest:
    """Return the request of a hunt: the part of a scenario that a hunt may know."""
    done = complete(plan)
    families = tuple(dict.fromkeys(spec.fault for spec in plan.faults)) or (NO_FAULT,)
    return HuntRequest(
        lock=plan.lock,
        faults=families,
        most_faults=max(1, len(plan.faults)),
        workloads=(plan.workload,),
        kind=done.kind,
        nodes=plan.nodes,
        fencing=plan.fencing,
        lock_options=plan.lock_options,
        server_options=plan.server_options,
        schedules=SCHEDULES[len(plan.faults) > 1],
        thorough=True,
        stop_at_first=True,
    ).completed()


def hunted(name: str, budget: float) -> Row:
    """Hunt for a scenario's failure for so many seconds of processor time."""
    plan = catalogue.find(name).plan
    assert plan.expect is not None
    began = time.process_time()
    schedules = 0
    try:
        for failure, tried in _failures(request_of(plan), began + budget):
            schedules = tried
            if failure is not None and set(failure.broken) & set(plan.expect.invalid):
                checker = next(checker for checker in failure.broken if checker in plan.expect.invalid)
                told = story_of(run_trial(failure.plan), checker)
                small = told.trial.plan
                seconds = time.process_time() - began
                return Row(
                    name, seconds, tried, small.clients, len(small.faults), len(told.story.steps), failure.broken, small
                )
    except HarnessError as error:
        return Row(name, time.process_time() - began, schedules, error=str(error))
    return Row(name, time.process_time() - began, schedules)


def _failures(request: HuntRequest, until: float) -> Iterator[tuple[ShrunkFailure | None, int]]:
    """Each failure that rounds find, and how many schedules have been tried; None after a round."""
    vocabulary = learn_vocabulary(request)
    number = schedules = 0
    while time.process_time() < until:
        number += 1
        searched = search(Round(request=request, number=number, vocabulary=vocabulary))
        schedules += searched.schedules
        yield from ((failure, schedules) for failure in searched.failures)
        yield None, schedules


def main() -> None:
    parser = argparse.ArgumentParser(description="Hunt for every documented failure.")
    parser.add_argument("--only", default="*")
    parser.add_argument("--budget", type=float, default=BUDGET, help="seconds of processor time for each")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--out", type=Path, help="JSON, a line for each")
    given = parser.parse_args()
    names = [it.name for it in catalogue.all() if it.plan.expect and not it.plan.expect.safe and _here(it.plan)]
    names = [name for name in names if fnmatch(name, given.only)]
    rows: list[Row] = []
    with ProcessPoolExecutor(given.workers, mp_context=get_context("spawn")) as pool:
        for row in pool.map(hunted, names, [given.budget] * len(names)):
            rows.append(row)
            print(_line(row), flush=True)
            if given.out:
                with given.out.open("ab") as file:
                    file.write(msgspec.json.encode(row) + b"\n")
    found = [row for row in rows if row.plan is not None]
    if found:
        print(
            f"{len(found)} of {len(rows)} found; median {statistics.median(row.seconds for row in found):.1f} s and "
            f"{statistics.median(row.steps for row in found):g} steps, "
            f"at most {max(row.seconds for row in found):.1f} s "
            f"and {max(row.steps for row in found)} steps"
        )
    sys.exit(0 if len(found) == len(rows) else 1)


def _here(plan: Plan) -> bool:
    return not refusal(plan, "sim")


def _line(row: Row) -> str:
    if row.plan is None:
        return f"{row.name:32} NOT FOUND in {row.seconds:.1f} s, {row.schedules} schedules {row.error}"
    size = f"{row.clients} clients, {row.faults} faults, {row.steps} steps"
    return f"{row.name:32} {row.seconds:5.1f} s {row.schedules:5} schedules  {size}  {', '.join(row.broken)}"


if __name__ == "__main__":
    main()
