"""Draw the pictures of a run: latency of each operation, acquires per second and availability of the lock, and time to
recover from each fault. Bands in the background mark the faults."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10, sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from harness.checkers import availability
from harness.checkers.availability import WINDOW, Recovery, Served
from harness.history import SECOND

from . import plots, words
from .measures import NAMES, OUTCOMES, QUANTILES, Measures, Timed, TimedOperation
from .model import RunView
from .plots import COLOURS, FAULT, INK, MIDDLE

if TYPE_CHECKING or plots.DRAWN:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch
    from matplotlib.ticker import FuncFormatter, MaxNLocator

MARKS: Final = {"ok": "o", "fail": "X", "info": "D"}
DASHES: Final[dict[str, Any]] = {"ok": "-", "fail": (0, (4, 1.5)), "info": (0, (1, 1))}
QUANTILE_DASHES: Final[dict[float, Any]] = {0.5: "-", 0.95: (0, (5, 2)), 0.99: (0, (1, 1))}
OUTCOME_LABELS: Final = {"ok": "granted", "fail": "not granted", "info": "outcome unknown"}
CALLED: Final = {"ok": "succeeded", "fail": "failed", "info": "outcome unknown"}
RASTER_FROM: Final = 1500
"""With more points than this, they are drawn as one embedded bitmap: the page stays small, and no point is left out."""
BINS: Final = (8, 60)
"""The fewest and the most intervals for values over time; an interval is at least a second."""
ENOUGH: Final = 20
"""Average number of calls for a quantile over time."""
LETTERS: Final = 130
"""The width of a plot, in letters of a fault's name."""
AVAILABLE_STYLE: Final[dict[str, Any]] = {"facecolor": MIDDLE, "linewidth": 0}
UNAVAILABLE_STYLE: Final[dict[str, Any]] = {
    "facecolor": "none",
    "edgecolor": COLOURS["fail"],
    "hatch": "/" * 6,
    "linewidth": 0.8,
}
MOST_KEYS: Final = 8
WIDTH, LEFT, RIGHT, TOP, BOTTOM = 9.0, 0.72, 0.72, 0.24, 0.5
"""Width of a picture, and the margins around its plot, inches."""
Band = tuple[float, float, str]
Painter = Callable[[Measures, Sequence[Band]], "Figure"]


@dataclass(frozen=True, slots=True)
class Plot:
    """A picture for the page: ``svg`` is the drawing to inline, ``text`` describes it in words.

    ``svg`` is empty where pictures cannot be drawn."""

    name: str
    title: str
    text: str
    svg: str


def draw(run: RunView, measured: Measures, folder: Path | None = None) -> dict[str, Plot]:
    """Draw the pictures for which there is data, by name; write them to ``folder`` as SVG too, if one is given."""
    bands = fault_bands(run, measured.seconds)

    def drawn(name: str, paint: Painter) -> str:
        return plots.inline(plots.save(paint(measured, bands), folder, name), name) if plots.DRAWN else ""

    with plots.styled():
        made = [
            Plot(name, title, describe(measured), drawn(name, paint))
            for name, title, there, describe, paint in _pictures(measured)
            if there
        ]
    return {plot.name: plot for plot in made}


def _pictures(run: Measures) -> list[tuple[str, str, bool, Callable[[Measures], str], Painter]]:
    """Return, for each picture, its name, its title, whether there is data, its text, and the function that draws
    it."""
    calls = any(len(one) for one in run.operations)
    acquires = run.acquire is not None
    return [
        ("latency", "How long each operation took", calls, latency_text, _latency),
        ("rate", "Acquires per second, and availability of the lock", acquires, service_text, _service),
        ("recovery", "Time from a heal or a crash to the next grant", bool(run.recoveries), recovery_text, _recovery),
    ]


def latency_text(run: Measures) -> str:
    """Describe the median latency of each operation in words."""
    medians = [f"{one.f} {words.span(one.ok.quantile(0.5))}" for one in run.operations if len(one.ok)]
    return f"Median of those that succeeded: {', '.join(medians)}." if medians else "No call succeeded."


def service_text(run: Measures) -> str:
    assert run.acquire is not None
    counts = [f"{len(run.acquire.outcome(name)):,} {label}" for name, label in OUTCOME_LABELS.items()]
    never = f", {run.acquire.open:,} without an answer" if run.acquire.open else ""
    some = f" The {MOST_KEYS} least available of {len(run.keys):,} keys are drawn."
    return f"{', '.join(counts)}{never}. {_available(run)}{some * (len(run.keys) > MOST_KEYS)}".strip()


