"""``harness hunt``: a search for the schedule in which a lock fails."""

from __future__ import annotations

import contextlib
import shlex
import sys
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console

from .errors import UsageError
from .options import kind_with, lock_options, named_options, positive, printed, progress_bar
from .plan import Plan
from .terminal import print_document

DEFAULTS: Final = Plan(lock="")


def hunt_command(
    lock: Annotated[str, typer.Argument(help="A name from 'harness list locks', or package.module:Class.")],
    faults: Annotated[
        str,
        typer.Option(metavar="A,B|none|N", help="Families that may strike (else all that can), and how many at most."),
    ] = "",
    budget: Annotated[str, typer.Option(metavar="DURATION", help="How long to search.")] = "60s",
    rounds: Annotated[int, typer.Option(help="So many rounds instead: the same find the same on any machine.")] = 0,
    schedules: Annotated[int, typer.Option(help="Tried in a round, at most.")] = 60,
    workers: Annotated[int, typer.Option(help="Processes of this machine.")] = 1,
    scheduler: Annotated[str, typer.Option(metavar="tcp://...", help="A Dask cluster's instead.")] = "",
    seed: int = 0,
    clients: Annotated[int, typer.Option(help="At most; 0 is three, or two with --exhaustive.")] = 0,
    nodes: Annotated[int, typer.Option(help="Servers; 0 is the usual number of the topology.")] = 0,
    topology: Annotated[str, typer.Option(help="single, independent, sentinel, replicated.")] = "",
    workload: Annotated[str, typer.Option(metavar="A,B", help="What clients do; else what the lock promises.")] = "",
    ttl: Annotated[str, typer.Option(metavar="DURATION", help="Of the lease; else the search chooses.")] = "",
    fencing: Annotated[str, typer.Option(help="on or off: does the resource check tokens?")] = DEFAULTS.fencing,
    look_for: Annotated[str, typer.Option(metavar="A,B", help="Checkers; see 'harness list checkers'.")] = "",
    lock_option: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Of the lock, repeatable.")
    ] = None,
    server_option: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Of the servers, repeatable.")
    ] = None,
    keep_going: Annotated[bool, typer.Option("--keep-going", help="Find one failure of each kind.")] = False,
    exhaustive: Annotated[bool, typer.Option("--exhaustive", help="Every interleaving of one section each.")] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Do not try failures of earlier hunts first.")] = False,
    out: Annotated[Path, typer.Option(help="The store.")] = Path("store"),
    json: Annotated[bool, typer.Option("--json", help="Print the result document and nothing else.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print the verdict only.")] = False,
) -> None:
    """Search the simulator's schedules for one in which a lock fails, and make it small enough to be told."""
    from .hunting.asked import Asked, names
    from .hunting.hunts import hunt

    families, most = _faults(faults)
    budget_s = positive("budget", budget)
    asked = Asked(
        lock=lock,
        faults=families,
        most_faults=2 if most is None else most,
        workloads=names(workload),
        look_for=names(look_for),
        kind=kind_with(lock, topology),
        nodes=nodes,
        clients=clients or (2 if exhaustive else 3),
        ttl=positive("ttl", ttl) if ttl else 0.0,
        fencing=fencing,
        lock_options=lock_options(lock_option),
        server_options=named_options("server-option", server_option),
        schedules=schedules,
        seed=seed,
    )
    if exhaustive:
        from .exhaust_cli import exhaust_command

        if rounds or workers != 1 or scheduler:
            raise UsageError("rounds, workers, scheduler: with --exhaustive there are no rounds to be shared out")
        raise typer.Exit(exhaust_command(asked, most, budget_s, everything=keep_going, json=json, quiet=quiet))
    console = Console(stderr=True, quiet=json or quiet, highlight=False)
    with contextlib.redirect_stdout(sys.stderr), progress_bar(console, f"hunt: {lock}") as progress:
        hunted = hunt(
            asked,
            budget_s=budget_s,
            rounds=rounds or None,
            workers=workers,
            scheduler=scheduler or None,
            keep_going=keep_going,
            fresh=fresh,
            store=out,
            command=shlex.join(["harness", *sys.argv[1:]]),
            progress=progress,
        )
    if json:
        print_document(hunted.document)
    else:
        printed(lambda: _print(str(hunted), quiet=quiet))
    raise typer.Exit(hunted.exit_status)


def _print(text: str, *, quiet: bool) -> None:
    first, _, rest = text.partition("\n")
    console = Console(highlight=False, emoji=False)  # a lock may be called mine:Lock
    console.print(
        first, style="bold red" if first.startswith("FAILURE") else "bold green", markup=False, soft_wrap=True
    )
    if rest and not quiet:
        console.print(rest, markup=False, soft_wrap=True)


def _faults(text: str) -> tuple[tuple[str, ...], int | None]:
    """Families, and how many faults there may be at most, if that is said: ``clock-jump,kill-amnesia,1``."""
    from .hunting.asked import names

    given = names(text)
    numbers = [name for name in given if name.isdecimal()]
    if len(numbers) > 1:
        raise UsageError(f"faults: one number says how many there may be, got {' and '.join(numbers)}")
    return tuple(name for name in given if not name.isdecimal()), int(numbers[0]) if numbers else None
