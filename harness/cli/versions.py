"""``--versions`` of several commands: the same plans and seeds with several releases of a package."""

from __future__ import annotations

import contextlib
import math
import shlex
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from harness.documents import VersionsDocument
from harness.documents.versions import VersionPlan
from harness.run.store import new_versions, write_results

from .links import print_place
from .options import printed
from .terminal import print_document
from .verdicts import print_status

if TYPE_CHECKING:
    from harness.studies.compare_releases import VersionsRequest

VersionsOption = Annotated[
    str,
    typer.Option(
        metavar="PACKAGE==A,B", help="On sim: compare these releases of a library, such as redis==3.5.3,8.1.0."
    ),
]
SIGNS = {"violated": "✗", "valid": "✓", "unknown": "?", "missing": "–"}


def compare_and_print(
    plans: Sequence[VersionPlan], text: str, out: Path, *, json: bool, quiet: bool, budget_s: float = math.inf
) -> int:
    """Run the plans with the releases that ``text`` names, print what differs, and return the exit status."""
    from harness.studies.compare_releases import VersionsRequest
    from harness.studies.versions import exit_status, parse_versions

    package, releases = parse_versions(text)
    request = VersionsRequest(tuple(plans), package, releases, budget_s)
    document, folder = _compared(request, out, quiet=json or quiet)
    status = exit_status(document)

    def write() -> None:
        if json:
            print_document(document)
        elif quiet:
            print_status(status)
        else:
            _print(document, folder)

    printed(write)
    return status


def _compared(request: VersionsRequest, out: Path, *, quiet: bool) -> tuple[VersionsDocument, Path]:
    from harness.reports import versions_report
    from harness.studies.compare_releases import compare_releases

    console = Console(stderr=True, quiet=quiet, highlight=False, markup=False, soft_wrap=True)
    command = shlex.join(["harness", *sys.argv[1:]])
    started = datetime.now(UTC)
    with contextlib.redirect_stdout(sys.stderr):
        document = compare_releases(request, store=out, command=command, on_line=console.print)
        folder = new_versions(out, document.lock, started)
        write_results(folder, document, "versions.json")
        versions_report.write(document, folder)
    return document, folder


def _print(document: VersionsDocument, folder: Path) -> None:
    console = Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
    console.print(document.conclusion, style="bold")
    states = {(one.plan, one.version): one.state for one in document.cells}
    widest = max(len(named.name) for named in document.plans)
    for named in document.plans:
        cells = [f"{SIGNS.get(states.get((named.name, one), ''), ' ')} {one}" for one in document.releases]
        console.print(f"  {named.name:<{widest}}  {'  '.join(cells)}")
    for heading, found in (("differs", document.differences), ("the same everywhere", document.common)):
        for one in found:
            console.print(f"{heading}: {one.plan}: {one.sentence}")
            for step in one.story.steps:
                console.print(f"  {step.number}. {'' if step.at is None else f'At {step.at:.3f} s '}{step.text}.")
            if one.story.ending:
                console.print(f"  {one.story.ending}")
    for cell in document.cells:
        if cell.reason:
            console.print(f"{cell.state}: {cell.plan}, {cell.version}: {cell.reason}")
    print_place("report", folder / "versions.html")
