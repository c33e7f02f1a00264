"""Completion of plans: fill in what the lock decides, choose a cluster, and refuse a plan that cannot be run.

All of it happens before anything is started.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

import msgspec

from harness.checkers import catalogue as checker_catalogue
from harness.clusters import kinds, server_options
from harness.clusters.abilities import abilities_of, lacking
from harness.clusters.abilities.servers import DEFAULT_RELEASE
from harness.clusters.kinds.releases import ALL_RELEASES, NEEDS_OWN_IMAGE
from harness.clusters.sim.cluster import SimCluster
from harness.documents.lock import LockFacts
from harness.errors import EnvironmentLacking, MissingExtra, UsageError, missing_extra, unknown_name
from harness.faults.catalogue import build_fault, fault_class, needs, refuse_overlap, refuse_unknown_words, scheduled
from harness.plan import BACKENDS, SERVERS, SSH, FaultSpec, Plan
from harness.run.processes.interpreter import interpreter_of
from harness.sim import patches
from harness.worker.client_program import find_workload

from .bounds import refuse_endless
from .lock_facts import find_facts
from .servers import hosts_of_servers, how_to_state, kind_of_servers, refuse_faults_of_servers
from .ssh import nodes_over_ssh, refuse_faults_over_ssh
from .stated_lease import stated_lease_s

SOCKET: Final = "/var/run/docker.sock"
METHODS: Final = {
    "context": "a lock that can be used in 'with' (__enter__, __aenter__ or context)",
    "extend": "a lock that can prolong its lease (extend or reacquire)",
}
"""Optional methods of locks, in words."""


def part_types(backend: str, kind: str) -> tuple[type, ...]:
    """Return the classes of the parts of a cluster of this kind, whose protocols are its abilities; none if there is no
    such cluster. Only that backend's modules are imported: a simulated run must not load the Docker SDK.

    Raises MissingExtra if a library is needed that an extra installs.
    """
    try:
        return _part_types(backend, kind)
    except ImportError as error:
        raise missing_extra(error) or error from error


def _part_types(backend: str, kind: str) -> tuple[type, ...]:
    if backend == "sim":
        return SimCluster.part_types(kind)
    if backend == SERVERS:
        from harness.clusters.servers.cluster import part_types as parts_of_servers

        return parts_of_servers(kind)
    if backend == SSH:
        from harness.clusters.ssh.cluster import SshCluster

        return SshCluster.part_types(kind)
    from harness.clusters.docker.cluster import DockerCluster

    return DockerCluster.part_types(kind)


def _parts_if_installed(backend: str, kind: str) -> tuple[type, ...]:
    """Return the same as :func:`part_types`, but none where the backend's extra is not installed."""
    try:
        return part_types(backend, kind)
    except MissingExtra:
        return ()


def complete(plan: Plan, lock: LockFacts | None = None) -> Plan:
    """Return the plan with the fields filled in that its lock decides. ``lock`` are the facts of the plan's lock; with
    None the lock is loaded for them. Raises UsageError for a plan that cannot be run, EnvironmentLacking if something
    is missing on this machine."""
    clusters = (*BACKENDS, SERVERS, SSH)
    if plan.cluster not in clusters:
        raise UsageError(f"cluster must be one of {', '.join(clusters)}, got {plan.cluster!r}")
    if plan.cluster == "sim" and (unsupported := patches.why_unsupported()):
        raise EnvironmentLacking(unsupported)
    refuse_endless(plan)
    lock = lock or find_facts(plan.lock, interpreter_of(plan))
    plan = _with_own_faults(plan)
    kind = kind_of_servers(plan, lock) if plan.cluster == SERVERS else plan.kind or lock.kinds[0]
    _refuse_other_cluster(plan, lock, kind)
    of = kinds.KINDS.find(kind)
    plan = with_release(plan)
    _refuse_holding(plan)
    _refuse_unknown_options(plan, lock)
    _refuse_unknown_checkers(plan)
    _refuse_sharing(plan, lock)
    _refuse_missing_methods(plan, lock)
    options = {} if plan.servers else server_options.completed(of.options, plan.server_options, plan.cluster)
    nodes = nodes_over_ssh(plan, kind) if plan.hosts else len(plan.servers) or plan.nodes or of.nodes
    hosts = hosts_of_servers(plan) if plan.servers else kinds.host_names(kind, nodes, plan.clients)
    _refuse_unreal_order(plan, hosts)
    _refuse_faults(plan, lock, kind, hosts)
    settle = plan.settle
    if not settle and lock.overtime:  # holds may outlast the ttl by this time, so observe for longer
        settle = min(plan.time_limit / 2, plan.settle_time + lock.overtime)
    return msgspec.structs.replace(plan, kind=kind, nodes=nodes, server_options=options, settle=settle)


