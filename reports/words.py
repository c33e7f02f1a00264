"""Format numbers, times and observations for the reports."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from .document import plain

VIRTUAL: Final = "Times are virtual: they count round trips and waiting, but not the speed of a server."
"""Note below times that were measured in the simulator."""


def at(ns: int | None, origin: int) -> str:
    """Return a time as seconds since the first entry: ``14.593 s``."""
    return "–" if ns is None else f"{(ns - origin) / 1e9:,.3f} s"


def span(ns: int | None) -> str:
    """Return a duration in a suitable unit: ``103 ms``."""
    if ns is None:
        return "–"
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if abs(ns) >= size:
            return f"{ns / size:,.3g} {unit}" if abs(ns) < 1000 * size else f"{ns / size:,.0f} {unit}"
    return f"{ns} ns"


def offset(ns: int) -> str:
    """Return the offset of a clock as text: ``+12 s``, or ``correct`` for an offset of 0."""
    return "correct" if ns == 0 else ("+" if ns > 0 else "−") + span(abs(ns))


def observed(data: dict[str, Any]) -> str:
    """Describe the observed effect of a fault."""
    return "; ".join(
        f"{name.removesuffix('_ns').replace('_', ' ')}: {_fact_text(name, value)}" for name, value in data.items()
    )


def _fact_text(name: str, value: Any) -> str:
    if not isinstance(value, dict):
        return offset(int(value)) if name.endswith("_ns") and isinstance(value, int) else plain(value)
    if name.endswith("_ns"):
        return ", ".join(f"{host} {_fact_text(name, facts)}" for host, facts in value.items())
    if any(isinstance(inner, dict) for inner in value.values()):
        return observed(value)
    return plain(value)


def stats(pairs: Iterable[tuple[str, str]]) -> str:
    """Return a checker's counts as text: ``releases 230, longest wait 2.001286 s``; not its violations, which are
    shown."""
    facts = [
        f"{name.removesuffix('_s').replace('_', ' ')} {value}{' s' if name.endswith('_s') else ''}"
        for name, value in pairs
        if value and name != "violations"
    ]
    return ", ".join(facts)


def count(value: float | None) -> str:
    """Return a number with thousands separators; a dash for None."""
    if value is None:
        return "–"
    return f"{int(value):,}" if float(value).is_integer() else f"{value:,.2f}"


def percent(fraction: float | None) -> str:
    """Return a share as ``12 %``, with one more digit below ten; a dash for None."""
    if fraction is None:
        return "–"
    return f"{fraction * 100:.0f} %" if fraction == 0 or fraction >= 0.0995 else f"{fraction * 100:.1f} %"
