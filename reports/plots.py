"""Pictures of a run: how long acquires took, and how many succeeded a second, with the faults behind them.

The same run gives the same bytes: no dates, fixed ids. Inlined into the page, a picture takes its colours from the
page's variables and so is light or dark with it; the files in the run folder have the light colours.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter
from numpy.typing import NDArray

from reports import words
from reports.model import RunView

Floats = NDArray[np.float64]
COLOURS: Final = {"ok": "#0072b2", "fail": "#b84a00", "info": "#7e57a8"}
"""Told apart by colour-blind readers too (after Okabe and Ito), and each series has its own mark or dash."""
INK, RULE, FAULT, MIDDLE = "#33373d", "#d9dce1", "#e8c468", "#5b6470"
VARIABLES: Final = {
    COLOURS["ok"]: "var(--ok)",
    COLOURS["fail"]: "var(--fail)",
    COLOURS["info"]: "var(--info)",
    INK: "currentColor",
    RULE: "var(--rule)",
    FAULT: "var(--fault)",
    MIDDLE: "var(--muted)",
}
MARKS: Final = {"ok": "o", "fail": "X", "info": "D"}
DASHES: Final[dict[str, Any]] = {"ok": "-", "fail": (0, (4, 1.5)), "info": (0, (1, 1))}
QUANTILES: Final[dict[float, Any]] = {0.5: "-", 0.95: (0, (5, 2)), 0.99: (0, (1, 1))}
RASTER_FROM: Final = 1500
"""More points than this are drawn as one embedded bitmap: the page stays small, and no point is left out."""
BINS: Final = 60
LETTERS: Final = 120
"""As many letters of a fault's name are as wide as a plot."""
STYLE: Final[dict[Any, Any]] = {
    "svg.hashsalt": "lock-harness",
    "svg.fonttype": "none",
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": RULE,
    "axes.labelcolor": INK,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": RULE,
    "grid.linewidth": 0.6,
    "text.color": INK,
    "xtick.color": RULE,
    "ytick.color": RULE,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "legend.frameon": False,
}


@dataclass(frozen=True, slots=True)
class Plot:
    """A picture for the page: ``svg`` to inline, ``text`` says the same in words."""

    name: str
    title: str
    text: str
    svg: str


@dataclass(frozen=True, slots=True)
class Acquires:
    """The acquires of one outcome: when each completed (s since the start) and how long it took (s)."""

    done: Floats
    took: Floats


def draw(run: RunView, folder: Path | None = None) -> list[Plot]:
    """The pictures of ``run``; written to ``folder`` as well, as PNG and SVG, if one is given."""
    acquires = collect(run)
    specs = [
        _Spec("latency", "How long an acquire took", latency_text(acquires), _latency),
        _Spec("rate", "Acquires a second", rate_text(acquires), _rate),
    ]
    return [_draw(run, acquires, folder, spec) for spec in specs]


def collect(run: RunView) -> dict[str, Acquires]:
    """Completed acquires by outcome; those that never came back have no latency and are left out."""
    history = run.history
    found: dict[str, tuple[list[int], list[int]]] = {outcome: ([], []) for outcome in COLOURS}
    for call in history.calls("acquire"):
        if call.done is not None:
            done, took = found[call.outcome]
            done.append(call.done.time - history.origin)
            took.append(call.done.time - call.invoke.time)
    return {outcome: Acquires(_seconds(done), _seconds(took)) for outcome, (done, took) in found.items()}


def _seconds(ns: list[int]) -> Floats:
    return np.asarray(ns, dtype=np.float64) / 1e9


def _end(run: RunView) -> float:
    return max(1e-3, (run.history.time[-1] - run.history.origin) / 1e9) if len(run.history) else 1.0


def latency_text(acquires: dict[str, Acquires]) -> str:
    took = acquires["ok"].took
    if not len(took):
        return "No acquire succeeded."
    told = [f"{_percent(q)} {words.span(int(np.quantile(took, q) * 1e9))}" for q in QUANTILES]
    return f"{len(took):,} acquires succeeded: {', '.join(told)}, longest {words.span(int(took.max() * 1e9))}."


def rate_text(acquires: dict[str, Acquires]) -> str:
    named = {"ok": "granted", "fail": "not granted", "info": "of unknown outcome"}
    return ", ".join(f"{len(acquires[o].done):,} {name}" for o, name in named.items()) + "."


def _percent(quantile: float) -> str:
    return "median" if quantile == 0.5 else f"{quantile:.0%} within"


@dataclass(frozen=True, slots=True)
class _Spec:
    name: str
    title: str
    text: str
    painter: Callable[[Axes, dict[str, Acquires], float], None]


def _draw(run: RunView, acquires: dict[str, Acquires], folder: Path | None, spec: _Spec) -> Plot:
    end = _end(run)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(9, 3.1), layout="constrained")
        FigureCanvasAgg(figure)
        figure.patch.set_alpha(0)
        axes = figure.add_subplot()
        axes.patch.set_alpha(0)
        _fault_bands(axes, run, end)
        spec.painter(axes, acquires, end)
        axes.set_xlim(0, end)
        axes.set_xlabel("seconds since the start")
        svg = save(figure, folder, spec.name)
    return Plot(spec.name, spec.title, spec.text, inline(svg, spec.name))


