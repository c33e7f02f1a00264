"""``harness scenario``: list, show and run documented failures, their cures, and a user's own scenario files."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from harness.errors import UNKNOWN, VALID, VIOLATION, UsageError
from harness.plan import BACKENDS, Plan, allowing
from harness.plan.mechanism import mechanism_text
from harness.run.plans.lock_facts import stated_origin
from harness.run.store import REPORT
from harness.run.verdicts.expectation import ExpectationResult, status_of
from harness.run.verdicts.judging import Result
from harness.scenarios import catalogue
from harness.scenarios.catalogue import Scenario
from harness.studies.nightly_cases import CLUSTERS, judge_run, refusal
from harness.studies.scenario_command import scenario_command
from harness.wording import counted

from . import scenario_ablate
from .annotations import annotate, annotate_result
from .command import Commands
from .completion import complete_scenarios
from .options import (
    STORE,
    AllowOption,
    ListJsonOption,
    OutOption,
    QuietOption,
    TrustOption,
    printed,
    refuse_strange_code,
)
from .run_options import Image
from .run_shared import complete_for, run_and_print
from .terminal import print_document

app = Commands(help="Documented failures of locks, each with its cure, as files that can be run.", no_args_is_help=True)


@app.command("list")
def list_command(
    pattern: Annotated[str, typer.Argument(help="Only names that match, such as 'zk-*'.")] = "*",
    json: ListJsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """List the scenarios, with what each is expected to show and its title."""
    found = [catalogue.find(name) for name in catalogue.names() if fnmatch(name, pattern)]
    if not found:
        raise UsageError(f"no scenario matches {pattern!r}")
    if json:
        print_document([_entry(scenario) for scenario in found])
        return
    printed(lambda: print("\n".join(scenario.name for scenario in found)) if quiet else _print(found))


def _print(found: list[Scenario]) -> None:
    console = Console(highlight=False)
    if not console.is_terminal:  # a line each, for grep
        for scenario in found:
            line = "\t".join((scenario.name, expected(scenario), scenario.plan.title, what_runs(scenario)))
            console.print(line, soft_wrap=True, markup=False)
        return
    table = Table(box=None, pad_edge=False)
    for column in ("name", "expected", "title", "what runs"):
        table.add_column(column, no_wrap=column == "name")
    for scenario in found:
        table.add_row(*map(escape, (scenario.name, expected(scenario), scenario.plan.title, what_runs(scenario))))
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
        "what_runs": what_runs(scenario),
        "workload": plan.workload,
        "faults": [spec.fault for spec in plan.faults],
        "expect": msgspec.to_builtins(plan.expect),
        "clusters": [cluster for cluster in CLUSTERS["both"] if not refusal(plan, cluster)],
    }


def expected(scenario: Scenario) -> str:
    """Return in a few words what the scenario is expected to show."""
    expect = scenario.plan.expect
    if expect is None:
        return "no expectation"
    if not expect.safe:
        violated = [f"{', '.join(expect.invalid)} violated"] if expect.invalid else []
        untested = [f"{', '.join(expect.untested)} not tested"] if expect.untested else []
        return ", ".join((*violated, *untested))
    return f"safe, though {', '.join(expect.invalid)} is violated" if expect.invalid else "safe"


app.command("ablate")(scenario_ablate.ablate_command)


def _mechanism(plan: Plan) -> str:
    return "" if plan.expect is None else mechanism_text(plan.expect.mechanism)


def what_runs(scenario: Scenario) -> str:
    """Return whether the scenario's lock is of the catalogue, a library or a model of one; empty for a user's own."""
    origin = stated_origin(scenario.plan.lock, scenario.plan.requires)
    return "" if origin is None else origin.sentence


@app.command("show")
def show_command(
    given: Annotated[
        str, typer.Argument(help="A name, or a file.", metavar="NAME|FILE", autocompletion=complete_scenarios)
    ],
    quiet: QuietOption = False,
) -> None:
    """Show a scenario: why the failure happens, its source, what is expected, where it can run, and its file."""
    scenario = catalogue.find(given)
    if quiet:
        printed(lambda: print(expected(scenario)))
        return
    plan = scenario.plan
    console = Console(highlight=False)
    table = Table(box=None, show_header=False, pad_edge=False)
    for label, text in (("title", plan.title), ("why", plan.about), ("source", plan.source),
                        ("what runs", what_runs(scenario)), ("expected", expected(scenario)),
                        ("mechanism", _mechanism(plan)), ("unlike its failure", plan.twin)):  # fmt: skip
        if text:
            table.add_row(label, escape(" ".join(text.split())))
    # Asking where it can run would import the code that a stranger's file names.
    strange = [] if scenario.catalogued else allowing(plan)
    for cluster in CLUSTERS["both"]:
        command = scenario_command(given, cluster, options=strange)
        table.add_row(f"on {cluster}", (not strange and refusal(plan, cluster)) or command)
    console.print(table)
    console.print(f"\n{scenario.path}:\n", soft_wrap=True)
    console.print(scenario.path.read_text(encoding="utf-8"), markup=False, soft_wrap=True)


@app.command("run")
def run_command(
    given: Annotated[
        list[str],
        typer.Argument(
            help="Names, or files (also a run's plan.toml).", metavar="NAME|FILE", autocompletion=complete_scenarios
        ),
    ],
    cluster: Annotated[str, typer.Option(help="auto, sim or docker; default: as in the file.")] = "",
    image: Image = "",
    seed: Annotated[int | None, typer.Option(help="Seed to use instead of the one in the file.")] = None,
    trust: TrustOption = False,
    allow: AllowOption = None,
    out: OutOption = STORE,
    json: Annotated[bool, typer.Option("--json", help="Print one result document per line and nothing else.")] = False,
    quiet: QuietOption = False,
) -> None:
    """Run scenarios and say whether each verdict is as expected.

    Exit status: 0 if all are, 1 if one is not, 3 if one is unknown. A file without [expect] ends as 'harness run' does.
    """
    command = shlex.join(["harness", *sys.argv[1:]])
    statuses: list[int] = []
    scenarios = [catalogue.find(name) for name in given]
    for scenario in scenarios:
        if not scenario.catalogued:
            refuse_strange_code(scenario.plan, scenario.path, trust=trust, allow=allow)
    for scenario in scenarios:
        try:
            result = _run(_with_image(scenario, image), cluster, seed, out, command, json=json, quiet=quiet)
        except UsageError as error:
            error.add_note(f"in {scenario.path}")
            raise
        statuses.append(_conclude(scenario, result, json=json, quiet=quiet))
        if result.interrupted:
            statuses.append(UNKNOWN)  # later ones are not run
            break
    raise typer.Exit(max(statuses, key=(VALID, UNKNOWN, VIOLATION).index))


def _with_image(scenario: Scenario, image: str) -> Scenario:
    """Return the scenario with this image of servers, if one was named."""
    return replace(scenario, plan=msgspec.structs.replace(scenario.plan, image=image)) if image else scenario


def _run(
    scenario: Scenario, cluster: str, seed: int | None, out: Path, command: str, *, json: bool, quiet: bool
) -> Result:
    plan = scenario.plan if seed is None else msgspec.structs.replace(scenario.plan, seed=seed)
    where = cluster or next(iter(plan.runs_on), plan.cluster)
    if plan.runs_on and where in BACKENDS and where not in plan.runs_on:
        raise UsageError(f"{scenario.name} cannot run on {where}: it is {refusal(plan, where)} (runs_on)")
    if not json and not quiet and plan.title:
        Console(stderr=True, highlight=False).print(f"{scenario.name}: {plan.title}", soft_wrap=True, markup=False)
    plan, reason = complete_for(plan, where)
    silent = quiet and plan.expect is not None  # as-expected or not is its verdict
    return run_and_print(plan, out, command, reason, json=json, quiet=quiet, silent=silent)


def _conclude(scenario: Scenario, result: Result, *, json: bool, quiet: bool) -> int:
    """Print whether the result of a run is the expected one, and return the exit status."""
    if result.plan.expect is None:
        annotate_result(result, (scenario.path, 1))
        return result.exit_status
    return _print_scenario(scenario, result, json=json, quiet=quiet)


def _annotate(scenario: Scenario, result: Result, judgement: ExpectationResult) -> None:
    """Annotate the scenario's file if its result is not the expected one."""
    status = status_of([judgement.state])
    valid = {VALID: True, VIOLATION: False}.get(status)
    report = None if result.folder is None else result.folder / REPORT
    annotate(valid, scenario.name, f"{judgement.state}: {judgement.why}", report, (scenario.path, 1))


def _print_scenario(scenario: Scenario, result: Result, *, json: bool, quiet: bool) -> int:
    judgement = judge_run(result)
    _annotate(scenario, result, judgement)
    console = Console(highlight=False, quiet=json)
    colour = "green" if judgement.state == "as-expected" else "red"
    if quiet:
        console.print(judgement.state, style=colour)
        return status_of([judgement.state])
    console.print(f"[{colour}]{judgement.state}[/] (expected: {expected(scenario)})", soft_wrap=True)
    if judgement.state != "as-expected":
        console.print(judgement.why, soft_wrap=True, markup=False)
    return status_of([judgement.state])