def _refuse_other_cluster(plan: Plan, lock: LockFacts, kind: str) -> None:
    """Refuse a cluster on which the lock, its language or this kind of servers does not run."""
    if not _runs_on(lock, kind):
        runs_on = f"{plan.lock} runs on {' or '.join(lock.kinds)}, not on {kind!r}"
        raise UsageError(f"{runs_on}{how_to_state(plan.lock, kind)}")
    of = kinds.KINDS.find(kind)
    if plan.cluster != "docker" and lock.runtime:
        cannot = "cannot be simulated" if plan.cluster == "sim" else "runs in containers only"
        raise UsageError(f"{plan.lock} is a lock for {lock.language} and {cannot}; use --cluster docker")
    if plan.cluster == "sim" and lock.containers_only:
        raise UsageError(f"{plan.lock} cannot be simulated: {lock.containers_only}; use --cluster docker")
    if plan.cluster not in (*of.backends, SERVERS, SSH):
        raise UsageError(f"{plan.lock} runs on {kind}, which is {of.about}; use --cluster {of.backends[0]}")
    if plan.image and plan.cluster != "docker":
        raise UsageError("an image is for real servers: --image goes with --cluster docker")
    if plan.image:
        of.allow_image()


def with_release(plan: Plan) -> Plan:
    """Return the plan with the option ``release`` in the place of an image that is called as a release."""
    if plan.image not in ALL_RELEASES:
        return plan
    return msgspec.structs.replace(plan, image="", server_options={**plan.server_options, "release": plan.image})


def _runs_on(lock: LockFacts, kind: str) -> bool:
    """Return whether the lock runs on a kind, which a user may give by another name than the lock."""
    if kind in lock.kinds:
        return True
    if kind in kinds.KINDS.own or not kinds.KINDS.has(kind):
        return False
    return any(kinds.KINDS.find(kind) is kinds.KINDS.find(own) for own in lock.kinds)


def _with_own_faults(plan: Plan) -> Plan:
    """Return the plan with the faults of its workload's schedule, except those of which it has its own version."""
    schedule: tuple[dict[str, Any], ...] = getattr(find_workload(plan.workload), "schedule", ())
    present = {spec.fault for spec in plan.faults}
    try:
        specs = [scheduled(one, plan.ttl) for one in schedule]
    except (msgspec.ValidationError, AttributeError, TypeError) as error:
        raise UsageError(f"the schedule of workload {plan.workload!r}: {error}") from error
    added = [spec for spec in specs if spec.fault not in present]
    return msgspec.structs.replace(plan, faults=(*plan.faults, *added)).check() if added else plan


def _refuse_unknown_options(plan: Plan, lock: LockFacts) -> None:
    """Refuse options that a lock of the catalogue does not list. A user's own lock has no such list."""
    stated_lease_s(plan, lock)
    for name in plan.lock_options:
        if (":" not in plan.lock or lock.runtime) and name not in lock.options:
            if not lock.options:
                raise UsageError(f"{plan.lock} has no lock_options, got {name!r}")
            raise unknown_name(f"lock_options of {plan.lock}", name, lock.options)


def _refuse_sharing(plan: Plan, lock: LockFacts) -> None:
    """Refuse a workload with shared acquires for a lock that has none."""
    if getattr(find_workload(plan.workload), "shared", False) and not lock.shared:
        raise UsageError(
            f"workload {plan.workload!r} needs a lock that can be held by several at once, and {plan.lock} has no "
            "acquire_shared()"
        )


