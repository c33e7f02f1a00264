"""Compare locks: the effect of each fault on each lock, the locks' properties, and their costs.

On the simulator the same comparison gives the same document for any number of processes, except for durations and
folder names. On containers, costs are measured after everything else, one lock at a time.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Generator, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

from msgspec.structs import replace as with_

from harness.documents import ComparisonDocument
from harness.errors import UNKNOWN, VALID, HarnessError
from harness.run.containers.container_images import build_images
from harness.run.pool import AbandonedJob, open_pool, results, results_of_neighbours
from harness.run.processes.signals import sigterm_interrupts
from harness.run.store import new_comparison, write_results

from .document import assemble, relative
from .plans import ComparisonJob, ComparisonRequest, jobs
from .trials import JobOutcome, died, run_job

DOCUMENT: Final = "comparison.json"
FinishedJobs = Generator[tuple[ComparisonJob, JobOutcome | AbandonedJob], None, None]


class Watch:
    """Callbacks for the progress of a comparison: one when a job starts, one with its outcome when it is done."""

    def todo(self, count: int) -> None:
        """Called once, with the number of jobs."""

    def building(self, line: str) -> None:
        """Called with each step while images are built, before the first job on containers."""

    def begun(self, job: ComparisonJob) -> None: ...

    def done(self, job: ComparisonJob, outcome: JobOutcome) -> None: ...


def compare(
    request: ComparisonRequest,
    *,
    store: Path = Path("store"),
    command: str = "",
    workers: int | None = None,
    scheduler: str | None = None,
    watch: Watch | None = None,
) -> tuple[ComparisonDocument, Path]:
    """Compare locks. Return the document, and the folder in which it is stored as ``comparison.json``.

    ``workers`` processes of this machine execute the runs (1: only this process; None: one for each processor).
    Simulated runs are executed by the workers of a Dask ``scheduler`` (``tcp://...``) if one is given. Raises
    UsageError before the first run. After an interrupt, the document is marked as interrupted and the jobs that were
    not run are unknown.
    """
    todo, watch = jobs(request), watch or Watch()
    watch.todo(len(todo))
    started, began = datetime.now(UTC), time.monotonic()
    folder = new_comparison(store, started)
    try:
        outcomes, interrupted = _outcomes(_run_jobs(todo, store, command, workers, scheduler, watch), watch)
    except HarnessError:
        with contextlib.suppress(OSError):
            folder.rmdir()  # empty if no job was run
        raise
    document = with_(
        relative(assemble(request, outcomes), folder),
        started_at=f"{started:%Y-%m-%dT%H:%M:%SZ}",
        command=command,
        seconds=round(time.monotonic() - began, 1),
        interrupted=interrupted,
    )
    write_results(folder, document, DOCUMENT)
    return document, folder


def _outcomes(jobs_: FinishedJobs, watch: Watch) -> tuple[dict[tuple[str, str, str], JobOutcome], bool]:
    """Return the outcomes by lock, part and name of the job, and whether an interrupt cut them short."""
    outcomes: dict[tuple[str, str, str], JobOutcome] = {}
    try:
        with sigterm_interrupts(), contextlib.closing(jobs_) as finished_jobs:
            for job, outcome in finished_jobs:
                found = died(job, outcome.why) if isinstance(outcome, AbandonedJob) else outcome
                outcomes[job.lock, job.part, job.name] = found
                watch.done(job, found)
    except KeyboardInterrupt:
        return outcomes, True
    return outcomes, False


def _run_jobs(
    todo: Sequence[ComparisonJob],
    store: Path,
    command: str,
    workers: int | None,
    scheduler: str | None,
    watch: Watch,
) -> FinishedJobs:
    """Yield each job as soon as it is done. On containers, jobs are sorted by the containers that they need, and costs
    are measured last, one at a time."""
    groups: list[tuple[list[ComparisonJob], int | None]] = [(list(todo), workers)]
    real = todo[0].cluster == "docker"
    if real:
        build_images((plan for job in todo for plan in job.plans), watch.building)
        in_place = sorted(todo, key=lambda job: job.where)
        together = [job for job in in_place if job.part != "cost"]
        groups = [(together, workers), ([job for job in in_place if job.part == "cost"], 1)]
    for jobs_, count in groups:
        with open_pool(count, None if real else scheduler, tidy=real) as pool:
            work = partial(run_job, pool.shared(store), command)
            as_they_come = results_of_neighbours if real else partial(results, in_order=False)
            with contextlib.closing(as_they_come(jobs_, work, pool, started=watch.begun)) as finished_jobs:
                yield from finished_jobs


def exit_status(document: ComparisonDocument) -> int:
    """Return 0 if everything that could be run was run and every cell has a result, else 3.

    An unsafe lock does not make the comparison fail: it is one of the answers.
    """
    states = [cell.state for lock in document.locks for cell in lock.cells.values()]
    return UNKNOWN if document.interrupted or "unknown" in states else VALID
