"""``harness fidelity``: compare the simulated servers with the real ones, which run as processes of this machine."""

from __future__ import annotations

import math
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from msgspec.structs import replace
from rich.console import Console

from harness.documents import FidelityDocument
from harness.documents.fidelity import FidelityFigure, FidelityServer
from harness.documents.trace import ServerTrace, TraceDocument
from harness.errors import UsageError
from harness.run.store import new_fidelity, writable, write_results
from harness.studies.fidelity import FidelityRequest, compare_servers
from harness.studies.results_db import RESULTS_DB, add_fidelity, fidelity
from harness.studies.traces import check_run
from harness.wording import counted

from .options import (
    STORE,
    JsonOption,
    OutOption,
    QuietOption,
    positive,
    printed,
    progress_bar,
    single_command,
    worker_count,
)
from .terminal import print_document

FILE = "fidelity.json"


def fidelity_command(
    server: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Compare this server; repeatable. Default: all.")
    ] = None,
    budget: Annotated[str, typer.Option(metavar="DURATION", help="Time for each server.")] = "60s",
    seeds: Annotated[int, typer.Option(help="Sequences for each server; 0: as many as the budget allows.")] = 0,
    seed: Annotated[int, typer.Option(help="Seed of the first sequence.")] = 0,
    workers: Annotated[
        int, typer.Option(help="Processes that compare, each with a server of its own; 0: one for each processor.")
    ] = 1,
    out: OutOption = STORE,
    run: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Check the recorded traffic of this run's servers instead.")
    ] = None,
    history: Annotated[bool, typer.Option("--history", help="Compare nothing, and show the stored figures.")] = False,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Send the same commands and faults to a simulated and a real server, and show where their answers differ.

    The figure counts commands, faults and clock moves. Exit status 1 if a divergence is not documented in
    docs/fidelity/, 3 if it was interrupted (what was compared by then is stored), 4 if this machine lacks a real
    server, else 0. With --run: 1 if a recorded reply is impossible, 3 if no server's traffic could be checked, else 0.
    """
    if run is not None:
        _check_run(run, json=json, quiet=quiet)
    request = FidelityRequest(tuple(server or ()), positive("budget", budget), seed, seeds, worker_count(workers))
    if history:
        _show_history(out, request.servers, json=json, quiet=quiet)
        return
    request.check()
    writable(out)
    document, folder = _compared(request, out, quiet=json or quiet)
    printed(lambda: print_document(document) if json else _print(document, folder, quiet=quiet))
    raise typer.Exit(document.status)


def _check_run(run: Path, *, json: bool, quiet: bool) -> NoReturn:
    found = check_run(run)
    printed(lambda: print_document(found) if json else _print_traces(found, quiet=quiet))
    raise typer.Exit(found.status)


def _print_traces(found: TraceDocument, *, quiet: bool) -> None:
    console = Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
    for server in found.servers:
        for line in trace_lines(server)[: 1 if quiet else None]:
            console.print(line)


def trace_lines(server: ServerTrace) -> list[str]:
    """Return what the traffic of a server shows, in one line; in several if a reply is impossible."""
    why = f" ({server.why})" if server.why else ""
    figures = f", {counted(server.requests, 'request')}" if server.requests else ""
    lines = [f"{server.host}: {server.state}{figures}{why}"]
    if (first := server.difference) is not None:
        lines += [
            f"  after {first.at_s:.3f} s, {first.client} (connection {first.connection}): {first.request}",
            f"  real:      {first.real}",
            f"  simulated: {' or '.join(first.possible) or 'not executed yet'}",
        ]
    return lines


def _compared(request: FidelityRequest, out: Path, *, quiet: bool) -> tuple[FidelityDocument, Path]:
    """Compare, and store the document and the figures."""
    console = Console(stderr=True, quiet=quiet, highlight=False)
    with progress_bar(console, "fidelity of the simulated servers") as progress:
        found = compare_servers(request, progress)
    database = out / RESULTS_DB
    document = replace(
        found, command=shlex.join(["harness", *sys.argv[1:]]), history=_of(fidelity(database), request.names)
    )
    folder = new_fidelity(out, document.started_at)
    write_results(folder, document, FILE)
    add_fidelity(database, [_figure(document, one) for one in document.servers])
    return document, folder


def _figure(document: FidelityDocument, one: FidelityServer) -> FidelityFigure:
    documented = sum(bool(found.known) for found in one.divergences)
    return FidelityFigure(
        started_at=document.started_at, server=one.server, version=one.version, steps=one.steps,
        differing=one.differing, undocumented=len(one.divergences) - documented, documented=documented,
    )  # fmt: skip


def _of(figures: Sequence[FidelityFigure], servers: Sequence[str]) -> tuple[FidelityFigure, ...]:
    return tuple(one for one in figures if not servers or one.server in servers)


def _show_history(out: Path, servers: Sequence[str], *, json: bool, quiet: bool) -> None:
    figures = _of(fidelity(out / RESULTS_DB), servers)
    if not figures:
        raise UsageError(f"{out / RESULTS_DB}: contains no comparison of servers: 'harness fidelity' makes one")
    document = FidelityDocument(schema=1, started_at=figures[-1].started_at, history=figures)
    printed(lambda: print_document(document) if json else _print_history(figures[-1:] if quiet else figures))


def _print(document: FidelityDocument, folder: Path, *, quiet: bool) -> None:
    console = Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
    for one in document.servers:
        console.print(figure_line(_figure(document, one)))
        for found in () if quiet else one.divergences:
            heading = f"documented: {found.known}" if found.known else f"divergence, seed {found.seed}:"
            console.print(heading)
            for step in () if found.known else found.steps:
                console.print(f"  {step}")
            if not found.known:
                console.print(f"  real:      {found.real}")
                console.print(f"  simulated: {found.simulated}")
    if quiet:
        return
    if document.interrupted:
        console.print("interrupted: this was compared by then")
    console.print(f"document: {folder / FILE}")


def _print_history(figures: Sequence[FidelityFigure]) -> None:
    console = Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
    for one in figures:
        console.print(f"{one.started_at:%Y-%m-%dT%H:%M:%SZ}  {figure_line(one)}")


def figure_line(one: FidelityFigure) -> str:
    """Return the figures of a server in one line."""
    divergences = counted(one.undocumented, "divergence")
    documented = f", {counted(one.documented, 'documented difference')}"
    return f"{one.version}: {one.steps:,} commands, {divergences}{documented if one.documented else ''}, {percent(one)}"


def percent(one: FidelityFigure) -> str:
    """Return the share of steps with the same answer. It is 100 % only if all are the same."""
    if not one.steps:
        return "nothing compared"
    thousandths = math.floor(100_000 * (one.steps - one.differing) / one.steps)
    return f"{thousandths / 1000:.15g} %"


app = single_command(fidelity_command)
