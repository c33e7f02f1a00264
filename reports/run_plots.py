"""The pictures of a run: how long each operation took, how many succeeded and whether the lock was to be had, and how
soon it was again after each fault. Faults are bands behind what is drawn over time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10, sqrt
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator

from checkers import availability
from checkers.availability import WINDOW, Recovery, Served
from harness.history import SECOND
from reports import plots, words
from reports.measures import NAMES, OUTCOMES, QUANTILES, Measures, Operation, Timed
from reports.model import RunView
from reports.plots import COLOURS, FAULT, INK, MIDDLE

MARKS: Final = {"ok": "o", "fail": "X", "info": "D"}
DASHES: Final[dict[str, Any]] = {"ok": "-", "fail": (0, (4, 1.5)), "info": (0, (1, 1))}
QUANTILE_DASHES: Final[dict[float, Any]] = {0.5: "-", 0.95: (0, (5, 2)), 0.99: (0, (1, 1))}
TOLD: Final = {"ok": "granted", "fail": "not granted", "info": "outcome unknown"}
CALLED: Final = {"ok": "succeeded", "fail": "failed", "info": "outcome unknown"}
RASTER_FROM: Final = 1500
"""More points than this are drawn as one embedded bitmap: the page stays small, and no point is left out."""
BINS: Final = (8, 60)
"""The fewest and the most parts of a run that are told by one value; one takes a second at least."""
ENOUGH: Final = 20
"""Calls that a quantile over time is of, on average."""
LETTERS: Final = 130
"""As many letters of a fault's name are as wide as a plot."""
HAD: Final[dict[str, Any]] = {"facecolor": MIDDLE, "linewidth": 0}
NOT_HAD: Final[dict[str, Any]] = {"facecolor": "none", "edgecolor": COLOURS["fail"], "hatch": "/" * 6, "linewidth": 0.8}
MOST_KEYS: Final = 8
WIDTH, LEFT, RIGHT, TOP, BOTTOM = 9.0, 0.72, 0.72, 0.24, 0.5
"""Of a picture, and the room around what is drawn in it, inches."""
Band = tuple[float, float, str]
Painter = Callable[[Measures, Sequence[Band]], Figure]


@dataclass(frozen=True, slots=True)
class Plot:
    """A picture for the page: ``svg`` to inline, ``text`` says the same in words."""

    name: str
    title: str
    text: str
    svg: str


def draw(run: RunView, measured: Measures, folder: Path | None = None) -> dict[str, Plot]:
    """The pictures by name, of what there is to draw; written to ``folder`` as PNG and SVG too, if one is given."""
    bands = fault_bands(run, measured.seconds)
    with mpl.rc_context(plots.STYLE):
        made = [
            Plot(name, title, tell(measured), plots.inline(plots.save(paint(measured, bands), folder, name), name))
            for name, title, there, tell, paint in _pictures(measured)
            if there
        ]
    return {plot.name: plot for plot in made}


def _pictures(run: Measures) -> list[tuple[str, str, bool, Callable[[Measures], str], Painter]]:
    """Name, title, whether there is anything to draw, the text, and who draws it."""
    calls = any(len(one) for one in run.operations)
    acquires = run.acquire is not None
    return [
        ("latency", "How long each operation took", calls, latency_text, _latency),
        ("rate", "Acquires a second, and whether the lock was to be had", acquires, service_text, _service),
        ("recovery", "From a heal or a death to the next grant", bool(run.recoveries), recovery_text, _recovery),
    ]


def latency_text(run: Measures) -> str:
    """The median of each operation, in words."""
    medians = [f"{one.f} {words.span(one.ok.quantile(0.5))}" for one in run.operations if len(one.ok)]
    return f"Median of those that succeeded: {', '.join(medians)}." if medians else "No call succeeded."


def service_text(run: Measures) -> str:
    assert run.acquire is not None
    counts = [f"{len(run.acquire.outcome(name)):,} {told}" for name, told in TOLD.items()]
    never = f", {run.acquire.open:,} without an answer" if run.acquire.open else ""
    some = f" Of {len(run.keys):,} keys those {MOST_KEYS} are drawn that were missed most."
    return f"{', '.join(counts)}{never}. {_available(run)}{some * (len(run.keys) > MOST_KEYS)}".strip()


def _available(run: Measures) -> str:
    share, gap = availability.share(run.keys), availability.longest_gap(run.keys)
    if share is None:
        return ""
    told = f"Somebody was granted or held it in {words.percent(share)} of the quarter seconds in which it was wanted"
    if gap is None:
        return f"{told}."
    begun, ended = (words.at(moment, run.origin) for moment in gap)
    return f"{told}; the longest gap was {words.span(gap[1] - gap[0])}, from {begun} to {ended}."