def save(figure: Figure, folder: Path | None, name: str) -> str:
    """The picture as SVG; written to ``folder`` as well, as PNG and SVG, if one is given."""
    buffer = io.BytesIO()
    figure.savefig(
        buffer, format="svg", dpi=150, metadata={"Date": None, "Creator": None, "Format": None, "Type": None}
    )
    if folder is not None:
        figure.savefig(folder / f"{name}.png", dpi=150, facecolor="white", metadata={"Software": None})
        (folder / f"{name}.svg").write_bytes(buffer.getvalue())
    return buffer.getvalue().decode()


def _fault_bands(axes: Axes, run: RunView, end: float) -> None:
    """Bands where faults lasted; their names above, where there is room for them."""
    free = 0.0
    for begun, healed, name in _bands(run, end):
        axes.axvspan(begun, max(healed, begun + end / 1000), color=FAULT, alpha=0.22, linewidth=0)
        if begun >= free:
            where = axes.get_xaxis_transform()
            axes.annotate(name, (begun, 1), (3, 3), where, "offset points", fontsize=7.5, annotation_clip=False)
            free = begun + len(name) * end / LETTERS


def _bands(run: RunView, end: float) -> list[tuple[float, float, str]]:
    """From, until and name of each fault; one that follows another of its kind at once is one band with it."""
    bands: list[tuple[float, float, str]] = []
    for fault in sorted(run.faults, key=lambda fault: fault.injected or 0):
        begun = np.inf if fault.injected is None else (fault.injected - run.history.origin) / 1e9
        healed = end if fault.healed is None else min(end, (fault.healed - run.history.origin) / 1e9)
        if begun > end:
            continue
        if bands and begun - bands[-1][1] < end / 300 and bands[-1][2].startswith(fault.fault):
            bands[-1] = (bands[-1][0], max(healed, bands[-1][1]), f"{fault.fault}, again and again")
        else:
            bands.append((begun, healed, f"{fault.fault} {', '.join(fault.hosts)}"))
    return bands


def _latency(axes: Axes, acquires: dict[str, Acquires], end: float) -> None:
    raster = sum(len(some.done) for some in acquires.values()) > RASTER_FROM
    for outcome, some in acquires.items():
        if len(some.done):
            look: dict[str, Any] = {
                "marker": MARKS[outcome],
                "s": 9 if outcome == "ok" or raster else 22,
                "linewidths": 0,
            }
            alpha = 0.25 if raster and outcome == "ok" else 0.75
            axes.scatter(
                some.done, np.maximum(some.took, 1e-6), color=COLOURS[outcome], alpha=alpha, rasterized=raster,
                label=outcome, **look,
            )  # fmt: skip
    _quantile_lines(axes, acquires["ok"], end)
    if not any(len(some.done) for some in acquires.values()):
        return
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda seconds, _: words.span(round(seconds * 1e9))))
    axes.minorticks_off()
    _legend(axes)


def _quantile_lines(axes: Axes, some: Acquires, end: float) -> None:
    """One value a window; a window with too few acquires to speak of has none."""
    edges = np.linspace(0, end, BINS // 2 + 1)
    window = np.digitize(some.done, edges) - 1
    for quantile, dash in QUANTILES.items():
        values = [
            float(np.quantile(some.took[window == i], quantile)) if (window == i).sum() > 2 else np.nan
            for i in range(len(edges) - 1)
        ]
        middle = (edges[1:] + edges[:-1]) / 2
        axes.plot(middle, values, color=INK, linewidth=1.3, linestyle=dash, label=f"{quantile:.0%}")


def _rate(axes: Axes, acquires: dict[str, Acquires], end: float) -> None:
    edges = np.linspace(0, end, BINS + 1)
    for outcome, some in acquires.items():
        if len(some.done):
            counts, _ = np.histogram(some.done, bins=edges)
            rates = counts / (end / BINS)
            axes.stairs(rates, edges, color=COLOURS[outcome], linewidth=1.6, linestyle=DASHES[outcome], label=outcome)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("a second")
    _legend(axes)


def _legend(axes: Axes) -> None:
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=8.5, handlelength=2.4)


def inline(svg: str, name: str) -> str:
    """``svg`` for the inside of a page: its own ids, the page's colours and font, no prologue, no namespaces."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<style type.*?</style>", "", svg, flags=re.DOTALL)
    svg = re.sub(r' xmlns(:xlink)?="[^"]*"', "", svg)
    svg = re.sub(
        r"<svg [^>]*?(viewBox=\"[^\"]*\")[^>]*>", r'<svg \1 aria-hidden="true" focusable="false">', svg, count=1
    )
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', svg)
    svg = re.sub(r'href="#([^"]+)"', rf'href="#{name}-\1"', svg)
    svg = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", svg)
    svg = re.sub(r"'DejaVu Sans'(, sans-serif)?", "system-ui, sans-serif", svg)
    for colour, variable in VARIABLES.items():
        svg = svg.replace(colour, variable)
    return svg
