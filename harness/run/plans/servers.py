"""Plans for servers that the user runs: their kind of cluster, and the faults that are possible there."""

from __future__ import annotations

from collections.abc import Sequence

from harness.clusters import kinds
from harness.clusters.abilities import lacking
from harness.clusters.servers.adapter import server_class
from harness.clusters.servers.addresses import is_loopback, parse_server
from harness.documents.lock import LockFacts
from harness.errors import UsageError
from harness.faults.catalogue import fault_class, fault_names, is_on_command
from harness.faults.hooked import can_be_hooked, refuse_unhookable
from harness.plan import Plan
from harness.plan.hooks import EXAMPLE
from harness.wording import counted


def how_to_state(lock: str, kind: str) -> str:
    """Return the end of a message: how a class of a user's states that it runs on a kind; "" for other locks."""
    if ":" not in lock or kind not in kinds.KINDS.own:
        return ""
    return f"; a class that runs there says so in its body: kinds = ({kind!r},)".replace("'", '"')


def kind_of_servers(plan: Plan, lock: LockFacts) -> str:
    """Return the kind of cluster that a plan's servers are, of those on which its lock runs. Raises UsageError."""
    addresses = [parse_server(text) for text in plan.servers]
    services = sorted({address.service for address in addresses})
    if len(services) > 1:
        raise UsageError(f"servers must be of one kind, got {' and '.join(services)}")
    twice = sorted({str(one) for one in addresses if addresses.count(one) > 1})
    if twice:
        raise UsageError(f"servers: {twice[0]} is given twice")
    wanted = [plan.kind] if plan.kind else list(lock.kinds)
    of_service = [kind for kind in wanted if kinds.KINDS.find(kind).service == services[0]]
    logins = {(address.user, address.password_from, address.database) for address in addresses}
    if len(logins) > 1:
        raise UsageError("servers: all addresses must have the same user, password and database")
    if not of_service:
        first = next((kind for kind, of in kinds.KINDS.own.items() if of.service == services[0] and of.servers), "")
        runs_on = f"{plan.lock} runs on {' or '.join(lock.kinds)}, and the servers are {services[0]}"
        raise UsageError(f"{runs_on}{how_to_state(plan.lock, first)}")
    by_sentinels = any(address.sentinels for address in addresses)
    if by_sentinels and len(addresses) > 1:
        raise UsageError(f"servers: the sentinels of one Redis are one address, got {len(addresses)} addresses")
    supported = [
        kind
        for kind in of_service
        if kinds.KINDS.find(kind).servers and bool(kinds.KINDS.find(kind).sentinels) == by_sentinels
    ]
    fitting = [kind for kind in supported if len(addresses) == 1 or kinds.KINDS.find(kind).nodes > 1]
    if not supported:
        raise UsageError(f"servers of your own cannot be {kinds.KINDS.find(of_service[0]).about}; use --cluster docker")
    if not fitting:
        about = kinds.KINDS.find(supported[0]).about
        raise UsageError(f"{plan.lock} runs on {about}, and {counted(len(addresses), 'server')} are given")
    return fitting[0]


def hosts_of_servers(plan: Plan) -> list[str]:
    """Return the names of all hosts of a plan whose servers the user runs."""
    addresses = [parse_server(text) for text in plan.servers]
    sentinels = sum(len(address.sentinels) for address in addresses)
    return [
        *kinds.servers(len(addresses)),
        *(f"s{number + 1}" for number in range(sentinels)),
        *kinds.clients(plan.clients),
    ]


def refuse_remote_servers(plan: Plan) -> None:
    """Raise UsageError if one of a plan's servers is not on this machine's loopback interface."""
    remote = []
    for address in map(parse_server, plan.servers):
        if not address.is_loopback:
            remote.append(str(address))
        elif address.sentinels and not is_loopback(server_class(plan.kind)(address).target[0]):
            remote.append(f"the primary that {address} names")
    if remote:
        raise UsageError(
            f"{', '.join(remote)} is not on this machine: the run would write keys there (under 'harness:', removed at "
            "the end) and load it; add --yes to do that"
        )


def refuse_faults_of_servers(plan: Plan, parts: Sequence[type]) -> None:
    """Refuse a fault of a plan that would strike servers, their clocks or their packets, and has no hook. Raises
    UsageError that lists the possible faults."""
    for name in plan.hooks:
        refuse_unhookable(name)
    for spec in plan.faults:
        fault = fault_class(spec.fault)
        if spec.fault not in plan.hooks and (fault.beyond_clients or lacking(fault.needs, parts)):
            possible = [name for name in fault_names() if name in plan.hooks or _is_possible(name, parts)]
            raise UsageError(
                f"nemesis {spec.fault!r} is not possible on servers of your own, which the harness does not touch; "
                f"possible are {', '.join(possible)}{_how_to_hook(spec.fault)}"
            )
        if is_on_command(spec):
            raise UsageError(
                f"on = {spec.on!r}: the traffic between real clients and servers is not observed; use an event of a "
                "client, such as 'acquire'"
            )


def _how_to_hook(fault: str) -> str:
    """Return how the user's own commands make a fault possible, "" if they cannot."""
    if not can_be_hooked(fault):
        return ""
    return f"; or let commands of yours do it: {EXAMPLE.format(fault=fault)} (docs/own-servers.md)"


def _is_possible(name: str, parts: Sequence[type]) -> bool:
    fault = fault_class(name)
    return not fault.beyond_clients and not lacking(fault.needs, parts)
