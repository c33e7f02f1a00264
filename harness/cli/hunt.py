"""``harness hunt``: search for a schedule of faults and delays in which a lock fails."""

from __future__ import annotations

import contextlib
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.console import Console

from harness.errors import UsageError
from harness.plan import Plan
from harness.run.store import REPORT
from harness.wording import first_sentence

from .annotations import annotate, lock_place
from .completion import complete_nemeses
from .links import linked
from .options import (
    STORE,
    AcceptOption,
    JsonOption,
    KindOption,
    LeaseOption,
    LockArgument,
    OutOption,
    PythonOption,
    QuietOption,
    RequireOption,
    SchedulerOption,
    TrustOption,
    WithOption,
    WorkersOption,
    chosen_kind,
    environment_progress,
    lock_options,
    named_options,
    positive,
    printed,
    progress_bar,
    single_command,
    worker_count,
)
from .terminal import print_document
from .versions import VersionsOption, compare_and_print

if TYPE_CHECKING:
    from harness.search.hunt import HuntResult
    from harness.search.request import HuntRequest

DEFAULTS: Final = Plan(lock="")


def hunt_command(
    lock: LockArgument,
    faults: Annotated[
        str,
        typer.Option(
            metavar="A,B|none|N",
            help="Faults to use (default: all that the cluster supports), and the most at once.",
            autocompletion=complete_nemeses,
        ),
    ] = "",
    budget: Annotated[str, typer.Option(metavar="DURATION", help="How long to search.")] = "60s",
    rounds: Annotated[
        int, typer.Option(help="Stop after this many rounds instead; gives the same result on any machine.")
    ] = 0,
    schedules: Annotated[int, typer.Option(help="Most schedules to try in a round.")] = 60,
    workers: WorkersOption = 1,
    scheduler: SchedulerOption = "",
    seed: int = 0,
    clients: Annotated[int, typer.Option(help="Most clients; 0: three, or two with --exhaustive.")] = 0,
    nodes: Annotated[int, typer.Option(help="Number of servers; 0: the usual number for the topology.")] = 0,
    topology: Annotated[str, typer.Option(help="Servers: single, independent, sentinel, cluster or replicated.")] = "",
    kind: KindOption = "",
    workload: Annotated[
        str, typer.Option(metavar="A,B", help="What clients do; default: what tests the lock's promises.")
    ] = "",
    ttl: Annotated[str, typer.Option(metavar="DURATION", help="Lease time; default: the search chooses.")] = "",
    fencing: Annotated[
        str, typer.Option(help="Whether the resource checks fencing tokens: on or off.")
    ] = DEFAULTS.fencing,
    require: RequireOption = "",
    accept: AcceptOption = "",
    look_for: Annotated[
        str, typer.Option(metavar="A,B", help="Search only for violations that these checkers report.")
    ] = "",
    lease: LeaseOption = "",
    lock_option: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="An option of the lock; repeatable.")
    ] = None,
    server_option: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="An option of the servers; repeatable.")
    ] = None,
    keep_going: Annotated[bool, typer.Option("--keep-going", help="Find one failure of each kind.")] = False,
    stop_at_first: Annotated[
        bool, typer.Option("--stop-at-first", help="End with the first failure, even if it is a known limit.")
    ] = False,
    exhaustive: Annotated[
        bool, typer.Option("--exhaustive", help="Try every interleaving of one critical section each.")
    ] = False,
    with_: WithOption = None,
    python: PythonOption = "",
    versions: VersionsOption = "",
    fresh: Annotated[bool, typer.Option("--fresh", help="Do not begin with the failures of earlier hunts.")] = False,
    trust: TrustOption = False,
    out: OutOption = STORE,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Search the simulator's schedules for one in which a lock fails, and shrink it to a short story."""
    from harness.run.processes.interpreter import interpreter_of
    from harness.search.request import HuntRequest, names

    families, most = _faults(faults)
    budget_s = positive("budget", budget)
    request = HuntRequest(
        lock=lock,
        faults=families,
        most_faults=2 if most is None else most,
        workloads=names(workload),
        look_for=names(look_for),
        require=names(require),
        accept=names(accept),
        requires=tuple(with_ or ()),
        python=python,
        kind=chosen_kind(lock, kind, topology, with_, python),
        nodes=nodes,
        clients=clients or (2 if exhaustive else 3),
        ttl=positive("ttl", ttl) if ttl else 0.0,
        fencing=fencing,
        lease=lease,
        lock_options=lock_options(lock_option),
        server_options=named_options("server-option", server_option),
        schedules=schedules,
        seed=seed,
        stop_at_first=stop_at_first,
    )
    interpreter_of(request.plan(), environment_progress, search=True)
    output = _Output(out, json=json, quiet=quiet)
    if versions:
        raise typer.Exit(_hunt_releases(request, versions, budget_s, output))
    if exhaustive:
        if rounds or workers != 1 or scheduler:
            raise UsageError("rounds, workers, scheduler: with --exhaustive there are no rounds to be shared out")
        raise typer.Exit(_exhaust(request, most, budget_s, output, everything=keep_going))
    options = {"rounds": rounds or None, "workers": worker_count(workers), "scheduler": scheduler or None}
    options |= {"keep_going": keep_going, "fresh": fresh, "trust": trust}
    raise typer.Exit(_hunt_and_print(request, budget_s, output, options))


