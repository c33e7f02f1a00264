"""``harness sweep``: measure how often a lock is violated over a grid of ttl, hold and pause."""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from msgspec.structs import replace
from rich.console import Console
from rich.table import Table

from harness import plan as plans
from harness.documents import SweepDocument
from harness.documents.sweep import SweepPoint
from harness.errors import UsageError
from harness.files import require_place, write_file
from harness.plan import Plan
from harness.reports import words
from harness.run.processes.interpreter import interpreter_of
from harness.run.store import new_sweep, writable, write_results
from harness.studies.sweep import PAUSES, Grid, exit_status, planned, sweep

from .links import print_place
from .options import (
    STORE,
    JsonOption,
    KindOption,
    LockArgument,
    OutOption,
    PythonOption,
    QuietOption,
    SchedulerOption,
    WithOption,
    WorkersOption,
    WorkloadOption,
    chosen_kind,
    duration,
    environment_progress,
    lock_options,
    printed,
    progress_bar,
    single_command,
    worker_count,
)
from .run_options import Image
from .study_annotations import annotate_sweep, point_words
from .terminal import print_document
from .verdicts import print_status

DEFAULTS = Plan(lock="")
GRID = Grid(ttl=(DEFAULTS.ttl,))


def sweep_command(
    lock: LockArgument,
    ttl: Annotated[str, typer.Option(metavar="LIST", help="Lease times with commas, such as 1s,2s,5s.")] = "2s",
    hold: Annotated[str, typer.Option(metavar="LIST", help="How long a critical section takes.")] = "100ms",
    pause: Annotated[
        str, typer.Option(metavar="LIST", help="How long a client or server is paused; 0: no pause.")
    ] = "3s",
    every: Annotated[str, typer.Option(metavar="DURATION", help="Period of the pauses.")] = "5s",
    nemesis: Annotated[str, typer.Option(help=f"Which processes pause: {' or '.join(PAUSES)}.")] = GRID.fault,
    target: Annotated[str, typer.Option(help="How many pause: one (random), primary, minority, all ...")] = GRID.target,
    cluster: Annotated[str, typer.Option(help="sim, docker, or sim,docker for both.")] = "sim",
    image: Image = "",
    kind: KindOption = "",
    topology: Annotated[
        str, typer.Option(help="single, independent, sentinel, cluster, replicated; else the lock's own.")
    ] = "",
    workload: WorkloadOption = DEFAULTS.workload,
    clients: int = DEFAULTS.clients,
    nodes: Annotated[int, typer.Option(help="Number of servers; 0: the usual number for the topology.")] = 0,
    keys: int = DEFAULTS.keys,
    discipline: Annotated[
        str, typer.Option(help="Whether clients check the lock before they write: trusting or checking.")
    ] = DEFAULTS.discipline,
    fencing: Annotated[
        str, typer.Option(help="Whether the resource checks fencing tokens: on or off.")
    ] = DEFAULTS.fencing,
    lock_option: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="An option of the lock; repeatable.")
    ] = None,
    with_: WithOption = None,
    python: PythonOption = "",
    time_limit: Annotated[str, typer.Option(metavar="DURATION", help="Duration of each run.")] = "60s",
    seeds: Annotated[int, typer.Option(help="Runs at each point, with consecutive seeds.")] = GRID.seeds,
    seed: Annotated[int, typer.Option(help="The first seed.")] = 0,
    workers: WorkersOption = 0,
    scheduler: SchedulerOption = "",
    out: OutOption = STORE,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Also copy the page to this file.")] = None,
    csv: Annotated[Path | None, typer.Option(metavar="FILE", help="Also copy the points to this CSV file.")] = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Measure how often, how soon and with what loss a lock is violated, over every ttl, hold and pause.

    Exit status 1 if any run was violated, 3 if none was and one is unknown or was not run, else 0.
    """
    grid = Grid(
        ttl=durations("ttl", ttl),
        hold=durations("hold", hold),
        pause=durations("pause", pause),
        clusters=tuple(name.strip() for name in cluster.split(",")),
        every=duration("every", every),
        fault=nemesis,
        target=target,
        seeds=seeds,
    ).check()
    plan = plans.decode(
        {
            **{"lock": lock, "kind": chosen_kind(lock, kind, topology, with_, python)},
            **{"workload": workload, "image": image},
            **{"clients": clients, "nodes": nodes, "keys": keys, "discipline": discipline, "fencing": fencing},
            **{"time_limit": duration("time-limit", time_limit), "seed": seed},
            **{"lock_options": lock_options(lock_option), "requires": with_ or [], "python": python},
        }
    )
    count = worker_count(workers)
    copies = {name: path for name, path in (("sweep.html", html), ("sweep.csv", csv)) if path is not None}
    _refuse_early(plan, grid, out, copies.values())
    document, folder = _swept(plan, grid, count, scheduler or None, out, quiet=json or quiet)
    for name, path in copies.items():
        write_file(path, (folder / name).read_bytes())
    status = exit_status(document)
    printed(lambda: print_status(status) if quiet and not json else _print_sweep(document, folder, json=json))
    annotate_sweep(document, folder / "sweep.html")
    raise typer.Exit(status)


def _refuse_early(plan: Plan, grid: Grid, out: Path, copies: Iterable[Path]) -> None:
    """Raise the errors of all runs and all output paths before a progress bar is drawn."""
    for name in grid.clusters:
        interpreter_of(replace(plan, cluster=name), environment_progress)
    planned(plan, grid)
    writable(out)
    for path in copies:
        require_place(path)


def _swept(
    plan: Plan, grid: Grid, workers: int | None, scheduler: str | None, out: Path, *, quiet: bool
) -> tuple[SweepDocument, Path]:
    """Run the sweep; return the document, and the folder that contains it and its report."""
    from harness.reports import sweep_report

    started = datetime.now(UTC)
    console = Console(stderr=True, quiet=quiet, highlight=False)
    folder: Path | None = None
    # Output of a lock must not get into the document on stdout.
    with contextlib.redirect_stdout(sys.stderr), progress_bar(console, f"sweep of {plan.lock}") as progress:

        def begun() -> Path:
            nonlocal folder
            folder = new_sweep(out, plan.lock, started)
            return folder / "runs"

        found = sweep(plan, grid, workers=workers, scheduler=scheduler, runs_in=begun, progress=progress)
        assert folder is not None
        document = replace(
            found,
            started_at=f"{started:%Y-%m-%dT%H:%M:%SZ}",
            seconds=round((datetime.now(UTC) - started).total_seconds(), 1),
            command=shlex.join(["harness", *sys.argv[1:]]),
        )
        write_results(folder, document, "sweep.json")
        progress(1.0, "writing: the report")
        sweep_report.write(document, folder)
    return document, folder


def durations(name: str, text: str) -> tuple[float, ...]:
    """Return the seconds of a list such as ``"1s,2s"``; raises UsageError, which names the option."""
    parts = [part.strip() for part in text.split(",")]
    if not all(parts):
        raise UsageError(f"{name}: expected durations with commas, such as 1s,2s,5s, got {text!r}")
    return tuple(duration(name, part) for part in parts)


def _print_sweep(document: SweepDocument, folder: Path, *, json: bool) -> None:
    if json:
        print_document(document)
        return
    from harness.reports import sweep_report
    from harness.reports.sweep_finding import finding

    console = Console(highlight=False)
    found = finding(document)
    console.print(f"{found.headline}. {found.where}".rstrip(), soft_wrap=True, markup=False, style="bold")
    console.print(f"{document.lock} on {document.kind}: {sweep_report.about(document)}", soft_wrap=True)
    console.print(_table(document.points))
    for cluster, ttl, lease in dict.fromkeys((p.cluster, p.ttl, p.longer_lease_s) for p in document.points):
        if lease is not None:
            console.print(f"ttl {ttl:g} s: the leases that were granted on {cluster} are of {lease:g} s")
    for point in document.points:
        if point.why_unknown:
            console.print(f"unknown at {point_words(point)}: {point.why_unknown}", soft_wrap=True, markup=False)
    if document.interrupted:
        console.print("interrupted: not every run that was asked for has been measured")
    print_place("report", folder / "sweep.html")


def _table(points: Sequence[SweepPoint]) -> Table:
    """Return a table of the points, without columns that are equal or empty for all points."""
    axes = [
        name
        for name in ("cluster", "ttl", "hold", "pause")
        if name == "ttl" or len({getattr(p, name) for p in points}) > 1
    ]
    doubts = any(point.unknown or point.runs < point.asked for point in points)
    table = Table(box=None, pad_edge=False)
    table.add_column(axes[0], no_wrap=True)
    for column in (
        *axes[1:],
        "violated",
        "95 %",
        *(["unknown"] if doubts else []),
        "lost",
        "first",
        "overlaps",
        "acq/s",
    ):
        table.add_column(column, justify="right", no_wrap=True)
    for point in points:
        table.add_row(*(_cell(getattr(point, name)) for name in axes), *_figures(point, doubts=doubts))
    return table


def _cell(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:g} s"


def _figures(point: SweepPoint, *, doubts: bool) -> Iterator[str]:
    known = point.violated + point.valid
    colour = "red" if point.violated else "green" if known else "yellow"
    yield f"[{colour}]{point.violated}/{known}[/]"
    low, high = point.rate_low, point.rate_high
    yield "–" if low is None or high is None else f"{low * 100:.0f}–{high * 100:.0f} %"
    missing = point.asked - point.runs
    unknown = f"{point.unknown}" + (f", {missing} not run" if missing else "")
    if doubts:
        yield f"[yellow]{unknown}[/]" if point.unknown or missing else unknown
    yield f"{words.percent(point.lost_fraction)} ({point.lost})" if point.writes else "–"
    yield "–" if point.first_s is None else f"{point.first_s:.1f} s"
    yield str(point.overlaps)
    yield "–" if point.acquires_per_second is None else f"{point.acquires_per_second:.1f}"


app = single_command(sweep_command)
