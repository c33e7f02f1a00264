"""Compares locks: what each fault does to each of them, which properties they have, and what they cost.

On the simulator the same comparison gives the same document, whatever the number of processes, but for the time that it
took and the names of folders. On containers costs are measured when everything else is done, one lock at a time.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Generator, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from ..errors import UNKNOWN, VALID
from ..lanes import shared_out, terminable
from ..nightly import LANES
from ..store import new_comparison
from .document import assembled, relative
from .plans import Asked, Job, jobs
from .play import Document, Outcome, died, play

SCHEMA: Final = 1
DOCUMENT: Final = "comparison.json"


class Watch:
    """Told what a comparison is at; each as it begins, and again when it is done, with what came of it."""

    def todo(self, count: int) -> None:
        """So many jobs there are."""

    def begun(self, job: Job) -> None: ...

    def done(self, job: Job, outcome: Outcome) -> None: ...


def compare(
    asked: Asked,
    *,
    store: Path = Path("store"),
    command: str = "",
    workers: int | None = None,
    lanes: int = LANES,
    watch: Watch | None = None,
) -> tuple[Document, Path]:
    """Compare locks; the document, and the folder that has it as ``comparison.json``.

    ``workers`` processes play what is simulated (as many as there are processors; 1: none but this one), ``lanes`` what
    is on containers. Raises UsageError before anything is run. An interrupt leaves what has not been played
    unknown, and the document says so.
    """
    todo, watch = jobs(asked), watch or Watch()
    watch.todo(len(todo))
    started, began = datetime.now(UTC), time.monotonic()
    folder = new_comparison(store, started)
    outcomes: dict[tuple[str, str, str], Outcome] = {}
    interrupted = False
    count = lanes if asked.cluster == "docker" else workers or os.cpu_count() or 1
    playing = _played(todo, partial(play, store, command), count, watch.begun)
    try:
        with terminable(), contextlib.closing(playing) as played:
            for job, outcome in played:
                outcomes[job.lock, job.part, job.name] = found = outcome or died(job)
                watch.done(job, found)
    except KeyboardInterrupt:
        interrupted = True
    head = {
        "schema": SCHEMA,
        "started_at": f"{started:%Y-%m-%dT%H:%M:%SZ}",
        "command": command,
        "seconds": round(time.monotonic() - began, 1),
        "interrupted": interrupted,
    }
    document = relative({**head, **assembled(asked, outcomes)}, folder)
    (folder / DOCUMENT).write_bytes(msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n")
    return document, folder


def _played(
    todo: Sequence[Job], player: Any, count: int, begun: Callable[[Job], None]
) -> Generator[tuple[Job, Outcome | None], None, None]:
    """On the simulator lock by lock; on containers cluster by cluster, and what costs are measured of one at a time."""
    together, alone = list(todo), []
    if todo[0].cluster == "docker":
        in_place = sorted(todo, key=lambda job: job.where)
        alone = [job for job in in_place if job.part == "cost"]
        together = [job for job in in_place if job.part != "cost"]
    for some, processes in ((together, count), (alone, 1)):
        with contextlib.closing(shared_out(some, player, processes, begun)) as done:
            yield from done


def exit_status(document: Document) -> int:
    """0 if all that could be run was, and each cell says something; else 3. What a comparison finds is no failure of
    it: that a lock is unsafe under a fault is an answer."""
    states = [cell["state"] for lock in document["locks"] for cell in lock["cells"].values()]
    return UNKNOWN if document["interrupted"] or "unknown" in states else VALID
