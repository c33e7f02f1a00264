"""``harness nightly``: the whole suite, held against what is expected of it."""

from __future__ import annotations

import contextlib
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from fnmatch import fnmatch
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from scenarios import catalogue
from scenarios.catalogue import Scenario

from .completion import no_engine
from .errors import USAGE, VALID, EnvironmentLacking, UsageError
from .expectation import OPEN, WRONG, Outcome
from .nightly import CLUSTERS, LANES, nightly
from .options import counted, printed, progress_bar
from .results_db import RESULTS_DB, add, nights
from .terminal import print_document, print_status

SAFE: Final = ".safe"
PAGE: Final = "index.html"


def nightly_command(
    suite: Annotated[str, typer.Option(help="smoke, or full: more seeds, and everything on docker.")] = "smoke",
    cluster: Annotated[str, typer.Option(help=f"{', '.join(CLUSTERS)}.")] = "sim",
    only: Annotated[str, typer.Option(help="Scenarios whose name is like this: 'zk-*'.", metavar="PATTERN")] = "",
    workers: Annotated[int, typer.Option(help="Processes for simulated runs; 0 is one a core.")] = 0,
    lanes: Annotated[int, typer.Option(help="Clusters of containers at work at a time.")] = LANES,
    out: Annotated[Path, typer.Option(help="The store.")] = Path("store"),
    junit: Annotated[Path | None, typer.Option(help="Write a JUnit file, too.", metavar="FILE")] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page, too.", metavar="DIR")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the night's document and nothing else.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print the verdict only.")] = False,
) -> None:
    """Run every scenario and compare with what is expected: known failures stay found, and safe locks safe."""
    chosen = None if not only else _like(only)
    if workers < 0:
        raise UsageError(f"workers must not be negative, got {workers}")
    if lanes < 1:
        raise UsageError(f"lanes must be at least 1, got {lanes}")
    if cluster != "sim" and (missing := no_engine()):
        raise EnvironmentLacking(f"{missing}: 'harness doctor' says what is missing; --cluster sim needs none")
    _refuse_outputs(out, junit, html)
    console = Console(stderr=True, quiet=json or quiet, highlight=False)
    with contextlib.redirect_stdout(sys.stderr), progress_bar(console, f"nightly {suite}") as progress:
        progress(0.0, "starting: the first of them")

        def tell(outcome: Outcome, number: int, of: int) -> None:
            progress(number / of, f"running: {number} of {of} · {outcome.scenario} on {outcome.cluster}")
            seeded = f"{outcome.scenario} on {outcome.cluster}, seed {outcome.seed}"
            if outcome.state in (*WRONG, *OPEN):
                console.print(f"[red]{outcome.state}[/] {seeded}: {escape(outcome.why)}", soft_wrap=True)
            elif not console.is_terminal:  # a log has no bar
                console.print(f"{number} of {of}: {seeded}: {outcome.state}", soft_wrap=True)

        night = nightly(suite, cluster, store=out, scenarios=chosen, workers=workers or None, lanes=lanes, tell=tell)
    if only:  # not to be compared with whole nights
        night["suite"] += f", only {only}"
    printed(lambda: print_status(night["status"]) if quiet and not json else _print(night, json=json))
    failed = _store(night, out, junit, html)
    for line in failed:
        typer.echo(f"harness: {line}", err=True)
    if not json and not quiet:
        for path in (junit, html / PAGE if html else None):
            if path is not None and path.exists():
                typer.echo(f"written: {path}")
    raise typer.Exit(night["status"] or (USAGE if failed else VALID))


def _refuse_outputs(out: Path, junit: Path | None, html: Path | None) -> None:
    """Before the night, not after it: what cannot be written to."""
    database = out / RESULTS_DB
    if database.exists():
        nights(database)  # raises UsageError if it is none
    try:
        out.mkdir(parents=True, exist_ok=True)
        if html is not None:
            html.mkdir(parents=True, exist_ok=True)
        if junit is not None:
            junit.parent.mkdir(parents=True, exist_ok=True)
            junit.open("a").close()
    except OSError as error:
        raise UsageError(f"cannot write {error.filename}: {error.strerror}") from error


