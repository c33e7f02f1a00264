"""``harness compare``: which lock should I use, and what does it cost me?"""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections import Counter
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from .cli_runs import AUTO
from .comparing import DOCUMENT, Watch, compare, exit_status
from .comparing.plans import DEFAULTS, NEMESES, Asked, Job, chosen, jobs
from .comparing.play import Document, Outcome
from .completion import BACKENDS, no_engine
from .errors import EnvironmentLacking, UsageError
from .nightly import LANES
from .options import counted, duration, printed, progress_bar
from .progress import Progress
from .terminal import WIDE, print_document

RUNS: Final = {"sim": 3, "docker": 1}
SIGNS: Final = {
    "safe": ("✓", "green", "never two holders, and there when it should be"),
    "fenced": ("◆", "cyan", "two holders, and the fence refused the late one"),
    "unsafe": ("✗", "bold red", "two holders, or a broken resource, and nothing stopped it"),
    "unavailable": ("○", "magenta", "not to be had when it should have been"),
    "unknown": ("?", "yellow", "nobody can tell"),
    "not-run": ("–", "dim", "the fault means nothing there"),
}


def compare_command(
    locks: Annotated[str, typer.Option(help="Names or families with commas (redis, etcd ...), or all.")] = "all",
    nemeses: Annotated[str, typer.Option(help="Faults with commas; none: also without any.")] = ",".join(NEMESES),
    cluster: Annotated[str, typer.Option(help="auto (docker where an engine answers), sim or docker.")] = AUTO,
    runs: Annotated[int, typer.Option(help="Of each cell, with consecutive seeds; 0: 3 on sim, 1 on docker.")] = 0,
    seed: Annotated[int, typer.Option(help="The first one.")] = 0,
    clients: Annotated[int, typer.Option(help="Who compete for the lock.")] = DEFAULTS.clients,
    time_limit: Annotated[str, typer.Option(metavar="DURATION", help="Of each run.")] = f"{DEFAULTS.time_limit:g}s",
    workers: Annotated[int, typer.Option(help="Processes for simulated runs; 0: one a processor.")] = 0,
    lanes: Annotated[int, typer.Option(help="Clusters of containers at work at a time.")] = LANES,
    out: Annotated[Path, typer.Option(help="The store.")] = Path("store"),
    json: Annotated[bool, typer.Option("--json", help="Print the document and nothing else.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print the page's path only.")] = False,
) -> None:
    """Compare locks: what each fault does to each, which properties they have, and what they cost.

    Exit status 0 if every cell says something, whatever it says, and 3 if one is unknown.
    """
    for name, value, least in (("runs", runs, 0), ("workers", workers, 0), ("lanes", lanes, 1)):
        if value < least:
            raise UsageError(f"{name} must be at least {least}, got {value}")
    chosen_cluster, why = backend(cluster)
    wanted, left_out = chosen(locks, chosen_cluster)
    asked = Asked(
        locks=wanted,
        nemeses=tuple(name.strip() for name in nemeses.split(",") if name.strip()),
        cluster=chosen_cluster,
        runs=runs or RUNS[chosen_cluster],
        seed=seed,
        clients=clients,
        time_limit=duration("time-limit", time_limit),
        left_out=left_out,
    )
    jobs(asked)  # what is wrong is said before a bar is drawn
    console = Console(stderr=True, quiet=json or quiet, highlight=False)
    because = f" ({why})" if why else ""
    faults = counted(len(asked.nemeses), "fault")
    console.print(f"cluster: {chosen_cluster}{because}; {counted(len(wanted), 'lock')}, {faults}", soft_wrap=True)
    document, page = _compared(asked, out, workers or None, lanes, console)
    printed(lambda: _tell(document, page, json=json, quiet=quiet))
    raise typer.Exit(exit_status(document))


def backend(cluster: str) -> tuple[str, str]:
    """The cluster on which all of it is run, and why this one."""
    if cluster not in (AUTO, *BACKENDS):
        raise UsageError(f"cluster must be one of {', '.join([AUTO, *BACKENDS])}, got {cluster!r}")
    if cluster == "sim":
        return cluster, ""
    missing = no_engine()
    if cluster == AUTO:
        return ("sim", missing) if missing else ("docker", "a Docker engine answers")
    if missing:
        raise EnvironmentLacking(f"{missing}: 'harness doctor' says what is missing; --cluster sim needs none")
    return cluster, ""


