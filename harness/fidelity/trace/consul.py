"""The simulated Consul as the specification of a recorded server.

A search lets a session end, once it may not have been renewed for twice its TTL, and a blocking query be answered, once
the key has changed or its wait is over. Indexes have the order of the real ones, not their values.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from harness.protocols.consul import Answer, ConsulParser, packed, unpacked
from harness.protocols.messages import Reply, Request
from harness.sim.servers.consul.api import DEFAULT_WAIT_NS, MOST_WAIT_NS, BlockingQuery
from harness.sim.servers.consul.values import parse_duration
from harness.sim.servers.http import HttpRequest

from .consul_state import ConsulState, ignore
from .conversation import Conversation, Life, answered
from .service import Service
from .specification import Moment, Specification

_INDEX: Final = re.compile(r"(?<=[?&])(index|cas)=(\d+)")
_INDEXES: Final = frozenset({"CreateIndex", "ModifyIndex"})
_PROCESS: Final = ("/v1/status/", "/v1/agent/", "/v1/health/", "/v1/catalog/", "/v1/kv/?")
"""Beginnings of targets about the process, whose replies are not compared."""
_LACKS: Final = 501
NO_LEADER: Final = "No cluster leader"
EARLY_NS: Final = 5_000_000
"""Time by which a real time-out may be early."""
_TIMES: Final = 16
"""Bits of a choice beside the time before which a session has ended."""
FREE, DELAYED, REFUSED = 1, 2, 3
"""Choices of a request: no lock-delay is in effect, one is, or the server has no leader yet."""


class ConsulSpecification(Specification):
    """How a search drives the simulated Consul."""

    def __init__(self, found: Sequence[Life]) -> None:
        talks = [talk for life in found for talk in life.conversations]
        self._replies = {id(request): reply for talk in talks for request, reply in answered(talk)}
        self._created = dict(_sessions(reply for talk in talks for reply in talk.replies))
        """Index at which each session was created, of those that a reply shows."""
        self._state = ConsulState("")
        self._sent: list[tuple[int, bytes]] = []
        self._leads = False
        """Whether the server has become leader in this life."""
        self._lacks = False

    @property
    def undecided(self) -> str:
        return "the simulated server lacks a request" if self._lacks else ""

    # Driving the server.

    def start(self, life: Life, chosen: int) -> None:  # noqa: ARG002
        self._leads = False
        if life.how == "kept":
            self._state.restart(life.began_ns)
        else:
            self._state = ConsulState(life.conversations[0].host if life.conversations else "")

    def choices(self, request: Request, reply: Reply | None, moment: Moment) -> Sequence[int]:
        if reply is not None and NO_LEADER in str(unpacked(reply.data).body):
            return () if self._leads else (REFUSED,)
        created = self._created.get(_new_session(reply))
        if created is not None and not self._state.indexes.may_be(self._state.store.index + 1, created):
            return ()
        key = _acquired(request)
        return [DELAYED if one else FREE for one in self._state.delay(key, moment)] if key else (FREE,)

    def execute(self, talk: Conversation, request: Request, chosen: int, moment: Moment) -> None:
        reply = self._replies.get(id(request))
        if chosen == REFUSED and reply is not None:
            self._sent.append((talk.number, reply.data))
            return
        state = self._state
        self._leads |= not _is_about_process(request)
        state.created = _new_session(reply) or f"{talk.number}-{moment.first_ns}"
        state.delayed_now = chosen == DELAYED
        asked = _translated(request, state)
        result = state.execute(asked, moment)
        if isinstance(result, BlockingQuery):
            result.answer = ignore
            fields = asked.query()
            wait_ns = min(parse_duration(fields.get("wait", "0")) or DEFAULT_WAIT_NS, MOST_WAIT_NS)
            state.queries[talk.number] = result, int(fields["index"]), request.time_ns + wait_ns
        else:
            self._send(talk.number, *result)
        if state.created in self._created:
            state.indexes.fit(state.store.sessions[state.created].index, self._created[state.created])

    def _send(self, number: int, status: int, body: Any, index: int | None) -> None:
        self._sent.append((number, packed(Answer(status, index, "" if body is None else body))))

    def passing(self, before_ns: int) -> Sequence[int]:
        """Return the queries that may be answered, and the sessions that may end, with the time before which they do:
        an even and an odd number of its conversation, or its place."""
        return [*self._queries(before_ns), *self._expiries(before_ns)]

    def _queries(self, before_ns: int) -> Iterator[int]:
        for number, (query, index, until_ns) in self._state.queries.items():
            _, _, now = query.result()
            if (now is not None and now > index) or before_ns >= until_ns - EARLY_NS:
                yield number << 1

    def _expiries(self, before_ns: int) -> Iterator[int]:
        for place, (name, session) in enumerate(self._state.store.sessions.items()):
            if session.ttl_ns and before_ns >= self._state.expires_ns(name) - EARLY_NS:
                yield before_ns << _TIMES | place << 1 | 1

    def let_pass(self, chosen: int) -> None:
        state = self._state
        if chosen & 1:
            place = (chosen & ((1 << _TIMES) - 1)) >> 1
            state.expire(list(state.store.sessions)[place], chosen >> _TIMES)
        else:
            query, _, _ = state.queries.pop(chosen >> 1)
            self._send(chosen >> 1, *query.result())

    def close(self, talk: Conversation) -> None:
        self._state.queries.pop(talk.number, None)

    def sent(self) -> list[tuple[int, bytes]]:
        found, self._sent = self._sent, []
        return found

    def waits(self, talk: Conversation) -> bool:
        return talk.number in self._state.queries

    def prompt(self, request: Request) -> bool:
        return b"index=" in request.words[1]  # others wait in the server only until it has become leader

    # Comparing.

    def same(self, request: Request, real: bytes, simulated: bytes) -> bool:
        one, other = unpacked(real), unpacked(simulated)
        if other.status == _LACKS:
            self._lacks |= request.words[0] != b"GET"
            return True
        if _is_about_process(request):
            return one.status == other.status
        indexes: list[tuple[Any, Any]] = [(other.change, one.change)]
        same = one.status == other.status and _fit(one.body, other.body, indexes)
        return same and all(
            (left is None and right is None) or (left and right and self._state.indexes.fit(left, right))
            for left, right in indexes
        )

    def shown_request(self, request: Request) -> str:
        return b" ".join(request.words).decode(errors="replace").rstrip()

    def shown_reply(self, data: bytes) -> str:
        return data.decode()

    def digest(self) -> Hashable:
        state = self._state
        keys = [
            (key, entry.holds(), state.indexes.real(entry.create_index), state.indexes.real(entry.modify_index))
            for key, entry in state.store.keys.items()
        ]
        sessions = frozenset((name, state.indexes.real(one.index)) for name, one in state.store.sessions.items())
        return frozenset(keys), sessions, tuple(state.delays.items()), self._leads

    # Copies.

    def checkpoint(self) -> Any:
        return pickle.dumps((self._state, self._leads))

    def restore(self, state: Any) -> None:
        self._state, self._leads = pickle.loads(state)
        self._sent = []


def _new_session(reply: Reply | None) -> str:
    """Return the id of the session that a request created, "" if it created none or has no reply."""
    body = None if reply is None else unpacked(reply.data).body
    return str(body.get("ID", "")) if isinstance(body, dict) else ""


def _sessions(replies: Iterable[Reply]) -> Iterator[tuple[str, int]]:
    """Yield the sessions that replies show, with the index at which they were created."""
    for reply in replies:
        body = unpacked(reply.data).body
        for one in body if isinstance(body, list) else ():
            if isinstance(one, dict) and "ID" in one and "CreateIndex" in one:
                yield one["ID"], one["CreateIndex"]


def _is_about_process(request: Request) -> bool:
    return request.words[1].decode(errors="replace").startswith(_PROCESS)


def _acquired(request: Request) -> str:
    """Return the key that a request wants to acquire, "" if it is another request."""
    parts = urlsplit(request.words[1].decode(errors="replace"))
    return unquote(parts.path).removeprefix("/v1/kv/") if "acquire=" in parts.query else ""


def _translated(request: Request, state: ConsulState) -> HttpRequest:
    """Return a request with indexes of the simulated server."""
    method, target, body = request.words

    def translate(found: re.Match[str]) -> str:
        return f"{found[1]}={int(found[2]) and state.indexes.simulated(int(found[2]))}"

    return HttpRequest(method.decode(), _INDEX.sub(translate, target.decode(errors="replace")), body)


def _fit(real: Any, simulated: Any, indexes: list[tuple[Any, Any]]) -> bool:
    """Return whether two bodies are equal but for their indexes, which are added to the list."""
    if isinstance(real, list) and isinstance(simulated, list):
        return len(real) == len(simulated) and all(
            _fit(one, other, indexes) for one, other in zip(real, simulated, strict=True)
        )
    if isinstance(real, dict) and isinstance(simulated, dict):
        indexes += [
            (simulated.get(name), real.get(name)) for name in sorted(_INDEXES & (real.keys() | simulated.keys()))
        ]
        rest = real.keys() - _INDEXES
        return rest == simulated.keys() - _INDEXES and all(real[name] == simulated[name] for name in rest)
    return bool(real == simulated)


SERVICE: Final = Service(
    ConsulParser,
    lambda found, clocks, options: ConsulSpecification(found),  # noqa: ARG005
    lambda recording, found, options: None,  # noqa: ARG005
)
