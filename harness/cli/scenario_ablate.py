"""``harness scenario ablate``: does each failure need its faults, and is each part of its cure one?"""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.markup import escape

from harness.documents import AblationDocument, AblationOutcome
from harness.errors import UsageError
from harness.scenarios import catalogue
from harness.scenarios.catalogue import Scenario
from harness.studies.ablation import ablate
from harness.wording import counted

from .completion import complete_scenarios
from .options import (
    AllowOption,
    QuietOption,
    SchedulerOption,
    TrustOption,
    WorkersOption,
    printed,
    progress_bar,
    refuse_strange_code,
    worker_count,
)
from .terminal import print_document
from .verdicts import print_status

COLOURS: Final = {"vanishes": "green", "survives": "red", "unknown": "yellow", "error": "red", "not-run": "dim"}


def ablate_command(
    given: Annotated[
        list[str] | None,
        typer.Argument(
            help="Names of failures, or files with a cure NAME.safe.toml beside them.", metavar="NAME|FILE",
            autocompletion=complete_scenarios,
        ),
    ] = None,
    all_: Annotated[bool, typer.Option("--all", help="Every failure of the catalogue.")] = False,
    workers: WorkersOption = 0,
    scheduler: SchedulerOption = "",
    trust: TrustOption = False,
    allow: AllowOption = None,
    json: Annotated[bool, typer.Option("--json", help="Print one document and nothing else.")] = False,
    quiet: QuietOption = False,
) -> None:  # fmt: skip
    """Remove each fault of a failure by itself, and apply each part of its cure by itself, on the simulator.

    The failure must vanish each time. Exit status: 0 if it does or the scenario says why not, 1 if a failure survives,
    3 if a run broke or proves nothing.
    """
    failures = _failures(given or [], everything=all_)
    for failure in failures:
        if not failure.catalogued:
            refuse_strange_code(failure.plan, failure.path, trust=trust, allow=allow)
    console = Console(stderr=True, quiet=json or quiet, highlight=False)
    with contextlib.redirect_stdout(sys.stderr), progress_bar(console, "ablation") as progress:
        progress(0.0, "starting: the first of them")
        found = ablate(
            failures,
            workers=worker_count(workers),
            scheduler=scheduler or None,
            on_outcome=lambda outcome, number, of: progress(
                number / of, f"running: {number} of {of} · {outcome.scenario} {outcome.change}"
            ),
        )
    printed(lambda: print_status(found.status) if quiet and not json else _print(found, json=json))
    raise typer.Exit(found.status)


def _failures(given: list[str], *, everything: bool) -> list[Scenario]:
    if everything == bool(given):
        raise UsageError("give either names of failures, or --all")
    if everything:
        return [one for one in catalogue.all() if one.plan.expect is not None and not one.plan.expect.safe]
    return [catalogue.find(name) for name in given]


def _print(found: AblationDocument, *, json: bool) -> None:
    if json:
        print_document(found)
        return
    console = Console(highlight=False)
    for line in lines(found.outcomes):
        console.print(line, soft_wrap=True)
    console.print(summary(found.outcomes), soft_wrap=True)


def lines(outcomes: tuple[AblationOutcome, ...]) -> list[str]:
    """Return a line for each scenario with its mechanism, and one for each of its changes, with Rich's markup."""
    shown: list[str] = []
    last = ""
    for outcome in outcomes:
        if outcome.scenario != last:
            last = outcome.scenario
            shown.append(f"[bold]{last}[/]: {escape(outcome.reason or 'no mechanism is stated')}")
        why = f" ({outcome.explained})" if outcome.explained else ""
        colour = "dim" if outcome.state != "vanishes" and outcome.explained else COLOURS[outcome.state]
        shown.append(f"  [{colour}]{outcome.state}[/] {escape(f'{outcome.change}: {outcome.why}{why}')}")
    return shown


def summary(outcomes: tuple[AblationOutcome, ...]) -> str:
    """Return how many failures vanished and survived, in a sentence."""
    states = Counter(outcome.state for outcome in outcomes)
    counts = ", ".join(f"{count} {state}" for state, count in states.most_common())
    unexplained = sum(outcome.unexplained for outcome in outcomes)
    failures = counted(len({outcome.scenario for outcome in outcomes}), "failure")
    return f"{failures}, {counted(len(outcomes), 'change')}: {counts}; {unexplained} unexplained"
