"""The faults by name: build the fault of a plan's FaultSpec, and refuse a wrong one before the run starts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from harness.clusters.abilities import FAILOVER, MEMBERS, TAPS, Ability, Needs
from harness.clusters.base import Role, role_of
from harness.errors import UsageError, unknown_name
from harness.plan import FaultSpec, validation_message
from harness.plugins import Folder, Registry

from .base import GROUP_ROLES, GROUPS, Fault, multiples
from .records import FaultRecord


def _users(name: str, kind: type) -> type[Fault]:
    """Return the user's fault; UsageError if it lacks something that every fault states, or states it wrongly."""
    if not issubclass(kind, Fault):
        raise UsageError(f"{name} is no fault: it does not derive from harness.faults.base.Fault")
    missing = [it for it in ("name", "summary") if not isinstance(getattr(kind, it, None), str)]
    missing += ["inject"] if kind.inject is Fault.inject else []
    if missing:
        raise UsageError(f"{name} is no fault: it has no {' and no '.join(missing)}")
    if not isinstance(kind.needs, set | frozenset) or not all(isinstance(need, Ability) for need in kind.needs):
        raise UsageError(
            f"the fault {name}: needs must be a set of abilities, such as {{PROCESSES}}, got {kind.needs!r}"
        )
    try:
        _specs(name, kind, 1.0)
    except (msgspec.ValidationError, AttributeError, TypeError, ValueError) as error:
        raise UsageError(f"the fault {name}: its schedule or its companions: {error}") from error
    return kind


def _specs(name: str, fault: type[Fault], ttl: float) -> list[FaultSpec]:
    schedules = [{"fault": name, **fault.schedule}, *fault.companions] if fault.schedule else []
    return [scheduled(schedule, ttl) for schedule in schedules]


FAULTS: Final[Registry[type[Fault]]] = Registry("nemesis", "faults", Folder("harness.faults", "inject"), _users)


def fault_names() -> list[str]:
    """Return the names of our own faults."""
    return list(FAULTS.own)


def fault_class(name: str) -> type[Fault]:
    """Return the fault called ``name``, or ``package.module:Class``; UsageError says why there is none."""
    return FAULTS.find(name)


def fault_of(record: FaultRecord) -> type[Fault]:
    """Return the fault whose words describe a record, or the base class with its general words.

    No module is imported for that: a history may come from a stranger and must not make code run.
    """
    known = FAULTS.known(record.fault)
    return known if known is not None and known.describes(record) else Fault


def default_specs(name: str, ttl: float) -> list[FaultSpec]:
    """Return the specs of a fault, and of its companions, for a user who gives only its name."""
    return _specs(name, fault_class(name), ttl)


def scheduled(schedule: Mapping[str, Any], ttl: float) -> FaultSpec:
    """Convert the fields of a FaultSpec, where ``"1.5 ttl"`` means multiples of the lock's ttl (seconds)."""
    return msgspec.convert({key: multiples(value, ttl) for key, value in schedule.items()}, FaultSpec)


def build_fault(spec: FaultSpec) -> Fault:
    """Return the fault with its parameters; UsageError names a parameter that it does not have."""
    kind = fault_class(spec.fault)
    known = kind.__struct_encode_fields__
    for name in spec.params:
        if name not in known:
            raise unknown_name(f"parameter of fault {spec.fault!r}", name, known)
    try:
        return msgspec.convert(spec.params, kind)
    except msgspec.ValidationError as error:
        raise UsageError(f"fault {spec.fault!r}, params: {validation_message(error)}") from error


def needs(spec: FaultSpec) -> Needs:
    """Return the abilities that a cluster needs for this fault at this event."""
    return frozenset(build_fault(spec).needs) | (frozenset({TAPS}) if is_on_command(spec) else frozenset())


def needs_of(specs: Iterable[FaultSpec]) -> Needs:
    """Return the abilities that a cluster needs for all of these faults."""
    return frozenset(need for spec in specs for need in needs(spec))


