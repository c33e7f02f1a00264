"""Plans for machines of the user's: how many servers they run, and the faults that are possible there."""

from __future__ import annotations

from collections.abc import Sequence

from harness.clusters import kinds
from harness.clusters.abilities import lacking
from harness.clusters.ssh.services.base import servers_class
from harness.errors import UsageError
from harness.faults.catalogue import fault_class, fault_names, is_on_command, needs
from harness.faults.process import KillAmnesia
from harness.plan import Plan


def nodes_over_ssh(plan: Plan, kind: str) -> int:
    """Return the number of servers of a plan on the user's machines: one on each, or on the first for a kind with one
    server. Raises UsageError if the kind cannot run there."""
    servers_class(kind)
    usual = kinds.KINDS.find(kind).nodes
    return plan.nodes or (len(plan.hosts) if usual > 1 else 1)


def refuse_faults_over_ssh(plan: Plan, kind: str, parts: Sequence[type]) -> None:
    """Refuse a fault that no machine of the user's can have, whatever its SSH user may do. Raises UsageError that lists
    the possible faults."""
    for spec in plan.faults:
        if is_on_command(spec):
            raise UsageError(
                f"on = {spec.on!r}: the traffic between clients and servers is not observed on hosts; use an event of "
                "a client, such as 'acquire'"
            )
        if missing := lacking(needs(spec), parts):
            possible = [name for name in fault_names() if not lacking(fault_class(name).needs, parts)]
            raise UsageError(
                f"nemesis {spec.fault!r} needs {', '.join(missing)}, which {kind} on hosts cannot do; possible are "
                f"{', '.join(possible)}"
            )
        if issubclass(fault_class(spec.fault), KillAmnesia) and not servers_class(kind).WIPES:
            raise UsageError(
                f"nemesis {spec.fault!r}: on hosts a server of {kind} that lost its data is not replaced; use "
                "--cluster docker"
            )