def _available(run: Measures) -> str:
    share, gap = availability.share(run.keys), availability.longest_gap(run.keys)
    if share is None:
        return ""
    sentence = f"The lock was available in {words.percent(share)} of the quarter seconds in which a client requested it"
    if gap is None:
        return f"{sentence}."
    begun, ended = (words.at(moment, run.origin) for moment in gap)
    return f"{sentence}; the longest gap was {words.span(gap[1] - gap[0])}, from {begun} to {ended}."


def recovery_text(run: Measures) -> str:
    times = [one.ns for one in run.recoveries if one.ns is not None]
    never = len(run.recoveries) - len(times)
    parts = [f"The longest took {words.span(max(times))}"] if times else []
    parts += [f"after {never} of {len(run.recoveries)} there was no further grant"] if never else []
    text = "; ".join(parts)
    return f"{text[:1].upper()}{text[1:]}."


def fault_bands(run: RunView, end: float) -> list[Band]:
    """Return start, end (s) and name of each fault; faults of one kind that follow each other at once make one band."""
    bands: list[Band] = []
    for fault in sorted(run.faults, key=lambda fault: fault.injected or 0):
        begun = np.inf if fault.injected is None else (fault.injected - run.history.origin) / SECOND
        healed = end if fault.healed is None else min(end, (fault.healed - run.history.origin) / SECOND)
        if begun > end:
            continue
        if bands and begun - bands[-1][1] < end / 300 and bands[-1][2].startswith(fault.fault):
            bands[-1] = (bands[-1][0], max(healed, bands[-1][1]), f"{fault.fault}, repeatedly")
        else:
            bands.append((begun, healed, f"{fault.fault} {', '.join(fault.hosts)}"))
    return bands


def _figure(heights: Sequence[float], gap: float, left: float = LEFT, top: float = TOP) -> tuple[Figure, list[Axes]]:
    """Create axes one below the other, of these ``heights`` and with ``gap`` between them, inches.

    There is no layout engine: the space around the axes is known, and computing it takes longer than drawing.
    """
    height = top + sum(heights) + gap * (len(heights) - 1) + BOTTOM
    figure = Figure(figsize=(WIDTH, height))
    figure.patch.set_alpha(0)
    axes, y = [], height - top
    for one in heights:
        y -= one
        place = (left / WIDTH, y / height, (WIDTH - left - RIGHT) / WIDTH, one / height)
        axes.append(figure.add_axes(place, facecolor="none"))
        y -= gap
    return figure, axes


def _over_time(axes: Sequence[Axes], bands: Sequence[Band], end: float) -> None:
    """Set up the common time axis: labels below the last axes, names of faults above the first where there is room."""
    for one in axes:
        for begun, healed, _ in bands:
            one.axvspan(begun, max(healed, begun + end / 1000), color=FAULT, alpha=0.22, linewidth=0, zorder=0)
        one.set_xlim(0, end)
        one.tick_params(axis="x", labelbottom=one is axes[-1], length=3 if one is axes[-1] else 0)
    for begun, name in _names(bands, end):
        where = axes[0].get_xaxis_transform()
        axes[0].annotate(name, (begun, 1), (3, 3), where, "offset points", fontsize=7.5, annotation_clip=False)
    axes[-1].set_xlabel("seconds since the start", loc="right")


def _names(bands: Sequence[Band], end: float) -> list[tuple[float, str]]:
    """Return the places of the bands' names.

    Bands that begin together share one place. A name that would overlap the name before is left out.
    """
    names: list[tuple[float, str]] = []
    for begun, _, name in bands:
        if names and begun < names[-1][0] + end / 50:
            names[-1] = (names[-1][0], f"{names[-1][1]} + {name}")
        elif not names or begun >= names[-1][0] + len(names[-1][1]) * end / LETTERS:
            names.append((begun, name))
    return names


def _name_axes(axes: Axes, name: str) -> None:
    """Write the name of the axes to their right."""
    axes.annotate(name, (1, 0.5), (7, 0), "axes fraction", "offset points", va="center", weight="bold", fontsize=8.5)


def _legend(figure: Figure, handles: Sequence[Line2D | Patch]) -> None:
    """Draw the legend below the picture, from the left: a narrow screen does not show the right end."""
    figure.legend(
        handles=handles, loc="lower left", bbox_to_anchor=(LEFT / WIDTH, 0.0), ncols=max(1, len(handles)),
        fontsize=8, handlelength=1.9, columnspacing=1.2, handletextpad=0.5, borderpad=0.1, borderaxespad=0.1,
    )  # fmt: skip


