"""Runs in progress, as pages that follow them until there is a verdict.

A page asks each second for what is new. Whoever asks: what was read of a run's history is kept, of the last few runs,
and what is sent to one page is what is sent to all of them.
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

from reports import page
from reports.live import ROLLING_S, WINDOW_S, Live
from reports.model import JUDGEMENTS
from reports.run_report import SCRIPTS, WORDS

from .. import plan as plans
from .. import store as stores
from ..errors import UsageError
from ..options import counted
from ..plan import Plan
from . import files, pages
from .index import Unreadable, read_results

KEPT: Final = 8
"""Runs whose histories are kept as far as they have been read."""
SOON_S: Final = 3.0
"""Whoever has not begun to record by then, or has let go of the history, is not there any more."""
CHECKED_S: Final = 120.0
"""The same of whoever has recorded the end of a run, and is checking it."""
FRESH: Final = 1 << 16
"""Bytes of a history that may have been written since it was read."""
LARGEST_PLAN: Final = 1 << 20
DIGITS: Final = 18
"""Of a number of bytes that makes sense."""
SAID: Final = {
    "starting": "The cluster is being started.",
    "running": "",
    "checking": "The time is up: the history is being checked.",
    "over": "",
    "interrupted": "Nobody records this run any more, and it has no verdict: it was interrupted or killed.",
}


class Watched:
    """One run that somebody looks at. May be asked by several threads at a time."""

    def __init__(self, store: Path, lock: str, run: str) -> None:
        self._store = store
        self._path = (lock, run)
        self._live = Live()
        self._drawn = (-1, "null")
        self._one_at_a_time = threading.Lock()

    def now(self, folder: Path, known: int) -> bytes:
        """What there is to be said of the run, JSON; the timeline only if there is more of it than in the first
        ``known`` bytes of its history."""
        with self._one_at_a_time:
            recording = files.recording(folder)  # asked first: what is recorded until it ends is read
            facts = self._facts(folder, recording, self._read())
            drawn = "null" if facts["behind"] or known == self._live.read else self._draw()
        return msgspec.json.encode(facts | {"timeline": msgspec.Raw(drawn.encode())})

    def _read(self) -> float | None:
        """Read on; how much has been read, from 0 to 1, if there is more than what was just written."""
        file = files.open_file(self._store, (*self._path, stores.HISTORY))
        if file is None:
            return None
        with file:
            more, size = self._live.take(file), files.size(file)
        return self._live.read / size if more and size - self._live.read > FRESH else None

    def _draw(self) -> str:
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


class Watching:
    """The runs of a store that somebody looks at."""

    def __init__(self, store: Path) -> None:
        self._store = store
        self._watched: OrderedDict[tuple[str, str], Watched] = OrderedDict()
        self._one_at_a_time = threading.Lock()

    def page(self, request: Request) -> Response:
        """The page, which asks for everything that changes."""
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
        """What the page asks for; ``from`` is how much of the history it has seen, in bytes."""
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

    def _of(self, lock: str, run: str) -> Watched:
        """The one that is looked at, or a new one; of too many the one goes that nobody has asked for the longest."""
        with self._one_at_a_time:
            watched = self._watched.setdefault((lock, run), Watched(self._store, lock, run))
            self._watched.move_to_end((lock, run))
            if len(self._watched) > KEPT:
                self._watched.popitem(last=False)
            return watched


def routes(store: Path) -> list[BaseRoute]:
    """The addresses under ``/live/``."""
    watching = Watching(store)
    return [Route("/live/{lock}/{run}/", watching.page), Route("/live/{lock}/{run}/data.json", watching.data)]


@cache
def _script() -> str:
    """What draws the timeline, and what feeds it."""
    drawing = [f"js/{name}" for name in SCRIPTS if name != "start.js"]
    return "\n".join(['"use strict";', *(page.source(name) for name in (*drawing, "serve/live.js"))])


def _plan(folder: Path) -> Plan | None:
    """What the run was asked to do; None if that cannot be read."""
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
    """Seconds since somebody wrote to the history, or made the folder."""
    for path in (folder / stores.HISTORY, folder):
        try:
            return time.time() - path.stat().st_mtime
        except OSError:
            continue
    return float("inf")


def _verdict(folder: Path) -> dict[str, Any] | None:
    """What came out, None as long as nothing has; results that cannot be read are left to the run's own page."""
    try:
        results = read_results(folder)
    except Unreadable:
        return {"judgement": "broken", "word": "No verdict", "summary": "The results cannot be read."}
    if results is None:
        return None
    judgement = JUDGEMENTS[results.valid]
    return {"judgement": judgement, "word": WORDS[judgement], "summary": results.summary}
