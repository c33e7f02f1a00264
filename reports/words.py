"""Format numbers, times and observations for the reports."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from harness.wording import counted, listed

from .document import plain

VIRTUAL: Final = "Times are virtual: they count round trips and waiting, but not the speed of a server."
"""Note below times that were measured in the simulator."""
CAUSES: Final = {"service": "the service", "clock": "clocks", "client": "clients"}
"""Causes of overlaps as checkers count them, in words."""
COUNTS: Final = {
    "accepted": "accepted accesses", "rejected": "refused accesses", "unknown": "unknown outcomes",
    "lost": "lost updates", "sections": "critical sections", "late": "late calls", "unseen": "unconfirmed faults",
    "live": "releases of live holds", "failed": "failed releases", "undecided": "undecided releases",
    "granted": "granted nested acquires", "nested": "nested acquires", "asked_behind_others": "requests behind others",
    "final": "final values",
}  # fmt: skip
"""Counts of checkers in words, where their names do not say what is counted."""
_NOT_COUNTED: Final = frozenset({*CAUSES, "violations"})


def unsaid(reasons: Iterable[str], summary: str) -> list[str]:
    """Return the reasons, each ``checker: explanation``, whose explanation the summary lacks."""
    return [reason for reason in reasons if (reason.partition(": ")[2] or reason) not in summary]


def utc(stored: str) -> str:
    """Return a stored time as ``2026-11-21 05:55:37 UTC``; a dash for none."""
    return stored.replace("T", " ").replace("Z", " UTC") or "–"


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
    """Return a checker's counts as text: ``230 holds; longest wait 2.001286 s; 3 overlaps, all caused by clocks``.

    Counts of 0 are left out, and so are violations without causes, which are shown."""
    values = dict(pairs)
    facts = [
        _fact(name, value) for name, value in values.items() if value not in ("", "0") and name not in _NOT_COUNTED
    ]
    causes = [words for name, words in CAUSES.items() if values.get(name, "0") != "0"]
    return "; ".join(facts + _overlaps(int(values.get("violations", 0)), causes))


def _fact(name: str, value: str) -> str:
    unit = " s" if name.endswith("_s") else ""
    name = COUNTS.get(name, name.removesuffix("_s").replace("_", " "))
    if not value.isdecimal() or unit:
        return f"{name}{' ' if value[:1].isdigit() else ': '}{value}{unit}"
    noun = name.replace("accesses", "access") if "accesses" in name else name.removesuffix("s")
    return f"{int(value):,} {noun if value == '1' else name}"


def _overlaps(number: int, causes: list[str]) -> list[str]:
    every = "all " if number > 1 and len(causes) == 1 else ""
    return [f"{counted(number, 'overlap')}, {every}caused by {listed(causes)}"] if causes else []


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
