"""Check the recorded traffic of servers against the simulated server of their kind."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Final

from harness.clusters.kinds import KINDS
from harness.clusters.wire import WireRecording
from harness.documents.trace import ServerTrace, TraceDifference
from harness.protocols.messages import Unreadable

from .clock import ServerClock
from .conversation import Life, Limit, cut, lives, together
from .search import MOST_SECONDS, SearchResult, explain
from .service import Service

SERVICES: Final = ("consul", "etcd", "memcached", "mysql", "postgres", "redis", "zookeeper")
"""Services of kinds of clusters for which a module of this package has a ``SERVICE``."""


def _service(kind: str) -> Service:
    """Return how the servers of a kind are checked. Its module is imported here since it needs the service's extra."""
    module = import_module(f"harness.fidelity.trace.{KINDS.find(kind).service}")
    found: Service = module.SERVICE
    return found


def not_specified(kind: str) -> str:
    """Return why the traffic of servers of a kind cannot be checked; "" if it can."""
    return "" if KINDS.find(kind).service in SERVICES else f"not checked: there is no specification for {kind}"


def check_recordings(
    recordings: Sequence[WireRecording], options: Mapping[str, Any], *, most_seconds: float = MOST_SECONDS
) -> tuple[ServerTrace, ...]:
    """Check the servers of a run, each for itself, or all together if they are an ensemble.

    ``options`` are the plan's ``server_options``; ``most_seconds`` bounds each search.
    """
    if not_specified(recordings[0].kind) or not _service(recordings[0].kind).replicated:
        return tuple([check_recording(one, options, most_seconds=most_seconds) for one in recordings])
    return (_check(recordings, options, most_seconds),)


def check_recording(
    recording: WireRecording, options: Mapping[str, Any], *, most_seconds: float = MOST_SECONDS
) -> ServerTrace:
    """Return whether the simulated server may have given all recorded replies; see :func:`check_recordings`."""
    return _check([recording], options, most_seconds)


def _check(recordings: Sequence[WireRecording], options: Mapping[str, Any], most_seconds: float) -> ServerTrace:
    hosts = ", ".join(recording.host for recording in recordings)
    if why := not_specified(recordings[0].kind):
        return _unknown(hosts, why)
    service = _service(recordings[0].kind)
    if lost := sum(recording.lost for recording in recordings):
        return _unknown(hosts, f"the recording lost {lost} packets")
    try:
        found, end = _lives(recordings, service, options)
    except Unreadable as error:
        return _unknown(hosts, f"not readable: {error}")
    if not any(talk.replies for life in found for talk in life.conversations):
        return _unknown(hosts, "nothing was recorded")
    if end is not None and not end.from_ns:
        return _unknown(hosts, f"not checked: {end.why}")
    if end is not None:
        cut(found, end.from_ns)
    began = time.monotonic()
    specification = service.specification(found, [ServerClock(recording) for recording in recordings], options)
    result = explain(found, specification, most_seconds=most_seconds)
    why = "" if end is None else f"only its beginning is checked: later {end.why}"
    if result.explained is False and specification.undecided:
        result.explained, why = None, f"a reply is not explained, and not impossible: {specification.undecided}"
    elif result.explained is None:
        why = "the search was given up at its bound"
    return _trace(hosts, found, result, why, time.monotonic() - began)


def _lives(
    recordings: Sequence[WireRecording], service: Service, options: Mapping[str, Any]
) -> tuple[list[Life], Limit | None]:
    """Return what is to be explained, and from when on it cannot be."""
    first, *others = recordings
    found = lives(first, service.parser)
    cuts = [recording.cut_ns for recording in recordings if recording.cut_ns]
    ends = [Limit("the recording ends because of its size", min(cuts))] if cuts else []
    if others:
        whole, lost = together([found, *[lives(recording, service.parser) for recording in others]])
        found = [whole]
        ends += [lost] if lost else []
    end = service.limit(first, found, options)
    return found, min([*ends, *([end] if end else [])], key=lambda one: one.from_ns, default=None)


def _unknown(hosts: str, why: str) -> ServerTrace:
    return ServerTrace(host=hosts, state="unknown", why=why)


def _trace(hosts: str, found: list[Life], result: SearchResult, why: str, seconds: float) -> ServerTrace:
    first = result.unexplained
    return ServerTrace(
        host=hosts,
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
