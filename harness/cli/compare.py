"""``harness compare``: compare locks by what each fault does to them, their properties, and their cost."""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from harness.documents import ComparisonDocument
from harness.documents.comparison import RankingMeasure
from harness.documents.versions import VersionPlan
from harness.errors import EnvironmentLacking, UsageError
from harness.run.plans.completion import no_engine
from harness.run.progress import Progress
from harness.run.store import writable
from harness.studies.compare import Watch, compare, exit_status
from harness.studies.compare.plans import DEFAULTS, NEMESES, ComparisonJob, ComparisonRequest, chosen, jobs
from harness.studies.compare.trials import JobOutcome
from harness.wording import certainty, counted

from .completion import complete_lock_list, complete_nemeses
from .links import print_place
from .options import (
    STORE,
    ClusterWorkersOption,
    JsonOption,
    OutOption,
    QuietOption,
    SchedulerOption,
    duration,
    printed,
    progress_bar,
    single_command,
    worker_count,
)
from .run_shared import AUTO, refuse_unknown_cluster
from .study_annotations import annotate_comparison
from .terminal import WIDE, print_document
from .versions import ImagesOption, VersionsOption, compare_and_print, compare_images_and_print

RUNS: Final = {"sim": 3, "docker": 1}
SIGNS: Final = {
    "safe": ("✓", "green", "never two holders, and available when it should be"),
    "fenced": ("◆", "cyan", "two holders, but the resource refused the late one by its fencing token"),
    "unsafe": ("✗", "bold red", "two holders or corrupted data, and nothing prevented it"),
    "unavailable": ("○", "magenta", "not available when it should have been"),
    "unknown": ("?", "yellow", "the runs were not conclusive"),
    "not-run": ("–", "dim", "the fault does not apply"),
}


