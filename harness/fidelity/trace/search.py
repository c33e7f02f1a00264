"""Search for an execution of a simulated server that gives all replies which a real one has given.

A request is executed between its arrival and its reply, so concurrent requests may be executed in any order; one
without a reply may have been executed at any time after its arrival, or never. The search goes forward depth first and
back when a reply differs. It tries no state twice in which the same requests are done (Lowe, "Testing for
linearizability", 2017), so that requests that do not affect each other cost no more in several orders than in one.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol

from .conversation import Conversation, Life, Reply, Request

CHECKPOINT: Final = 25
"""Steps between two copies of the state, from which an earlier state is computed."""
LATE_NS: Final = 150_000_000
"""A reply that took longer was rather delayed on its way, by a fault of the network, than by a busy machine."""
MOST_STEPS: Final = 400_000
MOST_SECONDS: Final = 60.0
"""Bounds of a search."""
FOREVER: Final = 1 << 62


class Moment(NamedTuple):
    """Interval of monotonic time in which a request was executed, ns."""

    first_ns: int
    last_ns: int


class Specification(Protocol):
    """A simulated server as a search drives it."""

    def starts(self, life: Life) -> Sequence[int]:
        """Return what the recording leaves open about a start, the likeliest first, one for each possibility."""

    def start(self, life: Life, chosen: int) -> None:
        """Start the server, after it was killed if it ran before."""

    def choices(self, request: Request, reply: Reply | None, moment: Moment) -> Sequence[int]:
        """Return the readings of the server's clock with which the request may be executed, the likeliest first. None
        is 0."""

    def execute(self, talk: Conversation, request: Request, chosen: int, moment: Moment) -> None: ...

    def due(self, before_ns: int) -> bool:
        """Return whether time alone may make the server send something before this time."""

    def let_time_pass(self, until_ns: int) -> None: ...

    def close(self, talk: Conversation) -> None:
        """Close a connection."""

    def sent(self) -> list[tuple[int, bytes]]:
        """Return what the server sent since the last call: connection and message."""

    def waits(self, talk: Conversation) -> bool:
        """Return whether the server does not read from this connection until it has sent its reply."""

    def same(self, request: Request, real: bytes, simulated: bytes) -> bool:
        """Return whether two replies to a request are equal, but for what no specification says."""

    def shown(self, data: bytes) -> str:
        """Return a request or a reply as text."""

    def digest(self) -> Hashable:
        """Return a value that differs for states in which the server may answer differently to any other connection
        than the one that sent the last request."""

    def checkpoint(self) -> Any:
        """Return a copy of the state for :meth:`restore`, None if there can be none at the moment."""

    def restore(self, state: Any) -> None: ...

    def prompt(self, request: Request) -> bool:
        """Return whether the request is executed when it arrives, though its reply may come much later."""

    def matters_when_closed(self, talk: Conversation) -> bool:
        """Return whether the end of this connection may have an effect."""


class Step(NamedTuple):
    """A step of an execution: ``request``, ``close``, ``time`` or ``start``. ``chosen`` is one of the specification's
    choices, or the time until which time passes."""

    what: str
    talk: int = 0
    chosen: int = 0


@dataclass(slots=True)
class Unexplained:
    """The first reply that no execution gives. ``possible`` are the replies of the executions that come so far."""

    request: str
    connection: int
    peer: str
    time_ns: int
    real: str
    possible: tuple[str, ...]


@dataclass(slots=True)
class SearchResult:
    """``explained`` is None if a bound of the search was reached. ``requests`` counts those with a reply."""

    explained: bool | None
    requests: int = 0
    steps: int = 0
    unexplained: Unexplained | None = None


@dataclass(slots=True)
class _Place:
    """How far a connection is: requests executed, messages explained; ``done`` if nothing is left to do on it."""

    executed: int = 0
    explained: int = 0
    closed: bool = False


@dataclass(slots=True)
class _Furthest:
    """The differences after most explained messages."""

    explained: int = -1
    replies: dict[int, dict[str, None]] = field(default_factory=dict)
    """Simulated replies by connection."""
    reply: Reply | None = None
    """The earliest message that is not explained."""
    talk: Conversation | None = None
    request: Request | None = None


class _Differs(Exception):
    """A reply differs from the recorded one."""


class Execution:
    """An execution as far as it has come."""

    def __init__(self, found: Sequence[Life], specification: Specification, furthest: _Furthest) -> None:
        self.spec = specification
        self.lives = found
        self.furthest = furthest
        self.life = -1
        self.explained = 0
        self.talks: dict[int, Conversation] = {}
        self.places: dict[int, _Place] = {}
        self.open: list[int] = []
        self._now_ns = 0
        """Time at or after which the last step was taken."""
        self._hash = 0

    # Copies.

    def checkpoint(self) -> Any:
        state = self.spec.checkpoint()
        if state is None:
            return None
        places = {number: _Place(p.executed, p.explained, p.closed) for number, p in self.places.items()}
        return state, places, list(self.open), self.life, self.explained, self._now_ns, self._hash

    def restore(self, saved: Any) -> None:
        state, places, opened, self.life, self.explained, self._now_ns, self._hash = saved
        self.spec.restore(state)
        self.places = {number: _Place(p.executed, p.explained, p.closed) for number, p in places.items()}
        self.open = list(opened)
        self.talks = {talk.number: talk for talk in self.lives[self.life].conversations} if self.life >= 0 else {}

    # Steps.

    def key(self) -> tuple[Hashable, Hashable]:
        """Return values that are the same for executions with the same future: what is done, and the state."""
        return (self.life, self._hash), self.spec.digest()

    @property
    def done(self) -> bool:
        return self.life == len(self.lives) - 1 and self._deadline() == FOREVER

    def _deadline(self) -> int:
        """Return the earliest time of a message that is not explained yet."""
        return self._earliest()[0]

    def _earliest(self) -> tuple[int, int]:
        first, which = FOREVER, 0
        for number in self.open:
            talk = self.talks[number]
            if talk.opened_ns > first:
                break
            place = self.places[number]
            if place.explained < len(talk.replies) and talk.replies[place.explained].time_ns < first:
                first, which = talk.replies[place.explained].time_ns, number
        return first, which

    def steps(self) -> list[Step]:
        """Return the steps that are possible now, the likeliest first."""
        deadline, number = self._earliest()
        if deadline == FOREVER:
            if self.life == len(self.lives) - 1:
                return []
            return [Step("start", chosen=chosen) for chosen in self.spec.starts(self.lives[self.life + 1])]
        found: list[tuple[tuple[int, int], Step]] = []
        unanswered: list[Step] = []
        for one in self.open:
            talk = self.talks[one]
            if talk.opened_ns > deadline:
                break
            place = self.places[one]
            if not place.closed and not self.spec.waits(talk):
                self._add_steps(talk, place, deadline, found, unanswered)
        ordered = [step for _, step in sorted(found)]
        if self.spec.due(deadline):
            passing = Step("time", chosen=deadline)
            ordered.insert(0 if self.spec.waits(self.talks[number]) else len(ordered), passing)
        return ordered + unanswered

    def _add_steps(
        self,
        talk: Conversation,
        place: _Place,
        deadline: int,
        found: list[tuple[tuple[int, int], Step]],
        unanswered: list[Step],
    ) -> None:
        request = talk.requests[place.executed] if place.executed < len(talk.requests) else None
        if request is not None and request.time_ns <= deadline:
            step = Step("request", talk.number)
            if request.replied_ns is None:
                if talk.ended_ns is None or talk.ended_ns > self._now_ns:
                    unanswered.append(step)
            else:
                late = request.replied_ns - request.time_ns > LATE_NS and not self.spec.prompt(request)
                found.append(((request.replied_ns if late else request.time_ns, request.arrived_ns), step))
        closed = talk.closed_ns
        if closed is None or closed > deadline or (request is not None and request.replied_ns is not None):
            return
        if self.spec.matters_when_closed(talk):
            found.append(((closed, closed), Step("close", talk.number)))

    def apply(self, step: Step) -> None:
        """Take a step; raises :class:`_Differs`."""
        if step.what == "start":
            self._start(step.chosen)
        elif step.what == "time":
            self.spec.let_time_pass(step.chosen)
            self._match()
        else:
            talk, place = self.talks[step.talk], self.places[step.talk]
            self._hash ^= hash((step.talk, place.executed, place.closed))
            if step.what == "close":
                place.closed = True
                self.spec.close(talk)
                self._match()
            else:
                self._execute(talk, place, step.chosen)
            self._hash ^= hash((step.talk, place.executed, place.closed))
        self._drop_finished()

    def _start(self, chosen: int) -> None:
        self.life += 1
        life = self.lives[self.life]
        self.talks = {talk.number: talk for talk in life.conversations}
        self.places = {number: _Place() for number in self.talks}
        self.open = [talk.number for talk in life.conversations if talk.requests or talk.replies]
        self.spec.start(life, chosen)

    def moment(self, talk: Conversation) -> tuple[Request, Reply | None, Moment]:
        """Return the next request of a connection, its reply, and when it was executed."""
        place = self.places[talk.number]
        request = talk.requests[place.executed]
        deadline = self._deadline()
        last = deadline if request.replied_ns is None else request.replied_ns
        reply = talk.replies[place.explained] if place.explained < len(talk.replies) else None
        return request, reply, Moment(request.time_ns, max(last, request.time_ns))

    def _execute(self, talk: Conversation, place: _Place, chosen: int) -> None:
        request, _, moment = self.moment(talk)
        before = place.explained
        place.executed += 1
        self._now_ns = max(self._now_ns, request.time_ns)
        self.spec.execute(talk, request, chosen, moment)
        self._match()
        if place.explained == before and request.replied_ns is not None and not self.spec.waits(talk):
            self._note(talk.number, "no reply")
            raise _Differs

    def _match(self) -> None:
        """Compare what the server sent with what was recorded."""
        for number, data in self.spec.sent():
            talk, place = self.talks[number], self.places[number]
            if place.explained >= len(talk.replies):
                continue  # it may have been lost with the connection, or after the end of the recording
            real = talk.replies[place.explained].data
            last = talk.requests[place.executed - 1]
            if real != data and not self.spec.same(last, real, data):
                self._note(number, self.spec.shown(data))
                raise _Differs
            place.explained += 1
            self.explained += 1

    def note_end(self) -> None:
        """Note that no step is possible although a message is not explained."""
        self._note(0, "")

    def _note(self, number: int, simulated: str) -> None:
        """Note what the server would send on a connection instead of the recorded message."""
        furthest = self.furthest
        if self.explained < furthest.explained:
            return
        if self.explained > furthest.explained:
            _, first = self._earliest()
            talk, place = self.talks[first], self.places[first]
            replied = [one for one in talk.requests if one.replied_ns is not None]
            executed = place.executed - (first == number or self.spec.waits(talk))
            furthest.explained, furthest.replies = self.explained, {}
            furthest.talk, furthest.reply = talk, talk.replies[place.explained]
            furthest.request = replied[min(executed, len(replied) - 1)] if replied else None
        furthest.replies.setdefault(number, {})[simulated] = None

    def _drop_finished(self) -> None:
        """Forget the connections on which nothing is left to do."""
        for number in [one for one in self.open[:40] if self._finished(one)]:
            self.open.remove(number)
            self.spec.close(self.talks[number])
            self.spec.sent()

    def _finished(self, number: int) -> bool:
        talk, place = self.talks[number], self.places[number]
        if place.explained < len(talk.replies):
            return False
        if place.closed:
            return True
        return (
            place.executed == len(talk.requests)
            and talk.closed_ns is not None
            and not self.spec.matters_when_closed(talk)
            and not self.spec.waits(talk)
        )


class _Node:
    """The steps that are left to try after a prefix of an execution, and a copy of its state or None."""

    __slots__ = ("digest", "saved", "steps")

    def __init__(self, steps: list[Step], saved: Any, digest: Hashable) -> None:
        self.steps = steps
        self.saved = saved
        self.digest = digest


def explain(
    found: Sequence[Life],
    specification: Specification,
    *,
    most_steps: int = MOST_STEPS,
    most_seconds: float = MOST_SECONDS,
) -> SearchResult:
    """Return whether an execution of the simulated server gives all recorded replies."""
    requests = sum(one.replied_ns is not None for life in found for talk in life.conversations for one in talk.requests)
    search = _Search(Execution(found, specification, _Furthest()))
    explained = search.run(most_steps, time.monotonic() + most_seconds)
    unexplained = None if explained else search.first_difference()
    return SearchResult(explained, requests, search.taken, unexplained)


class _Search:
    def __init__(self, execution: Execution) -> None:
        self._now = execution
        self._path: list[Step] = []
        self._nodes = [_Node(execution.steps(), execution.checkpoint(), None)]
        self._seen: set[Hashable] = set()
        self._stale = False
        self._saved = 0
        """Length of the path at the last checkpoint."""
        self.taken = 0

    def run(self, most_steps: int, deadline: float) -> bool | None:
        while not self._now.done or self._stale:
            if self.taken >= most_steps or (self.taken % 256 == 0 and time.monotonic() > deadline):
                return None
            node = self._nodes[-1]
            if not node.steps:
                self._nodes.pop()
                if not self._nodes:
                    return False
                self._path.pop()
                self._stale = True
                continue
            self._take(node)
        return True

    def _take(self, node: _Node) -> None:
        if self._stale:
            self._go_back()
        step = node.steps.pop(0)
        if step.what == "request" and not step.chosen:
            step, *others = self._dated(step)
            node.steps[:0] = others
        self.taken += 1
        try:
            self._now.apply(step)
        except _Differs:
            self._stale = True
            return
        key = self._now.key()
        if key in self._seen:
            self._stale = True
            return
        self._seen.add(key)
        if key[1] == node.digest and step.what == "request":
            node.steps.clear()
        self._path.append(step)
        saved = self._now.checkpoint() if len(self._path) - self._saved >= CHECKPOINT else None
        if saved is not None:
            self._saved = len(self._path)
        steps = self._now.steps()
        if not steps and not self._now.done:
            self._now.note_end()
        self._nodes.append(_Node(steps, saved, key[1]))

    def _dated(self, step: Step) -> list[Step]:
        request, reply, moment = self._now.moment(self._now.talks[step.talk])
        return [step._replace(chosen=chosen) for chosen in self._now.spec.choices(request, reply, moment)]

    def _go_back(self) -> None:
        """Compute the state after the steps of the path."""
        start = max(index for index, node in enumerate(self._nodes) if node.saved is not None)
        self._now.restore(self._nodes[start].saved)
        for step in self._path[start:]:
            self._now.apply(step)
        self._stale, self._saved = False, start

    def first_difference(self) -> Unexplained | None:
        """Return the earliest message that is not explained by the executions that come furthest."""
        furthest, shown = self._now.furthest, self._now.spec.shown
        talk, reply, request = furthest.talk, furthest.reply, furthest.request
        if talk is None or reply is None:
            return None
        return Unexplained(
            request="" if request is None else shown(request.data),
            connection=talk.number,
            peer=talk.peer,
            time_ns=reply.time_ns,
            real=shown(reply.data),
            possible=tuple(furthest.replies.get(talk.number, ())),
        )
