"""Pages that follow runs in progress until there is a verdict.

A page polls once a second. The server keeps the parsed histories of the last few runs, and all pages share them.
"""

from __future__ import annotations

import threading
import time
import tomllib
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from harness import plan as plans
from harness.errors import UsageError
from harness.plan import Plan
from harness.reports import page
from harness.reports.live import ROLLING_S, WINDOW_S, GrowingHistory
from harness.reports.model import JUDGEMENTS
from harness.reports.run_report import SCRIPTS, heading
from harness.run import store as stores
from harness.wording import counted

from . import files, pages
from .index import Unreadable, read_results

KEPT: Final = 8
"""The number of runs whose parsed histories are cached."""
SOON_S: Final = 3.0
"""A recorder that has not begun by then, or has released the history for that long, is considered dead."""
CHECKED_S: Final = 120.0
"""The same limit after the end of a run was recorded, since its checkers may still be running."""
FRESH: Final = 1 << 16
"""Bytes of a history that may have been written since it was last read."""
LARGEST_PLAN: Final = 1 << 20
DIGITS: Final = 18
"""The most digits of a plausible number of bytes."""
SAID: Final = {
    "starting": "The cluster is starting.",
    "running": "",
    "checking": "The run has ended; its history is being checked.",
    "over": "",
    "interrupted": "This run was interrupted or killed: it has no verdict, and nothing is recording it.",
}


class FollowedRun:
    """One run that a page follows. Several threads may call it at the same time."""

    def __init__(self, store: Path, lock: str, run: str) -> None:
        self._store = store
        self._path = (lock, run)
        plan = _plan(store / lock / run)
        self._live = GrowingHistory(in_order=plan is not None and plan.cluster == "sim")
        self._drawn: tuple[int, str | None] = (-1, None)
        self._one_at_a_time = threading.Lock()

    def now(self, folder: Path, known: int) -> bytes:
        """Return the state of the run as JSON, with the timeline only if the history is longer than ``known`` bytes."""
        with self._one_at_a_time:
            recording = files.recording(folder)  # checked first, so that everything recorded before the end is read
            facts = self._facts(folder, recording, self._read())
            drawn = None if facts["behind"] or known == self._live.read else self._draw()
        return msgspec.json.encode(facts | {"timeline": drawn})

    def _read(self) -> float | None:
        """Read on; return the share (0 to 1) that has been read, None if only recently written entries are left."""
        file = files.open_file(self._store, (*self._path, stores.HISTORY))
        if file is None:
            return None
        with file:
            more, size = self._live.take(file), files.size(file)
        return self._live.read / size if more and size - self._live.read > FRESH else None

    def _draw(self) -> str | None:
        if self._drawn[0] != self._live.read:
            self._drawn = (self._live.read, self._live.timeline())
        return self._drawn[1]

    def _facts(self, folder: Path, recording: bool, behind: float | None) -> dict[str, Any]:
        moment, verdict = self._live.moment(), _verdict(folder)
        state = "over" if verdict else self._state(folder, recording)
        return {
            "state": state,
            "said": SAID[state],
            "read": self._live.read,
            "behind": behind,
            "verdict": verdict,
            "moment": asdict(moment),
        }

    def _state(self, folder: Path, recording: bool) -> str:
        ongoing, idle = self._live.ongoing, _idle(folder)
        if ongoing.ended:
            return "checking" if recording or idle < CHECKED_S else "interrupted"
        if recording or idle < SOON_S:
            return "running" if ongoing.settings else "starting"
        return "interrupted"


