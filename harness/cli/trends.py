"""``harness trends``: show what changed since the previous nightly run."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from harness.documents import TrendsDocument, present
from harness.documents.trends import Changes, TrendChange, TrendsDetection, TrendsSeries
from harness.errors import UsageError
from harness.files import cannot_write
from harness.studies.results_db import RESULTS_DB
from harness.studies.trends import FACTOR, RED, SHORTEST_S, trends
from harness.wording import counted

from .links import print_place
from .options import JsonOption, QuietOption, printed, single_command
from .terminal import print_document

CLUSTERS: Final = {"": "", "sim": "sim", "docker": "docker", "both": "docker,sim"}
BARS: Final = "▁▂▃▄▅▆▇█"
HEADINGS: Final = {
    "newly_red": ("newly failing", "red"),
    "newly_green": ("newly as expected", "green"),
    "changed": ("changed otherwise", "yellow"),
    "appeared": ("appeared", "cyan"),
    "disappeared": ("disappeared", "yellow"),
    "slower": ("found later", "yellow"),
    "faster": ("found earlier", "cyan"),
}
TIMES: Final = ("slower", "faster")


def trends_command(
    out: Annotated[Path, typer.Option(help="Folder with the stored results.")] = Path("store"),
    last: Annotated[int, typer.Option(help="Number of nightly runs to show.")] = 14,
    suite: Annotated[str, typer.Option(help="Only nightly runs of this suite; default: the last one's.")] = "",
    cluster: Annotated[
        str, typer.Option(help="Only nightly runs on sim, docker or both; default: the last one's.")
    ] = "",
    factor: Annotated[float, typer.Option(help="Report times to the first violation that differ by more.")] = FACTOR,
    json: JsonOption = False,
    html: Annotated[Path | None, typer.Option(help="Also write an HTML page with pictures.", metavar="FILE")] = None,
    quiet: QuietOption = False,
) -> None:
    """Show what changed since the previous nightly run, and how often and how soon each lock was violated."""
    if last < 2:
        raise UsageError(f"last must be at least 2, got {last}: a trend needs two nightly runs")
    if not factor > 1:
        raise UsageError(f"factor must be above 1, got {factor:g}")
    if cluster not in CLUSTERS:
        raise UsageError(f"cluster must be one of sim, docker, both, got {cluster!r}")
    document = trends(out / RESULTS_DB, last=last, factor=factor, suite=suite, clusters=CLUSTERS[cluster])
    if html is not None:
        _write(document, html)
    printed(lambda: print(change_counts(document)) if quiet and not json else _print(document, html, json=json))


def change_counts(document: TrendsDocument) -> str:
    """Return in one line how many scenarios changed since the previous nightly run."""
    if document.compared is None:
        return "trends need two nightly runs"
    counts = {heading: len(getattr(document.compared, name)) for name, (heading, _) in HEADINGS.items()}
    return ", ".join(f"{count} {heading}" for heading, count in counts.items() if count) or "nothing changed"


def _print(document: TrendsDocument, page: Path | None, *, json: bool) -> None:
    if json:
        print_document(document)
        return
    console = Console(highlight=False)
    print_trends(document, console)
    if page is not None:
        print_place("page", page)


def _write(document: TrendsDocument, path: Path) -> None:
    from harness.reports import trends_report

    try:
        trends_report.write(document, path)
    except OSError as error:
        raise cannot_write(path, error) from error


def print_trends(document: TrendsDocument, console: Console) -> None:
    """Print the changes, then a line for each combination of lock, faults and cluster over the nightly runs."""
    nights = document.nights
    what = f"suite {document.suite} on {', '.join(document.clusters)}"
    if document.compared is None:
        stored = (
            f"only one nightly run of {what} is stored ({when(nights[0].started_at)})"
            if nights
            else "no such nightly run is stored"
        )
        console.print(f"{stored}; trends need two", soft_wrap=True, markup=False)
        return
    before, now = nights[-2:]
    console.print(
        f"{when(now.started_at)} compared with {when(before.started_at)}, {what}", soft_wrap=True, markup=False
    )
    _print_changes(document.compared, document.factor, console)
    if now.explored is not None:
        earlier = "" if before.explored is None else f"{before.explored:.0%} → "
        console.print(
            f"explored: {earlier}{now.explored:.0%} of the pairs of lock and fault; "
            f"{counted(now.new_failures, 'new failure')}",
            soft_wrap=True,
        )
    console.print()
    console.print(_table(document.series, len(nights)))
    if document.detections:
        console.print()
        console.print(_detections(document.detections))


def _print_changes(compared: Changes, factor: float, console: Console) -> None:
    if compared == Changes():
        console.print("nothing changed")
    for name, (heading, colour) in HEADINGS.items():
        changes: tuple[TrendChange, ...] = getattr(compared, name)
        if not changes:
            continue
        by = f" by a factor of more than {factor:g}" if name in TIMES else ""
        console.print(f"\n[bold {colour}]{len(changes)} {heading}{by}[/]")
        for one in changes:
            console.print(f"  {_change_line(one, times=name in TIMES)}", soft_wrap=True)


def _change_line(one: TrendChange, *, times: bool) -> str:
    named = f"{escape(one.scenario)} on {one.cluster}"
    if times:
        ratio = f"{present(one.ratio) or 1.0:.2g} times as long"
        return f"{named}: {seconds(present(one.before_s))} → {seconds(present(one.now_s))}, {ratio}"
    states = " → ".join(_state(present(state)) for state in (one.before, one.now))
    return f"{named}: {states}" + (f": {escape(one.why)}" if one.why else "")


def _state(state: str | None) -> str:
    return "[dim]not in the suite[/]" if state is None else f"[red]{state}[/]" if state in RED else state


def _table(series: Sequence[TrendsSeries], nights: int) -> Table:
    table = Table(
        box=None, pad_edge=False, title_justify="left", title_style="dim", caption_justify="left",
        title=f"{nights} nightly runs, the oldest on the left; · is a run without a value",
        caption="Rate: runs in which a checker found a violation, among those with a verdict. First: median time to "
        f"the first violation; comparisons treat times below {seconds(SHORTEST_S)} as {seconds(SHORTEST_S)}.",
    )  # fmt: skip
    for column, justify in (("lock", "left"), ("faults", "left"), ("cluster", "left"), ("rate", "left"),
                            ("last", "right"), ("first", "left"), ("last", "right")):  # fmt: skip
        table.add_column(column, justify=justify, no_wrap=column in ("rate", "first", "last"), overflow="fold")  # type: ignore[arg-type]
    for one in series:
        rates, times = one.rate, one.found_s
        table.add_row(
            escape(one.lock), escape(", ".join(one.faults)) or "none", one.cluster,
            sparkline(rates, 1.0), "–" if rates[-1] is None else f"{rates[-1]:.0%}",
            sparkline(times, max((time for time in times if time is not None), default=0.0)), seconds(times[-1]),
        )  # fmt: skip
    return table


def _detections(detections: Sequence[TrendsDetection]) -> Table:
    table = Table(
        box=None, pad_edge=False, title_justify="left", title_style="dim", caption_justify="left",
        title="detection rates on containers: runs that found the failure",
        caption="p: probability of so few in the last nightly run if the rate is unchanged.",
    )  # fmt: skip
    for column in ("scenario", "nightly runs", "last", "before", "p"):
        table.add_column(column, no_wrap=column != "scenario", overflow="fold")
    for one in detections:
        rates = [None if not runs else (found or 0) / runs for found, runs in zip(one.found, one.runs, strict=True)]
        before = [sum(count or 0 for count in counts[:-1]) for counts in (one.found, one.runs)]
        last = "–" if one.runs[-1] is None else f"{one.found[-1]} of {one.runs[-1]}"
        by_chance = "–" if one.chance is None else f"{one.chance:.2g}"
        table.add_row(escape(one.scenario), sparkline(rates, 1.0), last, f"{before[0]} of {before[1]}", by_chance)
    return table


def sparkline(values: Sequence[float | None], most: float) -> str:
    """Draw one character for each value from 0 to ``most``, and a dot for a missing value."""
    top = len(BARS) - 1
    return "".join("·" if value is None else BARS[round(top * value / most) if most else 0] for value in values)


def when(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def seconds(value: float | None) -> str:
    """Format seconds such as ``2.51 s``; a missing value is a dash."""
    return "–" if value is None else f"{value:.2f} s"


app = single_command(trends_command)
