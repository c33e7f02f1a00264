"""``harness sweep``: violations over a grid of ttl, hold and pause."""

from __future__ import annotations

import contextlib
import shlex
import shutil
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from reports import words

from . import plan as plans
from .errors import UsageError
from .options import duration, kind_with, lock_options, printed, progress_bar
from .plan import Plan
from .store import new_sweep
from .sweep import Document, Grid, exit_status, planned, sweep
from .terminal import print_document, print_status

DEFAULTS = Plan(lock="")
GRID = Grid(ttl=(DEFAULTS.ttl,))


def sweep_command(
    lock: Annotated[str, typer.Argument(help="A name from 'harness list locks', or package.module:Class.")],
    ttl: Annotated[str, typer.Option(metavar="LIST", help="Durations with commas, such as 1s,2s,5s.")] = "2s",
    hold: Annotated[str, typer.Option(metavar="LIST", help="How long a section takes.")] = "100ms",
    pause: Annotated[str, typer.Option(metavar="LIST", help="How long somebody stands still; 0: nobody does.")] = "3s",
    every: Annotated[str, typer.Option(metavar="DURATION", help="From one pause to the next.")] = "5s",
    nemesis: Annotated[str, typer.Option(help="client-pause or server-pause.")] = GRID.fault,
    target: Annotated[str, typer.Option(help="Who pauses: one (by chance), primary, minority, all ...")] = GRID.target,
    cluster: Annotated[str, typer.Option(help="sim, docker, or sim,docker for both.")] = "sim",
    image: Annotated[str, typer.Option(help="On docker: the servers' image, such as redis:7.4.")] = "",
    kind: Annotated[str, typer.Option(help="A name from 'harness list kinds'; else the lock's own.")] = "",
    topology: Annotated[str, typer.Option(help="single, independent, sentinel, replicated; else the lock's own.")] = "",
    workload: Annotated[str, typer.Option(help="See 'harness list workloads'.")] = DEFAULTS.workload,
    clients: int = DEFAULTS.clients,
    nodes: Annotated[int, typer.Option(help="Servers; 0 is the usual number of the topology.")] = 0,
    keys: int = DEFAULTS.keys,
    discipline: Annotated[str, typer.Option(help="trusting or checking.")] = DEFAULTS.discipline,
    fencing: Annotated[str, typer.Option(help="on or off: does the resource check tokens?")] = DEFAULTS.fencing,
    lock_option: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Of the lock, repeatable.")
    ] = None,
    time_limit: Annotated[str, typer.Option(metavar="DURATION", help="Of each run.")] = "60s",
    seeds: Annotated[int, typer.Option(help="Runs at each point, with consecutive seeds.")] = GRID.seeds,
    seed: Annotated[int, typer.Option(help="The first one.")] = 0,
    workers: Annotated[int, typer.Option(help="Processes for simulated runs; 0: one a processor.")] = 0,
    out: Annotated[Path, typer.Option(help="The store.")] = Path("store"),
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Put the page here, too.")] = None,
    csv: Annotated[Path | None, typer.Option(metavar="FILE", help="Put the points here, too, as CSV.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the document and nothing else.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print the verdict only.")] = False,
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
    if kind and topology:
        raise UsageError("--kind says more than --topology: give one of them")
    plan = plans.decode(
        {
            **{"lock": lock, "kind": kind or kind_with(lock, topology), "workload": workload, "image": image},
            **{"clients": clients, "nodes": nodes, "keys": keys, "discipline": discipline, "fencing": fencing},
            **{"time_limit": duration("time-limit", time_limit), "seed": seed},
            "lock_options": lock_options(lock_option),
        }
    )
    if workers < 0:
        raise UsageError(f"workers must not be negative, got {workers}")
    planned(plan, grid)  # what is wrong is said before a bar is drawn
    document, folder = _swept(plan, grid, workers or None, out, quiet=json or quiet)
    for name, wanted in (("sweep.html", html), ("sweep.csv", csv)):
        if wanted is not None:
            _copy(folder / name, wanted)
    status = exit_status(document)
    printed(lambda: print_status(status) if quiet and not json else _tell(document, folder, json=json))
    raise typer.Exit(status)