class LivePages:
    """The runs of a store that pages follow."""

    def __init__(self, store: Path) -> None:
        self._store = store
        self._watched: OrderedDict[tuple[str, str], FollowedRun] = OrderedDict()
        self._one_at_a_time = threading.Lock()

    def page(self, request: Request) -> Response:
        """Return the page, which polls for all changing data."""
        lock, run = request.path_params["lock"], request.path_params["run"]
        folder = self._folder(lock, run)
        plan = _plan(folder)
        return pages.answer(
            "live.html",
            here="runs",
            script=_script(),
            style=page.source("serve/live.css"),
            lock=plan.lock if plan else lock,
            run=run,
            facts=list(_facts_of(plan)) if plan else [],
            limit=plan.time_limit if plan else None,
            run_page=pages.run_url(lock, run),
            window=WINDOW_S,
            rolling=ROLLING_S,
        )

    def data(self, request: Request) -> Response:
        """Return the data for the page; the parameter ``from`` is how many bytes of the history it has seen."""
        lock, run = request.path_params["lock"], request.path_params["run"]
        folder = self._folder(lock, run)
        known = request.query_params.get("from", "-1")
        if not (known.isascii() and known.removeprefix("-").isdigit() and len(known) < DIGITS):
            return pages.problem(400, "from must be a number of bytes.")
        return Response(self._of(lock, run).now(folder, int(known)), media_type="application/json")

    def _folder(self, lock: str, run: str) -> Path:
        folder = files.run_folder(self._store, lock, run)
        names = (stores.PLAN, stores.HISTORY, stores.RESULTS)
        if folder is None or not any(files.is_file(folder / name) for name in names):
            raise HTTPException(404)
        return folder

    def _of(self, lock: str, run: str) -> FollowedRun:
        """Return the followed run, or a new one; if there are too many, drop the one that was not requested for the
        longest time."""
        with self._one_at_a_time:
            watched = self._watched.setdefault((lock, run), FollowedRun(self._store, lock, run))
            self._watched.move_to_end((lock, run))
            if len(self._watched) > KEPT:
                self._watched.popitem(last=False)
            return watched


def routes(store: Path) -> list[BaseRoute]:
    """Return the routes under ``/live/``."""
    watching = LivePages(store)
    return [Route("/live/{lock}/{run}/", watching.page), Route("/live/{lock}/{run}/data.json", watching.data)]


@cache
def _script() -> str:
    """Return the scripts that draw the timeline and update its data."""
    drawing = [f"js/{name}" for name in SCRIPTS if name != "start.js"]
    return "\n".join(['"use strict";', *(page.source(name) for name in (*drawing, "serve/live.js"))])


def _plan(folder: Path) -> Plan | None:
    """Return the plan of the run; None if it cannot be read."""
    try:
        return plans.decode(tomllib.loads(files.read(folder / stores.PLAN, LARGEST_PLAN).decode()))
    except (OSError, ValueError, RecursionError, UsageError):
        return None


def _facts_of(plan: Plan) -> Iterator[tuple[str, str]]:
    yield "Cluster", f"{plan.cluster}, {plan.kind}, {counted(plan.nodes, 'node')}"
    yield "Clients", f"{plan.clients}, {plan.workload}, {plan.discipline}"
    yield "Lease and hold", f"{plan.ttl:g} s, {plan.hold:g} s"
    yield "Faults", ", ".join(dict.fromkeys(spec.fault for spec in plan.faults)) or "none"
    yield "Seed", str(plan.seed)


def _idle(folder: Path) -> float:
    """Return the seconds since the history was last written, or since the folder was made."""
    for path in (folder / stores.HISTORY, folder):
        try:
            return time.time() - path.stat().st_mtime
        except OSError:
            continue
    return float("inf")


def _verdict(folder: Path) -> dict[str, Any] | None:
    """Return the verdict, None if there is none yet; the run's own page reports unreadable results."""
    try:
        results = read_results(folder)
    except Unreadable:
        return {"judgement": "broken", "word": "No verdict", "summary": "results.json cannot be read."}
    if results is None:
        return None
    judgement = JUDGEMENTS[results.valid]
    return {"judgement": judgement, "word": heading(judgement, results.verdict), "summary": results.summary}
