"""Draw the pictures of a comparison: the costs of each lock, and the claimed ranking beside the measured one.

As with the pictures of a run (:mod:`harness.reports.plots`), the same document gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any, Final

from . import plots, words
from .comparison_answer import figure as rounded
from .comparison_view import ComparisonView, CostView, LockView, MeasureView
from .plots import COLOURS, INK, MIDDLE

if TYPE_CHECKING or plots.DRAWN:
    from matplotlib.axes import Axes
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, PercentFormatter

LOOKS: Final[dict[str, dict[str, Any]]] = {
    "alone": {"color": COLOURS["ok"], "marker": "o", "facecolor": COLOURS["ok"], "dash": "-", "shift": -0.16},
    "contended": {"color": COLOURS["fail"], "marker": "D", "facecolor": "none", "dash": (0, (3, 1.5)), "shift": 0.16},
}
"""For each cost: colour, mark, dash, and distance from the middle of its row."""
LINES: Final = (
    (COLOURS["ok"], "o", "-"),
    (COLOURS["fail"], "s", (0, (4, 1.5))),
    (COLOURS["info"], "^", (0, (1, 1))),
    (MIDDLE, "D", (0, (5, 1.5, 1, 1.5))),
)
"""For each family: colour, mark and dash in the ranking."""
LONGEST: Final = 26
"""The most letters of a lock's name beside its row."""


@dataclass(frozen=True, slots=True)
class ComparisonPicture:
    """A picture for the page: ``svg`` is the drawing to inline, ``text`` describes it in words.

    ``svg`` is empty where pictures cannot be drawn."""

    name: str
    text: str
    svg: str


def draw(view: ComparisonView, folder: Path | None = None) -> list[ComparisonPicture]:
    """Draw the pictures for which ``view`` has figures, and write them to ``folder`` if one is given."""
    found = []
    if view.costs("alone") or view.costs("contended"):
        found.append(_save_picture(lambda: _costs(by_cost(view)), folder, "costs", costs_text(view)))
    if view.claimed and view.measures:
        found.append(_save_picture(lambda: _ranking(view), folder, "ranking", ranking_text(view)))
    return found


def by_cost(view: ComparisonView) -> list[LockView]:
    """Return the locks, the quickest acquire first and those without a measurement last."""

    def cost_key(lock: LockView) -> tuple[bool, float, str]:
        took = lock.costs["alone"].acquire_p50 if "alone" in lock.costs else None
        return took is None, took or 0.0, lock.name

    return sorted(view.locks, key=cost_key)


def worst_availability(lock: LockView, faults: Sequence[str]) -> CostView | None:
    """Return the fault under which the lock was available in the smallest share of the time."""
    known = [cost for name, cost in lock.costs.items() if name in faults and cost.availability is not None]
    return min(known, key=lambda cost: cost.availability or 0.0, default=None)


def costs_text(view: ComparisonView) -> str:
    """Describe the costs in words: the quickest and the slowest lock."""
    known = [lock for lock in by_cost(view) if "alone" in lock.costs and lock.costs["alone"].acquire_p50 is not None]
    if not known:
        return "No acquire without contention was measured."
    extremes = [f"{lock.name} ({seconds(lock.costs['alone'].acquire_p50)})" for lock in (known[0], known[-1])]
    return f"Median acquire without contention: from {extremes[0]} to {extremes[1]}."


def ranking_text(view: ComparisonView) -> str:
    """Describe the ranking in words: each order."""
    return "; ".join(
        f"{name}: {', '.join(order)}"
        for name, order in (("Claimed", view.claimed), *((measure.name, measure.order) for measure in view.measures))
    )


def seconds(value: float | None) -> str:
    """Return a duration in a suitable unit; a dash for None."""
    return "–" if value is None else words.span(round(value * 1e9))


def value_of(measure: MeasureView, family: str) -> str:
    """Return a value with its unit: ``0.42 ms``, ``390 /s``."""
    return f"{rounded(measure.values[family])} {measure.unit}".strip()


def _save_picture(paint: Callable[[], Figure], folder: Path | None, name: str, text: str) -> ComparisonPicture:
    if not plots.DRAWN:
        return ComparisonPicture(name, text, "")
    with plots.styled():
        return ComparisonPicture(name, text, plots.inline(plots.save(paint(), folder, name, png=True), name))


def _costs(locks: Sequence[LockView]) -> Figure:
    with plots.styled():
        figure = Figure(figsize=(9, 1.15 + 0.25 * len(locks)), layout="constrained")
        FigureCanvasAgg(figure)
        figure.patch.set_alpha(0)
        took, rate, there = figure.subplots(1, 3, sharey=True, width_ratios=(2.2, 1.3, 1.0))
        for axes, paint, title in (
            (took, _plot_durations, "acquire, median to 99 %"),
            (rate, _rate, "grants per second"),
            (there, _plot_availability, "share granted"),
        ):
            axes.patch.set_alpha(0)
            axes.set_title(title, fontsize=9.5, loc="left")
            axes.grid(visible=True, axis="x")
            axes.tick_params(axis="y", length=0)
            paint(axes, locks)
            _ticks(axes)
        took.set_yticks(range(len(locks)), [_short(lock.name) for lock in locks], parse_math=False)
        took.set_ylim(len(locks) - 0.4, -0.6)
        handles, labels = took.get_legend_handles_labels()
        if handles:
            figure.legend(handles, labels, loc="outside upper right", ncols=2, fontsize=8.5, columnspacing=1.4)
        return figure


