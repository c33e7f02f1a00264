"""Stores a run that was not meant to be stored, since it turned out to be worth a look."""

from __future__ import annotations

from pathlib import Path

from .runs import Result, run


def reported(result: Result, store: Path, command: str, reason: str = "") -> Result:
    """The run with its report; on the simulator it is run again for that: same seed, same bytes."""
    from reports import run_report

    kept = result if result.folder is not None else run(result.plan, store=store, command=command, reason=reason)
    assert kept.folder is not None
    run_report.write(kept.folder)
    return kept
