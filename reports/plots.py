"""The style of all pictures, and functions that save them and embed them in a page.

The same data gives the same bytes: no dates, fixed ids. A picture inside a page takes its colours from the page's
variables, so it is light or dark with the page; the files in the run folder have the light colours.
"""

from __future__ import annotations

import io
import re
from contextlib import AbstractContextManager, nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from harness.files import whole_file, write_file

DRAWN: Final = find_spec("matplotlib") is not None
"""True if pictures can be drawn. Matplotlib is an extra, since it is larger than all else together; pages without
pictures say how to install it."""
if TYPE_CHECKING or DRAWN:
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

COLOURS: Final = {"ok": "#0072b2", "fail": "#b84a00", "info": "#7e57a8"}
"""Colours that colour-blind readers can distinguish (after Okabe and Ito); each series also has its own mark or
dash."""
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


def styled(**more: Any) -> AbstractContextManager[object]:
    """Return a context in which figures have the style of all pictures, and ``more``."""
    style: dict[Any, Any] = STYLE | more
    return mpl.rc_context(style) if DRAWN else nullcontext()


def save(figure: Figure, folder: Path | None, name: str, *, png: bool = False) -> str:
    """Return the picture as SVG; write it into ``folder``, if one is given, with ``png`` in both formats.

    A PNG is drawn anew, which takes as long as the SVG: pictures of a single run, which are many, do without."""
    figure.dpi = DPI
    text = io.StringIO()
    svg: Any = FigureCanvasSVG(figure)
    # Not savefig: it draws everything twice, because some layouts need it.
    svg.print_svg(text, metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    if folder is not None:
        write_file(folder / f"{name}.svg", text.getvalue())
    if folder is not None and png:
        figure.dpi = DPI
        figure.patch.set(facecolor="white", alpha=1)
        canvas: Any = FigureCanvasAgg(figure)
        with whole_file(folder / f"{name}.png") as file:
            canvas.print_png(file, metadata={"Software": None})
    return text.getvalue()


def inline(svg: str, name: str) -> str:
    """Prepare ``svg`` for embedding: its own ids, the page's colours and font, no prologue, no namespaces."""
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
