"""Filtering and sorting of the table of runs, from the query parameters of the address."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlencode

from harness.wording import counted

from .index import STATES, Run

PAGE: Final = 100
"""The number of rows of a page."""
NONE: Final = "none"
"""The name by which runs without faults are filtered."""
NOUNS: Final = {
    "invalid": "violation", "valid": "safe", "unknown": "unknown", "running": "in progress",
    "broken": "without a verdict",
}  # fmt: skip
"""The states of runs as they are counted in a sentence."""
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\dZ?)?)?", re.ASCII)
KEYS: Final[dict[str, Callable[[Run], Any]]] = {
    "when": lambda run: run.when,
    "verdict": lambda run: STATES.index(run.state),
    "lock": lambda run: run.lock,
    "faults": lambda run: run.faults,
    "cluster": lambda run: run.cluster,
    "operations": lambda run: -1 if run.operations is None else run.operations,
    "seed": lambda run: -1 if run.seed is None else run.seed,
    "summary": lambda run: run.sentence or run.trouble,
}
"""Sort keys for runs."""
DOWNWARDS: Final = frozenset({"when", "operations"})
"""Keys that sort the largest first by default."""


class BadQuery(ValueError):
    """A query parameter with an invalid value; the message names it, and says what was expected."""


@dataclass(frozen=True, slots=True)
class Query:
    """The filter and order of the table of runs; an empty field matches every run.

    ``since`` and ``until`` are days or times in UTC, both included. ``sort`` is one of :data:`KEYS`, with ``-`` before
    it for the largest first. ``page`` counts from 1.
    """

    lock: str = ""
    fault: str = ""
    cluster: str = ""
    verdict: str = ""
    text: str = ""
    since: str = ""
    until: str = ""
    sort: str = "-when"
    page: int = 1

    @classmethod
    def of(cls, parameters: Mapping[str, str]) -> Query:
        """Return the query in the parameters of an address; raises :class:`BadQuery`."""
        given = {name: parameters.get(name, "").strip() for name in ("lock", "fault", "cluster", "verdict", "text")}
        if given["verdict"] not in ("", *STATES):
            raise BadQuery(f"verdict: expected one of {', '.join(STATES)}")
        sort = parameters.get("sort") or "-when"
        if sort.removeprefix("-") not in KEYS:
            raise BadQuery(f"sort: expected one of {', '.join(KEYS)}, with a - before it for the largest first")
        page = parameters.get("page") or "1"
        if not re.fullmatch(r"[1-9][0-9]{0,8}", page):
            raise BadQuery("page: expected a number from 1")
        return cls(**given, since=_day(parameters, "since"), until=_day(parameters, "until"), sort=sort, page=int(page))

    def address(self, **changes: Any) -> str:
        """Return the address of this query with changes; default values are left out."""
        parameters = {name: value for name, value in (asdict(self) | {"page": 1} | changes).items() if value}
        usual = {"sort": "-when", "page": 1}
        parameters = {name: value for name, value in parameters.items() if usual.get(name) != value}
        return f"/?{urlencode(parameters, errors='replace')}" if parameters else "/"

    def sorted_by(self, name: str) -> str:
        """Return the value of ``sort`` after a click on the heading of a column."""
        usual, other = (f"-{name}", name) if name in DOWNWARDS else (name, f"-{name}")
        return other if self.sort == usual else usual

    @property
    def filters(self) -> bool:
        """Return whether the query filters out any run."""
        return any((self.lock, self.fault, self.cluster, self.verdict, self.text, self.since, self.until))

    def apply(self, runs: list[Run]) -> list[Run]:
        """Return the runs that match, sorted; ``runs`` have the newest first, and equal ones stay in that order."""
        found = list(filter(self._fits(), runs)) if self.filters else runs
        if self.sort == "-when":
            return found
        name = self.sort.removeprefix("-")
        return sorted(found, key=KEYS[name], reverse=self.sort.startswith("-"))

    def _fits(self) -> Callable[[Run], bool]:
        words = self.text.lower().split()
        last = f"{self.until}~" if self.until else ""  # sorts after all times with this prefix
        return lambda run: (
            (not self.lock or run.lock == self.lock)
            and (not self.cluster or run.cluster == self.cluster)
            and (not self.verdict or run.state == self.verdict)
            and (not self.fault or self.fault in (run.faults or (NONE,)))
            and (not self.since or run.when >= self.since)
            and (not last or "" < run.when <= last)
            and all(word in run.text for word in words)
        )


def _day(parameters: Mapping[str, str], name: str) -> str:
    day = parameters.get(name, "").strip()
    if day and not (_DATE.fullmatch(day) and _is_in_calendar(day)):
        raise BadQuery(f"{name}: expected a day such as 2026-11-21, or a time such as 2026-11-21T20:15")
    return day


def _is_in_calendar(day: str) -> bool:
    with suppress(ValueError):
        return bool(datetime.fromisoformat(day))
    return False


@dataclass(frozen=True, slots=True)
class Choices:
    """The values by which runs can be filtered, in order, and how many runs are in each state."""

    locks: list[str]
    faults: list[str]
    clusters: list[str]
    states: dict[str, int]
    """The number of runs in each state."""

    @property
    def conclusion(self) -> str:
        """Return in a sentence how many runs there are, and with which verdicts."""
        parts = [
            counted(number, noun) if noun == "violation" else f"{number:,} {noun}"
            for state, noun in NOUNS.items()
            if (number := self.states.get(state, 0))
        ]
        return f"{counted(sum(self.states.values()), 'run')}: {', '.join(parts)}."

    @classmethod
    def of(cls, runs: Iterable[Run]) -> Choices:
        states: Counter[str] = Counter()
        locks: set[str] = set()
        faults: set[str] = set()
        clusters: set[str] = set()
        for run in runs:
            states[run.state] += 1
            locks.add(run.lock)
            clusters.add(run.cluster)
            faults.update(run.faults or (NONE,))
        return cls(sorted(locks), sorted(faults), sorted(clusters - {""}), dict(states))