def recovery_text(run: Measures) -> str:
    times = [one.ns for one in run.recoveries if one.ns is not None]
    never = len(run.recoveries) - len(times)
    told = [f"The longest took {words.span(max(times))}"] if times else []
    told += [f"after {never} of {len(run.recoveries)} there was none any more"] if never else []
    text = "; ".join(told)
    return f"{text[:1].upper()}{text[1:]}."


def fault_bands(run: RunView, end: float) -> list[Band]:
    """From, until (s) and name of each fault; one that follows another of its kind at once is one band with it."""
    bands: list[Band] = []
    for fault in sorted(run.faults, key=lambda fault: fault.injected or 0):
        begun = np.inf if fault.injected is None else (fault.injected - run.history.origin) / SECOND
        healed = end if fault.healed is None else min(end, (fault.healed - run.history.origin) / SECOND)
        if begun > end:
            continue
        if bands and begun - bands[-1][1] < end / 300 and bands[-1][2].startswith(fault.fault):
            bands[-1] = (bands[-1][0], max(healed, bands[-1][1]), f"{fault.fault}, again and again")
        else:
            bands.append((begun, healed, f"{fault.fault} {', '.join(fault.hosts)}"))
    return bands


def _figure(heights: Sequence[float], gap: float, left: float = LEFT, top: float = TOP) -> tuple[Figure, list[Axes]]:
    """Axes one below the other, of these ``heights`` and with ``gap`` between them, inches. No layout engine: what is
    around the axes is known, and finding it out takes longer than to draw."""
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
    """One time for all: its labels below the last, the names of faults above the first where there is room."""
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
    """Where the names of bands stand: those that begin together have one place, and there is none where one would
    run into the name before."""
    names: list[tuple[float, str]] = []
    for begun, _, name in bands:
        if names and begun < names[-1][0] + end / 50:
            names[-1] = (names[-1][0], f"{names[-1][1]} + {name}")
        elif not names or begun >= names[-1][0] + len(names[-1][1]) * end / LETTERS:
            names.append((begun, name))
    return names


def _beside(axes: Axes, name: str) -> None:
    """What the axes are of, at their right."""
    axes.annotate(name, (1, 0.5), (7, 0), "axes fraction", "offset points", va="center", weight="bold", fontsize=8.5)


def _legend(figure: Figure, handles: Sequence[Line2D | Patch]) -> None:
    """Below, from the left: on a narrow screen, what is at the right is out of sight."""
    figure.legend(
        handles=handles, loc="lower left", bbox_to_anchor=(LEFT / WIDTH, 0.0), ncols=max(1, len(handles)),
        fontsize=8, handlelength=1.9, columnspacing=1.2, handletextpad=0.5, borderpad=0.1, borderaxespad=0.1,
    )  # fmt: skip


def _latency(run: Measures, bands: Sequence[Band]) -> Figure:
    told = [one for one in run.operations if len(one)]
    figure, grid = _figure([1.45 if one.f == "acquire" else 0.85 for one in told], 0.16)
    raster = sum(len(one) for one in told) > RASTER_FROM
    for axes, one in zip(grid, told, strict=True):
        _points(axes, one, raster=raster)
        if len(one.ok) >= ENOUGH:
            _quantiles(axes, one.ok, run.seconds)
        _scale(axes, one)
        _beside(axes, one.f)
    _over_time(grid, bands, run.seconds)
    there = [name for name in OUTCOMES if any(len(one.outcome(name)) for one in told)]
    dots = [Line2D([], [], color=COLOURS[o], marker=MARKS[o], ls="", ms=4.5, mew=0, label=CALLED[o]) for o in there]
    lines = [Line2D([], [], color=INK, ls=QUANTILE_DASHES[q], lw=1.3, label=NAMES[q]) for q in QUANTILES]
    _legend(figure, [*dots, *lines] if any(axes.lines for axes in grid) else dots)
    return figure


def _points(axes: Axes, one: Operation, *, raster: bool) -> None:
    for name in OUTCOMES:
        some = one.outcome(name)
        if len(some):
            axes.scatter(
                some.done, np.maximum(some.took, 1e-6), color=COLOURS[name], marker=MARKS[name], linewidths=0,
                s=8 if name == "ok" or raster else 20, alpha=0.3 if raster and name == "ok" else 0.7, rasterized=raster,
            )  # fmt: skip


