"""The command line: each command is one call that a Python user could make too."""

from __future__ import annotations

import shlex
import sys
import traceback
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import typer
from rich.console import Console

from . import (
    check_cli,
    cluster_cli,
    compare_cli,
    conformance_cli,
    hunt_cli,
    nightly_cli,
    replay_cli,
    scenario_cli,
    serve_cli,
    suite_cli,
    sweep_cli,
)
from . import plan as plans
from . import store as stores
from .cli_runs import AUTO, placed, play_many, play_one
from .errors import INTERRUPTED, UNKNOWN, USAGE, VALID, HarnessError, UsageError
from .listing import listing, show_lock
from .nemesis import default_specs
from .options import kind_with, lock_options, printed
from .plan import FaultSpec, Plan
from .runs import rejudge

app = typer.Typer(
    help="Tells you whether your distributed lock is safe.", no_args_is_help=True, add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)  # fmt: skip
DEFAULTS = Plan(lock="")
WRONG: Final[type[Exception]] = typer.BadParameter.__mro__[1]
"""Of all that typer finds wrong with arguments; it has no name for it, and brings a click of its own or does not."""


def _duration(text: str) -> float:
    try:
        return plans.seconds(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


Duration = Annotated[float, typer.Option(parser=_duration, metavar="DURATION", help="Such as 2s, 150ms or 0.5.")]


def _tell_version(asked: bool) -> None:
    if asked:
        typer.echo(f"harness {version('lock-harness')}")
        raise typer.Exit


@app.callback()
def harness(
    version: Annotated[
        bool, typer.Option("--version", callback=_tell_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


@app.command("run")
def run_command(
    lock: Annotated[str, typer.Argument(help="A name from 'harness list locks', or package.module:Class.")],
    nemesis: Annotated[str, typer.Option(help="Faults to inject, with commas; see 'harness list nemeses'.")] = "none",
    cluster: Annotated[str, typer.Option(help="auto (docker where an engine answers), sim or docker.")] = AUTO,
    image: Annotated[str, typer.Option(help="On docker: the servers' image, such as redis:7.4.")] = "",
    topology: Annotated[str, typer.Option(help="single, independent, sentinel, replicated; else the lock's own.")] = "",
    workload: Annotated[str, typer.Option(help="See 'harness list workloads'.")] = DEFAULTS.workload,
    clients: int = DEFAULTS.clients,
    nodes: Annotated[int, typer.Option(help="Servers; 0 is the usual number of the topology.")] = 0,
    keys: int = DEFAULTS.keys,
    ttl: Duration = str(DEFAULTS.ttl),  # type: ignore[assignment]
    hold: Duration = str(DEFAULTS.hold),  # type: ignore[assignment]
    discipline: Annotated[str, typer.Option(help="trusting or checking.")] = DEFAULTS.discipline,
    fencing: Annotated[str, typer.Option(help="on or off: does the resource check tokens?")] = DEFAULTS.fencing,
    lock_option: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Of the lock, repeatable; see 'harness show LOCK'.")
    ] = None,
    time_limit: Duration = str(DEFAULTS.time_limit),  # type: ignore[assignment]
    seed: int = 0,
    runs: Annotated[int, typer.Option(help="So many runs, with consecutive seeds.")] = 1,
    out: Annotated[Path, typer.Option(help="The store.")] = Path("store"),
    json: Annotated[bool, typer.Option("--json", help="Print the result document and nothing else.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print the verdict only.")] = False,
) -> None:
    """Run a lock against a cluster while the nemesis injects faults, check the history and write a report."""
    plan = plans.decode(
        {
            "lock": lock,
            "kind": kind_with(lock, topology),
            **{"workload": workload, "clients": clients, "nodes": nodes, "keys": keys, "ttl": ttl, "hold": hold},
            **{"discipline": discipline, "fencing": fencing, "time_limit": time_limit, "seed": seed},
            "lock_options": lock_options(lock_option),
        }
    )
    plan = msgspec.structs.replace(plan, faults=tuple(_faults(nemesis, plan.ttl)), image=image)
    plan, reason = placed(plan, cluster)
    if runs < 1:
        raise UsageError(f"runs must be at least 1, got {runs}")
    command = shlex.join(["harness", *sys.argv[1:]])
    if runs > 1:
        raise typer.Exit(play_many(plan, runs, out, command, reason, json=json, quiet=quiet))
    raise typer.Exit(play_one(plan, out, command, reason, json=json, quiet=quiet).exit_status)


def _faults(nemesis: str, ttl: float) -> Iterator[FaultSpec]:
    for name in nemesis.split(","):
        yield from default_specs(name.strip(), ttl)


@app.command("report")
def report_command(given: Annotated[Path, typer.Argument(help="The folder of a run.", metavar="RUN")]) -> None:
    """Write the report of a stored run again, also of one that was cut short (exit status 3 then)."""
    from reports import model, run_report

    folder = stores.find_run(given)
    try:
        if not (folder / stores.RESULTS).exists():
            rejudge(folder)
        typer.echo(str(run_report.write(folder)))
        short = model.load(folder).interrupted
    except run_report.ReportError as error:
        raise UsageError(str(error)) from error
    except OSError as error:
        raise UsageError(f"cannot write the report: {error}") from error
    if short:
        typer.echo(f"harness: {folder / stores.HISTORY}: {short}", err=True)
        raise typer.Exit(UNKNOWN)


@app.command("doctor")
def doctor_command() -> None:
    """Say what this machine has for real clusters, what it lacks, and the command that installs it."""
    from .doctor import doctor

    raise typer.Exit(doctor(Console(highlight=False)))


@app.command("list")
def list_command(
    what: Annotated[str, typer.Argument(help="locks, nemeses, workloads, checkers, models or kinds.")] = "locks",
    json: Annotated[bool, typer.Option("--json", help="Print a list of objects and nothing else.")] = False,
) -> None:
    """List what there is of a kind, with a line on each."""
    printed(lambda: listing(what, Console(highlight=False), json=json))


@app.command("show")
def show_command(lock: Annotated[str, typer.Argument(help="A name from 'harness list locks'.")]) -> None:
    """Say what a lock does, where it comes from, and what it is safe for."""
    show_lock(lock, Console(highlight=False))


app.add_typer(cluster_cli.app, name="cluster")
app.add_typer(scenario_cli.app, name="scenario")
app.command("nightly")(suite_cli.nightly_command)
app.command("trends")(nightly_cli.trends_command)
app.command("sweep")(sweep_cli.sweep_command)
app.command("hunt")(hunt_cli.hunt_command)
app.command("compare")(compare_cli.compare_command)
app.command("conformance")(conformance_cli.conformance_command)
app.command("serve")(serve_cli.serve_command)
app.command("replay")(replay_cli.replay_command)
app.command("check")(check_cli.check_command)
app.command("export")(check_cli.export_command)


def main(arguments: list[str] | None = None) -> None:
    """The ``harness`` command; exits with the documented status."""
    try:
        sys.exit(app(arguments, prog_name="harness", standalone_mode=False) or VALID)
    except WRONG as error:
        typer.echo(_in_a_line(error), err=True)
        sys.exit(USAGE)
    except typer.Abort:  # an older typer's word for Ctrl-C
        sys.exit(INTERRUPTED)
    except HarnessError as error:
        typer.echo("; ".join([f"harness: {error}", *getattr(error, "__notes__", ())]), err=True)
        sys.exit(error.exit_status)
    except Exception:  # noqa: BLE001 - a crash of ours must not look like a verdict
        traceback.print_exc()
        typer.echo("harness: an error of the harness itself, not a verdict; please report it", err=True)
        sys.exit(UNKNOWN)


def _in_a_line(error: Any) -> str:
    """What is wrong with the arguments, without the command's usage; or its help, where there are none."""
    said: str = error.format_message()
    if type(error).__name__ == "NoArgsIsHelpError":
        return said
    return f"harness: {said[:1].lower()}{' '.join(said[1:].split()).rstrip('.')}"


if __name__ == "__main__":
    main()
