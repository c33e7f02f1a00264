"""Trace conformance: check the recorded traffic of runs on containers against the simulated servers."""

from __future__ import annotations

from pathlib import Path

from harness import plan as plans
from harness.clusters.wire import unpack
from harness.documents.trace import SCHEMA, TraceDocument, state_of
from harness.errors import UNKNOWN, VALID, VIOLATION, UsageError
from harness.fidelity.trace.check import check_recordings
from harness.fidelity.trace.search import MOST_SECONDS
from harness.run.store import PLAN, WIRE, find_run

STATUS = {"possible": VALID, "impossible": VIOLATION, "unknown": UNKNOWN}


def check_run(run: Path, *, most_seconds: float = MOST_SECONDS) -> TraceDocument:
    """Check what each server of a run was recorded to receive and send. ``most_seconds`` is for each server.

    Raises UsageError if ``run`` is not the folder of a run, or has no recordings.
    """
    folder = find_run(run)
    files = sorted((folder / WIRE).glob("*.jsonl.gz"))
    if not files:
        raise UsageError(
            f"{run}: the traffic of its servers was not recorded: 'harness run --cluster docker --record-wire' does"
        )
    plan = plans.load(folder / PLAN)
    recordings = [unpack(file.read_bytes(), str(file)) for file in files]
    found = check_recordings(recordings, plan.server_options, most_seconds=most_seconds)
    return TraceDocument(schema=SCHEMA, run=str(run), kind=plan.kind, status=STATUS[state_of(found)], servers=found)
