"""``harness nightly``: run every scenario and compare the verdicts with the expected ones."""

from __future__ import annotations

import contextlib
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from random import SystemRandom
from typing import Annotated, Final

import typer
from msgspec.structs import replace as with_
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from harness.documents import NightlyDocument
from harness.documents.nightly import ScenarioOutcome
from harness.errors import VALID, EnvironmentLacking, HarnessError, UsageError
from harness.files import cannot_write, require_place
from harness.run.plans.completion import no_engine
from harness.run.progress import Progress
from harness.run.store import REPORT, writable
from harness.run.verdicts.expectation import OPEN, WRONG
from harness.scenarios import catalogue
from harness.scenarios.catalogue import Scenario
from harness.studies.nightly import ExploreRequest, nightly
from harness.studies.nightly_cases import CLUSTERS, FIRST_FRESH
from harness.studies.results_db import RESULTS_DB, add, nights
from harness.studies.server_images import images_named
from harness.wording import counted

from . import nightly_exploration, nightly_mutants
from .annotations import annotate
from .links import print_place
from .options import (
    STORE,
    ClusterWorkersOption,
    OutOption,
    QuietOption,
    SchedulerOption,
    positive,
    printed,
    progress_bar,
    single_command,
    worker_count,
)
from .terminal import print_document
from .verdicts import print_status
from .versions import ImagesOption

SAFE: Final = ".safe"
MUTANTS: Final = "mutants"
PAGE: Final = "index.html"
AUTO: Final = "auto"
LARGEST_SEED: Final = 1_000_000
"""Drawn seeds are below this, so that they are easy to type."""