def compare_command(
    locks: Annotated[
        str,
        typer.Option(
            help="Locks or families (redis, etcd ...) with commas, or all.", autocompletion=complete_lock_list
        ),
    ] = "all",
    nemeses: Annotated[
        str, typer.Option(help="Faults with commas; none means runs without a fault.", autocompletion=complete_nemeses)
    ] = ",".join(NEMESES),
    cluster: Annotated[str, typer.Option(help="sim, docker, or auto: docker where an engine answers.")] = "sim",
    runs: Annotated[
        int, typer.Option(help="Runs for each cell, with consecutive seeds; 0: 3 on sim, 1 on docker.")
    ] = 0,
    seed: Annotated[int, typer.Option(help="The first seed.")] = 0,
    clients: Annotated[int, typer.Option(help="Number of clients that compete for the lock.")] = DEFAULTS.clients,
    time_limit: Annotated[
        str, typer.Option(metavar="DURATION", help="Duration of each run.")
    ] = f"{DEFAULTS.time_limit:g}s",
    versions: VersionsOption = "",
    images: ImagesOption = "",
    workers: ClusterWorkersOption = 0,
    scheduler: SchedulerOption = "",
    out: OutOption = STORE,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Compare locks: what each fault does to each, which properties they have, and what they cost.

    Exit status: 0 if every cell has a result, whatever it is, and 3 if one is unknown.
    """
    count = worker_count(workers)
    if runs < 0:
        raise UsageError(f"runs must not be negative, got {runs}")
    chosen_cluster, why = backend(cluster)
    wanted, left_out = chosen(locks, chosen_cluster)
    request = ComparisonRequest(
        locks=wanted,
        nemeses=tuple(name.strip() for name in nemeses.split(",") if name.strip()),
        cluster=chosen_cluster,
        runs=runs or RUNS[chosen_cluster],
        seed=seed,
        clients=clients,
        time_limit=duration("time-limit", time_limit),
        left_out=left_out,
    )
    todo = jobs(request)  # report errors before a bar is drawn
    if versions and images:
        raise UsageError("--versions and --images are different comparisons: give one of them")
    if images:
        raise typer.Exit(compare_images_and_print(_named_plans(todo, "images"), images, out, json=json, quiet=quiet))
    if versions:
        raise typer.Exit(compare_and_print(_named_plans(todo, "versions"), versions, out, json=json, quiet=quiet))
    console = Console(stderr=True, quiet=json or quiet, highlight=False)
    because = f" ({why})" if why else ""
    faults = counted(len(request.nemeses), "fault")
    console.print(f"cluster: {chosen_cluster}{because}; {counted(len(wanted), 'lock')}, {faults}", soft_wrap=True)
    document, page = _compared(request, out, count, scheduler or None, console)
    printed(lambda: _print_comparison(document, page, json=json, quiet=quiet))
    annotate_comparison(document, page)
    raise typer.Exit(exit_status(document))


def _named_plans(todo: Sequence[ComparisonJob], option: str) -> list[VersionPlan]:
    """Return the plans of one lock's cells, which the option of this name runs with several releases."""
    cells = [job for job in todo if job.part == "cell"]
    if len({job.lock for job in cells}) != 1:
        raise UsageError(f"--{option} compares releases for one lock: name it with --locks")
    return [
        VersionPlan(name=job.name, plan=job.plans[0], seeds=tuple(plan.seed for plan in job.plans)) for job in cells
    ]


def backend(cluster: str) -> tuple[str, str]:
    """Return the cluster for all runs, and why ``auto`` chose it."""
    refuse_unknown_cluster(cluster)
    if cluster == "sim":
        return cluster, ""
    missing = no_engine()
    if cluster == AUTO:
        return ("sim", missing) if missing else ("docker", "a Docker engine answers")
    if missing:
        raise EnvironmentLacking(f"{missing}: 'harness doctor' says what is missing; --cluster sim needs none")
    return cluster, ""


def _compared(
    request: ComparisonRequest, out: Path, workers: int | None, scheduler: str | None, console: Console
) -> tuple[ComparisonDocument, Path]:
    """Return the document and its page."""
    from harness.reports import comparison

    # Output of a lock must not get into the document on stdout.
    with contextlib.redirect_stdout(sys.stderr), progress_bar(console, "compare") as progress:
        writable(out)
        command = shlex.join(["harness", *sys.argv[1:]])
        watch = _JobProgress(progress, console)
        document, folder = compare(
            request, store=out, command=command, workers=workers, scheduler=scheduler, watch=watch
        )
        progress(1.0, "writing: the page")
        return document, comparison.write(folder)


class _JobProgress(Watch):
    """Progress of a comparison: how many jobs are done, and which are in progress. If the output is not a terminal, a
    line for each finished job."""

    def __init__(self, progress: Progress, console: Console) -> None:
        self._progress = progress
        self._console = console
        self._running: list[ComparisonJob] = []
        self._done = self._of = 0

    def todo(self, count: int) -> None:
        self._of = count
        self._report_progress()

    def building(self, line: str) -> None:
        self._progress(0.0, f"starting: {line}")

    def begun(self, job: ComparisonJob) -> None:
        self._running.append(job)
        self._report_progress()

    def done(self, job: ComparisonJob, outcome: JobOutcome) -> None:
        self._running.remove(job)
        self._done += 1
        self._report_progress()
        if not self._console.is_terminal:
            line = f"{self._done} of {self._of}: {job.lock}, {_job_line(job, outcome)}"
            self._console.print(line, soft_wrap=True, markup=False)

    def _report_progress(self) -> None:
        running = ", ".join(f"{job.lock} {job.name}" for job in self._running)
        self._progress(self._done / self._of, f"running: {self._done} of {self._of} · {running}")


def _job_line(job: ComparisonJob, outcome: JobOutcome) -> str:
    if job.part == "cell" and outcome.cell is not None:
        return f"{job.name}: {outcome.cell.state}"
    if job.part == "property" and outcome.property is not None:
        return f"{job.name}: {outcome.property.found}"
    rate = outcome.cost.acquires_per_second if outcome.cost else None
    return f"cost {job.name}: {'not measured' if rate is None else f'{rate:g} grants a second'}"


# Output of the result.


def _print_comparison(document: ComparisonDocument, page: Path, *, json: bool, quiet: bool) -> None:
    if json:
        print_document(document)
        return
    console = Console(highlight=False)
    if not quiet:
        if not console.is_terminal:
            console.width = WIDE
        tell_matrix(document, console)
    if quiet:
        print(page)
        return
    print_place("page", page)
    for other in (page.with_suffix(suffix) for suffix in (".md", ".csv")):
        console.print(f"      {other}", soft_wrap=True, markup=False)


def tell_matrix(document: ComparisonDocument, console: Console) -> None:
    table = _matrix(document, words=True)
    wanted = console.measure(table, options=console.options.update(width=2 * WIDE)).maximum
    console.print(table if wanted <= console.width else _matrix(document, words=False))
    states: Counter[str] = Counter(cell.state for lock in document.locks for cell in lock.cells.values())
    console.print()
    for state, (sign, colour, meaning) in SIGNS.items():
        if states[state]:
            console.print(f"[{colour}]{sign} {state}[/]: {meaning} ({states[state]})", soft_wrap=True)
    if states["safe"]:
        console.print(f"a safe cell: {certainty(document.runs)}", soft_wrap=True)
    for measure in document.ranking.measures:
        _tell_ranking(measure, document.ranking.claimed, console)
    for left in document.left_out:
        console.print(f"left out: {left.lock}: {left.why}", soft_wrap=True, markup=False)
    if document.interrupted:
        found = [cell for lock in document.locks for cell in lock.cells.values()]
        missed = sum(cell.state == "unknown" and not cell.runs for cell in found)
        console.print(f"interrupted: {missed} of {counted(len(found), 'cell')} not reached", soft_wrap=True)


def _matrix(document: ComparisonDocument, *, words: bool) -> Table:
    """Return a table with a line for each lock; without room for words, with signs that a legend explains."""
    table = Table(box=None, pad_edge=False)
    table.add_column("lock", no_wrap=True)
    for nemesis in document.nemeses:
        name = nemesis.name
        table.add_column(name if words else name.replace("-", "-\n"), no_wrap=words)
    for lock in document.locks:
        table.add_row(escape(lock.name), *(_sign(cell.state, words=words) for cell in lock.cells.values()))
    return table


def _sign(state: str, *, words: bool) -> str:
    sign, colour, _ = SIGNS[state]
    return f"[{colour}]{sign} {state}[/]" if words else f"[{colour}]{sign}[/]"


def _tell_ranking(measure: RankingMeasure, claimed: Sequence[str], console: Console) -> None:
    values = ", ".join(f"{service} {measure.values[service]:g}" for service in measure.order)
    ranked = [service for service in claimed if service in measure.values]
    agrees = "as" if measure.agrees else "not as"
    articles = f"; {agrees} ranked by the articles ({', '.join(ranked)})" if len(ranked) > 1 else ""
    console.print(f"{measure.name} ({measure.unit}): {values}{articles}", soft_wrap=True, markup=False)


app = single_command(compare_command)