def _short(name: str) -> str:
    """Return the end of a long name; for ``package.module:Class``, the class."""
    return name if len(name) <= LONGEST else f"…{name[1 - LONGEST :]}"


def _ticks(axes: Axes) -> None:
    """Add ticks where a logarithmic axis spans so little that one tick a decade may mean no tick at all."""
    low, high = axes.get_xlim()
    if axes.get_xscale() == "log" and high < 50 * low:
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))


def _plot_durations(axes: Axes, locks: Sequence[LockView]) -> None:
    _dots(axes, locks, lambda cost: cost.acquire_p50)
    for name, look in LOOKS.items():
        for i, lock in enumerate(locks):
            cost = lock.costs.get(name)
            if cost and cost.acquire_p50 and cost.acquire_p99:
                span = [cost.acquire_p50, cost.acquire_p99]
                axes.plot(span, [i + look["shift"]] * 2, color=look["color"], linestyle=look["dash"], linewidth=1.4)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: seconds(value)))


def _rate(axes: Axes, locks: Sequence[LockView]) -> None:
    _dots(axes, locks, lambda cost: cost.rate)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: rounded(value)))


def _dots(axes: Axes, locks: Sequence[LockView], value: Callable[[CostView], float | None]) -> None:
    """Draw the values on a logarithmic axis. It has no place for 0, which is left out here and shown in the table."""
    drawn = False
    for name, look in LOOKS.items():
        known = [(i, value(lock.costs[name])) for i, lock in enumerate(locks) if name in lock.costs]
        places = [(i + look["shift"], some) for i, some in known if some]
        if places:
            y, x = zip(*places, strict=True)
            label = {"alone": "one client alone", "contended": "several at once"}[name]
            axes.scatter(
                x, y, s=20, marker=look["marker"], edgecolors=look["color"], facecolors=look["facecolor"],
                linewidths=1.2, zorder=3, label=label,
            )  # fmt: skip
            drawn = True
    if drawn:
        axes.set_xscale("log")
        axes.minorticks_off()


def _plot_availability(axes: Axes, locks: Sequence[LockView]) -> None:
    """Draw availability: a tick for each fault, and a mark for the worst."""
    for i, lock in enumerate(locks):
        faults = [name for name in lock.costs if name not in LOOKS]
        shares = [some for name in faults if (some := lock.costs[name].availability) is not None]
        if shares:
            axes.plot([min(shares), max(shares)], [i, i], color=plots.RULE, linewidth=1, zorder=1)
            axes.scatter(shares, [i] * len(shares), marker="|", s=34, color=COLOURS["info"], clip_on=False)
            axes.scatter(min(shares), i, marker="o", s=20, color=COLOURS["info"], clip_on=False, zorder=3)
    axes.set_xlim(0, 1)
    axes.xaxis.set_major_locator(FixedLocator([0, 0.5, 1]))
    axes.xaxis.set_major_formatter(PercentFormatter(1.0))


def _ranking(view: ComparisonView) -> Figure:
    columns = [view.claimed, *(measure.order for measure in view.measures)]
    most = max(len(order) for order in columns)
    with plots.styled(**{"axes.grid": False}):
        figure = Figure(figsize=(max(9.0, 2.3 * len(columns)), 0.9 + 0.4 * most), layout="constrained")
        FigureCanvasAgg(figure)
        figure.patch.set_alpha(0)
        axes = figure.add_subplot()
        axes.patch.set_alpha(0)
        axes.set_axis_off()
        axes.set_xlim(-0.15, len(columns) - 0.45)
        axes.set_ylim(most + 0.4, -0.05)
        _heads(axes, view)
        for number, family in enumerate(dict.fromkeys(family for order in columns for family in order)):
            _line(axes, view, family, LINES[number % len(LINES)])
        return figure


def _heads(axes: Axes, view: ComparisonView) -> None:
    axes.text(0, 0.42, "claimed", fontsize=9, va="bottom", color=MIDDLE)
    for i, measure in enumerate(view.measures, 1):
        axes.text(i, 0.42, fill(measure.name, 24), fontsize=9, va="bottom", color=MIDDLE, parse_math=False)


def _line(axes: Axes, view: ComparisonView, family: str, look: tuple[str, str, Any]) -> None:
    colour, mark, dash = look
    points = [(0, view.claimed.index(family) + 1, family)] if family in view.claimed else []
    points += [
        (i, measure.order.index(family) + 1, f"{family}  {value_of(measure, family)}")
        for i, measure in enumerate(view.measures, 1)
        if family in measure.order
    ]
    for (x, y, _), (next_x, next_y, _) in pairwise(points):
        # The names are to the right of the marks, so lines begin behind them.
        axes.plot([x + 0.5, next_x - 0.03], [y, next_y], color=colour, linestyle=dash, linewidth=1.5)
    for x, y, label in points:
        axes.scatter(x, y, color=colour, marker=mark, s=34, zorder=3)
        axes.annotate(label, (x, y), (7, 0), textcoords="offset points", va="center", fontsize=9, color=INK,
                      parse_math=False)  # fmt: skip
