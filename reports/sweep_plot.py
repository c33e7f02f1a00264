"""Draw the picture of a sweep: lost updates, violated runs and time to the first violation, as functions of the ttl.

It has a column for each hold, and a line for each pause (colour and mark) and cluster (dash). The same sweep gives the
same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from harness.documents.sweep import SweepPoint

from . import plots, words

if TYPE_CHECKING or plots.DRAWN:
    from matplotlib.axes import Axes
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.ticker import MaxNLocator, PercentFormatter

COLOURS: Final = ("#0072b2", "#b84a00", "#7e57a8", "#009e73", "#cc79a7", "#8a6100")
MARKS: Final = ("o", "s", "^", "D", "v", "P", "X")
DASHES: Final[tuple[Any, ...]] = ("-", (0, (4, 2)), (0, (1, 1.2)))
"""Dashes by cluster; the marks of all clusters but the first are hollow."""
APART: Final = 0.012
"""The distance of neighbouring lines, as a share of the width: points of the same height stay visible."""


def draw(points: Sequence[SweepPoint], folder: Path, name: str) -> str:
    """Return the picture as SVG; write it to ``folder`` as ``name``.svg and ``name``.png too.

    The text is empty, and nothing is written, where pictures cannot be drawn.
    """
    if not plots.DRAWN:
        return ""
    holds = _values(points, "hold")
    rows: list[tuple[str, Callable[[Axes, list[SweepPoint], list[float], dict[str, Any]], None]]] = [
        ("updates lost", _lost),
        ("runs violated", _rate),
        ("first violation [s]", _first),
    ]
    with plots.styled():
        figure = Figure(figsize=(2.6 + max(4.6, 3.1 * len(holds)), 7.4), layout="constrained")
        FigureCanvasAgg(figure)
        figure.patch.set_alpha(0)
        grid = figure.subplots(len(rows), len(holds), squeeze=False, sharex=True, sharey="row")
        for (label, paint), line in zip(rows, grid, strict=True):
            line[0].set_ylabel(label)
            for hold, axes in zip(holds, line, strict=True):
                axes.patch.set_alpha(0)
                _lines(axes, points, hold, paint)
        for hold, top, bottom in zip(holds, grid[0], grid[-1], strict=True):
            top.set_title(f"hold {words.span(round(hold * 1e9))}", fontsize=9.5, loc="left")
            bottom.set_xlabel("ttl [s]")
        figure.align_ylabels(grid[:, 0])
        figure.legend(handles=_legend(points), loc="outside right upper", fontsize=8.5, handlelength=3.0)
        return plots.save(figure, folder, name, png=True)


def _values(points: Sequence[SweepPoint], name: str) -> list[Any]:
    return list(dict.fromkeys(getattr(point, name) for point in points))


def _lines(axes: Axes, points: Sequence[SweepPoint], hold: float, paint: Callable[..., None]) -> None:
    clusters, pauses, ttls = (_values(points, name) for name in ("cluster", "pause", "ttl"))
    wide = (max(ttls) - min(ttls)) or 1.0
    series = [(cluster, pause) for cluster in clusters for pause in pauses]
    for number, (cluster, pause) in enumerate(series):
        here = sorted(
            (p for p in points if (p.cluster, p.pause, p.hold) == (cluster, pause, hold)),
            key=lambda point: point.ttl,
        )
        shift = (number - (len(series) - 1) / 2) * APART * wide
        paint(axes, here, [p.ttl + shift for p in here], _line_style(clusters.index(cluster), pauses.index(pause)))
    axes.set_xticks(sorted(ttls), [f"{ttl:g}" for ttl in sorted(ttls)])
    axes.set_xlim(min(ttls) - 0.08 * wide, max(ttls) + 0.08 * wide)


def _line_style(cluster: int, pause: int) -> dict[str, Any]:
    colour = COLOURS[pause % len(COLOURS)]
    return {
        "color": colour,
        "marker": MARKS[pause % len(MARKS)],
        "linestyle": DASHES[cluster % len(DASHES)],
        "markerfacecolor": "none" if cluster else colour,
        "markersize": 5,
        "linewidth": 1.5,
    }


def _legend(points: Sequence[SweepPoint]) -> list[Line2D]:
    clusters, pauses = _values(points, "cluster"), _values(points, "pause")
    return [
        Line2D([], [], label=f"{_pause_label(pause)}, {cluster}", **_line_style(number, clusters_pause))
        for number, cluster in enumerate(clusters)
        for clusters_pause, pause in enumerate(pauses)
    ]


def _pause_label(pause: float) -> str:
    return f"pause {words.span(round(pause * 1e9))}" if pause else "no pause"


def _lost(axes: Axes, points: list[SweepPoint], where: list[float], look: dict[str, Any]) -> None:
    """Draw the lost updates, with the least and the most that one run lost."""
    _with_range(axes, points, where, look, ("lost_fraction", "lost_least", "lost_most"))
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.set_ylim(bottom=0, auto=None)


def _rate(axes: Axes, points: list[SweepPoint], where: list[float], look: dict[str, Any]) -> None:
    """Draw the rate of violated runs, with its 95 % interval."""
    _with_range(axes, points, where, look, ("rate", "rate_low", "rate_high"))
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.set_ylim(-0.04, 1.04)


def _first(axes: Axes, points: list[SweepPoint], where: list[float], look: dict[str, Any]) -> None:
    axes.plot(where, [_number(point.first_s) for point in points], **look)
    axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.set_ylim(bottom=0, auto=None)


def _with_range(
    axes: Axes, points: list[SweepPoint], where: list[float], look: dict[str, Any], names: tuple[str, str, str]
) -> None:
    value, low, high = ([_number(getattr(point, name)) for point in points] for name in names)
    axes.vlines(where, low, high, color=look["color"], alpha=0.35, linewidth=1.2)
    axes.plot(where, value, clip_on=False, **look)


def _number(value: float | None) -> float:
    return float("nan") if value is None else value
