"""The picture of the benchmark: how long a verdict takes over how many calls, ours and Porcupine's, both axes
logarithmic. One panel a model; colours are numbers of clients, or of unknown outcomes after which they go on, marks
those of crashed clients; filled ours, hollow Porcupine's.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from benchmarks.linearizability.table import Row
from harness.reports import plots
from harness.reports.sweep_plot import COLOURS, MARKS

DASHES: Final[dict[str, Any]] = {"ours": "-", "Porcupine": (0, (4, 2))}
GIVEN_UP: Final = "given up"
"""A cross: the program was stopped there, and had found nothing."""


def draw(rows: Sequence[Row], folder: Path, name: str) -> str:
    """The picture as SVG; written to ``folder`` as ``name``.svg and ``name``.png too."""
    drawn = [row for row in rows if row.case.suffix == ".jsonl"]
    models = list(dict.fromkeys(row.case.model for row in drawn))
    kinds = {wrong: label for wrong, label in ((False, "right"), (True, "wrong")) if _any(drawn, wrong)}
    with mpl.rc_context(plots.STYLE):
        figure = Figure(figsize=(2.4 + 3.0 * len(models), 1.0 + 3.0 * len(kinds)), layout="constrained")
        FigureCanvasAgg(figure)
        figure.patch.set_alpha(0)
        grid = figure.subplots(len(kinds), len(models), squeeze=False, sharey=True, sharex="col")
        for (wrong, label), line in zip(kinds.items(), grid, strict=True):
            line[0].set_ylabel(f"verdict [s], {label} histories")
            for model, axes in zip(models, line, strict=True):
                _panel(axes, [row for row in drawn if (row.case.model, row.case.shape.wrong) == (model, wrong)], drawn)
        for model, top, bottom in zip(models, grid[0], grid[-1], strict=True):
            top.set_title(model, fontsize=9.5, loc="left")
            lowest = bottom if bottom.axison else top
            lowest.set_xlabel("calls")
            lowest.tick_params(labelbottom=True)
        figure.legend(handles=_legend(drawn), loc="outside right upper", fontsize=8.5, handlelength=3.0)
        return plots.save(figure, folder, name, png=True)


def _any(rows: Sequence[Row], wrong: bool) -> bool:
    return any(row.case.shape.wrong == wrong for row in rows)


def _looks(row: Row) -> tuple[int, int]:
    """What the colour and the mark of a row say."""
    shape = row.case.shape
    return (shape.clients if shape.unknown is None else shape.unknown), shape.crashed


def _values(rows: Sequence[Row]) -> list[tuple[int, int]]:
    return sorted(set(map(_looks, rows)))


def _panel(axes: Axes, rows: Sequence[Row], all_rows: Sequence[Row]) -> None:
    axes.patch.set_alpha(0)
    if not rows:
        axes.set_axis_off()
        return
    axes.set_xscale("log")
    axes.set_yscale("log")
    for looks in _values(rows):
        here = [row for row in rows if _looks(row) == looks]
        here.sort(key=lambda row: row.case.shape.operations)
        for program in DASHES:
            found = [(row.case.shape.operations, row.ours if program == "ours" else row.theirs) for row in here]
            points = [(calls, one) for calls, one in found if one is not None and one.decide > 0]
            look = _look(all_rows, *looks, program)
            axes.plot([calls for calls, _ in points], [one.decide for _, one in points], **look)
            lost = [(calls, one.decide) for calls, one in points if not one.decided]
            axes.plot([calls for calls, _ in lost], [s for _, s in lost], "x", color=look["color"], markersize=9)


def _look(rows: Sequence[Row], number: int, crashed: int, program: str) -> dict[str, Any]:
    every, gone = (sorted({value[which] for value in _values(rows)}) for which in (0, 1))
    colour = COLOURS[every.index(number) % len(COLOURS)]
    return {
        "color": colour,
        "marker": MARKS[gone.index(crashed) % len(MARKS)],
        "linestyle": DASHES[program],
        "markerfacecolor": colour if program == "ours" else "none",
        "markersize": 5,
        "linewidth": 1.3,
    }


def _legend(rows: Sequence[Row]) -> list[Line2D]:
    values = _values(rows)
    every, gone = (sorted({value[which] for value in values}) for which in (0, 1))
    of = "unknown" if rows[0].case.shape.going_on else "clients"
    plain: dict[str, Any] = {"color": plots.MIDDLE, "linestyle": ""}
    programs = [
        Line2D([], [], color=plots.MIDDLE, linestyle=dash, marker="o", label=program,
               markerfacecolor=plots.MIDDLE if program == "ours" else "none")
        for program, dash in DASHES.items()
    ]  # fmt: skip
    colours = [Line2D([], [], color=COLOURS[n % len(COLOURS)], label=f"{c} {of}") for n, c in enumerate(every)]
    marks = [Line2D([], [], marker=MARKS[n % len(MARKS)], label=f"{c} crashed", **plain) for n, c in enumerate(gone)]
    marks = marks if len(marks) > 1 else []
    return [*programs, *colours, *marks, Line2D([], [], marker="x", markersize=9, label=GIVEN_UP, **plain)]
