"""Storing of the messages between the clients and servers of a run."""

from __future__ import annotations

from collections.abc import Iterable

from harness.checkers.base import Verdict
from harness.clusters.kinds import KINDS
from harness.documents.messages import LOG
from harness.files import write_file
from harness.trace.log import LoggedMessages

from .recording import Recording, RunStart


def store_trace(recording: Recording, start: RunStart, verdicts: Iterable[Verdict]) -> None:
    """Store the log of a recorded run's messages if its option ``trace`` keeps them."""
    logged = recording.messages is not None or recording.wire
    if recording.folder is None or start.trace == "off" or not logged:
        return
    from harness.trace.storing import TracedRun, stored_log  # here, since most runs keep no trace

    plan = start.plan
    run = TracedRun(plan.kind, KINDS.find(plan.kind).service, plan.cluster, start.trace)
    violations = (found for verdict in verdicts for found in verdict.evidence)
    packed = stored_log(_messages(recording), run, recording.history, violations)
    if packed is not None:
        write_file(recording.folder / LOG, packed)


def _messages(recording: Recording) -> LoggedMessages:
    if recording.messages is not None:
        return recording.messages
    from harness.trace.recordings import recorded_messages

    return recorded_messages(recording.wire.values(), recording.hosts, recording.sockets)
