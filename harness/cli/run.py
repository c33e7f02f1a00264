"""``harness run``: run a lock on a cluster under faults, once or with many seeds."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import typer

from harness import plan as plans
from harness.errors import UsageError
from harness.plan import Plan

from .options import (
    AcceptOption,
    KindOption,
    LeaseOption,
    PythonOption,
    RequireOption,
    ServersOption,
    WithOption,
    YesOption,
    chosen_kind,
    lock_options,
    named_servers,
    names_in,
    printed,
    single_command,
)
from .versions import VersionsOption, compare_and_print

if TYPE_CHECKING:
    from harness.plan import FaultSpec

DEFAULTS = Plan(lock="")


def _duration(text: str) -> float:
    try:
        return plans.seconds(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


Ttl = Annotated[float, typer.Option(parser=_duration, metavar="DURATION", help="Lease time, such as 2s or 150ms.")]
Hold = Annotated[float, typer.Option(parser=_duration, metavar="DURATION", help="How long a critical section takes.")]
TimeLimit = Annotated[
    float | None,
    typer.Option(
        parser=_duration,
        metavar="DURATION",
        help="Duration of the run; default: 30s, with --servers as long as the faults need.",
    ),
]
SERVERS_TIME_LIMIT_TTLS: Final = 6
"""Least duration of a run on servers of the user's, where it is real time, in ttls."""


def run_command(
    lock: Annotated[str, typer.Argument(help="A name from 'harness list locks', or package.module:Class.")],
    nemesis: Annotated[str, typer.Option(help="Faults to inject, with commas; see 'harness list nemeses'.")] = "none",
    cluster: Annotated[str, typer.Option(help="sim, docker, or auto: docker where an engine answers.")] = "sim",
    servers: ServersOption = None,
    yes: YesOption = False,
    image: Annotated[str, typer.Option(help="On docker: image of the servers, such as redis:7.4.")] = "",
    topology: Annotated[
        str, typer.Option(help="single, independent, sentinel or replicated; default: the lock's.")
    ] = "",
    kind: KindOption = "",
    workload: Annotated[str, typer.Option(help="What clients do; see 'harness list workloads'.")] = DEFAULTS.workload,
    checker: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A further checker, such as package.module:Class; repeatable."),
    ] = None,
    clients: Annotated[int, typer.Option(help="Number of clients that compete for the lock.")] = DEFAULTS.clients,
    nodes: Annotated[int, typer.Option(help="Number of servers; 0: the usual number for the topology.")] = 0,
    keys: Annotated[int, typer.Option(help="Number of locks with different names.")] = DEFAULTS.keys,
    ttl: Ttl = str(DEFAULTS.ttl),  # type: ignore[assignment]
    hold: Hold = str(DEFAULTS.hold),  # type: ignore[assignment]
    discipline: Annotated[
        str, typer.Option(help="trusting, or checking: clients check the lock before a write.")
    ] = DEFAULTS.discipline,
    fencing: Annotated[
        str, typer.Option(help="Whether the resource checks fencing tokens: on or off.")
    ] = DEFAULTS.fencing,
    require: RequireOption = "",
    accept: AcceptOption = "",
    lease: LeaseOption = "",
    lock_option: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="An option of the lock, repeatable; see 'harness show LOCK'."),
    ] = None,
    with_: WithOption = None,
    python: PythonOption = "",
    versions: VersionsOption = "",
    allow_shared_files: Annotated[
        bool, typer.Option("--allow-shared-files", help="Accept clients that use the same file.")
    ] = False,
    time_limit: TimeLimit = None,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    runs: Annotated[int, typer.Option(help="Number of runs, with consecutive seeds.")] = 1,
    stop_on_violation: Annotated[
        bool, typer.Option("--stop-on-violation", help="End each run as soon as two clients hold a lock at once.")
    ] = False,
    hold_on_violation: Annotated[
        bool,
        typer.Option(
            "--hold-on-violation",
            help="On docker: freeze all containers as soon as two clients hold a lock at once, and leave them.",
        ),
    ] = False,
    record_wire: Annotated[
        bool, typer.Option("--record-wire", help="On docker: also store what the servers receive and send.")
    ] = False,
    out: Annotated[Path, typer.Option(help="Folder in which results are stored.")] = Path("store"),
    json: Annotated[bool, typer.Option("--json", help="Print the result document and nothing else.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print the verdict only.")] = False,
) -> None:
    """Run a lock against a cluster while the nemesis injects faults, check the history and write a report."""
    from harness.run import workers

    own, cluster = named_servers(servers, cluster)
    if cluster == "sim" and not python and not with_:
        workers.start_early()
    from .run_shared import complete_for

    plan = plans.decode(
        {
            "lock": lock,
            "kind": chosen_kind(lock, kind, topology, with_, python),
            **{"workload": workload, "clients": clients, "nodes": nodes, "keys": keys, "ttl": ttl, "hold": hold},
            **{"discipline": discipline, "fencing": fencing, "seed": seed},
            "time_limit": DEFAULTS.time_limit if time_limit is None else time_limit,
            **({"cluster": cluster, "servers": own} if own else {}),
            **{"lock_options": lock_options(lock_option), "lease": lease},
            **{"checkers": checker or [], "require": names_in(require), "accept": names_in(accept)},
            **{"stop_on_violation": stop_on_violation, "hold_on_violation": hold_on_violation},
            **{"requires": with_ or [], "python": python, "shared_files": allow_shared_files},
        }
    )
    plan = msgspec.structs.replace(plan, faults=tuple(faults_named(nemesis, plan.ttl)), image=image)
    if own and time_limit is None:
        plan = msgspec.structs.replace(plan, time_limit=shortest_time_limit(plan))
    plan, reason = complete_for(plan, cluster)
    if runs < 1:
        raise UsageError(f"runs must be at least 1, got {runs}")
    if hold_on_violation and (runs > 1 or versions):
        raise UsageError("--hold-on-violation is for one run: without --runs and --versions")
    if record_wire and plan.cluster != "docker":
        raise UsageError("--record-wire needs real servers: --cluster docker")
    if record_wire and (runs > 1 or versions):
        raise UsageError("--record-wire is for one run: without --runs and --versions")
    if versions and own:
        raise UsageError("--versions goes with --cluster sim or docker, not with --servers")
    if versions:
        from harness.studies.compare_releases import named_plan

        named = named_plan(nemesis, plan, runs)
        raise typer.Exit(compare_and_print([named], versions, out, json=json, quiet=quiet))
    raise typer.Exit(
        _run_and_print(plan, runs, out, reason, json=json, quiet=quiet, record_wire=record_wire, remote_servers=yes)
    )


