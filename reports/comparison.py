"""Write the report of a comparison: which lock to use, what it costs, and the results of all runs.

The report is one self-contained HTML file; the same results are written as Markdown and CSV.
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

from harness.documents import load_comparison
from harness.files import write_file
from harness.wording import certainty, listed

from . import certainty as sureness
from . import comparison_answer as answer
from . import comparison_plots as plots
from . import comparison_text, page, words
from .comparison_view import (
    PROPERTIES,
    STATES,
    ComparisonView,
    LockView,
    MeasureView,
    PropertyView,
    read,
    sound_first,
)

NAME: Final = "comparison"
WIDE: Final = 7
"""With more columns than this, the matrix scrolls on any screen."""
OTHERS: Final = 6
"""The most locks named after the first choice."""


@dataclass(frozen=True, slots=True)
class ComparisonRow:
    """A row of the matrix; ``text`` is the text that the filter searches, in lower case."""

    number: int
    lock: LockView
    states: str
    text: str


def write(folder: Path) -> Path:
    """Write comparison.html, comparison.md, comparison.csv, costs.csv and the pictures beside ``comparison.json``.

    Returns the path of the page. Raises DocumentError for a malformed document, OSError if a file cannot be written.
    """
    view = read(load_comparison(folder / f"{NAME}.json"))
    path = folder / f"{NAME}.html"
    html = render(view, folder)
    for name, text in comparison_text.files(view).items():
        write_file(folder / name, text)
    write_file(path, html)
    return path


def render(view: ComparisonView, pictures: Path | None = None) -> str:
    """Render the page; with ``pictures``, also save the pictures as files there."""
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
        sure=sureness.of_comparison(view),
        virtual=" (virtual)" if view.virtual else "",
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
        certainty=certainty(view.runs),
        wide=len(view.nemeses) > WIDE,
        properties=PROPERTIES,
        broken=[(lock, one) for lock in view.locks for one in lock.properties if one.broken],
        exceeded=[(lock, one) for lock in view.locks for one in lock.properties if one.exceeded],
        plots={plot.name: plot for plot in plots.draw(view, pictures)},
        by_cost=plots.by_cost(view),
        property_text=property_text,
        pieces=pieces,
        values=_values,
        worst=lambda lock: plots.worst_availability(lock, view.faults),
        recoveries=recoveries(view),
        slowest=max((lock.recovery.seconds or 0.0 for lock in view.locks), default=0.0),
        style=page.source("style.css") + page.source("nightly.css") + page.source("comparison.css"),
        script=page.source("js/filter.js") + page.source("js/comparison.js"),
    )  # fmt: skip


def recoveries(view: ComparisonView) -> list[LockView]:
    """Return the locks by the time from a holder's death to the next grant; locks without a grant or measurement come
    last."""

    def rank(lock: LockView) -> tuple[int, float, str]:
        known = lock.recovery.seconds
        return (0, known, lock.name) if known is not None else (1 if lock.recovery.never else 2, 0.0, lock.name)

    return sorted(view.locks, key=rank)


def about(view: ComparisonView) -> str:
    """Describe the comparison in one sentence."""
    runs = f"{view.runs} runs" if view.runs > 1 else "one run"
    length = f" of {view.time_limit:g} s" if view.time_limit else ""
    clients = f", {view.clients} clients" if view.clients else ""
    where = "the simulator" if view.virtual else f"real servers ({view.cluster})"
    return (
        f"{_counted(view.locks, 'lock')}, {_counted(view.faults, 'fault')}: {runs}{length} a cell{clients}, on {where}."
    )


def helped(found: Sequence[answer.Recommendation]) -> str:
    """Return how many of the safe locks are safe only because of the fence."""
    with_fence, without = len(found[0].fit), len(found[1].fit)
    if with_fence == without:
        return ""
    which = f"{with_fence - without} of them" if without else f"Each of the {with_fence}" if with_fence > 1 else "It"
    return f"{which} sometimes had two holders; the resource refused the late one by its token."


def _counted(some: Sequence[object], what: str) -> str:
    return f"{len(some)} {what}{'s' * (len(some) != 1)}"


def pieces(name: str) -> list[str]:
    """Return the parts of a lock's name, the only places for line breaks: ``package.``, ``module:``, ``Class``."""
    return [piece for piece in re.split(r"(?<=[:.])", name) if piece]


def property_text(one: PropertyView) -> tuple[str, str]:
    """Return the state of a claim, for its sign, and the result in a few words."""
    match one.claimed, one.measured:
        case True, True:
            return ("fenced", "kept by the fence") if one.fenced else ("safe", "kept")
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
            return ("more", "observed, no claim") if measured else ("not-run", "not observed, no claim")


def since(claimed: Sequence[str], measure: MeasureView) -> str:
    """Compare a measurement with the claimed order; if they differ, name the pair that contradicts it most."""
    known = [family for family in claimed if family in measure.order]
    if len(known) < 2:
        return "has no two of the services that the claim ranks"
    wrong = [(a, b) for a, b in combinations(known, 2) if measure.order.index(a) > measure.order.index(b)]
    if measure.agrees:
        alike = "; ".join(listed(pair) for pair in wrong)
        return f"agrees ({alike} are equal)" if wrong else "agrees"
    if not wrong:
        return "differs"
    first, second = max(wrong, key=lambda pair: _factor(measure.values[pair[0]], measure.values[pair[1]]))
    sentence = f"{second} ({plots.value_of(measure, second)}) comes before {first} ({plots.value_of(measure, first)})"
    more = (
        f", and {_counted(wrong[1:], 'more pair')} {'is' if len(wrong) == 2 else 'are'} reversed" if wrong[1:] else ""
    )
    return f"differs: {sentence}{more}"


def _factor(one: float, other: float) -> float:
    low, high = sorted((one, other))
    return high / low if low > 0 else inf


def _values(measure: MeasureView) -> list[tuple[str, str, str]]:
    """Return family, value and lock, the best first."""
    return [(family, plots.value_of(measure, family), measure.locks.get(family, "")) for family in measure.order]


def _row(number: int, lock: LockView) -> ComparisonRow:
    words = (cell.word for cell in lock.cells)
    parts = (lock.name, lock.title, lock.family, lock.kind, lock.safety, lock.language, lock.library, *words)
    states = dict.fromkeys(cell.state for cell in lock.cells)
    return ComparisonRow(number, lock, " ".join(states), " ".join(parts).lower())