def _latency(run: Measures, bands: Sequence[Band]) -> Figure:
    operations = [one for one in run.operations if len(one)]
    figure, grid = _figure([1.45 if one.f == "acquire" else 0.85 for one in operations], 0.16)
    raster = sum(len(one) for one in operations) > RASTER_FROM
    for axes, one in zip(grid, operations, strict=True):
        _points(axes, one, raster=raster)
        if len(one.ok) >= ENOUGH:
            _quantiles(axes, one.ok, run.seconds)
        _scale(axes, one)
        _name_axes(axes, one.f)
    _over_time(grid, bands, run.seconds)
    there = [name for name in OUTCOMES if any(len(one.outcome(name)) for one in operations)]
    dots = [Line2D([], [], color=COLOURS[o], marker=MARKS[o], ls="", ms=4.5, mew=0, label=CALLED[o]) for o in there]
    lines = [Line2D([], [], color=INK, ls=QUANTILE_DASHES[q], lw=1.3, label=NAMES[q]) for q in QUANTILES]
    _legend(figure, [*dots, *lines] if any(axes.lines for axes in grid) else dots)
    return figure


def _points(axes: Axes, one: TimedOperation, *, raster: bool) -> None:
    for name in OUTCOMES:
        some = one.outcome(name)
        if len(some):
            axes.scatter(
                some.done, np.maximum(some.took, 1e-6), color=COLOURS[name], marker=MARKS[name], linewidths=0,
                s=8 if name == "ok" or raster else 20, alpha=0.3 if raster and name == "ok" else 0.7, rasterized=raster,
            )  # fmt: skip


def _quantiles(axes: Axes, some: Timed, end: float) -> None:
    """Draw one quantile for each window; a window with too few calls has none."""
    edges = np.linspace(0, end, int(np.clip(len(some) / ENOUGH, *BINS)) + 1)
    windows = np.split(some.took, np.searchsorted(some.done, edges[1:-1]))
    middle = (edges[1:] + edges[:-1]) / 2
    for quantile in QUANTILES:
        values = [np.quantile(window, quantile) if len(window) >= ENOUGH // 4 else np.nan for window in windows]
        axes.plot(middle, np.maximum(values, 1e-6), color=INK, linewidth=1.2, linestyle=QUANTILE_DASHES[quantile])


def _scale(axes: Axes, one: TimedOperation) -> None:
    """Scale an axis with some room around all calls, at least four times as high as low, with at most four ticks."""
    took = np.maximum(np.concatenate([one.outcome(name).took for name in OUTCOMES]), 1e-6)
    low, high = float(took.min()) / 1.4, float(took.max()) * 1.4
    if high < 4 * low:
        low, high = sqrt(low * high) / 2, sqrt(low * high) * 2
    axes.set_yscale("log")
    axes.minorticks_off()
    marks = _marks(low, high)
    axes.set_yticks(marks, [words.span(round(mark * SECOND)) for mark in marks])
    axes.set_ylim(low, high)


def _marks(low: float, high: float) -> list[float]:
    """Return 1, 2 and 5 times powers of ten between two values; if there are more than four, only every nth power."""
    powers = [10.0**power for power in range(floor(log10(low)), ceil(log10(high)) + 1)]
    fine = [mark for power in powers for mark in (power, 2 * power, 5 * power) if low <= mark <= high]
    if len(fine) <= 4:
        return fine
    coarse = [power for power in powers if low <= power <= high]
    return coarse[:: ceil(len(coarse) / 4)] if len(coarse) > 1 else fine[::2]


def _service(run: Measures, bands: Sequence[Band]) -> Figure:
    """Draw the grants, the other outcomes of acquires, and a strip for each key.

    Other outcomes may be a hundred times as many as grants. A strip is filled where the key was available, and hatched
    where it was not.
    """
    assert run.acquire is not None
    keys, rest = _most_missed(run.keys), [name for name in ("fail", "info") if len(run.acquire.outcome(name))]
    figure, grid = _figure([1.4, *([0.75] if rest else []), *([0.17 * len(keys)] if keys else [])], 0.18)
    for axes, names in zip(grid, (["ok"], rest), strict=False):
        if names:
            _rates(axes, {name: run.acquire.outcome(name) for name in names}, run.seconds)
    if keys:
        _strips(grid[-1], keys, run)
    _over_time(grid, bands, run.seconds)
    lines = [Line2D([], [], color=COLOURS[o], ls=DASHES[o], lw=1.5, label=OUTCOME_LABELS[o]) for o in ("ok", *rest)]
    _legend(
        figure,
        [
            *lines,
            *(
                [Patch(label="available", **AVAILABLE_STYLE), Patch(label="unavailable", **UNAVAILABLE_STYLE)]
                if keys
                else []
            ),
        ],
    )
    return figure


def _rates(axes: Axes, outcomes: dict[str, Timed], end: float) -> None:
    bins = int(np.clip(end, *BINS))
    edges = np.linspace(0, end, bins + 1)
    for name, some in outcomes.items():
        rates = np.histogram(some.done, bins=edges)[0] / (end / bins)
        axes.stairs(rates, edges, color=COLOURS[name], linewidth=1.5, linestyle=DASHES[name])
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_locator(MaxNLocator(5 if "ok" in outcomes else 2, steps=[1, 2, 5, 10]))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda rate, _: f"{rate:,g}"))
    _name_axes(axes, "granted" if "ok" in outcomes else "not\ngranted")