def _compared(asked: Asked, out: Path, workers: int | None, lanes: int, console: Console) -> tuple[Document, Path]:
    """The document, and its page."""
    from reports import comparison

    # What a lock prints must not get between the lines of a document.
    with contextlib.redirect_stdout(sys.stderr), progress_bar(console, "compare") as progress:
        command = shlex.join(["harness", *sys.argv[1:]])
        watch = _Shown(progress, console)
        document, folder = compare(asked, store=out, command=command, workers=workers, lanes=lanes, watch=watch)
        progress(1.0, "writing: the page")
        try:
            return document, comparison.write(folder)
        except OSError as error:
            raise UsageError(f"cannot write the page of {folder / DOCUMENT}: {error}") from error


class _Shown(Watch):
    """How many are done of all, and which are being played; on what is no terminal a line for each."""

    def __init__(self, progress: Progress, console: Console) -> None:
        self._progress = progress
        self._console = console
        self._playing: list[Job] = []
        self._done = self._of = 0

    def todo(self, count: int) -> None:
        self._of = count
        self._tell()

    def begun(self, job: Job) -> None:
        self._playing.append(job)
        self._tell()

    def done(self, job: Job, outcome: Outcome) -> None:
        self._playing.remove(job)
        self._done += 1
        self._tell()
        if not self._console.is_terminal:
            line = f"{self._done} of {self._of}: {job.lock}, {_said(job, outcome)}"
            self._console.print(line, soft_wrap=True, markup=False)

    def _tell(self) -> None:
        playing = ", ".join(f"{job.lock} {job.name}" for job in self._playing)
        self._progress(self._done / self._of, f"running: {self._done} of {self._of} · {playing}")


def _said(job: Job, outcome: Outcome) -> str:
    if job.part == "cell":
        return f"{job.name}: {outcome.cell['state']}"
    if job.part == "property":
        return f"{job.name}: {outcome.property['found']}"
    rate = outcome.cost["acquires_per_second"]
    return f"cost {job.name}: {'not measured' if rate is None else f'{rate:g} grants a second'}"


# What is printed when it is over.


def _tell(document: Document, page: Path, *, json: bool, quiet: bool) -> None:
    if json:
        print_document(document)
        return
    console = Console(highlight=False)
    if not quiet:
        if not console.is_terminal:
            console.width = WIDE
        tell_matrix(document, console)
    console.print(str(page) if quiet else f"page: {page}", soft_wrap=True, markup=False)
    if not quiet:
        for other in (page.with_suffix(suffix) for suffix in (".md", ".csv")):
            console.print(f"      {other}", soft_wrap=True, markup=False)


def tell_matrix(document: Document, console: Console) -> None:
    table = _matrix(document, words=True)
    wanted = console.measure(table, options=console.options.update(width=2 * WIDE)).maximum
    console.print(table if wanted <= console.width else _matrix(document, words=False))
    states = Counter(cell["state"] for lock in document["locks"] for cell in lock["cells"].values())
    console.print()
    for state, (sign, colour, meaning) in SIGNS.items():
        if states[state]:
            console.print(f"[{colour}]{sign} {state}[/]: {meaning} ({states[state]})", soft_wrap=True)
    for measure in document["ranking"]["measures"]:
        _tell_ranking(measure, document["ranking"]["claimed"], console)
    for left in document["left_out"]:
        console.print(f"left out: {left['lock']}: {left['why']}", soft_wrap=True, markup=False)
    if document["interrupted"]:
        found = [cell for lock in document["locks"] for cell in lock["cells"].values()]
        missed = sum(cell["state"] == "unknown" and not cell["runs"] for cell in found)
        console.print(f"interrupted: {missed} of {counted(len(found), 'cell')} not reached", soft_wrap=True)


def _matrix(document: Document, *, words: bool) -> Table:
    """A line a lock; where there is no room for words, signs, and what they mean is said below."""
    table = Table(box=None, pad_edge=False)
    table.add_column("lock", no_wrap=True)
    for nemesis in document["nemeses"]:
        name = nemesis["name"]
        table.add_column(name if words else name.replace("-", "-\n"), no_wrap=words)
    for lock in document["locks"]:
        table.add_row(escape(lock["name"]), *(_sign(cell["state"], words=words) for cell in lock["cells"].values()))
    return table


def _sign(state: str, *, words: bool) -> str:
    sign, colour, _ = SIGNS[state]
    return f"[{colour}]{sign} {state}[/]" if words else f"[{colour}]{sign}[/]"


def _tell_ranking(measure: Document, claimed: list[str], console: Console) -> None:
    values = ", ".join(f"{service} {measure['values'][service]:g}" for service in measure["order"])
    holds = "as" if measure["agrees"] else "not as"
    order = ", ".join(service for service in claimed if service in measure["values"])
    console.print(
        f"{measure['name']} ({measure['unit']}): {values}; {holds} the articles say ({order})",
        soft_wrap=True, markup=False,
    )  # fmt: skip
