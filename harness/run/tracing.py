"""Storing of a run's trace: the decoded messages between clients and servers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from harness.checkers.base import Verdict
from harness.clusters.kinds import KINDS
from harness.clusters.wire import unpack
from harness.documents.messages import TRACE, pack_messages
from harness.files import write_file

from .recording import Recording, RunStart

if TYPE_CHECKING:
    from harness.trace.streams import Streams


def store_trace(recording: Recording, start: RunStart, verdicts: Iterable[Verdict]) -> None:
    """Store the messages of a recorded run that its option ``trace`` keeps, if messages were logged."""
    traced = start.trace == "on" or (start.trace == "violations" and recording.messages)
    if recording.folder is None or not traced:
        return
    from harness.trace.building import build  # here, since most runs keep no trace

    trace = build(
        _streams(recording),
        kind=start.plan.kind,
        service=KINDS.find(start.plan.kind).service,
        backend=start.plan.cluster,
        mode=start.trace,
        history=recording.history,
        violations=[found for verdict in verdicts for found in verdict.evidence],
    )
    if trace is not None:
        write_file(recording.folder / TRACE, pack_messages(trace))


def _streams(recording: Recording) -> Streams:
    from harness.trace.recordings import recorded_streams
    from harness.trace.streams import read_streams

    if recording.messages is not None:
        return read_streams(recording.messages)
    unpacked = [unpack(packed, host) for host, packed in recording.wire.items()]
    return recorded_streams(unpacked, recording.addresses)
