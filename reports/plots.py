"""The look of all pictures, and how they are saved and put into a page.

The same data gives the same bytes: no dates, fixed ids. Inlined into the page, a picture takes its colours from the
page's variables and so is light or dark with it; the files in the run folder have the light colours.
"""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any, Final

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

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
DPI: Final = 120
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


def save(figure: Figure, folder: Path | None, name: str) -> str:
    """The picture as SVG; written to ``folder`` as well, as PNG and SVG, if one is given."""
    figure.dpi = DPI
    text = io.StringIO()
    svg: Any = FigureCanvasSVG(figure)
    # Not savefig: it draws everything twice, for the sake of layouts that depend on it.
    svg.print_svg(text, metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    if folder is not None:
        (folder / f"{name}.svg").write_text(text.getvalue(), encoding="utf-8")
        figure.dpi = DPI
        figure.patch.set(facecolor="white", alpha=1)
        png: Any = FigureCanvasAgg(figure)
        png.print_png(folder / f"{name}.png", metadata={"Software": None})
    return text.getvalue()


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
