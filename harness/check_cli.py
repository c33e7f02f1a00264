"""``harness check`` and ``harness export``: histories, whoever recorded them."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast, get_args

import msgspec
import typer
from rich.console import Console

from .errors import UNKNOWN, VALID, VIOLATION, UsageError
from .history.edn_values import Keyed
from .options import counted, duration, named_options, printed, progress_bar
from .terminal import print_verdict, print_word

if TYPE_CHECKING:
    from .checking import Report

UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30}


def check_command(
    history: Annotated[Path, typer.Argument(help="A .jsonl, Jepsen's .edn, either with .gz, or a run's folder.")],
    model: Annotated[str, typer.Option(help="See 'harness list models', or package.module:Class.")],
    model_option: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Of the model, such as permits=3; repeatable.")
    ] = None,
    key: Annotated[str | None, typer.Option(help="Check this key only.")] = None,
    keyed: Annotated[str, typer.Option(help="Are values of an .edn [key value]? auto, yes or no.")] = "auto",
    budget: Annotated[str, typer.Option(metavar="DURATION", help="Time for searching, before it is unknown.")] = "60s",
    memory: Annotated[str, typer.Option(metavar="SIZE", help="Memory for searching, such as 512M or 2G.")] = "1G",
    workers: Annotated[int, typer.Option(help="Keys that are searched at once; 0: one a processor.")] = 0,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the order found, and what is wrong.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the result document and nothing else.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print the verdict only.")] = False,
) -> None:
    """Say whether a history is linearizable: whether one order of its calls fits the model.

    Exit status 0 if it is, 1 if it is not, 3 if that could not be found out within the budget.
    """
    from checkers.linearizability.search import Budget  # here, since what is compiled takes a while to load

    from .checking import check

    if keyed not in get_args(Keyed):
        raise UsageError(f"keyed must be auto, yes or no, got {keyed!r}")
    if workers < 0:
        raise UsageError(f"workers must not be negative, got {workers}")
    options = named_options("model-option", model_option)
    limits = Budget(duration("budget", budget), _bytes(memory))
    with progress_bar(Console(stderr=True, quiet=json or quiet, highlight=False), str(history)) as progress:
        report = check(
            history,
            model,
            options=options,
            budget=limits,
            workers=workers,
            keyed=cast(Keyed, keyed),
            key=key,
            progress=progress,
        )
    if html is not None:
        _draw(report, html)
    printed(lambda: _tell(report, html, json=json, quiet=quiet))
    raise typer.Exit({True: VALID, False: VIOLATION, None: UNKNOWN}[report.verdict.valid])


def _bytes(text: str) -> int:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kKmMgG]?)(?:i?[bB])?", text)
    if match is None:
        raise UsageError(f"memory: expected a size such as 512M or 2G, got {text!r}")
    return int(float(match[1]) * UNITS[match[2].lower()])


def _draw(report: Report, path: Path) -> None:
    from reports import linearization

    if not report.checked.pictures:
        typer.echo("harness: nothing to draw: no order failed", err=True)
        return
    try:
        linearization.write(report.checked.pictures[0], path)
    except OSError as error:
        raise UsageError(f"cannot write the picture: {error}") from error


def _tell(report: Report, html: Path | None, *, json: bool, quiet: bool) -> None:
    if json:
        sys.stdout.write(msgspec.json.encode(report.to_json(), enc_hook=_plain).decode() + "\n")
        return
    verdict = report.verdict
    if quiet:
        print_word(verdict.valid)
        return
    console = Console(highlight=False)
    print_verdict(console, report.model, verdict.valid, verdict.explanation, [("figures", [_numbers(report)])])
    if html is not None and report.checked.pictures:
        console.print(f"picture: {html}", soft_wrap=True, markup=False)


def _numbers(report: Report) -> str:
    stats = report.verdict.stats
    told = [counted(stats["calls"], "call"), counted(stats["keys"], "key")]
    if stats["unknown_outcomes"]:
        told.append(f"{stats['unknown_outcomes']} of unknown outcome")
    if stats["failed_calls"]:
        told.append(f"{stats['failed_calls']} that failed left out")
    if stats["configurations"]:
        told.append(counted(stats["configurations"], "configuration"))
    return f"{', '.join(told)} · read in {report.reading:.3f} s, checked in {report.checking:.3f} s"


def _plain(value: object) -> object:
    return sorted(map(str, value)) if isinstance(value, frozenset) else str(value)


def export_command(
    given: Annotated[Path, typer.Argument(help="A history.jsonl, or the folder of a run.", metavar="RUN|FILE")],
    out: Annotated[Path, typer.Argument(help="The .edn (or .edn.gz) to write.")],
    keyed: Annotated[bool, typer.Option("--keyed", help="Write [key value] even if there is one key only.")] = False,
) -> None:
    """Write a history as EDN, so that Jepsen's and Knossos' checkers can read it."""
    from .history import History, HistoryError
    from .history.edn_write import write_edn
    from .store import HISTORY

    path = given / HISTORY if given.is_dir() else given
    if not out.name.endswith((".edn", ".edn.gz")):
        raise UsageError(f"expected a name that ends in .edn or .edn.gz, got {out.name!r}")
    try:
        history = History.load(path)
        write_edn(history, out, keyed=keyed or None)
    except (HistoryError, OSError) as error:
        raise UsageError(str(error)) from error
    typer.echo(f"{counted(len(history), 'entry').replace('entrys', 'entries')} written to {out}")
