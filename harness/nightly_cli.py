"""``harness trends``: what changed since last night."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from .errors import UsageError
from .options import printed
from .results_db import RESULTS_DB
from .terminal import print_document
from .trends import FACTOR, RED, SHORTEST_S, trends

CLUSTERS: Final = {"": "", "sim": "sim", "docker": "docker", "both": "docker,sim"}
BARS: Final = "▁▂▃▄▅▆▇█"
HEADINGS: Final = {
    "newly_red": ("newly red", "red"),
    "newly_green": ("newly green", "green"),
    "changed": ("changed otherwise", "yellow"),
    "appeared": ("appeared", "cyan"),
    "disappeared": ("disappeared", "yellow"),
    "slower": ("found later", "yellow"),
    "faster": ("found earlier", "cyan"),
}
TIMES: Final = ("slower", "faster")


def trends_command(
    out: Annotated[Path, typer.Option(help="The store.")] = Path("store"),
    last: Annotated[int, typer.Option(help="Show so many nights.")] = 14,
    suite: Annotated[str, typer.Option(help="Nights of this suite; else that of the last night.")] = "",
    cluster: Annotated[str, typer.Option(help="Nights on sim, docker or both; else as the last night.")] = "",
    factor: Annotated[float, typer.Option(help="Name times to the first violation that differ by more.")] = FACTOR,
    json: Annotated[bool, typer.Option("--json", help="Print the document and nothing else.")] = False,
    html: Annotated[Path | None, typer.Option(help="Write a page with pictures, too.", metavar="FILE")] = None,
) -> None:
    """Say what changed since last night, and how often and how soon each lock was violated under each fault."""
    if last < 2:
        raise UsageError(f"last must be at least 2, got {last}: a trend takes two nights")
    if not factor > 1:
        raise UsageError(f"factor must be above 1, got {factor:g}")
    if cluster not in CLUSTERS:
        raise UsageError(f"cluster must be one of sim, docker, both, got {cluster!r}")
    document = trends(out / RESULTS_DB, last=last, factor=factor, suite=suite, clusters=CLUSTERS[cluster])
    if html is not None:
        _write(document, html)
    printed(lambda: _print(document, html, json=json))


def _print(document: dict[str, Any], page: Path | None, *, json: bool) -> None:
    if json:
        print_document(document)
        return
    console = Console(highlight=False)
    print_trends(document, console)
    if page is not None:
        console.print(f"page: {page}", soft_wrap=True, markup=False)


def _write(document: dict[str, Any], path: Path) -> None:
    from reports import trends_report

    try:
        trends_report.write(document, path)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from error


def print_trends(document: dict[str, Any], console: Console) -> None:
    """What changed first, then a line for each lock, faults and cluster over the nights."""
    nights = document["nights"]
    what = f"suite {document['suite']} on {', '.join(document['clusters'])}"
    if document["compared"] is None:
        stored = f"one night of {what} is stored ({nights[0]['started_at']})" if nights else "no such night is stored"
        console.print(f"{stored}: a comparison takes two", soft_wrap=True, markup=False)
        return
    before, now = nights[-2:]
    console.print(f"{now['started_at']} compared with {before['started_at']}, {what}", soft_wrap=True, markup=False)
    _print_changes(document["compared"], document["factor"], console)
    console.print()
    console.print(_table(document["series"], len(nights)))


def _print_changes(compared: dict[str, list[dict[str, Any]]], factor: float, console: Console) -> None:
    if not any(compared.values()):
        console.print("nothing changed")
    for name, (heading, colour) in HEADINGS.items():
        if not compared[name]:
            continue
        by = f" by a factor of more than {factor:g}" if name in TIMES else ""
        console.print(f"\n[bold {colour}]{len(compared[name])} {heading}{by}[/]")
        for one in compared[name]:
            console.print(f"  {_told(one, times=name in TIMES)}", soft_wrap=True)


def _told(one: dict[str, Any], *, times: bool) -> str:
    named = f"{escape(one['scenario'])} on {one['cluster']}"
    if times:
        ratio = f"{one['ratio']:.2g} times as long" if one["ratio"] > 1 else f"{1 / one['ratio']:.2g} times as soon"
        return f"{named}: {seconds(one['before_s'])} → {seconds(one['now_s'])}, {ratio}"
    states = " → ".join(_state(one[when]) for when in ("before", "now"))
    return f"{named}: {states}" + (f": {escape(one['why'])}" if one["why"] else "")


def _state(state: str | None) -> str:
    return "[dim]not there[/]" if state is None else f"[red]{state}[/]" if state in RED else state


def _table(series: list[dict[str, Any]], nights: int) -> Table:
    table = Table(
        box=None, pad_edge=False, title_justify="left", title_style="dim", caption_justify="left",
        title=f"{nights} nights, the oldest on the left; · is a night without a value",
        caption="Rate: runs in which a checker found a violation, among those with a verdict. First: median time to "
        f"the first violation; what is below {seconds(SHORTEST_S)} counts as that in comparisons.",
    )  # fmt: skip
    for column, justify in (("lock", "left"), ("faults", "left"), ("cluster", "left"), ("rate", "left"),
                            ("last", "right"), ("first", "left"), ("last", "right")):  # fmt: skip
        table.add_column(column, justify=justify, no_wrap=column in ("rate", "first", "last"), overflow="fold")  # type: ignore[arg-type]
    for one in series:
        rates, times = one["rate"], one["found_s"]
        table.add_row(
            escape(one["lock"]), escape(", ".join(one["faults"])) or "none", one["cluster"],
            sparkline(rates, 1.0), "–" if rates[-1] is None else f"{rates[-1]:.0%}",
            sparkline(times, max((time for time in times if time is not None), default=0.0)), seconds(times[-1]),
        )  # fmt: skip
    return table


def sparkline(values: Sequence[float | None], most: float) -> str:
    """A letter a value from 0 to ``most``, a dot for none."""
    top = len(BARS) - 1
    return "".join("·" if value is None else BARS[round(top * value / most) if most else 0] for value in values)


def seconds(value: float | None) -> str:
    """``2.51 s``; a dash for none."""
    return "–" if value is None else f"{value:.2f} s"
