"""Output of results on the terminal: the result of one run, documents, and tables of many runs."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from rich.console import Console
from rich.table import Table

from harness.checkers.base import Verdict
from harness.documents import present
from harness.documents.run import FrozenCluster, InjectedFault
from harness.run.store import REPORT
from harness.wording import PROPERTY_STATES, certainty, counted, moment

from .links import linked
from .verdicts import WORDS, Row, print_verdict, print_word

if TYPE_CHECKING:
    from harness.run.verdicts.judging import Result

WIDE: Final = 160
"""Columns of a table if the output is not a terminal."""


def print_document(document: msgspec.Struct | Mapping[str, object] | Sequence[Mapping[str, object]]) -> None:
    """Print a document as one line of JSON."""
    sys.stdout.write(msgspec.json.encode(document).decode() + "\n")


def print_result(result: Result, *, json: bool, quiet: bool) -> None:
    """Print the result of one run: as JSON, as one word, or as a summary of half a screen."""
    if json:
        print_document(result.document)
        return
    if quiet:
        print_word(result.valid)
        return
    print_verdict(result.plan.lock, result.valid, result.results.summary, list(_rows(result)))
    # Not in the panel: a path or a command that is broken over two lines cannot be copied.
    for label, place in _links(result):
        print(f"{label}: {linked(place) if isinstance(place, Path) else place}")


def _rows(result: Result) -> Iterator[Row]:
    verdicts, results = result.verdicts, result.results
    if result.interrupted:
        yield "cut short", [f"interrupted after {results.stats.seconds:.1f} of {result.plan.time_limit:g} s"]
    for state, word in PROPERTY_STATES.items():
        names = result.decision.named(state)  # type: ignore[arg-type]  # the keys are the states
        if names and state in ("broken", "known-limit"):
            told = {name: "" if result.decision.properties[name].required else " (not required)" for name in names}
            origin = result.history.origin
            yield word, [_found(f"{name}{told[name]}", verdicts[name], origin, results.summary) for name in names]
        elif names:
            yield word, [", ".join(names)]
    yield "faults", list(_faults(results.faults)) or ["none requested"]
    yield "figures", [_figures(result)]


def _found(name: str, verdict: Verdict, origin: int, summary: str) -> str:
    """Return what a checker found, how often and when, with as much of its sentence as the summary does not have."""
    if not verdict.evidence:  # a user's checker may give none
        return f"{name}: {verdict.explanation}"
    first = verdict.evidence[0]
    times = verdict.stats.get("violations", len(verdict.evidence))
    often = "once" if times == 1 else f"{times} times"
    text = f"{name} {often}, first at {moment(first.from_ns, origin)}"
    if first.sentence[1:] in summary:
        return text
    told = first.sentence.removeprefix(f"{first.harm}: ") if first.harm and first.harm in summary else first.sentence
    return f"{text}: {told}"


def _faults(faults: Iterable[InjectedFault]) -> Iterator[str]:
    """Yield for each kind of fault how often it was injected, and whether its effect was confirmed."""
    struck: dict[str, Counter[bool]] = {}
    for fault in faults:
        struck.setdefault(fault.fault, Counter())[bool(fault.seen)] += 1
    for name, seen in struck.items():
        times = f"{name} {seen.total()} times" if seen.total() > 1 else name
        yield f"{times}, {f'effect of {seen[False]} NOT confirmed' if seen[False] else 'effect confirmed'}"


def _figures(result: Result) -> str:
    stats, real = result.results.stats, present(result.results.real_seconds)
    return (
        f"{stats.acquires_ok} acquires, {stats.operations} operations in {stats.seconds:.1f} s "
        f"({real or 0.0:.2f} s real), seed {result.plan.seed}"
    )


def _links(result: Result) -> Iterator[tuple[str, str | Path]]:
    if result.folder is not None:
        yield "repeat", present(result.results.replay) or ""
        yield "report", result.folder / REPORT
    if left := present(result.results.cluster.left_behind):
        yield "not everything could be removed", left
    if frozen := present(result.results.cluster.frozen):
        yield from _inspection(frozen, {*result.results.cluster.servers, *result.results.cluster.sentinels})


def _inspection(frozen: FrozenCluster, servers: set[str]) -> Iterator[tuple[str, str]]:
    """Yield how to look at containers that a run left frozen, how to let them go on, and how to remove them."""
    hosts = frozen.hosts
    containers = [host.container for name, host in hosts.items() if name in servers]
    yield "frozen for inspection", f"cluster {frozen.id}, {counted(len(hosts), 'container')}: {', '.join(hosts)}"
    yield "processes, while frozen", f"docker top {containers[0]}"
    yield "files, while frozen", f"sudo ls -R /proc/$(docker inspect -f '{{{{.State.Pid}}}}' {containers[0]})/root/data"
    for name, host in hosts.items():
        if host.look:
            yield f"what {name} stores", f"docker unpause {host.container}; {host.look}"
    yield "let the servers go on", f"docker unpause {' '.join(containers)}"
    yield "remove it", "harness cluster clean"


@dataclass(frozen=True, slots=True)
class SeedResult:
    """Summary of the run with one seed among many; the run itself is not kept in memory."""

    seed: int
    valid: bool | None
    folder: Path | None

    @classmethod
    def of(cls, result: Result) -> SeedResult:
        return cls(result.plan.seed, result.valid, result.folder)


def tally(outcomes: Iterable[SeedResult]) -> str:
    """Return the number of runs with each verdict, such as ``35 valid, 2 violated``; "" without runs."""
    counts = Counter(outcome.valid for outcome in outcomes)
    words = {True: "valid", False: "violated", None: "unknown"}
    return ", ".join(f"{counts[valid]} {word}" for valid, word in words.items() if counts[valid])


def print_tally(outcomes: list[SeedResult], planned: int) -> None:
    """Print a table of the verdicts of ``planned`` runs, where those that are not valid are stored, and how much they
    prove if all are valid."""
    console = Console(highlight=False, emoji=False)
    table = Table(box=None, pad_edge=False)
    for column in ("verdict", "runs", "first seed", "stored in"):
        table.add_column(column)
    for valid, (word, colour) in WORDS.items():
        matching = [outcome for outcome in outcomes if outcome.valid is valid]
        if matching:
            place = str(matching[0].folder) if matching[0].folder else "not stored; --seed runs it again"
            table.add_row(f"[{colour}]{word}[/]", str(len(matching)), str(matching[0].seed), place)
    console.print(table)
    if outcomes and all(outcome.valid for outcome in outcomes):
        console.print(certainty(len(outcomes)), soft_wrap=True)
    if len(outcomes) < planned:
        console.print(f"interrupted after {len(outcomes)} of {planned} runs")
