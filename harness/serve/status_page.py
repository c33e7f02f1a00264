"""The page with the state of each lock under each family of faults, from the nightly runs of the store."""

from __future__ import annotations

import shlex
import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import msgspec

from harness.errors import UsageError
from harness.lock_impls import catalogue
from harness.studies import results_db
from harness.studies.lock_status import NO_FAULT, STATES, FamilyStatus, NightOutcomes, lock_statuses
from harness.wording import LOCK_STATES, counted

from . import files, pages
from .index import Index
from .query import NONE, BadQuery, Query

NIGHTS: Final = 60
"""The most nightly runs that are read."""
CLUSTERS: Final = ("sim", "docker")
HEIGHTS: Final = {"broken": 12, "known-limit": 9, "fenced": 7, "not-tested": 4, "kept": 2}
"""Heights of the bars of nightly runs in px, the graver the higher."""
ICONS: Final = {
    "broken": "invalid", "known-limit": "invalid", "fenced": "fenced", "not-tested": "unknown", "kept": "valid",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class StatusQuery:
    """Filter of the page; an empty field matches everything. ``text`` has words of which each must occur."""

    state: str = ""
    cluster: str = ""
    text: str = ""

    @classmethod
    def of(cls, parameters: Mapping[str, str]) -> StatusQuery:
        """Return the filter in the parameters of an address; raises BadQuery."""
        given = {name: parameters.get(name, "").strip() for name in ("state", "cluster", "text")}
        for name, known in (("state", STATES), ("cluster", CLUSTERS)):
            if given[name] not in ("", *known):
                raise BadQuery(f"{name}: expected one of {', '.join(known)}")
        return cls(**given)

    def address(self, **changes: str) -> str:
        """Return the address of the page with this filter, changed."""
        values = {"state": self.state, "cluster": self.cluster, "text": self.text} | changes
        given = {name: value for name, value in values.items() if value}
        return f"/status?{urlencode(given, errors='replace')}" if given else "/status"

    def fits(self, status: FamilyStatus) -> bool:
        """Return whether a status matches, whatever its state."""
        text = " ".join((status.lock, status.family, *status.scenarios, status.why)).lower()
        return all(word in text for word in self.text.lower().split())


class StatusPage:
    """The nightly runs in the database of the index's store; they are read again after another one."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._path = index.store / results_db.RESULTS_DB
        self._known: tuple[tuple[int, int], dict[str, list[FamilyStatus]]] = ((-1, -1), {})
        self._one_at_a_time = threading.Lock()

    def values(self, query: StatusQuery) -> dict[str, Any]:
        """Return the values of the template. Raises UsageError if there are no nightly runs, or for a damaged file."""
        fitting = [status for status in self._statuses(query.cluster) if query.fits(status)]
        counts = Counter(status.state for status in fitting)
        shown = [status for status in fitting if query.state in ("", status.state)]
        locks = [(lock, list(of)) for lock, of in groupby(shown, key=lambda status: status.lock)]
        stored = {(run.lock, fault) for run in self._index.runs() for fault in run.faults or (NONE,)}
        return {
            "query": query,
            "headline": headline(fitting),
            "counts": [(state, LOCK_STATES[state], counts[state], query.address(state=state)) for state in STATES],
            "locks": locks,
            "never": never_tested(status.lock for status in self._statuses("")),
            "icons": ICONS,
            "states": LOCK_STATES,
            "clusters": CLUSTERS,
            "runs_of": lambda status: Query(lock=status.lock, fault=_fault(status)).address(),
            "has_runs": lambda status: (status.lock, _fault(status)) in stored,
            "again": lambda status: shlex.join(["harness", "scenario", "run", status.scenarios[0]]),
            "run_of": self._run_of,
            "strip_of": strip_of,
        }

    def _statuses(self, cluster: str) -> list[FamilyStatus]:
        if not files.is_file(self._path) or not self._path.stat().st_size:
            raise UsageError("This store has no nightly runs.")
        status = self._path.stat()
        key = (status.st_mtime_ns, status.st_size)
        with self._one_at_a_time:
            if self._known[0] != key:
                self._known = (key, {})
            made = self._known[1]
            if cluster not in made:
                made[cluster] = lock_statuses(self._nights(), cluster)
            return made[cluster]

    def _nights(self) -> list[NightOutcomes]:
        try:
            nights = results_db.nights(self._path)[-NIGHTS:]
            of = results_db.outcomes(self._path, [night.id for night in nights])
        except (UsageError, msgspec.MsgspecError) as error:
            said = str(error).replace(f"{self._path}: ", "").replace(str(self._path), self._path.name)
            raise UsageError(said) from error
        return [(night.started_at, of[night.id]) for night in nights]

    def _run_of(self, status: FamilyStatus) -> str:
        """Return the address of the run of the worst outcome; empty if this store does not have it."""
        names = Path(status.folder).parts[-2:]
        stored = len(names) == 2 and files.run_folder(self._index.store, *names) is not None
        return pages.run_url(*names) if stored else ""


def _fault(status: FamilyStatus) -> str:
    """Return the fault by which the list of runs is filtered for a status."""
    return NONE if status.family == NO_FAULT else status.family


@dataclass(frozen=True, slots=True)
class Strip:
    """The latest nightly runs of a lock under a family of faults as bars, each (state, height), and in words."""

    bars: tuple[tuple[str, int], ...]
    words: str


def strip_of(status: FamilyStatus) -> Strip | None:
    """Return the strip of a status, None if it has one nightly run only, which its words describe."""
    if len(status.recent) == 1:
        return None
    series = [(state, len(list(same))) for state, same in groupby(status.recent)]
    words = ", then ".join(f"{LOCK_STATES[state]} {counted(number, 'time')}" for state, number in series)
    bars = tuple((state, HEIGHTS[state]) for state in status.recent)
    return Strip(bars, f"the latest {len(bars)} nightly runs: {words}")


def headline(statuses: Sequence[FamilyStatus]) -> str:
    """Return the conclusion of the page in a sentence without a full stop."""
    broken = [status for status in statuses if status.state == "broken"]
    locks = {status.lock for status in statuses}
    if not statuses:
        return "No nightly run matches"
    if not broken:
        families = len({status.family for status in statuses})
        return f"No broken promise of {counted(len(locks), 'lock')} under {families} families of faults"
    return f"{len({status.lock for status in broken})} of {counted(len(locks), 'lock')} broke a promise"


def never_tested(tested: Iterable[str]) -> list[str]:
    """Return the locks of the catalogue that no nightly run has."""
    return sorted(set(_catalogued()) - set(tested))


@cache
def _catalogued() -> tuple[str, ...]:
    return catalogue.names()
