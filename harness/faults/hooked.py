"""Faults of servers that the user's own commands do (hooks), where the harness does not run the servers."""

from __future__ import annotations

import msgspec

from harness.clusters.abilities import CLOCKS, HOOKS
from harness.clusters.base import Cluster, ObservedFacts
from harness.errors import UsageError

from .base import Damage, Fault, InjectionContext, Observation, nothing_to_undo, targets
from .catalogue import fault_class, fault_names


def can_be_hooked(name: str) -> bool:
    """Return whether a fault may be done by a hook: it strikes servers, and no clock, whose offset the checkers need
    to know."""
    fault = fault_class(name)
    return fault.beyond_clients and CLOCKS not in fault.needs


def refuse_unhookable(name: str) -> None:
    """Raise UsageError if there is no such fault, or none that a hook may do."""
    if not can_be_hooked(name):
        possible = ", ".join(filter(can_be_hooked, fault_names()))
        raise UsageError(f"hooks.{name}: a hook is for a fault of servers, and not of their clocks: {possible}")


def is_hooked(name: str, cluster: Cluster) -> bool:
    """Return whether a cluster has a hook for this fault."""
    hooks = HOOKS.find(cluster)
    return hooks is not None and name in hooks.hooked_faults()


def inject_by_hook(name: str, fault: Fault, scene: InjectionContext) -> Damage:
    """Let the hook of the fault called ``name`` strike the servers that its ``target`` means, by default all."""
    servers = scene.hosts("server")
    hosts = targets(scene, getattr(fault, "target", "all"), servers)
    strike = scene.part(HOOKS).strike(name, hosts, msgspec.to_builtins(fault))

    def observed(problem: str, facts: ObservedFacts) -> Observation:
        return Observation(dict.fromkeys(hosts, not problem), facts, problem)

    def healed() -> Observation:
        problem, facts = strike.healed()
        return observed(problem, facts) if facts else nothing_to_undo()

    return Damage(hosts, lambda: observed(*strike.observe(scene.over)), strike.heal, healed)
