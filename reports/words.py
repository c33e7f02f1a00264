"""How numbers and times read in a report."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from reports.document import plain


def at(ns: int | None, origin: int) -> str:
    """A moment, as seconds since the first entry: ``14.593 s``."""
    return "–" if ns is None else f"{(ns - origin) / 1e9:,.3f} s"


def span(ns: int | None) -> str:
    """A duration in the unit that suits it: ``103 ms``."""
    if ns is None:
        return "–"
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if abs(ns) >= size:
            return f"{ns / size:,.3g} {unit}" if abs(ns) < 1000 * size else f"{ns / size:,.0f} {unit}"
    return f"{ns} ns"


def offset(ns: int) -> str:
    """How far a clock is off: ``+12 s``, ``true`` when it is not."""
    return "true" if ns == 0 else ("+" if ns > 0 else "−") + span(abs(ns))


def observed(data: dict[str, Any]) -> str:
    """What a fault was seen to do, in words."""
    return "; ".join(
        f"{name.removesuffix('_ns').replace('_', ' ')}: {_seen(name, value)}" for name, value in data.items()
    )


def _seen(name: str, value: Any) -> str:
    if not isinstance(value, dict):
        return offset(int(value)) if name.endswith("_ns") and isinstance(value, int) else plain(value)
    if name.endswith("_ns"):
        return ", ".join(f"{host} {_seen(name, told)}" for host, told in value.items())
    if any(isinstance(inner, dict) for inner in value.values()):
        return observed(value)
    return plain(value)


def stats(pairs: Iterable[tuple[str, str]]) -> str:
    """What a checker counted: ``releases 230, longest wait 2.001286 s``; not its violations, which are shown."""
    told = [
        f"{name.removesuffix('_s').replace('_', ' ')} {value}{' s' if name.endswith('_s') else ''}"
        for name, value in pairs
        if value and name != "violations"
    ]
    return ", ".join(told)


def count(value: float | None) -> str:
    """A number with thousands apart; a dash for none."""
    if value is None:
        return "–"
    return f"{int(value):,}" if float(value).is_integer() else f"{value:,.2f}"


def percent(fraction: float | None) -> str:
    """``12 %``, below ten with a figure more; a dash for none."""
    if fraction is None:
        return "–"
    return f"{fraction * 100:.0f} %" if fraction == 0 or fraction >= 0.0995 else f"{fraction * 100:.1f} %"
