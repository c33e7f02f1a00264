"""Recorded traffic as requests and replies: what a search has to explain. All times are monotonic ns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from harness.clusters.wire import WireEvent, WireRecording
from harness.protocols.messages import Parser, Reply, Request

from .clock import Pauses


@dataclass(slots=True)
class Conversation:
    """One connection: its requests, and all replies and other messages of the server, in their order."""

    number: int
    peer: str
    opened_ns: int
    requests: list[Request] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)
    closed_ns: int | None = None
    """Time from which on the client's end was closed, None if it was not."""
    ended_ns: int | None = None
    """Time at which the server had closed its end, None if it did not."""
    host: str = ""
    """Name of the server."""


@dataclass(slots=True)
class Life:
    """What a server did from one start to the next. ``how`` says with which data it started, and it was told to start
    between ``began_ns`` and ``until_ns``."""

    how: str
    began_ns: int
    until_ns: int
    conversations: list[Conversation] = field(default_factory=list)


class Limit(NamedTuple):
    """Why the traffic from a time on cannot be checked; ``from_ns`` is 0 if none of it can."""

    why: str
    from_ns: int = 0


def lives(recording: WireRecording, new_parser: type[Parser]) -> list[Life]:
    """Return the lives of a server, each with the connections that were opened in it, in their order.

    Raises :class:`~harness.protocols.messages.Unreadable`.
    """
    pauses = Pauses(recording)
    found: list[Life] = []
    known: dict[int, tuple[Conversation, Parser]] = {}
    for event in recording.events:
        if event.what == "start":
            found.append(Life(event.how, event.time, event.until))
        elif event.what == "open" and found:
            talk = Conversation(event.connection, event.peer, event.time, host=recording.host)
            found[-1].conversations.append(talk)
            known[event.connection] = talk, new_parser()
        elif event.connection in known:
            _add(*known[event.connection], event, pauses)
    return found


def together(members: Sequence[list[Life]]) -> tuple[Life, Limit | None]:
    """Return the lives of the members of an ensemble as the one life of the ensemble, and from when on it is not one:
    a member that lost its data may have lost what the ensemble had committed."""
    lost = [life.began_ns for found in members for life in found[1:] if life.how != "kept"]
    first = min(found[0].began_ns for found in members if found)
    whole = Life("new", first, max(found[0].until_ns for found in members if found))
    for found in members:
        whole.conversations += [talk for life in found for talk in life.conversations]
    whole.conversations.sort(key=lambda talk: talk.opened_ns)
    for number, talk in enumerate(whole.conversations, 1):
        talk.number = number
    return whole, Limit("a server lost its data", min(lost)) if lost else None


def in_order(found: Sequence[Life]) -> list[Request]:
    """Return all requests in the order of their arrival."""
    requests = [request for life in found for talk in life.conversations for request in talk.requests]
    return sorted(requests, key=lambda request: request.arrived_ns)


def answered(talk: Conversation) -> Iterator[tuple[Request, Reply]]:
    """Yield the requests of a connection that have a reply, with it, if the server sends nothing else."""
    replied = [request for request in talk.requests if request.replied_ns is not None]
    return zip(replied, talk.replies, strict=False)


def cut(found: list[Life], time_ns: int) -> None:
    """Remove everything from this time on."""
    found[:] = [life for life in found if life.began_ns < time_ns]
    for life in found:
        life.conversations = [talk for talk in life.conversations if talk.opened_ns < time_ns]
        for talk in life.conversations:
            talk.requests = [request for request in talk.requests if request.arrived_ns < time_ns]
            talk.replies = [reply for reply in talk.replies if reply.time_ns < time_ns]
            for request in talk.requests:
                if request.replied_ns is not None and request.replied_ns >= time_ns:
                    request.replied_ns = None


def _add(talk: Conversation, parser: Parser, event: WireEvent, pauses: Pauses) -> None:
    if event.what == "in":
        requests = parser.requests(event.time, event.data)
        for request in requests:
            request.time_ns = pauses.awake(request.arrived_ns)
        talk.requests += requests
    elif event.what == "out":
        talk.replies += parser.replies(event.time, event.data)
    elif event.by == "client":
        talk.closed_ns = pauses.awake(event.time)
    elif event.by == "server":
        talk.ended_ns = event.time
