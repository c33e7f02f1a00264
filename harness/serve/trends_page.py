"""The trends page, rendered from the results database by the code that ``harness trends --html`` uses."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

from harness.documents import DocumentError
from harness.errors import UsageError
from harness.reports import trends_report
from harness.studies import results_db
from harness.studies.trends import trends

from . import files, pages

NIGHTS: Final = 14
"""The most nightly runs on the page."""
FRONT: Final = "index.html"
"""Name of a nightly run's page, in its folder."""
KEPT: Final = 32
"""The most cached pages."""


class TrendsPage:
    """The trends of the nightly runs in the database of ``store``; a page is rendered again after another nightly
    run."""

    def __init__(self, store: Path) -> None:
        self._store = store
        self._path = store / results_db.RESULTS_DB
        self._made: dict[tuple[int, int, str, str], str] = {}
        self._one_at_a_time = threading.Lock()

    def render(self, parameters: Mapping[str, str]) -> str:
        """Return the page of the requested ``suite`` and ``clusters``, by default those of the latest nightly run that
        has an earlier one to be compared with.

        Raises UsageError if there is nothing to show.
        """
        if not files.is_file(self._path) or not self._path.stat().st_size:
            raise UsageError("This store has no nightly runs.")
        status = self._path.stat()
        key = (status.st_mtime_ns, status.st_size, parameters.get("suite", ""), parameters.get("clusters", ""))
        with self._one_at_a_time:
            if key not in self._made:
                self._made = {known: text for known, text in self._made.items() if known[:2] == key[:2]}
                if len(self._made) >= KEPT:
                    self._made.clear()
                self._made[key] = self._render(*key[2:])
            return self._made[key]

    def _render(self, suite: str, clusters: str) -> str:
        try:
            nights = [(night.suite, ",".join(night.clusters)) for night in results_db.nights(self._path)]
            kinds = Counter(nights)
            if not suite and not clusters:
                suite, clusters = next((one for one in reversed(nights) if kinds[one] > 1), ("", ""))
            document = trends(self._path, last=NIGHTS, suite=suite, clusters=clusters)
            shown = (document.suite, ",".join(document.clusters))
            others = [(f"{one} on {where}", _address(one, where)) for one, where in kinds if (one, where) != shown]
            others += [(f"{name}/{FRONT}", pages.store_url(name, FRONT)) for name in self._pages()]
            nav = pages.navigation("trends", "Other nightly runs:", others)
            return trends_report.render(document, nav, pages.style_of("serve/nav.css"))
        except UsageError as error:
            raise UsageError(
                str(error).replace(f"{self._path}: ", "").replace(str(self._path), self._path.name)
            ) from error
        except DocumentError as error:
            raise UsageError(str(error)) from error

    def _pages(self) -> list[str]:
        """Return the folders of the store into which ``harness nightly --html`` has written a page."""
        with suppress(OSError):
            names = [path.name for path in self._store.iterdir() if files.is_file(path / FRONT)]
            return sorted(name for name in names if files.resolve(self._store, (name, FRONT)))
        return []


def _address(suite: str, clusters: str) -> str:
    return f"/trends?{urlencode({'suite': suite, 'clusters': clusters}, errors='replace')}"
