"""A run, or many of them, as a command does it: with progress on stderr, and the verdict on stdout."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Final

import msgspec
from rich.console import Console

from checkers.base import badness

from .completion import BACKENDS, choose, complete
from .errors import UNKNOWN, VALID, VIOLATION, UsageError
from .options import counted, printed, progress_bar
from .plan import Plan
from .progress import Progress
from .reported import reported
from .runs import Result, run
from .terminal import Outcome, print_result, print_status, print_tally, tally

AUTO: Final = "auto"


def placed(plan: Plan, cluster: str) -> tuple[Plan, str]:
    """The plan completed for a cluster, and why this one."""
    if cluster not in (AUTO, *BACKENDS):
        raise UsageError(f"cluster must be one of {', '.join([AUTO, *BACKENDS])}, got {cluster!r}")
    if cluster == AUTO:
        return choose(plan)
    return complete(msgspec.structs.replace(plan, cluster=cluster)), ""


def play_one(
    plan: Plan, out: Path, command: str, reason: str, *, json: bool, quiet: bool, silent: bool = False
) -> Result:
    """Run, store and report a completed plan, and print its verdict. ``reason`` is why it is on its cluster. If
    ``silent``, the verdict is left to the caller."""
    from reports import run_report

    console = Console(stderr=True, quiet=json or quiet, highlight=False)
    because = f" ({reason})" if reason else ""
    console.print(f"cluster: {plan.cluster}, {plan.kind}, {counted(plan.nodes, 'node')}{because}", soft_wrap=True)
    # What a lock prints must not get between the lines of a result document.
    with contextlib.redirect_stdout(sys.stderr), progress_bar(console, plan.lock) as progress:
        result = run(plan, store=out, command=command, reason=reason, progress=progress)
        progress(1.0, "writing: the report")
        assert result.folder is not None
        run_report.write(result.folder)
    if json or not silent:
        printed(lambda: print_result(result, json=json, quiet=quiet))
    return result


def play_many(plan: Plan, runs: int, out: Path, command: str, reason: str, *, json: bool, quiet: bool = False) -> int:
    """Consecutive seeds; the runs that are not valid are kept, with a report of each. What does not happen a second
    time in the same way is kept from the first."""
    store = out if plan.cluster == "docker" else None
    console = Console(stderr=True, quiet=json or quiet, highlight=False)
    outcomes: list[Outcome] = []
    with contextlib.redirect_stdout(sys.stderr), progress_bar(console, plan.lock) as progress:
        for number in range(runs):
            seeded = msgspec.structs.replace(plan, seed=plan.seed + number)
            within = _within(progress, number, runs, tally(outcomes))
            result = run(seeded, store=store, command=command, reason=reason, progress=within)
            if result.interrupted:
                break
            if result.valid is not True:
                within(1.0, "writing: the report")
                result = reported(result, out, command, reason)
            outcomes.append(Outcome.of(result))
    worst = max((badness(outcome.valid) for outcome in outcomes), default=badness(None))
    status = UNKNOWN if worst == 0 and len(outcomes) < runs else (VALID, UNKNOWN, VIOLATION)[worst]
    printed(lambda: print_status(status) if quiet and not json else print_tally(outcomes, runs, json=json))
    return status


def _within(progress: Progress, number: int, runs: int, found: str) -> Progress:
    """The progress of one run among many."""
    so_far = f"run {number + 1} of {runs} · " + (f"{found} · " if found else "")

    def tell(fraction: float, text: str) -> None:
        phase, _, more = text.partition(": ")
        progress((number + fraction) / runs, f"{phase}: {so_far}{more}")

    return tell
