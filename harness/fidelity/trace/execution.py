"""An execution of a simulated server, step by step, which gives the recorded replies.

A request is executed between its arrival and its reply, so concurrent requests may be executed in any order; one
without a reply may have been executed at any time after its arrival, or never.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from harness.protocols.messages import Reply, Request

from .conversation import Conversation, Life
from .specification import Moment, Specification

LATE_NS: Final = 150_000_000
"""A reply that took longer was rather delayed on its way, by a fault of the network, than by a busy machine."""
FOREVER: Final = 1 << 62


class Step(NamedTuple):
    """A step of an execution: ``request``, ``close``, ``pass`` (the server does something without a request) or
    ``start``. ``chosen`` is one of the specification's choices."""

    what: str
    talk: int = 0
    chosen: int = 0


@dataclass(slots=True)
class _Place:
    """How far a connection is: requests executed, messages explained."""

    executed: int = 0
    explained: int = 0
    closed: bool = False

    def copy(self) -> _Place:
        return _Place(self.executed, self.explained, self.closed)


@dataclass(slots=True)
class Furthest:
    """The differences after most explained messages."""

    explained: int = -1
    replies: dict[int, dict[str, None]] = field(default_factory=dict)
    """Simulated replies by connection."""
    reply: Reply | None = None
    """The earliest message that is not explained."""
    talk: Conversation | None = None
    request: Request | None = None


class Differs(Exception):
    """A reply differs from the recorded one."""


class Execution:
    """An execution as far as it has come."""

    def __init__(self, found: Sequence[Life], specification: Specification, furthest: Furthest) -> None:
        self.spec = specification
        self.lives = found
        self.furthest = furthest
        self.life = -1
        self.explained = 0
        self.talks: dict[int, Conversation] = {}
        self.places: dict[int, _Place] = {}
        self.open: list[int] = []
        """The connections on which something is left to do, all of which have a place."""
        self._matters: dict[int, bool] = {}
        """Whether the end of a connection may have an effect."""
        self._now_ns = 0
        """Time at or after which the last step was taken."""
        self._hash = 0
        self._first: tuple[int, int] | None = None
        """Time and connection of the earliest message that is not explained, None if it must be looked for again."""
        self.told_others = False
        """Whether the last step made the server send something on another connection."""

    # Copies.

    def checkpoint(self) -> Any:
        state = self.spec.checkpoint()
        if state is None:
            return None
        places = [(number, self.places[number].copy()) for number in self.open]
        return state, places, self.life, self.explained, self._now_ns, self._hash

    def restore(self, saved: Any) -> None:
        state, places, self.life, self.explained, self._now_ns, self._hash = saved
        self.spec.restore(state)
        self.places = {number: place.copy() for number, place in places}
        self.open = list(self.places)
        self.talks = {talk.number: talk for talk in self.lives[self.life].conversations} if self.life >= 0 else {}
        self._first = None

    # Steps.

    def key(self) -> tuple[Hashable, Hashable]:
        """Return values that are the same for executions with the same future: what is done, and the state."""
        return (self.life, self.explained, self._hash), self.spec.digest()

    @property
    def done(self) -> bool:
        return self.life == len(self.lives) - 1 and self._deadline() == FOREVER

    def _deadline(self) -> int:
        """Return the earliest time of a message that is not explained yet."""
        return self._earliest()[0]

    def _earliest(self) -> tuple[int, int]:
        if self._first is None:
            self._first = self._find_earliest()
        return self._first

    def _find_earliest(self) -> tuple[int, int]:
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
        starts: list[Step] = []
        if deadline == FOREVER:
            if self.life == len(self.lives) - 1:
                return []
            following = self.lives[self.life + 1]
            starts = [Step("start", chosen=chosen) for chosen in self.spec.starts(following)]
            deadline = following.began_ns
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
        passing = [Step("pass", chosen=chosen) for chosen in self.spec.passing(deadline)]
        if starts:
            return starts + passing + unanswered
        if self.spec.waits(self.talks[number]):
            return passing + ordered + unanswered
        return ordered + passing + unanswered

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
        if self._matters_when_closed(talk):
            found.append(((closed, closed), Step("close", talk.number)))

    def apply(self, step: Step) -> None:
        """Take a step; raises :class:`Differs`."""
        self.told_others = False
        if step.what == "start":
            self._start(step.chosen)
        elif step.what == "pass":
            self.spec.let_pass(step.chosen)
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
        self._first = None
        self.spec.start(life, chosen)

    def moment(self, talk: Conversation) -> tuple[Request, Reply | None, Moment]:
        """Return the next request of a connection, its reply, and when it was executed."""
        place = self.places[talk.number]
        request = talk.requests[place.executed]
        deadline = self._deadline()
        if deadline == FOREVER:
            deadline = self.lives[self.life + 1].began_ns
        last = deadline if request.replied_ns is None else request.replied_ns
        reply = talk.replies[place.explained] if place.explained < len(talk.replies) else None
        return request, reply, Moment(request.time_ns, max(last, request.time_ns))

    def _execute(self, talk: Conversation, place: _Place, chosen: int) -> None:
        request, _, moment = self.moment(talk)
        before = place.explained
        place.executed += 1
        self._now_ns = max(self._now_ns, request.time_ns)
        self.spec.execute(talk, request, chosen, moment)
        self._match(talk.number)
        if place.explained == before and request.replied_ns is not None and not self.spec.waits(talk):
            self._note(talk.number, "no reply")
            raise Differs

    def _match(self, own: int = 0) -> None:
        """Compare what the server sent with what was recorded, after a step of the connection ``own``."""
        for number, data in self.spec.sent():
            talk, place = self.talks[number], self.places[number]
            if place.explained >= len(talk.replies):
                continue  # it may have been lost with the connection, or after the end of the recording
            real = talk.replies[place.explained].data
            last = talk.requests[place.executed - 1]
            if real != data and not self.spec.same(last, real, data):
                self._note(number, self.spec.shown_reply(data))
                raise Differs
            place.explained += 1
            self.explained += 1
            self._first = None
            self.told_others |= number != own

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

    def _matters_when_closed(self, talk: Conversation) -> bool:
        if talk.number not in self._matters:
            self._matters[talk.number] = self.spec.matters_when_closed(talk)
        return self._matters[talk.number]

    def _finished(self, number: int) -> bool:
        talk, place = self.talks[number], self.places[number]
        if place.explained < len(talk.replies):
            return False
        if place.closed:
            return True
        return (
            place.executed == len(talk.requests)
            and talk.closed_ns is not None
            and not self._matters_when_closed(talk)
            and not self.spec.waits(talk)
        )
