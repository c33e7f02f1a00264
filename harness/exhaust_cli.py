"""``harness hunt --exhaustive``: every interleaving in a small scope."""

from __future__ import annotations

import contextlib
import sys
from typing import Final

import msgspec
from rich.console import Console

from .errors import UNKNOWN, VALID, VIOLATION, UsageError
from .hunting.asked import Asked
from .hunting.exhaustive import Exhausted, Scope, exhaust
from .lanes import terminable
from .options import printed, progress_bar
from .terminal import print_document

TTL: Final = 2.0
FAMILIES: Final = ("client-pause",)


def exhaust_command(
    asked: Asked, most_faults: int | None, budget_s: float, *, everything: bool, json: bool, quiet: bool
) -> int:
    """Search the scope that a hunt's options describe; to its first violation, or through ``everything``. The exit
    status is 3 if time was up before it was searched wholly."""
    if asked.workloads:
        raise UsageError(
            "workload: with --exhaustive each client goes through one section: acquire, read, write, release"
        )
    scope = Scope(
        lock=asked.lock,
        clients=asked.clients,
        faults=1 if most_faults is None else most_faults,
        families=asked.faults or FAMILIES,
        ttl=asked.ttl or TTL,
        kind=asked.kind,
        nodes=asked.nodes,
        fencing=asked.fencing,  # type: ignore[arg-type]  # checked with the plan
        lock_options=asked.lock_options,
        server_options=asked.server_options,
        look_for=asked.look_for,
        seed=asked.seed,
    )
    console = Console(stderr=True, quiet=json or quiet, highlight=False)
    with (
        contextlib.redirect_stdout(sys.stderr),
        terminable(),
        progress_bar(console, f"every interleaving: {scope.lock}") as progress,
    ):
        found = exhaust(
            scope,
            first=not everything,
            budget_s=budget_s,
            progress=lambda count, cut: progress(0.0, f"running: {count:,} interleavings · {cut:,} redundant"),
        )
    if json:
        print_document(msgspec.to_builtins(found))
    else:
        printed(lambda: _print(found, quiet=quiet))
    if found.violation is not None:
        return VIOLATION
    return UNKNOWN if found.truncated else VALID


def _print(found: Exhausted, *, quiet: bool) -> None:
    console = Console(highlight=False, emoji=False)
    broken = found.violation
    colour = "green" if broken is None else "red"
    console.print(found.sentence(), style=f"bold {colour}", markup=False, soft_wrap=True)
    if quiet:
        return
    if broken is not None:
        for number, step in enumerate(broken.steps, 1):
            console.print(f"  {number}. {step}", markup=False, soft_wrap=True)
        console.print(broken.why, markup=False, soft_wrap=True)
    console.print(
        f"{found.interleavings:,} interleavings, {found.redundant:,} executions cut as repetitions, at most "
        f"{found.deepest} steps, {found.choices:,} moments with a choice, {found.seconds:.1f} s",
        soft_wrap=True,
    )
