"""The faults of a run, as the nemesis recorded them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from harness.history import History

FOR_EVER: Final = 2**62
STILL: Final = frozenset({"client-pause"})
"""Faults during which all of a client stands still, its renewals included."""


@dataclass(frozen=True, slots=True)
class Fault:
    """``until_ns`` is :data:`FOR_EVER` if it was never healed."""

    name: str
    hosts: frozenset[str]
    disturbs: bool
    from_ns: int
    until_ns: int

    def during(self, from_ns: int, until_ns: int) -> bool:
        return self.from_ns <= until_ns and from_ns <= self.until_ns


def faults(history: History) -> list[Fault]:
    """Every fault, by the time of its injection. One that was not observed counts: it may have had its effect."""
    begun: dict[Any, tuple[int, dict[str, Any]]] = {}
    ended: dict[Any, int] = {}
    for op in history.nemesis("inject", "heal"):
        value = op.value or {}
        number = value.get("id")
        if op.f == "heal":
            ended[number] = op.time
        elif number not in begun or op.type == "invoke":
            begun[number] = (op.time, value)
    return [
        Fault(
            str(value.get("fault")),
            frozenset(value.get("hosts") or ()),
            bool(value.get("disturbs", True)),
            time,
            ended.get(number, FOR_EVER),
        )
        for number, (time, value) in begun.items()
    ]
