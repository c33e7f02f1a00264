"""What stands between a plan and its run: what the lock decides is filled in, a cluster is chosen, and what cannot be
done is refused before anything is started."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

import msgspec

import checkers.catalogue
from lock_impls.base import LockClass, LockInfo
from lock_impls.foreign import sharable

from .client_program import find_lock, find_workload
from .clusters import docker_kinds, kinds, server_options, sim_kinds
from .errors import EnvironmentLacking, UsageError, unknown_name
from .fault_specs import needs, refuse_overlap, refuse_unknown_words, scheduled
from .plan import FaultSpec, Plan
from .sim import patches

SOCKET: Final = "/var/run/docker.sock"
BACKENDS: Final = {"sim": sim_kinds.abilities, "docker": docker_kinds.abilities}
"""What faults may do to a cluster of a kind, by backend."""


def complete(plan: Plan) -> Plan:
    """The plan with what the lock decides filled in; raises what stands in its way before anything is started."""
    if plan.cluster not in BACKENDS:
        raise UsageError(f"cluster must be one of {', '.join(BACKENDS)}, got {plan.cluster!r}")
    if plan.cluster == "sim" and not patches.SUPPORTED:
        raise EnvironmentLacking(patches.NEEDS)
    lock = find_lock(plan.lock)
    plan = _with_own_faults(plan)
    kind = plan.kind or lock.info.kinds[0]
    if kind not in lock.info.kinds:
        raise UsageError(f"{plan.lock} runs on {' or '.join(lock.info.kinds)}, not on {kind!r}")
    if kind not in kinds.kinds():
        raise UsageError(f"there is no cluster of kind {kind!r}; there are {', '.join(kinds.kinds())}")
    if plan.cluster == "sim" and not lock.info.simulated:
        raise UsageError(
            f"{plan.lock} is a lock for {lock.info.language}, of which there is no simulation: --cluster docker"
        )
    if kind not in kinds.kinds(plan.cluster):
        other = next(iter(kinds.KINDS[kind].backends))
        raise UsageError(f"{plan.lock} runs on {kind}, and that is {kinds.KINDS[kind].about}: --cluster {other}")
    if plan.image and plan.cluster != "docker":
        raise UsageError("an image is for real servers: --image goes with --cluster docker")
    _refuse_unknown_options(plan, lock.info)
    _refuse_unknown_checkers(plan)
    _refuse_sharing(plan, lock)
    options = server_options.completed(kind, plan.server_options, plan.cluster)
    nodes = plan.nodes or kinds.default_nodes(kind)
    hosts = kinds.host_names(kind, nodes, plan.clients)
    _refuse_unreal_order(plan, hosts)
    for spec in plan.faults:
        _refuse_impossible(spec, plan.cluster, kind)
        _refuse_silence(spec, plan.workload)
        refuse_unknown_words(spec, hosts)
    settle = plan.settle
    if not settle and lock.info.overtime:  # who holds for longer is looked at for longer
        settle = min(plan.time_limit / 2, plan.settle_time + lock.info.overtime)
    return msgspec.structs.replace(plan, kind=kind, nodes=nodes, server_options=options, settle=settle)


def _with_own_faults(plan: Plan) -> Plan:
    """The plan with the faults that its workload brings along, each unless the plan has one of its kind."""
    schedule: tuple[dict[str, Any], ...] = getattr(find_workload(plan.workload), "schedule", ())
    there = {spec.fault for spec in plan.faults}
    try:
        specs = [scheduled(one, plan.ttl) for one in schedule]
    except (msgspec.ValidationError, AttributeError, TypeError) as error:
        raise UsageError(f"the schedule of workload {plan.workload!r}: {error}") from error
    brought = [spec for spec in specs if spec.fault not in there]
    return msgspec.structs.replace(plan, faults=(*plan.faults, *brought)).check() if brought else plan


def _refuse_unknown_options(plan: Plan, info: LockInfo) -> None:
    """A lock of the catalogue says which options it has; a user's own finds out by itself."""
    for name in plan.lock_options:
        if (":" not in plan.lock or info.runtime) and name not in info.options:
            if not info.options:
                raise UsageError(f"{plan.lock} has no lock_options, got {name!r}")
            raise unknown_name(f"lock_options of {plan.lock}", name, [*info.options])


