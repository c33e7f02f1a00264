"""The page of a comparison: which lock to use and what it costs, and below that all that was seen.

One HTML file that needs nothing else, and the same as Markdown and CSV.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from math import inf
from pathlib import Path
from typing import Final

from reports import comparison_answer as answer
from reports import comparison_plots as plots
from reports import comparison_text, page, words
from reports.comparison_view import (
    PROPERTIES,
    STATES,
    ComparisonView,
    LockView,
    MeasureView,
    PropertyView,
    read,
    sound_first,
)
from reports.document import read_object

NAME: Final = "comparison"
WIDE: Final = 7
"""With more columns than this the matrix scrolls inside itself on any screen."""
OTHERS: Final = 6
"""As many locks are named behind the first choice."""


@dataclass(frozen=True, slots=True)
class RowView:
    """A row of the matrix; ``text`` is what the filter looks through, in lower case."""

    number: int
    lock: LockView
    states: str
    text: str


def write(folder: Path) -> Path:
    """Write comparison.html, comparison.md, comparison.csv, costs.csv and the pictures beside ``comparison.json``.

    Returns the path of the page. Raises ReportError for a malformed document, OSError if a file cannot be written.
    """
    view = read(read_object(folder / f"{NAME}.json"))
    path = folder / f"{NAME}.html"
    html = render(view, folder)
    for name, text in comparison_text.files(view).items():
        (folder / name).write_text(text, encoding="utf-8", errors="replace", newline="")
    path.write_text(html, encoding="utf-8", errors="replace")
    return path


def render(view: ComparisonView, pictures: Path | None = None) -> str:
    """The page; the pictures are saved as files into ``pictures`` too, if given."""
    found = answer.answers(view)
    rows = [_row(number, lock) for number, lock in enumerate(sound_first(view.locks), 1)]
    return page.render(
        "comparison.html",
        {
            "seconds": plots.seconds, "rate": answer.figure, "percent": words.percent,
            "place": answer.place, "since": partial(since, view.claimed),
        },
        view=view,
        headline=answer.headline(view),
        about=about(view),
        helped=helped(found),
        answers=found,
        most=OTHERS,
        never=[(lock, why) for lock in view.locks if (why := answer.broken(lock))],
        shortlist=answer.shortlist(found),
        rules=answer.RULES,
        rows=rows,
        anchors={row.lock.name: f"lock-{row.number}" for row in rows},
        states=[state for state in STATES if any(lock.under(state) for lock in view.locks)],
        legend=STATES,
        wide=len(view.nemeses) > WIDE,
        properties=PROPERTIES,
        broken=[(lock, one) for lock in view.locks for one in lock.properties if one.broken],
        exceeded=[(lock, one) for lock in view.locks for one in lock.properties if one.exceeded],
        plots={plot.name: plot for plot in plots.draw(view, pictures)},
        by_cost=plots.by_cost(view),
        said=property_said,
        pieces=pieces,
        values=_values,
        worst=lambda lock: plots.worst_availability(lock, view.faults),
        recoveries=recoveries(view),
        slowest=max((lock.recovery.seconds or 0.0 for lock in view.locks), default=0.0),
        style=page.source("style.css") + page.source("nightly.css") + page.source("comparison.css"),
        script=page.source("js/filter.js") + page.source("js/comparison.js"),
    )  # fmt: skip


def recoveries(view: ComparisonView) -> list[LockView]:
    """The locks by how soon after a holder's death somebody else was granted it; never and not measured last."""

    def rank(lock: LockView) -> tuple[int, float, str]:
        known = lock.recovery.seconds
        return (0, known, lock.name) if known is not None else (1 if lock.recovery.never else 2, 0.0, lock.name)

    return sorted(view.locks, key=rank)


def about(view: ComparisonView) -> str:
    """What was done, in a sentence."""
    runs = f"{view.runs} runs" if view.runs > 1 else "one run"
    length = f" of {view.time_limit:g} s" if view.time_limit else ""
    clients = f", {view.clients} clients" if view.clients else ""
    where = "the simulator" if view.virtual else f"real servers ({view.cluster})"
    return f"{_many(view.locks, 'lock')}, {_many(view.faults, 'fault')}: {runs}{length} a cell{clients}, on {where}."


def helped(found: Sequence[answer.Answer]) -> str:
    """How many of the locks that stayed safe owe it to the fence."""
    with_fence, without = len(found[0].fit), len(found[1].fit)
    if with_fence == without:
        return ""
    which = f"{with_fence - without} of them" if without else f"Each of the {with_fence}" if with_fence > 1 else "It"
    return f"{which} had two holders at times, and what it protects had to refuse the late one by its fencing token."


def _many(some: Sequence[object], what: str) -> str:
    return f"{len(some)} {what}{'s' * (len(some) != 1)}"


def pieces(name: str) -> list[str]:
    """A lock's name, to be broken between these and nowhere else: ``package.``, ``module:``, ``Class``."""
    return [piece for piece in re.split(r"(?<=[:.])", name) if piece]


def property_said(one: PropertyView) -> tuple[str, str]:
    """The state of a claim, for its sign, and what came of it in a few words."""
    match one.claimed, one.measured:
        case True, True:
            return "safe", "kept"
        case True, False:
            return "unsafe", "not kept"
        case True, None:
            return "unknown", "not measured"
        case False, True:
            return "more", "more than claimed"
        case False, _:
            return "not-run", "not claimed"
        case _, None:
            return "not-run", "no claim"
        case _, measured:
            return ("more", "seen, no claim") if measured else ("not-run", "not seen, no claim")


def since(claimed: Sequence[str], measure: MeasureView) -> str:
    """How a measurement stands to the claimed order; where it differs, the pair that is the furthest the other way."""
    known = [family for family in claimed if family in measure.order]
    wrong = [(a, b) for a, b in combinations(known, 2) if measure.order.index(a) > measure.order.index(b)]
    if measure.agrees:
        alike = "; ".join(answer.listed(pair) for pair in wrong)
        return f"agrees ({alike} are alike)" if wrong else "agrees"
    if not wrong:
        return "differs"
    first, second = max(wrong, key=lambda pair: _apart(measure.values[pair[0]], measure.values[pair[1]]))
    told = f"{second} ({plots.value_of(measure, second)}) comes before {first} ({plots.value_of(measure, first)})"
    more = f", and {_many(wrong[1:], 'more pair')} the other way round" if wrong[1:] else ""
    return f"differs, since {told}{more}"


def _apart(one: float, other: float) -> float:
    low, high = sorted((one, other))
    return high / low if low > 0 else inf


def _values(measure: MeasureView) -> list[tuple[str, str, str]]:
    """Family, value and lock, the best first."""
    return [(family, plots.value_of(measure, family), measure.locks.get(family, "")) for family in measure.order]


def _row(number: int, lock: LockView) -> RowView:
    words = (cell.word for cell in lock.cells)
    parts = (lock.name, lock.title, lock.family, lock.kind, lock.safety, lock.language, lock.library, *words)
    states = dict.fromkeys(cell.state for cell in lock.cells)
    return RowView(number, lock, " ".join(states), " ".join(parts).lower())
