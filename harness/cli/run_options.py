"""Options of ``harness run`` that no other command has."""

from __future__ import annotations

from typing import Annotated, Final, get_args

import typer

from harness import plan as plans
from harness.documents.messages import TraceMode
from harness.errors import UsageError
from harness.plan import Plan

from . import completion


def _duration(text: str) -> float:
    try:
        return plans.seconds(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


Nemesis = Annotated[
    str,
    typer.Option(
        help="Faults to inject, with commas; see 'harness list nemeses'.", autocompletion=completion.complete_nemeses
    ),
]
Image = Annotated[str, typer.Option(help="On docker: the servers' image or release, such as redis:7.4 or etcd-3.6.16.")]
TOPOLOGIES: Final = ("cluster", "independent", "replicated", "sentinel", "single")
Topology = Annotated[
    str,
    typer.Option(
        help="single, independent, sentinel, cluster or replicated; default: the lock's.",
        autocompletion=completion.complete_words(*TOPOLOGIES),
    ),
]
Checker = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME", help="A further checker, such as package.module:Class; repeatable."),
]
Clients = Annotated[int, typer.Option(help="Number of clients that compete for the lock.")]
Nodes = Annotated[int, typer.Option(help="Number of servers; 0: the usual number for the topology.")]
Keys = Annotated[int, typer.Option(help="Number of locks with different names.")]
Ttl = Annotated[float, typer.Option(parser=_duration, metavar="DURATION", help="Lease time, such as 2s or 150ms.")]
Hold = Annotated[float, typer.Option(parser=_duration, metavar="DURATION", help="How long a critical section takes.")]
Discipline = Annotated[
    str,
    typer.Option(
        help="trusting, or checking: clients check the lock before a write.",
        autocompletion=completion.complete_words("checking", "trusting"),
    ),
]
Fencing = Annotated[str, typer.Option(help="Whether the resource checks fencing tokens: on or off.")]
NamedLockOption = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=VALUE", help="An option of the lock, repeatable; see 'harness show LOCK'."),
]
SharedFiles = Annotated[bool, typer.Option("--allow-shared-files", help="Accept clients that use the same file.")]
TimeLimit = Annotated[
    float | None,
    typer.Option(
        parser=_duration,
        metavar="DURATION",
        help="Duration of the run; default: 30s, with --servers or --hosts as long as the faults need.",
    ),
]
Runs = Annotated[int, typer.Option(help="Number of runs, with consecutive seeds.")]
StopOnViolation = Annotated[
    bool, typer.Option("--stop-on-violation", help="End each run as soon as two clients hold a lock at once.")
]
HoldOnViolation = Annotated[
    bool,
    typer.Option(
        "--hold-on-violation",
        help="On docker: freeze all containers as soon as two clients hold a lock at once, and leave them.",
    ),
]
RecordWire = Annotated[
    bool, typer.Option("--record-wire", help="On docker: also store what the servers receive and send.")
]
Cluster = Annotated[
    str,
    typer.Option(
        help="sim, docker, ssh (with --hosts), or auto: docker where an engine answers.",
        autocompletion=completion.complete_words("auto", "docker", "sim", "ssh"),
    ),
]
Hosts = Annotated[
    str, typer.Option(metavar="NAMES", help="With --cluster ssh: machines, as ssh takes them, with commas.")
]
ClientHosts = Annotated[
    str, typer.Option(metavar="NAMES", help="Machines of the clients, with commas; default: --hosts.")
]
ClientPython = Annotated[
    str, typer.Option(metavar="PATH", help="Python on the clients' machines that has the libraries.")
]
HostSetup = Annotated[str, typer.Option(metavar="COMMAND", help="Shell command that is run on each machine first.")]
SshConfig = Annotated[
    str, typer.Option(metavar="FILE", help="With --cluster ssh: an ssh_config file; default: your own.")
]
Trace = Annotated[
    str,
    typer.Option(
        metavar="on|off|violations",
        help="Which messages between clients and servers are stored: all, none, or those around violations "
        "(of a short run all).",
    ),
]


def trace_mode(text: str, plan: Plan) -> TraceMode:
    """Return the value of ``--trace``; UsageError if there is no such value, or if the cluster cannot be traced."""
    found: TraceMode | None = next((mode for mode in get_args(TraceMode) if mode == text), None)
    if found is None:
        raise UsageError(f"--trace: expected on, off or violations, got {text!r}")
    if found == "on" and plan.cluster not in ("sim", "docker"):
        raise UsageError("--trace on needs --cluster sim or docker: it cannot see what servers of yours receive")
    return found