def _like(pattern: str) -> list[Scenario]:
    found = [catalogue.find(name) for name in catalogue.names() if fnmatch(name, pattern)]
    if not found:
        raise UsageError(f"no scenario is called like {pattern!r}; see 'harness scenario list'")
    return found


def _store(night: dict[str, Any], out: Path, junit: Path | None, html: Path | None) -> list[str]:
    """Write everything that can be written; returns what could not be, in words."""
    from reports import junit as junit_report
    from reports import nightly_report

    todo: list[Callable[[], object]] = []
    if junit is not None:
        todo.append(lambda: junit_report.write(night, junit))
    if html is not None:
        todo.append(lambda: nightly_report.write(night, html))
    if not night["interrupted"]:  # tomorrow is not to be compared with half a night
        todo.append(lambda: add(out / RESULTS_DB, night))
    failed: list[str] = []
    for write in todo:
        try:
            write()
        except OSError as error:
            failed.append(f"cannot write {error.filename}: {error.strerror}")
        except UsageError as error:
            failed.append(str(error))
    return failed


def _print(night: dict[str, Any], *, json: bool) -> None:
    if json:
        print_document(night)
        return
    console = Console(highlight=False)
    console.print(_table(night))
    outcomes: list[dict[str, Any]] = night["outcomes"]
    wrong = [outcome for outcome in outcomes if outcome["state"] in (*WRONG, *OPEN)]
    for outcome in wrong:
        kept = f" ({outcome['folder']})" if outcome["folder"] else ""
        console.print(
            f"[red]{outcome['state']}[/] {outcome['scenario']} on {outcome['cluster']}, seed {outcome['seed']}: "
            f"{escape(outcome['why'])}{kept}",
            soft_wrap=True,
        )
    idle = {f"{outcome['scenario']} on {outcome['cluster']}": outcome["why"] for outcome in outcomes
            if outcome["state"] == "not-run"}  # fmt: skip
    for reason in dict.fromkeys(idle.values()):
        names = ", ".join(name for name, why in idle.items() if why == reason)
        console.print(f"not run: {names}: {reason}", soft_wrap=True, markup=False)
    rows = len({outcome["row"] for outcome in outcomes})
    states = Counter(outcome["state"] for outcome in outcomes)
    counts = ", ".join(f"{count} {state}" for state, count in states.most_common())
    told = f"{counted(rows, 'documented failure')}, {counted(len(outcomes), 'run')}"
    console.print(f"{told} in {night['seconds']:.0f} s: {counts}", soft_wrap=True)


def _table(night: dict[str, Any]) -> Table:
    """A line for each story: found on which cluster, and is its cure safe there?"""
    cells: defaultdict[str, defaultdict[tuple[str, bool], list[dict[str, Any]]]]
    cells = defaultdict(lambda: defaultdict(list))
    for outcome in night["outcomes"]:
        story = outcome["scenario"].removesuffix(SAFE)
        cells[story][outcome["cluster"], outcome["safe"]].append(outcome)
    table = Table(box=None, pad_edge=False)
    table.add_column("story", no_wrap=True)
    for cluster in night["clusters"]:
        table.add_column(f"found on {cluster}", no_wrap=True)
        table.add_column("cure", no_wrap=True)
    for story in sorted(cells):
        told = [_cell(cells[story][cluster, safe]) for cluster in night["clusters"] for safe in (False, True)]
        table.add_row(story, *told)
    return table


def _cell(outcomes: Iterable[dict[str, Any]]) -> str:
    """Of all seeds: the worst state, or how soon it was found (the median)."""
    found = list(outcomes)
    if not found:
        return ""
    states = {outcome["state"] for outcome in found}
    for state in (*WRONG, *OPEN):
        if state in states:
            return f"[red]{state}[/]"
    if states == {"not-run"}:
        return "[dim]not run[/]"
    if found[0]["safe"]:
        return "[green]safe[/]"
    times = sorted(outcome["found_s"] for outcome in found if outcome["found_s"] is not None)
    return f"[green]{times[len(times) // 2]:.1f} s[/]" if times else "[green]found[/]"