def _swept(plan: Plan, grid: Grid, workers: int | None, out: Path, *, quiet: bool) -> tuple[Document, Path]:
    """What was found, and the folder that it and its report are in."""
    from reports import sweep_report

    started = datetime.now(UTC)
    console = Console(stderr=True, quiet=quiet, highlight=False)
    folder: Path | None = None
    # What a lock prints must not get between the lines of a document.
    with contextlib.redirect_stdout(sys.stderr), progress_bar(console, f"sweep of {plan.lock}") as progress:

        def begun() -> Path:
            nonlocal folder
            folder = new_sweep(out, plan.lock, started)
            return folder / "runs"

        found = sweep(plan, grid, workers=workers, runs_in=begun, progress=progress)
        assert folder is not None
        document = {
            **found,
            "started_at": f"{started:%Y-%m-%dT%H:%M:%SZ}",
            "seconds": round((datetime.now(UTC) - started).total_seconds(), 1),
            "command": shlex.join(["harness", *sys.argv[1:]]),
        }
        (folder / "sweep.json").write_bytes(msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n")
        progress(1.0, "writing: the report")
        sweep_report.write(document, folder)
    return document, folder


def durations(name: str, text: str) -> tuple[float, ...]:
    """The seconds of ``"1s,2s"``; UsageError names the option."""
    parts = [part.strip() for part in text.split(",")]
    if not all(parts):
        raise UsageError(f"{name}: expected durations with commas, such as 1s,2s,5s, got {text!r}")
    return tuple(duration(name, part) for part in parts)


def _copy(source: Path, target: Path) -> None:
    try:
        shutil.copyfile(source, target)
    except OSError as error:
        raise UsageError(f"cannot write {target}: {error.strerror}; the sweep is in {source.parent}") from error


def _tell(document: Document, folder: Path, *, json: bool) -> None:
    if json:
        print_document(document)
        return
    from reports import sweep_report

    console = Console(highlight=False)
    console.print(f"{document['lock']} on {document['kind']}: {sweep_report.about(document)}", soft_wrap=True)
    console.print(_table(document["points"]))
    for cluster, ttl, lease in dict.fromkeys((p["cluster"], p["ttl"], p["longer_lease_s"]) for p in document["points"]):
        if lease is not None:
            console.print(f"ttl {ttl:g} s: the leases that were granted on {cluster} are of {lease:g} s")
    for point in document["points"]:
        if point["why_unknown"]:
            where = f"{point['cluster']}, ttl {point['ttl']:g} s, hold {point['hold']:g} s, pause {point['pause']:g} s"
            console.print(f"unknown at {where}: {point['why_unknown']}", soft_wrap=True, markup=False)
    if document["interrupted"]:
        console.print("interrupted: not every run that was asked for has been measured")
    console.print(f"report: {folder / 'sweep.html'}", soft_wrap=True)


def _table(points: list[Document]) -> Table:
    """What all points have in common has no column, nor what none has."""
    axes = [name for name in ("cluster", "ttl", "hold", "pause") if name == "ttl" or len({p[name] for p in points}) > 1]
    doubts = any(point["unknown"] or point["runs"] < point["asked"] for point in points)
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
        table.add_row(*(_cell(point[name]) for name in axes), *_figures(point, doubts=doubts))
    return table


def _cell(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:g} s"


def _figures(point: Document, *, doubts: bool) -> Iterator[str]:
    known = point["violated"] + point["valid"]
    colour = "red" if point["violated"] else "green" if known else "yellow"
    yield f"[{colour}]{point['violated']}/{known}[/]"
    yield f"{point['rate_low'] * 100:.0f}–{point['rate_high'] * 100:.0f} %" if known else "–"
    missing = point["asked"] - point["runs"]
    unknown = f"{point['unknown']}" + (f", {missing} not run" if missing else "")
    if doubts:
        yield f"[yellow]{unknown}[/]" if point["unknown"] or missing else unknown
    yield f"{words.percent(point['lost_fraction'])} ({point['lost']})" if point["writes"] else "–"
    yield "–" if point["first_s"] is None else f"{point['first_s']:.1f} s"
    yield str(point["overlaps"])
    yield "–" if point["acquires_per_second"] is None else f"{point['acquires_per_second']:.1f}"
