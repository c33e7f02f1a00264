"""The command line: each command is one call that a Python user could make too."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from checkers.base import badness

from . import cluster_cli
from . import plan as plans
from . import store as stores
from .client_program import find_lock
from .errors import UNKNOWN, VALID, VIOLATION, HarnessError, UsageError
from .listing import listing, show_lock
from .nemesis import default_specs
from .plan import FaultSpec, Plan
from .runner import Progress as Report
from .runs import BACKENDS, Result, choose, complete, rejudge, run
from .terminal import Outcome, print_result, print_tally

app = typer.Typer(
    help="Tells you whether your distributed lock is safe.", no_args_is_help=True, add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)  # fmt: skip
app.add_typer(cluster_cli.app, name="cluster")
DEFAULTS = Plan(lock="")
AUTO = "auto"


def _duration(text: str) -> float:
    try:
        return plans.seconds(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


Duration = Annotated[float, typer.Option(parser=_duration, metavar="DURATION", help="Such as 2s, 150ms or 0.5.")]


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
            "kind": _kind(lock, topology),
            **{"workload": workload, "clients": clients, "nodes": nodes, "keys": keys, "ttl": ttl, "hold": hold},
            **{"discipline": discipline, "fencing": fencing, "time_limit": time_limit, "seed": seed},
        }
    )
    plan = msgspec.structs.replace(plan, faults=tuple(_faults(nemesis, plan.ttl)), image=image)
    plan, reason = _on(plan, cluster)
    if runs < 1:
        raise UsageError(f"runs must be at least 1, got {runs}")
    command = shlex.join(["harness", *sys.argv[1:]])
    if runs > 1:
        raise typer.Exit(_many(plan, runs, out, command, reason, json=json))
    raise typer.Exit(_one(plan, out, command, reason, json=json, quiet=quiet))


def _kind(lock: str, topology: str) -> str:
    """The kind of cluster with this topology among those that a lock runs on."""
    if not topology:
        return ""
    kinds = find_lock(lock).info.kinds
    found = next((kind for kind in kinds if kind.endswith(f"-{topology}")), None)
    if found is None:
        raise UsageError(f"{lock} runs on {' or '.join(kinds)}, not on {topology!r} ones")
    return found


def _on(plan: Plan, cluster: str) -> tuple[Plan, str]:
    """The plan completed for a cluster, and why this one."""
    if cluster not in (AUTO, *BACKENDS):
        raise UsageError(f"cluster must be one of {', '.join([AUTO, *BACKENDS])}, got {cluster!r}")
    if cluster == AUTO:
        return choose(plan)
    return complete(msgspec.structs.replace(plan, cluster=cluster)), ""


def _faults(nemesis: str, ttl: float) -> Iterator[FaultSpec]:
    for name in nemesis.split(","):
        yield from default_specs(name.strip(), ttl)


def _one(plan: Plan, out: Path, command: str, reason: str, *, json: bool, quiet: bool) -> int:
    from reports import run_report

    console = Console(stderr=True, quiet=json or quiet, highlight=False)
    because = f" ({reason})" if reason else ""
    nodes = f"{plan.nodes} node{'s' if plan.nodes > 1 else ''}"
    console.print(f"cluster: {plan.cluster}, {plan.kind}, {nodes}{because}", soft_wrap=True)
    # What a lock prints must not get between the lines of a result document.
    with contextlib.redirect_stdout(sys.stderr), _progress(console, plan.lock) as progress:
        result = run(plan, store=out, command=command, reason=reason, progress=progress)
        progress(1.0, "writing the report")
        assert result.folder is not None
        run_report.write(result.folder)
    _printed(lambda: print_result(result, json=json, quiet=quiet))
    return result.exit_status


def _printed(write: Callable[[], None]) -> None:
    """Print, though nobody may listen any more (``| head``): the exit status is the verdict all the same."""
    try:
        write()
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit):  # Rich turns the one into the other
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _many(plan: Plan, runs: int, out: Path, command: str, reason: str, *, json: bool) -> int:
    """Consecutive seeds; the runs that are not valid are kept, with a report of each. What does not happen a second
    time in the same way is kept from the first."""
    store = out if plan.cluster == "docker" else None
    console = Console(stderr=True, quiet=json, highlight=False)
    outcomes: list[Outcome] = []
    with contextlib.redirect_stdout(sys.stderr), _progress(console, plan.lock) as progress:
        for number in range(runs):
            progress(number / runs, f"run {number + 1} of {runs}")
            seeded = msgspec.structs.replace(plan, seed=plan.seed + number)
            result = run(seeded, store=store, command=command, reason=reason)
            if result.interrupted:
                break
            outcomes.append(Outcome.of(result if result.valid is True else _keep(result, out, command, reason)))
    _printed(lambda: print_tally(outcomes, runs, json=json))
    worst = max((badness(outcome.valid) for outcome in outcomes), default=badness(None))
    return UNKNOWN if worst == 0 and len(outcomes) < runs else (VALID, UNKNOWN, VIOLATION)[worst]


def _keep(result: Result, out: Path, command: str, reason: str) -> Result:
    """The run with its report; on the simulator it is run again for that: same seed, same bytes."""
    from reports import run_report

    kept = result if result.folder is not None else run(result.plan, store=out, command=command, reason=reason)
    assert kept.folder is not None
    run_report.write(kept.folder)
    return kept


@contextlib.contextmanager
def _progress(console: Console, title: str) -> Iterator[Report]:
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[text]}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=console.quiet) as bar:
        task = bar.add_task(title, total=1.0, text="")

        def report(fraction: float, text: str) -> None:
            bar.update(task, completed=fraction, text=text)

        yield report


@app.command("replay")
def replay_command(
    given: Annotated[Path, typer.Argument(help="The folder of a run, or a plan.toml.", metavar="FILE|RUN")],
    cluster: Annotated[str, typer.Option(help="Run it on another cluster: auto, sim or docker.")] = "",
    out: Annotated[Path, typer.Option(help="The store.")] = Path("store"),
    json: Annotated[bool, typer.Option("--json", help="Print the result document and nothing else.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print the verdict only.")] = False,
) -> None:
    """Repeat a stored run, or run a plan: on the simulator the history is the same, byte for byte."""
    path = given / stores.PLAN if given.is_dir() else given
    command = shlex.join(["harness", *sys.argv[1:]])
    plan = plans.load(path)
    plan, reason = _on(plan, cluster or plan.cluster)
    raise typer.Exit(_one(plan, out, command, reason, json=json, quiet=quiet))


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
    what: Annotated[str, typer.Argument(help="locks, nemeses, workloads, checkers or kinds.")] = "locks",
) -> None:
    """List what there is of a kind, with a line on each."""
    listing(what, Console(highlight=False))


@app.command("show")
def show_command(lock: Annotated[str, typer.Argument(help="A name from 'harness list locks'.")]) -> None:
    """Say what a lock does, where it comes from, and what it is safe for."""
    show_lock(lock, Console(highlight=False))


def main(arguments: list[str] | None = None) -> None:
    """The ``harness`` command; exits with the documented status."""
    try:
        app(arguments, prog_name="harness")
    except HarnessError as error:
        typer.echo("; ".join([f"harness: {error}", *getattr(error, "__notes__", ())]), err=True)
        sys.exit(error.exit_status)
    except Exception:  # noqa: BLE001 - a crash of ours must not look like a verdict
        traceback.print_exc()
        typer.echo("harness: an error of the harness itself, not a verdict; please report it", err=True)
        sys.exit(UNKNOWN)


if __name__ == "__main__":
    main()
