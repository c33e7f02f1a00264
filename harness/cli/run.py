"""``harness run``: run a lock on a cluster under faults, once or with many seeds."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
import typer

from harness import plan as plans
from harness.documents.messages import TraceMode
from harness.errors import UsageError
from harness.plan import Hook, Plan
from harness.plan.hooks import hooks_of
from harness.plan.project import project_hooks

from . import run_options
from .annotations import annotate_result
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
    SeedOption,
    ServersOption,
    WithOption,
    WorkloadOption,
    YesOption,
    chosen_kind,
    lock_options,
    named_hosts,
    named_servers,
    names_in,
    printed,
    single_command,
)
from .versions import VersionsOption, compare_and_print

if TYPE_CHECKING:
    from harness.plan import FaultSpec

DEFAULTS = Plan(lock="")


SERVERS_TIME_LIMIT_TTLS: Final = 6
"""Least duration of a run on servers of the user's, where it is real time, in ttls."""


def run_command(
    lock: LockArgument,
    nemesis: run_options.Nemesis = "none",
    cluster: run_options.Cluster = "sim",
    servers: ServersOption = None,
    yes: YesOption = False,
    hosts: run_options.Hosts = "",
    client_hosts: run_options.ClientHosts = "",
    client_python: run_options.ClientPython = "",
    host_setup: run_options.HostSetup = "",
    ssh_config: run_options.SshConfig = "",
    image: run_options.Image = "",
    topology: run_options.Topology = "",
    kind: KindOption = "",
    workload: WorkloadOption = DEFAULTS.workload,
    checker: run_options.Checker = None,
    clients: run_options.Clients = DEFAULTS.clients,
    nodes: run_options.Nodes = 0,
    keys: run_options.Keys = DEFAULTS.keys,
    ttl: run_options.Ttl = str(DEFAULTS.ttl),  # type: ignore[assignment]
    hold: run_options.Hold = str(DEFAULTS.hold),  # type: ignore[assignment]
    discipline: run_options.Discipline = DEFAULTS.discipline,
    fencing: run_options.Fencing = DEFAULTS.fencing,
    require: RequireOption = "",
    accept: AcceptOption = "",
    lease: LeaseOption = "",
    lock_option: run_options.NamedLockOption = None,
    with_: WithOption = None,
    python: PythonOption = "",
    versions: VersionsOption = "",
    allow_shared_files: run_options.SharedFiles = False,
    time_limit: run_options.TimeLimit = None,
    seed: SeedOption = 0,
    runs: run_options.Runs = 1,
    stop_on_violation: run_options.StopOnViolation = False,
    hold_on_violation: run_options.HoldOnViolation = False,
    record_wire: run_options.RecordWire = False,
    trace: run_options.Trace = "violations",
    out: OutOption = STORE,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Run a lock against a cluster while the nemesis injects faults, check the history and write a report."""
    from harness.run.processes import workers

    own, cluster = named_servers(servers, cluster)
    machines = named_hosts(
        cluster, hosts, client_hosts=client_hosts, client_python=client_python, host_setup=host_setup,
        ssh_config=ssh_config,
    )  # fmt: skip
    if cluster == "sim" and not python and not with_:
        workers.start_early()
    plan = plans.decode(
        {
            "lock": lock,
            "kind": chosen_kind(lock, kind, topology, with_, python),
            **{"workload": workload, "clients": clients, "nodes": nodes, "keys": keys, "ttl": ttl, "hold": hold},
            **{"discipline": discipline, "fencing": fencing, "seed": seed},
            "time_limit": DEFAULTS.time_limit if time_limit is None else time_limit,
            **({"cluster": cluster, "servers": own} if own else machines),
            **{"lock_options": lock_options(lock_option), "lease": lease},
            **{"checkers": checker or [], "require": names_in(require), "accept": names_in(accept)},
            **{"stop_on_violation": stop_on_violation, "hold_on_violation": hold_on_violation},
            **{"requires": with_ or [], "python": python, "shared_files": allow_shared_files},
        }
    )
    hooks = project_hooks() if own else {}
    faults = tuple(faults_named(nemesis, plan.ttl, hooks))
    plan = msgspec.structs.replace(plan, faults=faults, image=image, hooks=hooks_of(hooks, faults))
    plan, reason = _completed(plan, cluster, shorten=bool(own or machines) and time_limit is None)
    _refuse_contradictions(plan, runs, versions, record_wire=record_wire)
    kept = run_options.trace_mode(trace, plan)
    if versions:
        raise typer.Exit(_compare_releases(nemesis, plan, runs, versions, out, json=json, quiet=quiet))
    raise typer.Exit(
        _run_and_print(
            plan, runs, out, reason, json=json, quiet=quiet, record_wire=record_wire, trace=kept, remote_servers=yes
        )
    )


def _completed(plan: Plan, cluster: str, *, shorten: bool) -> tuple[Plan, str]:
    """Return the plan completed for ``cluster``, and why that cluster was chosen. With ``shorten`` the run takes no
    longer than its faults need."""
    from .run_shared import complete_for

    if shorten:
        plan = msgspec.structs.replace(plan, time_limit=shortest_time_limit(plan))
    return complete_for(plan, cluster)


def _refuse_contradictions(plan: Plan, runs: int, versions: str, *, record_wire: bool) -> None:
    """Raise UsageError for options that cannot be given together."""
    if runs < 1:
        raise UsageError(f"runs must be at least 1, got {runs}")
    if plan.hold_on_violation and (runs > 1 or versions):
        raise UsageError("--hold-on-violation is for one run: without --runs and --versions")
    if record_wire and plan.cluster != "docker":
        raise UsageError("--record-wire needs real servers: --cluster docker")
    if record_wire and (runs > 1 or versions):
        raise UsageError("--record-wire is for one run: without --runs and --versions")
    if versions and (plan.servers or plan.hosts):
        raise UsageError("--versions goes with --cluster sim or docker, not with --servers or --hosts")


def _compare_releases(nemesis: str, plan: Plan, runs: int, versions: str, out: Path, *, json: bool, quiet: bool) -> int:
    """Run a completed plan with several releases of a library, and return the exit status."""
    from harness.studies.compare_releases import named_plan

    return compare_and_print([named_plan(nemesis, plan, runs)], versions, out, json=json, quiet=quiet)


def _run_and_print(
    plan: Plan,
    runs: int,
    out: Path,
    reason: str,
    *,
    json: bool,
    quiet: bool,
    record_wire: bool,
    trace: TraceMode,
    remote_servers: bool,
) -> int:
    """Run a completed plan once or with several seeds, and return the exit status."""
    from .run_shared import run_and_print, run_seeds_and_print, runs_document, seed_run
    from .terminal import print_document

    command = shlex.join(["harness", *sys.argv[1:]])
    if runs > 1:
        return run_seeds_and_print(
            plan, runs, out, command, reason, json=json, quiet=quiet, trace=trace, remote_servers=remote_servers
        )
    result = run_and_print(
        plan, out, command, reason, json=False, quiet=quiet or json, silent=json, record_wire=record_wire,
        trace=trace, remote_servers=remote_servers,
    )  # fmt: skip
    annotate_result(result)
    if json:
        printed(lambda: print_document(runs_document([seed_run(result)], runs, result.exit_status)))
    return result.exit_status


def shortest_time_limit(plan: Plan) -> float:
    """Return the seconds in which each of a plan's faults strikes once, and the lock settles afterwards."""
    settled = plan.settling_time
    strikes = [spec.every + (spec.for_ or 0.0) + settled for spec in plan.faults if spec.every and spec.on is None]
    return max(SERVERS_TIME_LIMIT_TTLS * plan.ttl, settled + plan.ttl, *strikes)


def faults_named(nemesis: str, ttl: float, hooks: Mapping[str, Hook] | None = None) -> Iterator[FaultSpec]:
    """Yield the specs of the faults in a text with commas. A fault with a hook of the user's brings along no other
    fault, unless that has a hook, too."""
    from harness.faults.catalogue import default_specs

    for name in map(str.strip, nemesis.split(",")):
        for spec in default_specs(name, ttl):
            if not hooks or name not in hooks or spec.fault in hooks:
                yield spec


app = single_command(run_command)
