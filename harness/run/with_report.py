"""Storing of a run after the fact, with its report, when its verdict turns out to be worth a look."""

from __future__ import annotations

from pathlib import Path

from harness.documents.messages import TraceMode

from .runs import run
from .verdicts.judging import Result


def with_report(
    result: Result, store: Path, command: str, reason: str = "", *, trace: TraceMode = "violations"
) -> Result:
    """Return the run as stored under ``store``, with a report in its folder.

    A run without a folder is executed again and stored. Only simulated runs have none, and the same seed gives the same
    history. ``trace`` is as in :func:`harness.run.runs.run`.
    """
    from harness.reports import run_report

    stored = result
    if result.folder is None:
        stored = run(result.plan, store=store, command=command, reason=reason, trace=trace)
    assert stored.folder is not None
    run_report.write(stored.folder)
    return stored
