"""The order of a recorded etcd's changes, which its replies say by their revision.

A request that changes keys has the next revision, and all other replies say the last one. Renewals of leases are no
entries of the log: they may come anywhere, as long as the lease is there, or is not. What found its lease comes after
the grant.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from harness.protocols.etcd import STREAM, WATCH, answers, method_of, parsed, response_of
from harness.protocols.messages import Reply, Request

from .conversation import Conversation, Life
from .log_order import LAST, Said, place

UNORDERED = frozenset({"LeaseKeepAlive", "LeaseTimeToLive"})
"""Methods that the leader answers without the log."""
_PARTS = {"response_put": "Put", "response_delete_range": "DeleteRange", "response_txn": "Txn"}
_HARMLESS = frozenset({"Range", "LeaseKeepAlive", "LeaseTimeToLive", WATCH})
"""Methods that explain nothing if they have no reply."""


class Revisions:
    """What the replies of a life say about revisions."""

    def __init__(self, life: Life) -> None:
        said = [point for talk in life.conversations for point in _said(talk)]
        self.said = Said((sent_ns, revision) for sent_ns, revision, _ in said)
        self.claimed = frozenset(revision for _, revision, changed in said if changed)
        """Revisions of the requests that have a reply."""
        self.granted = dict(point for talk in life.conversations for point in _grants(talk))
        """Places of the grants of leases, by the lease's id."""


def put_in_order(life: Life) -> Revisions:
    """Make a conversation of each call, and replace their times by places in the order of revisions; ``arrived_ns``
    and ``sent_ns`` remain times."""
    life.conversations = by_call(life)
    found = Revisions(life)
    points: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for talk in life.conversations:
        points.setdefault((talk.host, talk.peer), []).extend(point[:2] for point in _said(talk))
    own = {connection: Said(said) for connection, said in points.items()}
    for talk in life.conversations:
        _put_call(talk, found, own[talk.host, talk.peer])
    life.conversations = [talk for talk in life.conversations if talk.requests]
    for talk in life.conversations:
        talk.opened_ns = talk.requests[0].time_ns
    life.conversations.sort(key=lambda talk: talk.opened_ns)
    return found


def pairs(talk: Conversation) -> Iterator[tuple[Request, Reply]]:
    """Yield the requests of a call that have a reply, with it."""
    replies = iter(talk.replies)
    for request in talk.requests:
        if request.replied_ns is None:
            return
        for reply in replies:
            if answers(method_of(request), reply.data[1:]):
                yield request, reply
                break


def changes(method: str, response: Any) -> bool:
    """Return whether a request has changed keys. Nothing is known of the end of a lease, which may have had keys."""
    if method == "Txn":
        for operation in response.responses:
            kind = operation.WhichOneof("response")
            nested = getattr(operation, kind) if kind else None
            name = _PARTS.get(kind or "")
            if name and changes(name, nested):
                return True
        return False
    return method == "Put" or (method == "DeleteRange" and response.deleted > 0)


def _said(talk: Conversation) -> Iterator[tuple[int, int, bool]]:
    """Yield (time, revision, whether a request of this call made it) for the replies of a call."""
    for request, reply in pairs(talk):
        method = method_of(request)
        response = response_of(method, reply.data)
        if response is not None and method not in UNORDERED and response.header.revision:
            yield reply.sent_ns, response.header.revision, changes(method, response)


def _grants(talk: Conversation) -> Iterator[tuple[int, int]]:
    """Yield (the lease's id, its place) for the grants of a call that have a reply."""
    for request, reply in pairs(talk):
        if method_of(request) == "LeaseGrant":
            response = response_of("LeaseGrant", reply.data)
            if response is not None:
                yield response.ID, place(response.header.revision, reads=True)


def _put_call(talk: Conversation, found: Revisions, own: Said) -> None:
    method = method_of(talk.requests[0])
    talk.ended_ns = None
    talk.closed_ns = LAST  # an ended call says nothing more; a watch ends with its connection
    while talk.requests and talk.requests[-1].replied_ns is None and method in _HARMLESS:
        talk.requests.pop()
    places = _reply_places(talk, method)
    replied = {id(request): reply for request, reply in pairs(talk)}
    for request in talk.requests:
        reply = replied.get(id(request))
        before = (places[id(one)] for one in talk.replies if one.sent_ns < request.arrived_ns)
        least = max([_least(request, reply, found, own), *(one for one in before if one != LAST)])
        if reply is not None:
            request.replied_ns = places[id(reply)]
            exact = method not in UNORDERED and response_of(method, reply.data) is not None
            if exact and request.replied_ns != LAST:
                least = max(least, request.replied_ns - (method == "LeaseRevoke"))
        request.time_ns = least
    talk.replies = [reply._replace(time_ns=places[id(reply)]) for reply in talk.replies]


def _least(request: Request, reply: Reply | None, found: Revisions, own: Said) -> int:
    """Return the earliest place of a request, by its arrival. A member may answer a serializable read, or a new watch,
    with a state that is behind, and after a restart even behind its own answers, but not on one connection."""
    method = method_of(request)
    if method in UNORDERED:
        response = None if reply is None else response_of(method, reply.data)
        return found.granted.get(response.ID, 0) if response is not None and response.TTL > 0 else 0
    stale = method == WATCH or (method == "Range" and parsed(request).serializable)
    return place(max(0, (own if stale else found.said).before(request.arrived_ns)), reads=True)


def _reply_places(talk: Conversation, method: str) -> dict[int, int]:
    """Return the latest place of each reply of a call, by its identity."""
    found: dict[int, int] = {}
    latest = 0
    for reply in talk.replies:
        latest = max(latest, _place(method, response_of(method, reply.data)))
        found[id(reply)] = latest
    return found


def _place(method: str, response: Any) -> int:
    if response is None or method in UNORDERED:
        return LAST
    if method != WATCH:
        return place(response.header.revision, reads=not changes(method, response))
    if response.events:
        return place(response.events[0].kv.mod_revision, reads=False)
    return LAST if response.canceled or not response.header.revision else place(response.header.revision, reads=True)


def by_call(life: Life) -> list[Conversation]:
    """Return the calls of all connections, each as a conversation of its own."""
    found: list[Conversation] = []
    for talk in life.conversations:
        calls: dict[bytes, Conversation] = {}
        for request in talk.requests:
            if request.words[0] not in calls:
                number = len(found) + len(calls) + 1
                calls[request.words[0]] = Conversation(number, talk.peer, request.arrived_ns, host=talk.host)
            calls[request.words[0]].requests.append(request)
        for reply in talk.replies:
            calls[reply.data[:STREAM]].replies.append(reply._replace(data=reply.data[STREAM:]))
        found += calls.values()
    return found