def _quantiles(axes: Axes, some: Timed, end: float) -> None:
    """One value a window; a window with too few calls to speak of has none."""
    edges = np.linspace(0, end, int(np.clip(len(some) / ENOUGH, *BINS)) + 1)
    windows = np.split(some.took, np.searchsorted(some.done, edges[1:-1]))
    middle = (edges[1:] + edges[:-1]) / 2
    for quantile in QUANTILES:
        values = [np.quantile(window, quantile) if len(window) >= ENOUGH // 4 else np.nan for window in windows]
        axes.plot(middle, np.maximum(values, 1e-6), color=INK, linewidth=1.2, linestyle=QUANTILE_DASHES[quantile])


def _scale(axes: Axes, one: Operation) -> None:
    """A scale with some room around all calls, at least four times as high as low, and at most four marks on it."""
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
    """1, 2 and 5 times powers of ten between two values; of more than four only the powers, and of those every nth."""
    powers = [10.0**power for power in range(floor(log10(low)), ceil(log10(high)) + 1)]
    fine = [mark for power in powers for mark in (power, 2 * power, 5 * power) if low <= mark <= high]
    if len(fine) <= 4:
        return fine
    coarse = [power for power in powers if low <= power <= high]
    return coarse[:: ceil(len(coarse) / 4)] if len(coarse) > 1 else fine[::2]


def _service(run: Measures, bands: Sequence[Band]) -> Figure:
    """Grants; what else came of acquires, which may be a hundred times as many; and a strip for each key: full where
    it was to be had, hatched where it was not."""
    assert run.acquire is not None
    keys, rest = _worst_off(run.keys), [name for name in ("fail", "info") if len(run.acquire.outcome(name))]
    figure, grid = _figure([1.4, *([0.75] if rest else []), *([0.17 * len(keys)] if keys else [])], 0.18)
    for axes, names in zip(grid, (["ok"], rest), strict=False):
        if names:
            _rates(axes, {name: run.acquire.outcome(name) for name in names}, run.seconds)
    if keys:
        _strips(grid[-1], keys, run)
    _over_time(grid, bands, run.seconds)
    lines = [Line2D([], [], color=COLOURS[o], ls=DASHES[o], lw=1.5, label=TOLD[o]) for o in ("ok", *rest)]
    _legend(figure, [*lines, *([Patch(label="to be had", **HAD), Patch(label="not", **NOT_HAD)] if keys else [])])
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
    _beside(axes, "granted" if "ok" in outcomes else "not\ngranted")


def _worst_off(keys: Sequence[Served]) -> list[Served]:
    """As many keys as there is room for, those that were missed most; in their own order."""
    worst = sorted(keys, key=lambda one: -int(one.missed.sum()))[:MOST_KEYS]
    return [one for one in keys if one in worst]


def _strips(axes: Axes, keys: Sequence[Served], run: Measures) -> None:
    for row, one in enumerate(keys):
        axes.broken_barh(_runs(one.served, run.seconds), (row + 0.14, 0.72), zorder=3, **HAD)
        axes.broken_barh(_runs(one.missed, run.seconds), (row + 0.14, 0.72), zorder=3, **NOT_HAD)
    axes.set_ylim(len(keys), 0)
    axes.set_yticks([row + 0.5 for row in range(len(keys))], [one.key[:10] for one in keys])
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False)
    axes.spines["left"].set_visible(False)


def _runs(mask: Any, end: float) -> list[tuple[float, float]]:
    """From and length, s, of the windows in ``mask``, neighbours as one."""
    turns = np.flatnonzero(np.diff(np.concatenate(([False], mask, [False])).astype(np.int8)))
    size = WINDOW / SECOND
    return [(since * size, min(until * size, end) - since * size) for since, until in turns.reshape(-1, 2).tolist()]


def _recovery(run: Measures, _: Sequence[Band]) -> Figure:
    """A row a fault, a dot a heal; hollow where somebody held a key at that moment."""
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
    """The powers of ten, s, around all times and the ttl."""
    times = [max(one.ns, 1000) / SECOND for one in run.recoveries if one.ns is not None]
    times += [run.ttl] if run.ttl else []
    times = times or [1.0]
    low = floor(log10(min(times)))
    return low, max(ceil(log10(max(times))), low + 1)


def _recovery_legend(found: Sequence[Recovery]) -> list[Line2D]:
    looks: list[tuple[bool, str, dict[str, Any]]] = [
        (any(one.ns is not None and not one.held for one in found), "nobody held it then", {"mfc": COLOURS["ok"]}),
        (any(one.ns is not None and one.held for one in found), "somebody held it then", {"mfc": "none"}),
    ]
    return [
        Line2D([], [], ls="", marker="o", ms=5, mec=COLOURS["ok"], mew=1.3, label=label, **look)
        for there, label, look in looks
        if there
    ]