def nightly_command(
    suite: Annotated[
        str, typer.Option(help="smoke; full: more seeds, and all scenarios on docker; mutants: locks with one mistake.")
    ] = "smoke",
    cluster: Annotated[str, typer.Option(help=f"{', '.join(CLUSTERS)}.")] = "sim",
    only: Annotated[
        str, typer.Option(help="Only scenarios whose name matches, such as 'zk-*'.", metavar="PATTERN")
    ] = "",
    seed: Annotated[
        str, typer.Option(help="Also run with fresh seeds from this one on; auto: drawn at random.", metavar="N|auto")
    ] = "",
    explore: Annotated[
        str, typer.Option(help="Then hunt for new failures of all locks for so long.", metavar="DURATION")
    ] = "",
    explore_locks: Annotated[
        str, typer.Option(help="Explore only locks whose name matches, such as 'redis-*'.", metavar="PATTERN")
    ] = "*",
    images: ImagesOption = "",
    workers: ClusterWorkersOption = 0,
    scheduler: SchedulerOption = "",
    out: OutOption = STORE,
    junit: Annotated[Path | None, typer.Option(help="Also write a JUnit file.", metavar="FILE")] = None,
    html: Annotated[Path | None, typer.Option(help="Also write an HTML page.", metavar="DIR")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the nightly run's document and nothing else.")] = False,
    quiet: QuietOption = False,
) -> None:
    """Run every scenario and compare with what is expected: known failures are found, and safe locks stay safe."""
    chosen = None if not only else _like(only, suite)
    request = ExploreRequest(positive("explore", explore), explore_locks) if explore else None
    count = worker_count(workers)
    servers = images_named(images) if images else ()
    if servers and request is not None:
        raise UsageError("--images and --explore are different studies: give one of them")
    if cluster != "sim" and (missing := no_engine()):
        raise EnvironmentLacking(f"{missing}: 'harness doctor' says what is missing; --cluster sim needs none")
    _refuse_outputs(out, junit, html)
    console = Console(stderr=True, quiet=json or quiet, highlight=False)
    with contextlib.redirect_stdout(sys.stderr), progress_bar(console, f"nightly {suite}") as progress:
        progress(0.0, "starting: the first of them")
        night = nightly(
            suite,
            cluster,
            store=out,
            scenarios=chosen,
            workers=count,
            scheduler=scheduler or None,
            seed=_seed(seed),
            explore=request,
            images=servers,
            on_outcome=partial(_report_outcome, progress, console),
            progress=progress,
        )
    # Another name, so that it is not compared with complete nightly runs.
    name = f"{night.suite}{' on several images' if servers else ''}{f', only {only}' if only else ''}"
    night = with_(night, suite=name)
    printed(lambda: print_status(night.status) if quiet and not json else _print(night, json=json))
    failed = _write_outputs(night, out, junit, html, silent=json or quiet)
    _annotate(night)
    raise typer.Exit(night.status or failed)


def _write_outputs(night: NightlyDocument, out: Path, junit: Path | None, html: Path | None, *, silent: bool) -> int:
    """Write all outputs, and print what could not be written, and unless ``silent`` the places of pages. Return the
    greatest exit status of errors, 0 if all was written."""
    failed = _store(night, out, junit, html)
    for failure in failed:
        typer.echo(f"harness: {failure}", err=True)
    for path in () if silent else (junit, html / PAGE if html else None):
        if path is not None and path.exists():
            print_place("written", path)
    return max((failure.exit_status for failure in failed), default=VALID)


def _annotate(night: NightlyDocument) -> None:
    """Annotate the file of each scenario whose result is not the expected one, and each new failure."""
    for outcome in night.outcomes:
        if outcome.state in (*WRONG, *OPEN):
            found = False if outcome.state in WRONG else None
            report = Path(outcome.folder) / REPORT if outcome.folder else None
            title = f"{outcome.scenario} on {outcome.place}, seed {outcome.seed}"
            place = (catalogue.FOLDER / f"{outcome.scenario}{catalogue.SUFFIX}", 1)
            annotate(found, title, f"{outcome.state}: {outcome.why}", report, place)


def _seed(text: str) -> int | None:
    """Return the first fresh seed; None for an empty text."""
    if text == AUTO:
        return SystemRandom().randrange(FIRST_FRESH, LARGEST_SEED)
    if text and not text.isdecimal():
        raise UsageError(f"seed must be a number, or {AUTO}, got {text!r}")
    return int(text) if text else None


def _report_outcome(progress: Progress, console: Console, outcome: ScenarioOutcome, number: int, of: int) -> None:
    progress(number / of, f"running: {number} of {of} · {outcome.scenario} on {outcome.place}")
    seeded = f"{outcome.scenario} on {outcome.place}, seed {outcome.seed}"
    if outcome.state in (*WRONG, *OPEN):
        console.print(f"[red]{outcome.state}[/] {seeded}: {escape(outcome.why)}", soft_wrap=True)
    elif not console.is_terminal:  # a log has no bar
        console.print(f"{number} of {of}: {seeded}: {outcome.state}", soft_wrap=True)


def _refuse_outputs(out: Path, junit: Path | None, html: Path | None) -> None:
    """Check that every output path is writable before the suite starts; raises HarnessError."""
    database = out / RESULTS_DB
    if database.exists():
        nights(database)  # raises UsageError if it is no results database
    writable(out)
    for path in (junit, None if html is None else html / PAGE):
        if path is not None:
            require_place(path)


def _like(pattern: str, suite: str) -> list[Scenario]:
    if suite == MUTANTS:
        found = [one for one in catalogue.mutants() if fnmatch(one.name.removeprefix(catalogue.MUTANTS), pattern)]
    else:
        found = [catalogue.find(name) for name in catalogue.names() if fnmatch(name, pattern)]
    if not found:
        raise UsageError(f"no scenario matches {pattern!r}; see 'harness scenario list'")
    return found


def _store(night: NightlyDocument, out: Path, junit: Path | None, html: Path | None) -> list[HarnessError]:
    """Write all outputs; return an error for each that could not be written."""
    from harness.reports import junit as junit_report
    from harness.reports import nightly_report

    todo: list[Callable[[], object]] = []
    if junit is not None:
        todo.append(lambda: junit_report.write(night, junit))
    if html is not None:
        todo.append(lambda: nightly_report.write(night, html))
    if night.comparable:
        todo.append(lambda: add(out / RESULTS_DB, night))
    failed: list[HarnessError] = []
    for write in todo:
        try:
            write()
        except OSError as error:
            failed.append(cannot_write(error.filename, error))
        except HarnessError as error:
            failed.append(error)
    return failed


def _print(night: NightlyDocument, *, json: bool) -> None:
    if json:
        print_document(night)
        return
    console = Console(highlight=False)
    of_mutants = night.suite.partition(",")[0] == MUTANTS
    if of_mutants:
        console.print("\n".join(nightly_mutants.rows(night)), soft_wrap=True)
    else:
        console.print(_table(night))
    for image, server in night.servers:
        console.print(f"servers {image}: {server or 'none reported'}", soft_wrap=True, markup=False)
    _print_exceptions(night.outcomes, console)
    if of_mutants:
        console.print(nightly_mutants.shares(night), soft_wrap=True)
    outcomes = night.outcomes
    rows = len({outcome.row for outcome in outcomes})
    states = Counter(outcome.state for outcome in outcomes)
    counts = ", ".join(f"{count} {state}" for state, count in states.most_common())
    summary = f"{counted(rows, 'mutant' if of_mutants else 'documented failure')}, {counted(len(outcomes), 'run')}"
    console.print(f"{summary} in {night.seconds:.0f} s: {counts}", soft_wrap=True)
    for line in nightly_exploration.lines(night):
        console.print(line, soft_wrap=True)
    if night.interrupted:
        made = len(outcomes) - states["not-run"]
        console.print(f"interrupted after {made} of {night.planned} runs", soft_wrap=True)


def _print_exceptions(outcomes: Sequence[ScenarioOutcome], console: Console) -> None:
    """Print the outcomes that are not as expected, the scenarios that were run again, and by their reasons those that
    were not run."""
    for outcome in outcomes:
        if outcome.state in (*WRONG, *OPEN):
            folder = f" ({outcome.folder})" if outcome.folder else ""
            console.print(
                f"[red]{outcome.state}[/] {outcome.scenario} on {outcome.place}, seed {outcome.seed}: "
                f"{escape(outcome.why)}{folder}",
                soft_wrap=True,
            )
    again = [f"{outcome.scenario} on {outcome.place}" for outcome in outcomes if outcome.unknown_runs]
    if again:
        console.print(f"run again, because a run was unknown: {', '.join(again)}", soft_wrap=True, markup=False)
    idle = {f"{outcome.scenario} on {outcome.place}": outcome.why for outcome in outcomes
            if outcome.state == "not-run"}  # fmt: skip
    for reason in dict.fromkeys(idle.values()):
        names = ", ".join(name for name, why in idle.items() if why == reason)
        console.print(f"not run: {names}: {reason}", soft_wrap=True, markup=False)


def _table(night: NightlyDocument) -> Table:
    """Return a table with a line for each scenario: how soon the failure is found, and whether its cure is safe."""
    cells: defaultdict[str, defaultdict[tuple[str, bool], list[ScenarioOutcome]]]
    cells = defaultdict(lambda: defaultdict(list))
    for outcome in night.outcomes:
        story = outcome.scenario.removesuffix(SAFE)
        cells[story][outcome.place, outcome.safe].append(outcome)
    table = Table(box=None, pad_edge=False)
    table.add_column("story", no_wrap=True)
    for place in night.places:
        table.add_column(f"found on {place}", no_wrap=True)
        table.add_column("cure", no_wrap=True)
    for story in sorted(cells):
        row = [_cell(cells[story][place, safe]) for place in night.places for safe in (False, True)]
        table.add_row(story, *row)
    return table


def _cell(outcomes: Iterable[ScenarioOutcome]) -> str:
    """Return the worst state of all seeds, or the median time to the first violation."""
    found = list(outcomes)
    if not found:
        return ""
    states = {outcome.state for outcome in found}
    for state in (*WRONG, *OPEN):
        if state in states:
            return f"[red]{state}[/]"
    if states == {"not-run"}:
        return "[dim]not run[/]"
    if found[0].safe:
        return "[green]safe[/]"
    times = sorted(outcome.found_s for outcome in found if outcome.found_s is not None)
    rate = "".join(f", {one.found} of {one.runs}" for outcome in found if (one := outcome.detection) and one.runs > 1)
    return f"[green]{times[len(times) // 2]:.1f} s[/]{rate}" if times else f"[green]found[/]{rate}"


app = single_command(nightly_command)
