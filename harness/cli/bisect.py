"""``harness bisect``: find the release of a package that introduced or fixed a failure."""

from __future__ import annotations

import contextlib
import shlex
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from rich.console import Console

from harness import plan as plans
from harness.documents import BisectDocument, DocumentError, load_hunt, load_run
from harness.documents.bisect import BisectQuestion
from harness.errors import UNKNOWN, VALID, UsageError
from harness.plan import Plan
from harness.run.store import PLAN, RESULTS, new_bisection, write_results

from .links import print_place
from .options import (
    STORE,
    AllowOption,
    JsonOption,
    KindOption,
    LockArgument,
    OutOption,
    PythonOption,
    QuietOption,
    TrustOption,
    WithOption,
    chosen_kind,
    duration,
    lock_options,
    names_in,
    printed,
    refuse_strange_code,
    single_command,
    with_requirements,
)
from .run import faults_named
from .stored_plans import plan_file
from .study_annotations import annotate_bisection
from .terminal import print_document

if TYPE_CHECKING:
    from harness.studies.bisect_releases import BisectRequest

DEFAULTS = Plan(lock="")
HUNT = "hunt.json"
MOST_RUNS = 1_000_000


def bisect_command(
    lock: LockArgument,
    package: Annotated[str, typer.Option(help="Package whose releases are searched, such as redis.")],
    good: Annotated[str, typer.Option(metavar="RELEASE", help="A release without the failure; may be the newer one.")],
    bad: Annotated[str, typer.Option(metavar="RELEASE", help="A release with the failure.")],
    question: Annotated[
        Path | None,
        typer.Option(metavar="FILE|FOLDER", help="The failure: a plan, a counterexample, or a run's or hunt's folder."),
    ] = None,
    nemesis: Annotated[str, typer.Option(help="Without --question: faults, as for 'harness run'.")] = "none",
    workload: Annotated[str, typer.Option(help="Without --question: what clients do.")] = DEFAULTS.workload,
    clients: Annotated[int, typer.Option(help="Without --question: number of clients.")] = DEFAULTS.clients,
    ttl: Annotated[str, typer.Option(metavar="DURATION", help="Without --question: lease time.")] = "2s",
    hold: Annotated[
        str, typer.Option(metavar="DURATION", help="Without --question: time in a critical section.")
    ] = "100ms",
    time_limit: Annotated[str, typer.Option(metavar="DURATION", help="Without --question: duration of a run.")] = "60s",
    kind: KindOption = "",
    lock_option: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="An option of the lock; repeatable.")
    ] = None,
    look_for: Annotated[
        str, typer.Option(metavar="A,B", help="Checkers whose violation is the failure; default: the question's.")
    ] = "",
    seed: Annotated[int | None, typer.Option(help="The first seed; default: the question's.")] = None,
    runs: Annotated[int, typer.Option(help="Runs of each release, with consecutive seeds.")] = 1,
    releases: Annotated[
        str, typer.Option(metavar="A,B", help="Search these releases instead of those that the index lists.")
    ] = "",
    prereleases: Annotated[bool, typer.Option("--prereleases", help="Search pre-releases, too.")] = False,
    yanked: Annotated[bool, typer.Option("--yanked", help="Search yanked releases, too.")] = False,
    with_: WithOption = None,
    python: PythonOption = "",
    trust: TrustOption = False,
    allow: AllowOption = None,
    out: OutOption = STORE,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Find the first release of a package that introduced or fixed a failure of a lock, on the simulator.

    Exit status: 0 if one release is found, 3 if skipped releases or an interrupt leave several.
    """
    from harness.studies.bisect_releases import BisectRequest

    if not 1 <= runs <= MOST_RUNS:
        raise UsageError(f"runs must be from 1 to {MOST_RUNS:,}, got {runs:,}")
    if question is not None:
        plan, named = _read(question)
        refuse_strange_code(plan, question, trust=trust, allow=allow)
        plan = msgspec.structs.replace(plan, lock=lock)
    else:
        options = {
            **{"lock": lock, "kind": chosen_kind(lock, kind, ""), "workload": workload, "clients": clients},
            **{"ttl": duration("ttl", ttl), "hold": duration("hold", hold)},
            **{"time_limit": duration("time-limit", time_limit), "lock_options": lock_options(lock_option)},
        }
        plan, named = _planned(options, nemesis), ()
    plan = with_requirements(plan, with_, python)
    first = plan.seed if seed is None else seed
    request = BisectRequest(
        question=BisectQuestion(
            plan=plan,
            look_for=tuple(names_in(look_for)) or named,
            seeds=tuple(range(first, first + runs)),
            source="" if question is None else str(question),
        ),
        package=package,
        good=good,
        bad=bad,
        prereleases=prereleases,
        yanked=yanked,
        only=tuple(names_in(releases)),
    )
    document, folder = _bisected(request, out, quiet=json or quiet)
    printed(lambda: _print(document, folder, json=json, quiet=quiet))
    annotate_bisection(document, folder / "bisect.html")
    raise typer.Exit(VALID if document.first_changed is not None else UNKNOWN)


def _planned(options: dict[str, Any], nemesis: str) -> Plan:
    plan = plans.decode(options)
    return msgspec.structs.replace(plan, faults=tuple(faults_named(nemesis, plan.ttl)))


def _read(given: Path) -> tuple[Plan, tuple[str, ...]]:
    """Return the plan of a question, and the checkers that say invalid there."""
    if (given / HUNT).is_file():
        findings = load_hunt(given / HUNT).findings
        if not findings or findings[0].plan is None:
            raise UsageError(f"{given}: this hunt found no failure")
        return findings[0].plan, findings[0].broken[:1]
    path = plan_file(given, "a run or of a hunt")
    plan = plans.load(path)
    if plan.expect is not None and not plan.expect.safe:
        return plan, tuple(plan.expect.invalid)
    return plan, _violated(path.parent / RESULTS) if path.name == PLAN else ()


def _violated(results: Path) -> tuple[str, ...]:
    """Return the checkers that said invalid in a stored run."""
    try:
        return tuple(name for name, found in load_run(results).checkers.items() if found.valid is False)
    except DocumentError:
        return ()


def _bisected(request: BisectRequest, out: Path, *, quiet: bool) -> tuple[BisectDocument, Path]:
    from harness.reports import bisect_report
    from harness.studies.bisect_releases import bisect_releases

    console = Console(stderr=True, quiet=quiet, highlight=False, markup=False, soft_wrap=True)
    command = shlex.join(["harness", *sys.argv[1:]])
    started = datetime.now(UTC)
    with contextlib.redirect_stdout(sys.stderr):
        document = bisect_releases(request, store=out, command=command, on_line=console.print)
        folder = new_bisection(out, document.lock, started)
        write_results(folder, document, "bisect.json")
        bisect_report.write(document, folder)
    return document, folder


def _print(document: BisectDocument, folder: Path, *, json: bool, quiet: bool) -> None:
    if json:
        print_document(document)
        return
    console = Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
    console.print(document.conclusion, style="bold")
    if quiet:
        return
    for step in document.story.steps:
        at = "" if step.at is None else f"At {step.at:.3f} s "
        console.print(f"  {step.number}. {at}{step.text}.")
    if document.story.ending:
        console.print(f"  {document.story.ending}")
    if document.changelog is not None:
        console.print(f"changelog ({document.changelog.source}):")
        for line in document.changelog.lines:
            console.print(f"  {line}")
    for line in document.repeat:
        console.print(f"repeat: {line}")
    console.print(f"tried: {len(document.trials)} of {len(document.releases)} releases in {document.seconds:.1f} s")
    print_place("for an issue", folder / "bisect.md")
    print_place("report", folder / "bisect.html")


app = single_command(bisect_command)
