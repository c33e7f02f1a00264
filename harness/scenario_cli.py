"""``harness scenario``: documented failures and their cures, and files of the user's own."""

from __future__ import annotations

import shlex
import sys
from fnmatch import fnmatch
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from scenarios import catalogue
from scenarios.catalogue import Scenario

from .cli_runs import placed, play_one
from .completion import BACKENDS
from .errors import UNKNOWN, VALID, VIOLATION, UsageError
from .expectation import status_of
from .nightly import CLUSTERS, judged, refusal
from .options import counted, printed
from .runs import Result
from .terminal import print_document

app = typer.Typer(help="Documented failures of locks, each with its cure, as files that can be run.",
                  no_args_is_help=True, rich_markup_mode=None)  # fmt: skip


@app.command("list")
def list_command(
    pattern: Annotated[str, typer.Argument(help="Names like this only: 'zk-*'.")] = "*",
    json: Annotated[bool, typer.Option("--json", help="Print a list of objects and nothing else.")] = False,
) -> None:
    """List the scenarios: what each is expected to show, and its story in a line."""
    found = [catalogue.find(name) for name in catalogue.names() if fnmatch(name, pattern)]
    if not found:
        raise UsageError(f"no scenario is called like {pattern!r}")
    if json:
        print_document([_entry(scenario) for scenario in found])
        return
    printed(lambda: _print(found))


def _print(found: list[Scenario]) -> None:
    console = Console(highlight=False)
    if not console.is_terminal:  # a line each, for grep
        for scenario in found:
            line = "\t".join((scenario.name, expected(scenario), scenario.plan.title))
            console.print(line, soft_wrap=True, markup=False)
        return
    table = Table(box=None, pad_edge=False)
    for column in ("name", "expected", "story"):
        table.add_column(column, no_wrap=column == "name")
    for scenario in found:
        table.add_row(scenario.name, expected(scenario), scenario.plan.title)
    console.print(table)
    rows = len({scenario.row for scenario in found})
    console.print(f"{counted(len(found), 'scenario')} of {counted(rows, 'documented failure')}")


def _entry(scenario: Scenario) -> dict[str, Any]:
    plan = scenario.plan
    return {
        "name": scenario.name,
        "row": scenario.row,
        "title": plan.title,
        "source": plan.source,
        "lock": plan.lock,
        "workload": plan.workload,
        "faults": [spec.fault for spec in plan.faults],
        "expect": msgspec.to_builtins(plan.expect),
        "clusters": [cluster for cluster in CLUSTERS["both"] if not refusal(plan, cluster)],
    }


def expected(scenario: Scenario) -> str:
    """In a few words."""
    expect = scenario.plan.expect
    if expect is None:
        return "nothing is"
    if not expect.safe:
        return f"{', '.join(expect.invalid)} violated"
    return f"safe, though {', '.join(expect.invalid)} is violated" if expect.invalid else "safe"


@app.command("show")
def show_command(given: Annotated[str, typer.Argument(help="A name, or a file.", metavar="NAME|FILE")]) -> None:
    """Tell the story of a scenario: where it comes from, what is expected, where it can run, and its file."""
    scenario = catalogue.find(given)
    plan = scenario.plan
    console = Console(highlight=False)
    table = Table(box=None, show_header=False, pad_edge=False)
    for label, text in (("story", plan.title), ("why", plan.about), ("source", plan.source),
                        ("expected", expected(scenario))):  # fmt: skip
        if text:
            table.add_row(label, " ".join(text.split()))
    for cluster in CLUSTERS["both"]:
        table.add_row(f"on {cluster}", refusal(plan, cluster) or f"harness scenario run {given} --cluster {cluster}")
    console.print(table)
    console.print(f"\n{scenario.path}:\n", soft_wrap=True)
    console.print(scenario.path.read_text(encoding="utf-8"), markup=False, soft_wrap=True)


@app.command("run")
def run_command(
    given: Annotated[list[str], typer.Argument(help="Names, or files (also a run's plan.toml).", metavar="NAME|FILE")],
    cluster: Annotated[str, typer.Option(help="auto, sim or docker; else what the file says.")] = "",
    seed: Annotated[int | None, typer.Option(help="Instead of the file's own.")] = None,
    out: Annotated[Path, typer.Option(help="The store.")] = Path("store"),
    json: Annotated[bool, typer.Option("--json", help="Print a result document a line and nothing else.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print the verdicts only.")] = False,
) -> None:
    """Run scenarios and say whether each came out as expected: exit status 0 if all did, 1 if one did not, 3 if nobody
    can tell. A file that expects nothing ends as 'harness run' does."""
    command = shlex.join(["harness", *sys.argv[1:]])
    statuses: list[int] = []
    for scenario in [catalogue.find(name) for name in given]:
        try:
            result = _run(scenario, cluster, seed, out, command, json=json, quiet=quiet)
        except UsageError as error:
            error.add_note(f"in {scenario.path}")
            raise
        statuses.append(
            result.exit_status if result.plan.expect is None else _say(scenario, result, json=json, quiet=quiet)
        )
        if result.interrupted:
            statuses.append(UNKNOWN)  # those that come after it are not run
            break
    raise typer.Exit(max(statuses, key=(VALID, UNKNOWN, VIOLATION).index))


def _run(
    scenario: Scenario, cluster: str, seed: int | None, out: Path, command: str, *, json: bool, quiet: bool
) -> Result:
    plan = scenario.plan if seed is None else msgspec.structs.replace(scenario.plan, seed=seed)
    where = cluster or next(iter(plan.runs_on), plan.cluster)
    if plan.runs_on and where in BACKENDS and where not in plan.runs_on:
        raise UsageError(f"it is {refusal(plan, where)}, as its runs_on says; not of {where}")
    if not json and not quiet and plan.title:
        Console(stderr=True, highlight=False).print(f"{scenario.name}: {plan.title}", soft_wrap=True, markup=False)
    plan, reason = placed(plan, where)
    silent = quiet and plan.expect is not None  # whether it came out as expected is its verdict
    return play_one(plan, out, command, reason, json=json, quiet=quiet, silent=silent)


def _say(scenario: Scenario, result: Result, *, json: bool, quiet: bool) -> int:
    judgement = judged(result)
    console = Console(highlight=False, quiet=json)
    colour = "green" if judgement.state == "as-expected" else "red"
    if quiet:
        console.print(judgement.state, style=colour)
        return status_of([judgement.state])
    console.print(f"[{colour}]{judgement.state}[/] (expected: {expected(scenario)})", soft_wrap=True)
    if judgement.state != "as-expected":
        console.print(judgement.why, soft_wrap=True, markup=False)
    return status_of([judgement.state])