def _refuse_sharing(plan: Plan, lock: LockClass) -> None:
    """A lock that is always one client's alone has nothing for those who want to share it."""
    if getattr(find_workload(plan.workload), "shared", False) and not sharable(lock):
        raise UsageError(
            f"workload {plan.workload!r} needs a lock that can be held by several at once, and {plan.lock} has no "
            "acquire_shared()"
        )


def _refuse_unknown_checkers(plan: Plan) -> None:
    """Before the run: what nobody checks would never be as expected."""
    named = () if plan.expect is None else (*plan.expect.invalid, *plan.expect.valid, *plan.expect.ignored)
    for name in named:
        try:
            checkers.catalogue.find(name)
        except checkers.catalogue.UnknownChecker as error:
            raise UsageError(f"expect: {error}") from error


def _refuse_impossible(spec: FaultSpec, backend: str, kind: str) -> None:
    """Say before the run what a cluster cannot do, instead of skipping it in silence."""
    refuse_overlap(spec)
    able = BACKENDS[backend](kind)
    missing = sorted(needs(spec) - able)
    if not missing:
        return
    if spec.on is not None and missing == ["tap"]:
        raise UsageError(
            f"on = {spec.on!r}: nobody reads along between real clients and servers; "
            "--cluster sim can, or use an event of a client, such as 'acquire'"
        )
    can = [f"--cluster {other}" for other, abilities in BACKENDS.items() if needs(spec) <= abilities(kind)]
    family = [other for other in kinds.kinds(backend) if kinds.KINDS[other].family == kinds.KINDS[kind].family]
    can += [other for other in family if needs(spec) <= BACKENDS[backend](other)]
    hint = f"{can[0]} can" if can else f"it can: {', '.join(sorted(able))}"
    raise UsageError(f"nemesis {spec.fault!r} needs {', '.join(missing)}, which {kind} on {backend} cannot do; {hint}")


def _refuse_unreal_order(plan: Plan, hosts: list[str]) -> None:
    """Only the simulator decides which message comes late, and who runs next."""
    if plan.cluster != "sim":
        for name in ("delays", "shuffle"):
            if getattr(plan, name):
                raise UsageError(f"{name}: only the simulator decides that; --cluster sim, or leave it out")
    for delay in plan.delays:
        for name in (delay.source, delay.target):
            if name not in (*hosts, "resource"):
                raise unknown_name("host in delays", name, [*hosts, "resource"])


def _refuse_silence(spec: FaultSpec, workload: str) -> None:
    """An event that this workload never causes would be waited for in vain."""
    if getattr(find_workload(workload), "locks", True):
        return
    event = (spec.on or "").partition(":")[0]
    if event in ("acquire", "check", "extend", "release"):
        raise UsageError(f"fault {spec.fault!r}: workload {workload!r} takes no lock, and on = {spec.on!r} never comes")


def choose(plan: Plan) -> tuple[Plan, str]:
    """The plan on docker where an engine answers and the plan can be run there, else on the simulator; and why."""
    missing = no_engine()
    try:
        real = complete(msgspec.structs.replace(plan, cluster="docker"))
    except UsageError as error:
        return complete(msgspec.structs.replace(plan, cluster="sim")), missing or str(error)
    if not missing:
        return real, "a Docker engine answers"
    try:
        return complete(msgspec.structs.replace(plan, cluster="sim")), missing
    except UsageError as error:  # an engine is what it lacks: docker could have done it
        raise EnvironmentLacking(f"{missing} ('harness doctor' says more), and without one: {error}") from error


def no_engine() -> str:
    """Why there is no engine, or nothing. Asked without the SDK first, which takes its time to load."""
    if "DOCKER_HOST" not in os.environ and not Path(SOCKET).exists():
        return "no Docker engine here"
    from .containers.engine import answers

    return "" if answers() else "no Docker engine answers"
