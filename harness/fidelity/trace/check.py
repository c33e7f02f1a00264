"""Check the recorded traffic of one server against the simulated server of its kind."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from harness.clusters.kinds import KINDS
from harness.clusters.wire import WireRecording
from harness.documents.trace import ServerTrace, TraceDifference

from . import memcached, redis
from .clock import ServerClock
from .conversation import Life, Limit, Parser, Unreadable, cut, lives
from .memcached_protocol import MemcachedParser
from .redis_protocol import RedisParser
from .search import MOST_SECONDS, SearchResult, explain
from .specification import Specification


class Service(NamedTuple):
    """How the traffic of a family of servers is checked. ``limit`` says how much of it can be, with the plan's server
    options."""

    parser: type[Parser]
    specification: Callable[[ServerClock, Mapping[str, Any]], Specification]
    limit: Callable[[WireRecording, list[Life], Mapping[str, Any]], Limit | None]


SERVICES: Final = {
    "redis": Service(
        RedisParser,
        lambda clock, options: redis.RedisSpecification(clock, str(options.get("persistence", "always"))),
        redis.limit,
    ),
    "memcached": Service(MemcachedParser, lambda clock, _: memcached.MemcachedSpecification(clock), memcached.limit),
}
"""By the service of a kind of cluster."""


def not_specified(kind: str) -> str:
    """Return why the traffic of servers of a kind cannot be checked; "" if it can."""
    return "" if KINDS.find(kind).service in SERVICES else f"not checked: there is no specification for {kind}"


def check_recording(
    recording: WireRecording, options: Mapping[str, Any], *, most_seconds: float = MOST_SECONDS
) -> ServerTrace:
    """Return whether the simulated server may have given all recorded replies.

    ``options`` are the plan's ``server_options``; ``most_seconds`` bounds the search.
    """
    if why := not_specified(recording.kind):
        return _unknown(recording, why)
    service = SERVICES[KINDS.find(recording.kind).service]
    if recording.lost:
        return _unknown(recording, f"the recording lost {recording.lost} packets")
    try:
        found = lives(recording, service.parser)
    except Unreadable as error:
        return _unknown(recording, f"not readable: {error}")
    if not any(talk.replies for life in found for talk in life.conversations):
        return _unknown(recording, "nothing was recorded")
    end = service.limit(recording, found, options)
    if end is not None and not end.from_ns:
        return _unknown(recording, f"not checked: {end.why}")
    if end is not None:
        cut(found, end.from_ns)
    began = time.monotonic()
    result = explain(found, service.specification(ServerClock(recording), options), most_seconds=most_seconds)
    why = "" if end is None else f"only its beginning is checked: later {end.why}"
    if recording.cut_ns:
        why = "only its beginning is checked: the recording was cut off because of its size"
    return _trace(recording, found, result, why, time.monotonic() - began)


def _unknown(recording: WireRecording, why: str) -> ServerTrace:
    return ServerTrace(host=recording.host, state="unknown", why=why)


def _trace(recording: WireRecording, found: list[Life], result: SearchResult, why: str, seconds: float) -> ServerTrace:
    if result.explained is None:
        why = "the search was given up at its bound"
    first = result.unexplained
    return ServerTrace(
        host=recording.host,
        state="unknown" if result.explained is None else "possible" if result.explained else "impossible",
        why=why,
        requests=result.requests,
        steps=result.steps,
        seconds=round(seconds, 3),
        difference=None
        if first is None
        else TraceDifference(
            at_s=round((first.time_ns - found[0].began_ns) / 1e9, 6),
            connection=first.connection,
            client=first.peer,
            request=first.request,
            real=first.real,
            possible=first.possible,
        ),
    )