def _refuse_missing_methods(plan: Plan, lock: LockFacts) -> None:
    """Refuse a workload that calls an optional method for a lock that has none, or shares objects that may not be
    shared."""
    if shares_objects(plan.workload) and not lock.shareable:
        raise UsageError(
            f"workload {plan.workload!r} needs a lock whose objects threads may share; {plan.lock} does not state that "
            "(a class of your own states it with 'shareable = True')"
        )
    for name in methods_of(plan.workload):
        if name not in (lock.methods or ()):
            raise UsageError(
                f"workload {plan.workload!r} needs {METHODS.get(name, f'{name}()')}, and {plan.lock} has none"
            )


def methods_of(workload: str) -> tuple[str, ...]:
    """Return the optional methods of a lock that a workload calls."""
    methods: tuple[str, ...] = getattr(find_workload(workload), "methods", ())
    return methods


def shares_objects(workload: str) -> bool:
    """Return whether several threads of a client use one object of the lock at the same time."""
    return int(getattr(find_workload(workload), "threads", 1)) > 1


def is_rare(workload: str) -> bool:
    """Return whether hunts use a workload for each lock that has its methods, but less often than the usual ones."""
    return bool(getattr(find_workload(workload), "rare", False))


def _refuse_unknown_checkers(plan: Plan) -> None:
    """Refuse a checker that cannot be loaded, and a required or expected verdict of a checker that will not run."""
    checkers = [checker.name for checker in checker_catalogue.chosen(plan.checkers)]
    for name in plan.require:
        if name not in checkers:
            raise unknown_name("property in require", name, checkers)
    named = () if plan.expect is None else plan.expect.named
    for name in named:
        try:
            checker_catalogue.find(name)
        except checker_catalogue.UnknownChecker as error:
            raise UsageError(f"expect: {error}") from error
        if name not in checkers:
            raise UsageError(f"expect: {name!r} is no checker of this plan: add it to the plan's checkers")


def _refuse_faults(plan: Plan, lock: LockFacts, kind: str, hosts: list[str]) -> None:
    """Refuse a fault that this cluster cannot have, or that its schedule or the lock makes impossible."""
    if plan.cluster == SERVERS:
        refuse_faults_of_servers(plan, part_types(SERVERS, kind))
    if plan.cluster == SSH:
        refuse_faults_over_ssh(plan, kind, part_types(SSH, kind))
    for spec in plan.faults:
        if spec.fault in plan.hooks:
            refuse_overlap(spec)
        else:
            _refuse_impossible(spec, plan.cluster, kind)
            _refuse_unknown_release(spec, kinds.KINDS.find(kind), plan)
        _refuse_impossible_event(spec, plan.workload)
        _refuse_other_methods(spec, lock)
        refuse_unknown_words(spec, hosts, hooked=spec.fault in plan.hooks)


def _refuse_impossible(spec: FaultSpec, backend: str, kind: str) -> None:
    """Refuse a fault that the cluster cannot inject."""
    refuse_overlap(spec)
    needed, parts = needs(spec), part_types(backend, kind)
    missing = lacking(needed, parts)
    if not missing:
        return
    if spec.on is not None and missing == ["tap"]:
        raise UsageError(
            f"on = {spec.on!r}: commands are not read from the traffic of {kind} in containers; "
            "use --cluster sim, or an event of a client, such as 'acquire'"
        )
    can = [f"--cluster {other}" for other in BACKENDS if not lacking(needed, _parts_if_installed(other, kind))]
    can += [other for other in kinds.family_of(kind) if not lacking(needed, part_types(backend, other))]
    able = sorted(ability.name for ability in abilities_of(parts))
    hint = f"{can[0]} can" if can else f"it supports {', '.join(able)}"
    raise UsageError(f"nemesis {spec.fault!r} needs {', '.join(missing)}, which {kind} on {backend} cannot do; {hint}")


