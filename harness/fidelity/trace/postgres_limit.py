"""How much of a recorded PostgreSQL's traffic the simulated one can explain."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from harness.clusters.kinds.postgres import POOLED, REPLICATED
from harness.clusters.wire import WireRecording
from harness.protocols.postgres import answer

from .conversation import Life, Limit, in_order

_TIMED: Final = re.compile(rb"statement_timeout|idle_\w*timeout|pg_sleep|pg_terminate_backend|pg_cancel_backend", re.I)
_CATALOGUE: Final = re.compile(rb"pg_advisory_unlock\w*\(.*\bpg_locks\b", re.IGNORECASE | re.DOTALL)
"""A statement that releases the locks that it finds in the catalogue."""
_TIMEOUTS: Final = frozenset({"statement_timeout", "idle_session_timeout", "idle_in_transaction_session_timeout"})
_WHY: Final = "a session may end by itself, or be ended by another"


def limit(recording: WireRecording, found: Sequence[Life], options: Mapping[str, Any]) -> Limit | None:
    """Return why the traffic of a server cannot be checked, and from when on; None if all can.

    Connections that the server refused are emptied: it does so while it starts, and if it has too many.
    """
    if recording.kind == POOLED.name:
        return Limit("what PgBouncer and PostgreSQL send each other is not recorded")
    if recording.kind == REPLICATED.name:
        return Limit("there is no specification of a primary with standbys")
    if not _TIMEOUTS.isdisjoint(options):
        return Limit(_WHY)
    for talk in (talk for life in found for talk in life.conversations):
        if any(answer(reply.data).startswith("FATAL") for reply in talk.replies[:2]):
            talk.requests, talk.replies = [], []
    return min(_limits(found), key=lambda one: one.from_ns, default=None)


def _limits(found: Sequence[Life]) -> Iterator[Limit]:
    for request in in_order(found):
        if any(map(_TIMED.search, request.words[1:])):
            yield Limit(_WHY, request.arrived_ns)
        if any(map(_CATALOGUE.search, request.words[1:])):
            yield Limit("the simulated server has no table of locks", request.arrived_ns)
