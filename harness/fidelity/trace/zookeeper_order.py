"""The order of a recorded ZooKeeper's transactions, which its replies say by their zxid.

The reply to a write has the zxid of its transaction, which only grows, and the reply to a read that of the last
transaction before it. So recorded traffic is searched in the order of zxids, not of times: a follower may answer with a
state that is behind. Of the times remains that a write comes after all transactions that had been replied to before it
arrived, on any server, and a read after those on its own server. The answer to a connect request and a watch event
say no zxid: they come before the next reply on their connection.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from harness.protocols.messages import Reply, Request
from harness.protocols.zookeeper import CONNECT, WRITES, greeting, is_event, op_of, session_of, times_of, zxid_of

from .conversation import Conversation, Life
from .log_order import LAST, Said, place
from .zookeeper_replies import answered

_COUNTER: Final = 0xFFFFFFFF
"""Bits of a zxid that count transactions. They are 0 in what a leader replies before its first one, and a server
forgets that zxid when it loses its leader."""


class Zxids:
    """What replies say about the transactions of a life, and of the lives after it until the data are lost."""

    def __init__(self, lives: Sequence[Life]) -> None:
        self.times_ms: dict[int, int] = {}
        """Time of transactions by zxid."""
        seen: list[tuple[int, int]] = []
        writes: list[int] = []
        for talk in (talk for life in lives for talk in life.conversations):
            for request, reply in answered(talk):
                self.times_ms |= times_of(request, reply.data)
                if request.words != (CONNECT,):
                    seen.append((reply.sent_ns, zxid_of(reply.data)))
                    writes += [zxid_of(reply.data)] if op_of(request) in WRITES else []
        self._said = Said(seen)
        self.epochs = sorted({zxid >> 32 for _, zxid in seen})
        self.claimed = frozenset(writes)
        """zxids of the requests that have a reply. Sessions that begin or expire, and requests without a reply, have
        others."""

    def latest_ns(self, zxid: int) -> int:
        """Return the time until which a transaction was executed at the latest."""
        return self._said.latest_ns(zxid)


def put_in_order(life: Life) -> None:
    """Replace the times of a life by places in the order of zxids; ``arrived_ns`` and ``sent_ns`` remain times."""
    everywhere = _said(life.conversations)
    own = {
        host: _said([talk for talk in life.conversations if talk.host == host])
        for host in {talk.host for talk in life.conversations}
    }
    for talk in life.conversations:
        replied = {id(request): reply for request, reply in answered(talk)}
        places = _reply_places(talk)
        for request in talk.requests:
            _put_request(request, replied.get(id(request)), everywhere, own[talk.host])
            if id(request) in replied:
                request.replied_ns = places[id(replied[id(request)])]
        talk.replies = [reply._replace(time_ns=places[id(reply)]) for reply in talk.replies]
        talk.opened_ns = 0
        # A request without a reply is executed after the end of its connection, if it was in the server's queues.
        talk.ended_ns = None
        talk.closed_ns = None if talk.closed_ns is None else LAST
    _join_unanswered_connects(life)


def _join_unanswered_connects(life: Life) -> None:
    """Leave out the connect requests without an answer that change nothing, and put the others into one connection.

    A session that its client has not learnt of can only expire. Of several with one time-out, the first explains all
    that another one explains. To resume a session without an answer matters to its writes on other connections.
    """
    writers = {
        greeting(talk.requests[0]).session or session_of(talk.replies[0].data).session
        for talk in life.conversations
        if talk.replies and talk.requests[0].words == (CONNECT,)
        for request in talk.requests[1:]
        if request.replied_ns is None and op_of(request) in WRITES
    }
    joined: dict[int, list[Request]] = {}
    for talk in life.conversations:
        first = talk.requests[0] if talk.requests else None
        if first is None or first.words != (CONNECT,) or first.replied_ns is not None:
            continue
        session = greeting(first).session
        if session not in writers:
            talk.requests = []
            if not session:
                joined.setdefault(greeting(first).timeout, []).append(first)
    for requests in joined.values():
        number = max(talk.number for talk in life.conversations) + 1
        requests.sort(key=lambda request: (request.time_ns, request.arrived_ns))
        life.conversations.append(Conversation(number, "", 0, requests, host=life.conversations[0].host))


def _said(talks: Sequence[Conversation]) -> Said:
    return Said(
        (reply.sent_ns, zxid_of(reply.data))
        for talk in talks
        for request, reply in answered(talk)
        if request.words != (CONNECT,) and zxid_of(reply.data) & _COUNTER
    )


def _reply_places(talk: Conversation) -> dict[int, int]:
    """Return the place of each message of a connection, by its identity."""
    kinds = {id(reply): request for request, reply in answered(talk)}
    found: dict[int, int] = {}
    following = LAST
    for reply in reversed(talk.replies):
        request = kinds.get(id(reply))
        if request is not None and request.words != (CONNECT,) and not is_event(reply.data):
            following = place(zxid_of(reply.data), reads=op_of(request) not in WRITES)
        found[id(reply)] = following
    return found


def _put_request(request: Request, reply: Reply | None, everywhere: Said, own: Said) -> None:
    arrived = request.arrived_ns
    if request.words == (CONNECT,):
        asked = greeting(request)
        if asked.session:
            request.time_ns = place(max(0, own.before(arrived), asked.seen), reads=True)
        else:
            request.time_ns = place(max(everywhere.before(arrived) + 1, asked.seen), reads=False)
        return
    if op_of(request) not in WRITES:
        least = place(max(0, own.before(arrived)), reads=True)
        request.time_ns = least if reply is None else max(least, place(zxid_of(reply.data), reads=True))
        return
    least = place(everywhere.before(arrived) + 1, reads=False)
    request.time_ns = least if reply is None else max(least, place(zxid_of(reply.data), reads=False))
