"""A fault as a history records it, and the helpers with which faults put such a record into words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from harness.wording import listed, moment

PARTIAL = "took effect on"
"""Prefix of the error of an ``inject`` entry if only some of the fault's hosts or links were affected."""


@dataclass(frozen=True, slots=True)
class FaultRecord:
    """One injected fault as the history has it. Times are in ns; ``healed_ns`` is None while it lasts.

    ``observed`` has the facts of the observation, ``seen`` says whether that confirmed the effect. After the heal,
    ``observed["after_heal"]`` has the facts of that.
    """

    id: int
    fault: str
    hosts: tuple[str, ...]
    params: dict[str, Any]
    injected_ns: int
    healed_ns: int | None
    seen: bool
    observed: dict[str, Any]
    error: str | None

    @property
    def partial(self) -> str:
        """``took effect on 2 of 3 hosts, not on n2`` for a partial effect, else empty."""
        expected, _, _ = (self.error or "").partition(";")
        return expected if expected.startswith(PARTIAL) else ""

    @property
    def who(self) -> str:
        """The hosts that were hit: ``n1, n2 and n3``."""
        return listed(self.hosts)

    def verb(self, singular: str, plural: str) -> str:
        """The form of a verb that fits the number of hosts."""
        return plural if len(self.hosts) > 1 else singular


@dataclass(frozen=True, slots=True)
class Moment:
    """The moment of a violation and the start of the run, ns (monotonic)."""

    ns: int
    origin_ns: int

    def seconds(self, ns: int) -> str:
        """A time as seconds since the start of the run: ``0.205 s``."""
        return moment(ns, self.origin_ns)


def seconds(value: float) -> str:
    """``3 s``, ``0.25 s``."""
    return f"{round(value, 3):g} s"


def ahead(ns: int) -> str:
    """Return the offset of a clock as text: ``+3 s``, ``-0.25 s``."""
    return f"{round(ns / 1e9, 3):+g} s"
