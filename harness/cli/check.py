"""``harness check``: check any history for linearizability, ours or one of Jepsen or Knossos."""

from __future__ import annotations

import os
import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import msgspec
import typer

from harness.errors import UNKNOWN, VALID, VIOLATION, UsageError
from harness.files import cannot_write, require_place
from harness.wording import counted, first_sentence

from .annotations import annotate
from .completion import complete_models
from .options import (
    JsonOption,
    QuietOption,
    duration,
    named_options,
    positive,
    printed,
    progress_on_stderr,
    single_command,
)
from .verdicts import print_verdict, print_word

if TYPE_CHECKING:
    from harness.run.check.checking import Report

TELL_S = 5.0
"""Seconds between two running verdicts."""
UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30}
MOST_BYTES = 2**50


HistoryArgument = Annotated[
    list[Path],
    typer.Argument(
        help="A .jsonl or .edn file, also with .gz, or a run's folder; or recordings of harness.record, one for "
        "each process, or their folder; with --follow also unix:PATH or tcp:HOST:PORT, to which recorders connect."
    ),
]
ModelOption = Annotated[
    str,
    typer.Option(help="A name from 'harness list models', or package.module:Class.", autocompletion=complete_models),
]
NamedModelOption = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=VALUE", help="An option of the model, such as permits=3; repeatable."),
]
KeyOption = Annotated[str | None, typer.Option(help="Check this key only.")]
KeyedOption = Annotated[str, typer.Option(help="Whether values of an .edn are [key value] pairs: auto, yes or no.")]
FailuresOption = Annotated[
    str,
    typer.Option(
        help="Failed calls: ignored (they did not happen), or evidence (an acquire was refused since the lock was "
        "held, a cas since the value was another)."
    ),
]
ClockErrorOption = Annotated[
    str | None,
    typer.Option(
        metavar="DURATION", help="Error of the wall clocks in recordings of several machines that state none."
    ),
]
FollowOption = Annotated[
    bool,
    typer.Option(
        "--follow", help="Read on while the history is recorded, and stop at the first violation that is found."
    ),
]
ConnectionsOption = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="With unix: or tcp:, keep the lines of each connection in a file of this folder."),
]
BudgetOption = Annotated[str, typer.Option(metavar="DURATION", help="Longest search; after it the verdict is unknown.")]
MemoryOption = Annotated[str, typer.Option(metavar="SIZE", help="Memory that the search may use, such as 512M or 2G.")]
SearchersOption = Annotated[int, typer.Option(help="Keys searched in parallel; 0: one for each processor.")]
PictureOption = Annotated[Path | None, typer.Option(metavar="FILE", help="Write a picture of the longest valid order.")]