def _most_missed(keys: Sequence[Served]) -> list[Served]:
    """Return as many keys as there is room for, those that were missed most, in their original order."""
    worst = sorted(keys, key=lambda one: -int(one.missed.sum()))[:MOST_KEYS]
    return [one for one in keys if one in worst]


def _strips(axes: Axes, keys: Sequence[Served], run: Measures) -> None:
    for row, one in enumerate(keys):
        axes.broken_barh(_runs(one.served, run.seconds), (row + 0.14, 0.72), zorder=3, **AVAILABLE_STYLE)
        axes.broken_barh(_runs(one.missed, run.seconds), (row + 0.14, 0.72), zorder=3, **UNAVAILABLE_STYLE)
    axes.set_ylim(len(keys), 0)
    axes.set_yticks([row + 0.5 for row in range(len(keys))], [one.key[:10] for one in keys])
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False)
    axes.spines["left"].set_visible(False)


def _runs(mask: Any, end: float) -> list[tuple[float, float]]:
    """Return start and length (s) of the windows in ``mask``; neighbours are merged."""
    turns = np.flatnonzero(np.diff(np.concatenate(([False], mask, [False])).astype(np.int8)))
    size = WINDOW / SECOND
    return [(since * size, min(until * size, end) - since * size) for since, until in turns.reshape(-1, 2).tolist()]


def _recovery(run: Measures, _: Sequence[Band]) -> Figure:
    """Draw a row for each fault and a dot for each heal; the dot is hollow if a client held a key at that moment."""
    rows = list(dict.fromkeys(one.fault for one in run.recoveries))
    figure, (axes,) = _figure([0.12 + 0.26 * len(rows)], 0, left=0.25 + 0.08 * max(map(len, rows)), top=0.22)
    low, high = _decades(run)
    never = 10.0 ** (high + 0.5)
    for hollow in (False, True):
        some = [one for one in run.recoveries if one.held == hollow and one.ns is not None]
        axes.scatter(
            [max(one.ns or 0, 1000) / SECOND for one in some], [rows.index(one.fault) for one in some], s=30, zorder=3,
            facecolor="none" if hollow else COLOURS["ok"], edgecolor=COLOURS["ok"], linewidths=1.3, clip_on=False,
        )  # fmt: skip
    gone = [rows.index(one.fault) for one in run.recoveries if one.ns is None]
    axes.scatter([never] * len(gone), gone, s=34, marker="X", color=COLOURS["fail"], linewidths=0, zorder=3)
    _recovery_scale(axes, rows, low, high, never if gone else None)
    if run.ttl:
        axes.axvline(run.ttl, color=MIDDLE, linewidth=1, linestyle=(0, (4, 2)))
        axes.annotate(f"ttl {words.span(round(run.ttl * SECOND))}", (run.ttl, 1), (0, 3), axes.get_xaxis_transform(),
                      "offset points", fontsize=7.5, ha="center", annotation_clip=False)  # fmt: skip
    _legend(figure, _recovery_legend(run.recoveries))
    return figure


def _recovery_scale(axes: Axes, rows: Sequence[str], low: int, high: int, never: float | None) -> None:
    axes.set_xscale("log")
    axes.minorticks_off()
    powers = range(low, high + 1)
    ticks = [(10.0**power, words.span(round(10.0 ** (power + 9)))) for power in powers]
    ticks += [(never, "never")] if never else []
    axes.set_xticks([at for at, _ in ticks], [name for _, name in ticks])
    axes.set_xlim(10.0**low, 10.0 ** (high + (1 if never else 0)))
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_yticks(range(len(rows)), rows)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.grid(visible=True, axis="x")
    axes.set_xlabel("until the next grant", loc="right")


def _decades(run: Measures) -> tuple[int, int]:
    """Return the powers of ten (s) around all times and the ttl."""
    times = [max(one.ns, 1000) / SECOND for one in run.recoveries if one.ns is not None]
    times += [run.ttl] if run.ttl else []
    times = times or [1.0]
    low = floor(log10(min(times)))
    return low, max(ceil(log10(max(times))), low + 1)


def _recovery_legend(found: Sequence[Recovery]) -> list[Line2D]:
    looks: list[tuple[bool, str, dict[str, Any]]] = [
        (any(one.ns is not None and not one.held for one in found), "lock was free", {"mfc": COLOURS["ok"]}),
        (any(one.ns is not None and one.held for one in found), "lock was held", {"mfc": "none"}),
    ]
    return [
        Line2D([], [], ls="", marker="o", ms=5, mec=COLOURS["ok"], mew=1.3, label=label, **look)
        for there, label, look in looks
        if there
    ]
