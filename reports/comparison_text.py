"""Render a comparison as Markdown (for a README or a pull request) and as CSV (a line for each cell or cost)."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

from harness.wording import listed

from . import certainty as sureness
from . import comparison_answer as answer
from . import words
from .comparison_plots import by_cost, seconds, worst_availability
from .comparison_view import STATES, ComparisonView, CostView, LockView, sound_first

SIGNS: Final = {"safe": "✅", "fenced": "🛡️", "unsafe": "❌", "unavailable": "⏳", "unknown": "❔", "not-run": "–"}
"""Signs before the words of states, so that no reader needs to distinguish colours."""
COUNTED: Final = tuple(state for state in STATES if state != "not-run")
CELL_COLUMNS: Final = (
    "lock", "family", "safety", "nemesis", "state", "runs", *COUNTED, "kind", "fault", "fencing", "why", "run",
    "command",
)  # fmt: skip
COST_COLUMNS: Final = (
    "lock", "family", "cost", "clients", "acquires_per_second", "acquire_p50_s", "acquire_p99_s", "release_p50_s",
    "availability", "run", "recovery_s",
)  # fmt: skip
MARKED: Final = re.compile(r"([\\`*_{}\[\]<>#|~])")
FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


def files(view: ComparisonView) -> dict[str, str]:
    """Return the texts by the names of their files."""
    return {"comparison.md": markdown(view), "comparison.csv": cells_csv(view), "costs.csv": costs_csv(view)}


def markdown(view: ComparisonView) -> str:
    """Return the recommendation, the matrix and the costs. Links are left out, since a comment does not contain the
    runs."""
    parts = [
        f"### {_plain(answer.headline(view))}",
        *(["**Interrupted:** this shows the runs that finished before the interruption."] if view.interrupted else []),
        "\n".join(_bullet(one) for one in answer.answers(view)) + _never_use(view),
        _matrix(view),
        " · ".join(f"{SIGNS[state]} {state.replace('-', ' ')}: {meaning}" for state, meaning in STATES.items()),
        f"How sure: {sureness.of_comparison(view)}",
        _costs(view),
        words.VIRTUAL * view.virtual,
        f"`{' '.join(view.command.replace('`', '').split())}`" if view.command else "",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def cells_csv(view: ComparisonView) -> str:
    """Return one line for each lock and fault; the count of a state is in the column of its name."""
    return _csv(CELL_COLUMNS, (_cell_line(lock, i) for lock in view.locks for i in range(len(lock.cells))))


def costs_csv(view: ComparisonView) -> str:
    """Return one line for each lock and cost (alone, contended, or the fault under which it was measured); times in
    seconds."""
    return _csv(COST_COLUMNS, (_cost_line(lock, cost) for lock in view.locks for cost in lock.costs.values()))


def _bullet(one: answer.Recommendation) -> str:
    best = listed([f"**{_plain(lock.name)}**" for lock in one.best], "or") or "no lock"
    price = f" ({one.price})" if one.price else ""
    return f"- {_plain(one.situation)}: {best}{price}. {_plain(one.reasoning)}"


def _never_use(view: ComparisonView) -> str:
    never = [lock.name for lock in view.locks if answer.broken(lock)]
    return f"\n- Never use (broken without any fault): {_plain(listed(never))}." if never else ""


def _matrix(view: ComparisonView) -> str:
    head = ["lock", *(_plain(answer.place(nemesis.name)) for nemesis in view.nemeses)]
    rows = [
        [_plain(lock.name), *(f"{SIGNS[cell.state]} {cell.word} {cell.share}".rstrip() for cell in lock.cells)]
        for lock in sound_first(view.locks)
    ]
    return _table(head, rows)


def _costs(view: ComparisonView) -> str:
    times = ["acquire", "99 %", "grants/s", "grants/s, contended"]
    virtual = " (virtual)" if view.virtual else ""
    head = ["lock", *(name + virtual for name in times), "smallest share granted", f"free after a crash{virtual}"]
    return _table(head, [_cost_row(lock, view) for lock in by_cost(view)])


def _cost_row(lock: LockView, view: ComparisonView) -> list[str]:
    alone, contended = lock.costs.get("alone"), lock.costs.get("contended")
    worst = worst_availability(lock, view.faults)
    return [
        _plain(lock.name),
        seconds(alone.acquire_p50 if alone else None),
        seconds(alone.acquire_p99 if alone else None),
        answer.figure(alone.rate if alone else None),
        answer.figure(contended.rate if contended else None),
        f"{words.percent(worst.availability)} ({_plain(worst.name)})" if worst else "not measured",
        "never" if lock.recovery.never else seconds(lock.recovery.seconds),
    ]


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _plain(text: str) -> str:
    """Return text on one line that Markdown shows unchanged."""
    return MARKED.sub(r"\\\1", " ".join(text.split()))


def _cell_line(lock: LockView, number: int) -> dict[str, Any]:
    cell = lock.cells[number]
    return {
        "lock": lock.name, "family": lock.family, "safety": lock.safety, "nemesis": cell.nemesis, "state": cell.state,
        "runs": cell.runs, **{state: cell.counts.get(state, 0) for state in COUNTED}, "kind": cell.kind,
        "fault": cell.fault, "fencing": cell.fencing, "why": cell.why, "run": cell.run, "command": cell.command,
    }  # fmt: skip


def _cost_line(lock: LockView, cost: CostView) -> dict[str, Any]:
    return {
        "lock": lock.name, "family": lock.family, "cost": cost.name, "clients": cost.clients,
        "acquires_per_second": cost.rate, "acquire_p50_s": cost.acquire_p50, "acquire_p99_s": cost.acquire_p99,
        "release_p50_s": cost.release_p50, "availability": cost.availability, "run": cost.run,
        "recovery_s": lock.recovery.seconds,
    }  # fmt: skip


def _csv(columns: Sequence[str], lines: Iterable[dict[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, columns)
    writer.writeheader()
    writer.writerows({name: _harmless(value) for name, value in line.items()} for line in lines)
    return text.getvalue()


def _harmless(value: Any) -> Any:
    """Put an apostrophe before text that a spreadsheet would take for a formula, as spreadsheets themselves do."""
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value