def _run_and_print(
    plan: Plan,
    runs: int,
    out: Path,
    reason: str,
    *,
    json: bool,
    quiet: bool,
    record_wire: bool,
    remote_servers: bool,
) -> int:
    """Run a completed plan once or with several seeds, and return the exit status."""
    from .run_shared import run_and_print, run_seeds_and_print, runs_document, seed_run
    from .terminal import print_document

    command = shlex.join(["harness", *sys.argv[1:]])
    if runs > 1:
        return run_seeds_and_print(
            plan, runs, out, command, reason, json=json, quiet=quiet, remote_servers=remote_servers
        )
    result = run_and_print(
        plan, out, command, reason, json=False, quiet=quiet or json, silent=json, record_wire=record_wire,
        remote_servers=remote_servers,
    )  # fmt: skip
    if json:
        printed(lambda: print_document(runs_document([seed_run(result)], runs, result.exit_status)))
    return result.exit_status


def shortest_time_limit(plan: Plan) -> float:
    """Return the seconds in which each of a plan's faults strikes once, and the lock settles afterwards."""
    settled = plan.settling_time
    strikes = [spec.every + (spec.for_ or 0.0) + settled for spec in plan.faults if spec.every and spec.on is None]
    return max(SERVERS_TIME_LIMIT_TTLS * plan.ttl, settled + plan.ttl, *strikes)


def faults_named(nemesis: str, ttl: float) -> Iterator[FaultSpec]:
    from harness.faults.catalogue import default_specs

    for name in nemesis.split(","):
        yield from default_specs(name.strip(), ttl)


app = single_command(run_command)
