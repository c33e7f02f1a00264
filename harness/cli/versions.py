"""``--versions`` of several commands: the same plans and seeds with several releases of a package."""

from __future__ import annotations

import contextlib
import math
import shlex
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from harness.documents import VersionsDocument
from harness.documents.versions import VersionPlan
from harness.run.store import new_versions, write_results

from .links import print_place
from .options import printed, progress_bar
from .study_annotations import annotate_versions
from .terminal import print_document
from .verdicts import print_status

VersionsOption = Annotated[
    str,
    typer.Option(
        metavar="PACKAGE==A,B", help="On sim: compare these releases of a library, such as redis==3.5.3,8.1.0."
    ),
]
ImagesOption = Annotated[
    str,
    typer.Option(
        metavar="IMAGE,IMAGE", help="On docker: compare servers: default, redis-6.2.14, valkey-9.1.2, redis:7.4 ..."
    ),
]
Study = Callable[..., VersionsDocument]
"""Makes the document of a comparison; called with ``store``, ``command`` and ``on_line``, and with ``on_build`` if it
builds images."""
SIGNS = {"violated": "✗", "valid": "✓", "unknown": "?", "missing": "–"}


def compare_and_print(
    plans: Sequence[VersionPlan], text: str, out: Path, *, json: bool, quiet: bool, budget_s: float = math.inf
) -> int:
    """Run the plans with the releases that ``text`` names, print what differs, and return the exit status."""
    from harness.studies.compare_releases import VersionsRequest, compare_releases
    from harness.studies.versions import parse_versions

    package, releases = parse_versions(text)
    request = VersionsRequest(tuple(plans), package, releases, budget_s)
    return _printed(partial(compare_releases, request), out, json=json, quiet=quiet)


def _printed(compare: Study, out: Path, *, json: bool, quiet: bool, builds: bool = False) -> int:
    from harness.studies.versions import exit_status

    document, folder = _compared(compare, out, quiet=json or quiet, builds=builds)
    status = exit_status(document)

    def write() -> None:
        if json:
            print_document(document)
        elif quiet:
            print_status(status)
        else:
            _print(document, folder)

    printed(write)
    annotate_versions(document, folder / "versions.html")
    return status


def compare_images_and_print(plans: Sequence[VersionPlan], text: str, out: Path, *, json: bool, quiet: bool) -> int:
    """Run the plans on the servers that ``text`` names, print what differs, and return the exit status."""
    from harness.studies.compare_images import ImagesRequest, compare_images

    request = ImagesRequest(tuple(plans), tuple(name.strip() for name in text.split(","))).check()
    return _printed(partial(compare_images, request), out, json=json, quiet=quiet, builds=True)


def _compared(compare: Study, out: Path, *, quiet: bool, builds: bool) -> tuple[VersionsDocument, Path]:
    from harness.reports import versions_report

    console = Console(stderr=True, quiet=quiet, highlight=False, markup=False, soft_wrap=True)
    command = shlex.join(["harness", *sys.argv[1:]])
    started = datetime.now(UTC)
    with contextlib.redirect_stdout(sys.stderr), progress_bar(console, "compare") as progress:

        def on_line(line: str) -> None:
            progress(0.0, f"running: {line}")
            console.print(line)

        building = {"on_build": lambda line: progress(0.0, f"starting: {line}")} if builds else {}
        document = compare(store=out, command=command, on_line=on_line, **building)
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
    reported = {one.version: one.server for one in document.cells if one.server}
    for version, server in reported.items():
        console.print(f"servers {version}: {server}")
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
