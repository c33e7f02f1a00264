"""The page of the trends, made from the results database by what ``harness trends --html`` uses."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

from reports import trends_report
from reports.document import ReportError

from .. import results_db
from ..errors import UsageError
from ..trends import trends
from . import files, pages

NIGHTS: Final = 14
"""Shown at most."""
FRONT: Final = "index.html"
"""Of a night's page, in its folder."""
KEPT: Final = 32
"""Pages that are kept."""


class TrendsPage:
    """The trends of the nights in the database of ``store``; a page is made again when a night has been added."""

    def __init__(self, store: Path) -> None:
        self._store = store
        self._path = store / results_db.RESULTS_DB
        self._made: dict[tuple[int, int, str, str], str] = {}
        self._one_at_a_time = threading.Lock()

    def render(self, parameters: Mapping[str, str]) -> str:
        """The page of the ``suite`` and the ``clusters`` asked for, else of the last night's; UsageError if there is
        nothing to be made a page of."""
        if not files.is_file(self._path) or not self._path.stat().st_size:
            raise UsageError("No night is stored here.")
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
            kinds = dict.fromkeys((night.suite, ",".join(night.clusters)) for night in results_db.nights(self._path))
            document = trends(self._path, last=NIGHTS, suite=suite, clusters=clusters)
            shown = (document["suite"], ",".join(document["clusters"]))
            others = [(f"{one} on {where}", _address(one, where)) for one, where in kinds if (one, where) != shown]
            others += [(f"{name}/{FRONT}", pages.store_url(name, FRONT)) for name in self._pages()]
            nav = pages.navigation("trends", "Other nights:", others)
            return trends_report.render(document, nav, pages.style_of("serve/nav.css"))
        except UsageError as error:
            raise UsageError(
                str(error).replace(f"{self._path}: ", "").replace(str(self._path), self._path.name)
            ) from error
        except ReportError as error:
            raise UsageError(str(error)) from error

    def _pages(self) -> list[str]:
        """The folders in the store that ``harness nightly --html`` has put a page into."""
        with suppress(OSError):
            names = [path.name for path in self._store.iterdir() if files.is_file(path / FRONT)]
            return sorted(name for name in names if files.resolve(self._store, (name, FRONT)))
        return []


def _address(suite: str, clusters: str) -> str:
    return f"/trends?{urlencode({'suite': suite, 'clusters': clusters}, errors='replace')}"