def _refuse_unknown_release(spec: FaultSpec, of: kinds.Kind, plan: Plan) -> None:
    """Refuse a fault that starts servers as a release that there is not, or as the one that they are."""
    for release in build_fault(spec).releases():
        started = plan.server_options.get("release", DEFAULT_RELEASE)
        if release == started:
            raise UsageError(f"fault {spec.fault!r}: the servers start with the release {started!r} already")
        if release == DEFAULT_RELEASE:
            continue
        for one in (started, release):
            if one in NEEDS_OWN_IMAGE:
                raise UsageError(
                    f"fault {spec.fault!r}: {one} needs the libraries of its own image, so nothing is upgraded to or "
                    "from it"
                )
        rule = of.options.get("release")
        if rule is None:
            raise UsageError(f"fault {spec.fault!r}: there is one release of {of.about}, got {release!r}")
        try:
            rule("release", release, plan.cluster)
        except UsageError as error:
            raise UsageError(f"fault {spec.fault!r}: the server option {str(error).partition(': ')[2]}") from error


def _refuse_holding(plan: Plan) -> None:
    """Refuse to leave a simulated cluster for inspection: it ends with its process."""
    if plan.hold_on_violation and plan.cluster != "docker":
        raise UsageError(
            "hold_on_violation leaves containers for inspection: use --cluster docker, or --stop-on-violation instead"
        )


def _refuse_unreal_order(plan: Plan, hosts: list[str]) -> None:
    """Refuse delays of single messages and an order of threads on real clusters, which cannot control them."""
    if plan.cluster != "sim":
        for name in ("delays", "shuffle"):
            if getattr(plan, name):
                raise UsageError(f"{name}: only the simulator can do that; use --cluster sim, or leave it out")
    for delay in plan.delays:
        for name in (delay.source, delay.target):
            if name not in (*hosts, "resource"):
                raise unknown_name("host in delays", name, [*hosts, "resource"])


def _refuse_impossible_event(spec: FaultSpec, workload: str) -> None:
    """Refuse a trigger on an event that this workload never causes."""
    if getattr(find_workload(workload), "locks", True):
        return
    event = (spec.on or "").partition(":")[0]
    if event in ("acquire", "check", "extend", "release"):
        raise UsageError(
            f"fault {spec.fault!r}: {spec.on!r} never happens in workload {workload!r}, which takes no lock"
        )


def _refuse_other_methods(spec: FaultSpec, lock: LockFacts) -> None:
    """Refuse a fault of asyncio for a lock without coroutines, and a fault of plain calls for one with coroutines."""
    coroutines = fault_class(spec.fault).coroutines
    if coroutines is None or coroutines == bool(lock.asynchronous):
        return
    strikes, are = ("coroutines", "are not") if coroutines else ("no coroutines", "are")
    raise UsageError(
        f"nemesis {spec.fault!r} strikes locks whose methods are {strikes}, and those of {lock.name} {are}"
    )


def choose(plan: Plan) -> tuple[Plan, str]:
    """Complete the plan for docker if an engine answers and the plan can run there, else for the simulator.

    Returns the plan and the reason for the choice."""
    missing = no_engine()
    try:
        real = complete(msgspec.structs.replace(plan, cluster="docker"))
    except UsageError as error:
        return complete(msgspec.structs.replace(plan, cluster="sim")), missing or str(error)
    if not missing:
        return real, "a Docker engine answers"
    try:
        return complete(msgspec.structs.replace(plan, cluster="sim")), missing
    except UsageError as error:  # the plan can run on docker, so the missing engine is the problem
        raise EnvironmentLacking(
            f"{missing} ('harness doctor' says more), and the simulator cannot run this: {error}"
        ) from error


def no_engine() -> str:
    """Return why no Docker engine can be used, or "". Looks for a socket first, because the SDK is slow to load."""
    if "DOCKER_HOST" not in os.environ and not Path(SOCKET).exists():
        return "no Docker engine on this machine"
    from harness.clusters.docker.containers.engine import answers

    return "" if answers() else "no Docker engine answers"