def check_command(
    history: HistoryArgument,
    model: ModelOption,
    model_option: NamedModelOption = None,
    key: KeyOption = None,
    keyed: KeyedOption = "auto",
    failures: FailuresOption = "ignored",
    clock_error: ClockErrorOption = None,
    follow: FollowOption = False,
    out: ConnectionsOption = None,
    budget: BudgetOption = "60s",
    memory: MemoryOption = "1G",
    workers: SearchersOption = 0,
    html: PictureOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Say whether a history is linearizable: whether one order of its calls fits the model.

    Exit status: 0 if it is, 1 if it is not, 3 if the budget was too small to tell.
    """
    # The libraries of numpy start threads of their own when they are loaded, which a check never uses.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from harness.checkers.linearizability.problem import Budget  # late: loading numpy takes 0.1 s

    _refuse_values(keyed, failures, workers)
    _refuse_addresses(history, follow, out)
    if html is not None:
        require_place(html)
    given: dict[str, Any] = {
        "options": named_options("model-option", model_option),
        "budget": Budget(positive("budget", budget), _bytes(memory)),
        "workers": workers,
        "keyed": keyed,
        "key": key,
        "failures": failures,
        "clock_error": None if clock_error is None else _not_negative("clock-error", clock_error),
    }
    report = (
        _followed(history, model, {**given, "store": out}, quiet=json or quiet)
        if follow
        else _checked(history, model, given, quiet=json or quiet)
    )
    if html is not None:
        _draw(report, html)
    annotate(report.verdict.valid, report.model, first_sentence(report.verdict.explanation), html)
    printed(lambda: _print_report(report, html, json=json, quiet=quiet))
    raise typer.Exit({True: VALID, False: VIOLATION, None: UNKNOWN}[report.verdict.valid])


def _refuse_values(keyed: str, failures: str, workers: int) -> None:
    """Raise UsageError for a value that an option does not have."""
    from harness.history.calls import Keyed
    from harness.run.check.checking import Failures

    if keyed not in get_args(Keyed):
        raise UsageError(f"keyed must be auto, yes or no, got {keyed!r}")
    if failures not in get_args(Failures):
        raise UsageError(f"failures must be ignored or evidence, got {failures!r}")
    if workers < 0:
        raise UsageError(f"workers must not be negative, got {workers}")


def _checked(history: list[Path], model: str, given: dict[str, Any], *, quiet: bool) -> Report:
    from harness.run.check.checking import check

    with progress_on_stderr(", ".join(map(str, history)), quiet=quiet) as progress:
        return check(history, model, progress=progress, **given)


def _refuse_addresses(history: list[Path], follow: bool, out: Path | None) -> None:
    """Refuse an address without ``--follow``, and a folder for connections without an address."""
    from harness.run.check.listening import is_address

    addresses = [str(path) for path in history if is_address(path)]
    if addresses and not follow:
        raise UsageError(f"recorders connect to {addresses[0]} while they run: use --follow")
    if out is not None and not addresses:
        raise UsageError("--out keeps what recorders send to unix:PATH or tcp:HOST:PORT: give such an address")


def _followed(history: list[Path], model: str, given: dict[str, Any], *, quiet: bool) -> Report:
    from harness.run.check.following import Follower, follow

    due = time.monotonic()

    def tell(follower: Follower) -> None:
        nonlocal due
        if quiet or time.monotonic() < due:
            return
        due = time.monotonic() + TELL_S
        lost = f", {follower.lost} lost" if follower.lost else ""
        so_far = "no violation so far" if follower.online else f"the model {model} is judged at the end"
        sources = counted(len(follower.sources), "file")
        typer.echo(f"{so_far}: {counted(follower.calls, 'call')} in {sources}{lost}", err=True)

    return follow(history, model, tell=tell, progress=None, **given)


def _bytes(text: str) -> int:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kKmMgG]?)(?:i?[bB])?", text)
    size = 0.0 if match is None else float(match[1]) * UNITS[match[2].lower()]
    if not 1 <= size <= MOST_BYTES:
        raise UsageError(f"memory: expected a size such as 512M or 2G, got {text[:40]!r}")
    return int(size)


def _not_negative(option: str, text: str) -> float:
    found = duration(option, text)
    if found < 0:
        raise UsageError(f"{option} must not be negative, got {found:g} seconds")
    return found


def _draw(report: Report, path: Path) -> None:
    from harness.reports import linearization

    if not report.checked.pictures:
        typer.echo("harness: no picture was written, because the history is linearizable", err=True)
        return
    try:
        linearization.write(report.checked.pictures[0], path)
    except OSError as error:
        raise cannot_write(path, error) from error


def _print_report(report: Report, html: Path | None, *, json: bool, quiet: bool) -> None:
    if json:
        sys.stdout.write(msgspec.json.encode(report.document, enc_hook=_plain).decode() + "\n")
        return
    verdict = report.verdict
    if quiet:
        print_word(verdict.valid)
        return
    print_verdict(report.model, verdict.valid, verdict.explanation, [("figures", [_numbers(report)])])
    if html is not None and report.checked.pictures:
        print(f"picture: {html}")


def _numbers(report: Report) -> str:
    stats = report.verdict.stats
    if "keys" not in stats:
        return f"{counted(stats['calls'], 'call')} up to the violation"
    parts = [counted(stats["calls"], "call"), counted(stats["keys"], "key")]
    if stats["unknown_outcomes"]:
        parts.append(f"{stats['unknown_outcomes']} of unknown outcome")
    if stats["refused_calls"]:
        parts.append(f"{stats['refused_calls']} that failed as evidence")
    if stats["failed_calls"]:
        parts.append(f"{stats['failed_calls']} that failed left out")
    if ignored := report.checked.ignored:
        functions = ", ".join(f"{f} {count}" for f, count in sorted(ignored.items()))
        parts.append(f"{sum(ignored.values())} of other functions ignored ({functions})")
    if stats["configurations"]:
        parts.append(counted(stats["configurations"], "configuration"))
    return f"{', '.join(parts)} · read in {report.reading:.3f} s, checked in {report.checking:.3f} s"


def _plain(value: object) -> object:
    return sorted(map(str, value)) if isinstance(value, frozenset) else str(value)


app = single_command(check_command)
