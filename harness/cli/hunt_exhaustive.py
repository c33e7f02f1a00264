"""``harness hunt --exhaustive``: try every interleaving of a few clients and faults."""

from __future__ import annotations

import contextlib
import sys
from typing import Final

from rich.console import Console

from harness.errors import UNKNOWN, VALID, VIOLATION, UsageError
from harness.faults.pause import ClientPause
from harness.run.processes.signals import sigterm_interrupts
from harness.search.exhaustive import ExhaustiveResult, exhaust
from harness.search.request import HuntRequest
from harness.search.scope import Scope
from harness.wording import LIMITS

from .options import printed, progress_bar
from .terminal import print_document

TTL: Final = 2.0
FAULTS: Final = (ClientPause.name,)


def exhaust_command(
    request: HuntRequest, most_faults: int | None, budget_s: float, *, everything: bool, json: bool, quiet: bool
) -> int:
    """Search the scope that a hunt's options describe: to its first violation, or completely with ``everything``.

    Return 1 if there is a violation, be it a documented limit of the lock unless those are accepted, and 3 if time was
    up before the search was complete."""
    scope = _scope(request, most_faults)
    console = Console(stderr=True, quiet=json or quiet, highlight=False)
    with (
        contextlib.redirect_stdout(sys.stderr),
        sigterm_interrupts(),
        progress_bar(console, f"every interleaving: {scope.lock}") as progress,
    ):
        found = exhaust(
            scope,
            first=not everything,
            stop_at_limits=request.stops_at_limits,
            budget_s=budget_s,
            progress=lambda count, cut: progress(0.0, f"running: {count:,} interleavings · {cut:,} redundant"),
        )
    if json:
        printed(lambda: print_document(found.document()))
    else:
        printed(lambda: _print(found, quiet=quiet))
    if found.violation is not None or (found.known_limits and "known-limits" not in request.accept):
        return VIOLATION
    return UNKNOWN if found.truncated else VALID


def _scope(request: HuntRequest, most_faults: int | None) -> Scope:
    """Return the scope of a hunt's options; raises UsageError if they choose a workload."""
    if request.workloads:
        raise UsageError(
            "workload: with --exhaustive each client goes through one section: acquire, read, write, release"
        )
    return Scope(
        lock=request.lock,
        clients=request.clients,
        faults=1 if most_faults is None else most_faults,
        families=request.faults or FAULTS,
        ttl=request.ttl or TTL,
        kind=request.kind,
        nodes=request.nodes,
        fencing=request.fencing,  # type: ignore[arg-type]  # checked with the plan
        lock_options=request.lock_options,
        server_options=request.server_options,
        requires=request.requires,
        python=request.python,
        lease=request.lease,
        look_for=request.look_for,
        seed=request.seed,
    )


def _print(found: ExhaustiveResult, *, quiet: bool) -> None:
    console = Console(highlight=False, emoji=False)
    colour = "green" if found.violation is None else "red"
    console.print(found.sentence(), style=f"bold {colour}", markup=False, soft_wrap=True)
    if quiet:
        return
    for broken in (*([] if found.violation is None else [found.violation]), *found.known_limits):
        if broken.limit:
            limit = f"Known limit ({LIMITS[broken.limit]}), first in interleaving {broken.number:,}:"
            console.print(limit, markup=False, soft_wrap=True)
        for number, step in enumerate(broken.steps, 1):
            console.print(f"  {number}. {step}", markup=False, soft_wrap=True)
        console.print(broken.why, markup=False, soft_wrap=True)
    console.print(
        f"{found.interleavings:,} interleavings, {found.redundant:,} redundant executions cut short, at most "
        f"{found.deepest} steps, {found.choices:,} points of choice, {found.seconds:.1f} s",
        soft_wrap=True,
    )