def refuse_overlap(spec: FaultSpec) -> None:
    """Refuse a fault that strikes again while it lasts, unless its next turn replaces the last one."""
    again = spec.every is not None or spec.times > 1
    if not again or fault_class(spec.fault).replaces:
        return
    if spec.for_ is None or spec.for_ > (spec.every or 0.0):
        raise UsageError(
            f"fault {spec.fault!r} would strike again while it lasts: give 'for', and 'every' at least as long "
            f"(got for = {spec.for_}, every = {spec.every})"
        )


def is_on_command(spec: FaultSpec) -> bool:
    """Return True if the trigger is a command on the network, not a client's call."""
    return spec.on is not None and spec.on.split(":")[0] in _TAPS


_TAPS: Final = ("request", "reply")
_CALLS: Final = ("acquire", "add", "cas", "check", "extend", "mark", "read", "release", "take", "write")
_ENDINGS: Final = ("invoke", "ok", "fail", "info")
_TARGETS: Final = ("target", "client", "clients", "server", "servers", "left", "right")


def refuse_unknown_words(spec: FaultSpec, hosts: list[str], *, hooked: bool = False) -> None:
    """Refuse an event that no client or server causes, and a target that no host has. A ``hooked`` fault is done by
    commands of the user, which may know more servers than the plan."""
    kind, _, detail = (spec.on or "acquire").partition(":")
    if kind not in (*_CALLS, *_TAPS):
        raise unknown_name(f"event of fault {spec.fault!r}", kind, [*_CALLS, *_TAPS])
    if kind in _CALLS and detail and detail not in _ENDINGS:
        raise unknown_name(f"ending in the event {spec.on!r}", detail, _ENDINGS)
    if kind in _TAPS and detail != detail.upper():
        raise UsageError(f"fault {spec.fault!r}: commands are in capitals: {kind}:{detail.upper()}, got {spec.on!r}")
    fault = build_fault(spec)
    for target in (getattr(fault, name, "") for name in _TARGETS):
        for name in _hosts_of(target):
            if name not in hosts:
                raise unknown_name(f"target of fault {spec.fault!r}", name, [*GROUPS, *hosts])
    _refuse_wrong_role(spec, getattr(fault, "target", ""), fault.roles)
    if not hooked:
        _refuse_nobody(spec, fault, hosts)
    if spec.node is not None:
        role = "server" if is_on_command(spec) else "client"
        causes = [host for host in hosts if role_of(host) == role]
        if spec.node not in causes:
            raise unknown_name(f"node of fault {spec.fault!r} (a {role} for this event)", spec.node, causes)


def _hosts_of(target: str) -> list[str]:
    """Return the hosts that a target names; none if it is the name of a group."""
    return [] if not target or target in (*GROUPS, "resource") else [name.strip() for name in target.split(",")]


def _refuse_nobody(spec: FaultSpec, fault: Fault, hosts: list[str]) -> None:
    """Refuse a group without members: a fault that strikes no host would count as one that did no harm."""
    roles = [role_of(name) for name in hosts]
    target = getattr(fault, "target", "")
    if (target == "sentinels" and "sentinel" not in roles) or (
        target in ("replicas", "follower") and roles.count("server") < 2
    ):
        raise UsageError(f"fault {spec.fault!r}: no host is among {target!r}; there are {', '.join(hosts)}")
    if FAILOVER in fault.needs and roles.count("server") < 2:
        raise UsageError(f"fault {spec.fault!r} needs a replica: two nodes at least")
    if MEMBERS in fault.needs and roles.count("server") < 3:
        raise UsageError(f"fault {spec.fault!r} needs three nodes at least: the others must be able to agree")


def _refuse_wrong_role(spec: FaultSpec, target: str, roles: tuple[Role, ...]) -> None:
    meant = {role_of(name) for name in _hosts_of(target)} | ({GROUP_ROLES[target]} if target in GROUP_ROLES else set())
    if not meant <= set(roles):
        raise UsageError(
            f"fault {spec.fault!r} strikes {' or '.join(f'{role}s' for role in roles)}, "
            f"and target {target!r} names {' and '.join(f'{role}s' for role in sorted(meant - set(roles)))}"
        )
