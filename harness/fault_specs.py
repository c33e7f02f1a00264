"""From a plan's fault to the fault that it names, and what is refused of one before a run starts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from .clusters.base import Role, role_of
from .discovery import classes, find
from .errors import UsageError, unknown_name
from .faults.base import GROUP_ROLES, GROUPS, Fault, multiples
from .plan import FaultSpec, told

FAULTS: Final = "harness.faults"


def fault_names() -> list[str]:
    return list(classes(FAULTS, "inject"))


def fault_class(name: str) -> type[Fault]:
    """The fault called ``name``; UsageError with the nearest names."""
    found: type[Fault] = find("nemesis", FAULTS, "inject", name)
    return found


def default_specs(name: str, ttl: float) -> list[FaultSpec]:
    """When ``name`` (and what comes with it) strikes if a user only names it; none for the fault that never does."""
    fault = fault_class(name)
    schedules = [{"fault": name, **fault.schedule}, *fault.companions] if fault.schedule else []
    return [scheduled(schedule, ttl) for schedule in schedules]


def scheduled(schedule: Mapping[str, Any], ttl: float) -> FaultSpec:
    """The fields of a FaultSpec, where a string such as ``"1.5 ttl"`` means multiples of the lock's ttl."""
    return msgspec.convert({key: multiples(value, ttl) for key, value in schedule.items()}, FaultSpec)


def build_fault(spec: FaultSpec) -> Fault:
    """The fault with its parameters; UsageError names a parameter it does not have."""
    kind = fault_class(spec.fault)
    known = kind.__struct_encode_fields__
    for name in spec.params:
        if name not in known:
            raise unknown_name(f"parameter of fault {spec.fault!r}", name, known)
    try:
        return msgspec.convert(spec.params, kind)
    except msgspec.ValidationError as error:
        raise UsageError(f"fault {spec.fault!r}, params: {told(error)}") from error


def needs(spec: FaultSpec) -> set[str]:
    """What a cluster must be able to do for this fault at this moment."""
    return set(build_fault(spec).needs) | ({"tap"} if _is_on_command(spec) else set())


def refuse_overlap(spec: FaultSpec) -> None:
    """A fault that comes again must be over by then, or be of the kind whose next turn takes the place of the last."""
    again = spec.every is not None or spec.times > 1
    if not again or fault_class(spec.fault).replaces:
        return
    if spec.for_ is None or spec.for_ > (spec.every or 0.0):
        raise UsageError(
            f"fault {spec.fault!r} would strike again while it lasts: give 'for', and 'every' at least as long "
            f"(got for = {spec.for_}, every = {spec.every})"
        )


def _is_on_command(spec: FaultSpec) -> bool:
    return spec.on is not None and spec.on.split(":")[0] in _TAPS


_TAPS: Final = ("request", "reply")
_CALLS: Final = ("acquire", "add", "cas", "check", "extend", "mark", "read", "release", "take", "write")
_ENDINGS: Final = ("invoke", "ok", "fail", "info")
_TARGETS: Final = ("target", "client", "clients", "server", "servers", "left", "right")


def refuse_unknown_words(spec: FaultSpec, hosts: list[str]) -> None:
    """Events nobody causes and targets nobody is are refused before the run starts."""
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
    _refuse_nobody(spec, fault, hosts)
    if spec.node is not None:
        role = "server" if _is_on_command(spec) else "client"
        causes = [host for host in hosts if role_of(host) == role]
        if spec.node not in causes:
            raise unknown_name(f"node of fault {spec.fault!r} (a {role} for this event)", spec.node, causes)


def _hosts_of(target: str) -> list[str]:
    """The hosts that a target names, none if it is a group's name."""
    return [] if not target or target in (*GROUPS, "resource") else [name.strip() for name in target.split(",")]


def _refuse_nobody(spec: FaultSpec, fault: Fault, hosts: list[str]) -> None:
    """A group without members is refused: a fault that strikes nobody would count as one that did no harm."""
    roles = [role_of(name) for name in hosts]
    target = getattr(fault, "target", "")
    if (target == "sentinels" and "sentinel" not in roles) or (target == "replicas" and roles.count("server") < 2):
        raise UsageError(f"fault {spec.fault!r}: no host is among {target!r}; there are {', '.join(hosts)}")
    if "failover" in fault.needs and roles.count("server") < 2:
        raise UsageError(f"fault {spec.fault!r} needs a replica: two nodes at least")


def _refuse_wrong_role(spec: FaultSpec, target: str, roles: tuple[Role, ...]) -> None:
    meant = {role_of(name) for name in _hosts_of(target)} | ({GROUP_ROLES[target]} if target in GROUP_ROLES else set())
    if not meant <= set(roles):
        raise UsageError(
            f"fault {spec.fault!r} strikes {' or '.join(f'{role}s' for role in roles)}, "
            f"and target {target!r} names {' and '.join(f'{role}s' for role in sorted(meant - set(roles)))}"
        )