@dataclass(frozen=True, slots=True)
class _Output:
    """Where results are stored, and what is printed."""

    store: Path
    json: bool
    quiet: bool


def _hunt_and_print(request: HuntRequest, budget_s: float, output: _Output, options: dict[str, Any]) -> int:
    """Search, print the result, and return the exit status. ``options`` are further arguments of the hunt."""
    from harness.search.hunt import hunt

    console = Console(stderr=True, quiet=output.json or output.quiet, highlight=False)
    with contextlib.redirect_stdout(sys.stderr), progress_bar(console, f"hunt: {request.lock}") as progress:
        result = hunt(
            request,
            budget_s=budget_s,
            store=output.store,
            command=shlex.join(["harness", *sys.argv[1:]]),
            progress=progress,
            **options,
        )
    _annotate(result)
    printed(lambda: print_document(result.document) if output.json else _print(str(result), quiet=output.quiet))
    return result.exit_status


def _annotate(result: HuntResult) -> None:
    """Annotate each failure that counts, at the class of the lock."""
    lock = result.results.lock
    for found in result.results.findings if result.results.failed else ():
        report = Path(found.folder) / REPORT if found.folder else None
        annotate(False, lock, first_sentence(found.summary) or ", ".join(found.broken), report, lock_place(lock))


def _exhaust(
    request: HuntRequest, most_faults: int | None, budget_s: float, output: _Output, *, everything: bool
) -> int:
    """Try every interleaving, print the result, and return the exit status."""
    from .hunt_exhaustive import exhaust_command

    return exhaust_command(request, most_faults, budget_s, everything=everything, json=output.json, quiet=output.quiet)


def _hunt_releases(request: HuntRequest, versions: str, budget_s: float, output: _Output) -> int:
    """Try the schedules of a request with several releases, until the budget is used; return the exit status."""
    from harness.documents.versions import VersionPlan
    from harness.search.drawn import draw

    plans = [
        VersionPlan(name=f"schedule {n}", plan=plan, seeds=(plan.seed,)) for n, plan in enumerate(draw(request), 1)
    ]
    return compare_and_print(plans, versions, output.store, json=output.json, quiet=output.quiet, budget_s=budget_s)


def _print(text: str, *, quiet: bool) -> None:
    first, _, rest = text.partition("\n")
    console = Console(highlight=False, emoji=False)  # otherwise a lock such as :key:Lock would show an emoji
    console.print(
        first,
        style="bold red" if first.startswith("FAILURE") or first.startswith("KNOWN LIMIT FOUND:") else "bold green",
        markup=False,
        soft_wrap=True,
    )
    for line in rest.splitlines() if rest and not quiet else ():
        label, _, path = line.partition(": ")
        if label == "report":
            console.print(f"report: {linked(Path(path))}", markup=False, soft_wrap=True)
        else:
            console.print(line, markup=False, soft_wrap=True)


def _faults(text: str) -> tuple[tuple[str, ...], int | None]:
    """Return the names of faults and the number, if any, in a text such as ``clock-jump,kill-amnesia,1``."""
    from harness.search.request import names

    given = names(text)
    numbers = [name for name in given if name.isdecimal()]
    if len(numbers) > 1:
        raise UsageError(f"faults: one number says how many there may be, got {' and '.join(numbers)}")
    return tuple(name for name in given if not name.isdecimal()), int(numbers[0]) if numbers else None


app = single_command(hunt_command)
