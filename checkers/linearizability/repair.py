"""Guess an order of the calls on a lock, and repair it where the model refuses it.

Calls of unknown outcome make the search expensive, although each of them concerns only a few calls around it. So before
the search, :func:`decide` walks through a guessed order of the known calls, and the model judges each step. If a step
is impossible, it tries

1. to put one unknown call in front of it, or two;
2. to order the calls around it anew by a search, with unknown calls, from the state before them;
3. to prove the history wrong by a small part around it (:mod:`.parts`);

and then 2 and 3 again with twice as many calls.

**An order that is found is right.** Every step of it is one that the model allows. Each known call has a *point* in its
window. The pieces that are ordered anew follow each other in the order of the points, and the search respects the
windows inside a piece. So whatever comes before a call was invoked before the call returns: a known call of an earlier
piece has an earlier point, and an unknown call is used in a piece only if it was invoked before the last point of it.

**The cost.** A history takes linear time if its unknown calls are needed in few places, or if two are enough in each.
In general the question is NP-complete (docs/concepts/algorithms.md). So pieces and parts have a largest size, and
searches in them a largest number of configurations. A history that is not decided so is left to the search.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from time import monotonic
from typing import Any, Final

import numpy as np

from harness.checkers.models import ACQUIRE, OWNED, RELEASE, Either, FifoLock, Inconsistent, Model, Operation

from .parts import Parts, equal_unknown_calls
from .problem import MUST, Budget, KeyProblem, SearchAnswer
from .search import Effort, Searcher

REPAIRABLE: Final = (*OWNED, FifoLock)
"""The models whose orders can be guessed. A derived class may change the meaning of its model."""
NARROW: Final = 4
WIDE: Final = 256
"""The smallest and the largest number of calls before an impossible one that are ordered anew."""
SPARE: Final = 3
"""The most equal unknown calls that a piece may use. They are calls of the clients in the middle of the piece, since
each further one may double the work."""
CONFIGURATIONS: Final = 3_000
"""The most configurations of the search in one piece or part."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Result of a repair: ``order`` has all known calls of the problem and the unknown ones that it uses, or ``wrong``
    is a part that has no order, with the answer of the search. If both are None, the problem is not decided."""

    order: tuple[int, ...] | None = None
    wrong: tuple[KeyProblem, SearchAnswer] | None = None


def decide(problem: KeyProblem, model: Model, budget: Budget, effort: Effort | None = None) -> Decision:
    """Guess an order of ``problem``, whose model is one of ``REPAIRABLE``, and repair it within ``budget``.

    What is found out does not depend on the machine if the budget limits only the configurations.
    """
    return _Walk(problem, model, budget, effort or Effort()).decision()


def decided(
    problem: KeyProblem, model: Model, budget: Budget, effort: Effort | None = None
) -> tuple[KeyProblem, SearchAnswer]:
    """Decide ``problem`` by :func:`decide` if its model can be guessed, and else, or if that fails, by a search.

    Returns the part that the answer is about, which is all of ``problem`` unless a smaller one is wrong.
    """
    effort = effort or Effort()
    end = monotonic() + budget.seconds
    if type(model) in REPAIRABLE:
        found = decide(problem, model, budget, effort)
        if found.order is not None:
            return problem, SearchAnswer(True, found.order)
        if found.wrong is not None:
            return found.wrong
    limits = replace(budget, seconds=max(0.0, end - monotonic()))
    return problem, Searcher(model, problem.operations, effort).search(problem, limits)


class _Since(Model):
    """A model that begins in a given state."""

    def __init__(self, model: Model, state: Hashable) -> None:
        self._model, self._state = model, state

    @property
    def initial(self) -> Hashable:
        return self._state

    def step(self, state: Any, operation: Operation) -> Hashable | Inconsistent | Either:
        return self._model.step(state, operation)


class _Walk:
    """A walk through the guessed order. ``done`` are the calls that have a place, ``states`` the states before the last
    ones of them, ``left`` the calls that have none yet, the next one last, and ``used`` the unknown calls in
    ``done``."""

    def __init__(self, problem: KeyProblem, model: Model, budget: Budget, effort: Effort) -> None:
        self.problem, self.model, self.effort = problem, model, effort
        self.end = monotonic() + budget.seconds
        self.budget, self.tried = budget, 0
        self.must: list[bool] = (problem.kind == MUST).tolist()
        self.invoked: list[int] = problem.invoked.tolist()
        self.operation: list[int] = problem.operation.tolist()
        self.client = [problem.operations[number].client for number in self.operation]
        self.point = _points(problem)
        guessed = np.flatnonzero(problem.kind == MUST).tolist()
        turn: dict[int, int] = {}
        if isinstance(model, FifoLock):
            queue = _Queue(problem, self.point)
            guessed, turn = guessed + queue.assumed, queue.place
        self.left: list[int] = sorted(guessed, key=lambda call: (self.point[call], turn.get(call, call)))[::-1]
        self.unknown = equal_unknown_calls(problem)
        self.parts: Parts | None = None
        self.used: set[int] = set()
        self.done: list[int] = []
        self.states: deque[Hashable] = deque(maxlen=2 * WIDE)
        self.state: Hashable = model.initial

    def decision(self) -> Decision:
        while self.left:
            call = self.left[-1]
            if call in self.used or self._take(call) or self._take_after_unknown_calls(call) or not self.must[call]:
                self.left.pop()
                continue
            failed = self._order_anew()
            if failed is not None:
                return failed
        return Decision(tuple(self.done))

    def _after(self, state: Hashable, call: int) -> Hashable | Inconsistent | Either:
        return self.model.step(state, self.problem.operations[self.operation[call]])

    def _take(self, call: int) -> bool:
        after = self._after(self.state, call)
        if isinstance(after, Inconsistent | Either):
            return False
        self._put(call, after)
        return True

    def _put(self, call: int, after: Hashable) -> None:
        if not self.must[call]:
            self.used.add(call)
        self.done.append(call)
        self.states.append(self.state)
        self.state = after

    def _take_after_unknown_calls(self, call: int) -> bool:
        """Take a call after one unknown call that makes it possible, else after two, such as a release of the holder
        and an acquire of the client."""
        spare = self._spare(self.point[call])
        between = [(one, self._after(self.state, one)) for one in spare]
        possible = [(one, state) for one, state in between if not isinstance(state, Inconsistent | Either)]
        for one, state in possible:
            if self._is_possible(state, call):
                return self._take(one) and self._take(call)
        for one, state in possible:
            for other in spare:
                then = self._after(state, other)
                if other != one and not isinstance(then, Inconsistent | Either) and self._is_possible(then, call):
                    return self._take(one) and self._take(other) and self._take(call)
        return False

    def _spare(self, before: int) -> list[int]:
        """Return the first unused one of equal unknown calls, of those invoked before this entry."""
        first = (next((one for one in calls if one not in self.used), None) for calls in self.unknown)
        return [one for one in first if one is not None and self.invoked[one] < before]

    def _is_possible(self, state: Hashable, call: int) -> bool:
        return not isinstance(self._after(state, call), Inconsistent | Either)

    def _order_anew(self) -> Decision | None:
        """Order the calls around the next one anew; return what is known if that fails."""
        later = tuple(one for one in reversed(self.left[-WIDE:]) if self.must[one])
        earlier = tuple(one for one in reversed(self.done[-WIDE:]) if self.must[one])
        self.parts = self.parts or Parts(self.problem, self.model)
        width = NARROW
        while width <= WIDE:
            if self._reorder(width):
                return None
            for part in self.parts.near(later, earlier, width // NARROW):
                if self._is_over():
                    return Decision()
                answer = self._search(part, self.model)
                if answer.valid is False:
                    return Decision(wrong=(part, answer))
            width *= 2
        return Decision()

    def _reorder(self, width: int) -> bool:
        """Order the last ``width`` calls and some of the next ones anew, with unknown calls; False if they have no
        order."""
        back, ahead = min(width, len(self.states)), 1 + width // NARROW
        begin = len(self.done) - back
        state = self.states[-back] if back else self.state
        known = [call for call in self.done[begin:] + self.left[-ahead:] if self.must[call]]
        used = self.used.difference(self.done[begin:])
        near = {self.client[call] for call in self.done[-width // NARROW :] + self.left[-ahead:]}
        end = max(self.point[call] for call in known)
        piece = sorted({*known, *self.used.difference(used), *self._unused(near, used, end)})
        answer = self._search(self.problem.pick(np.array(piece)), _Since(self.model, state))
        if not answer.valid:
            return False
        self.used = used
        del self.done[begin:], self.left[-ahead:]
        for _ in range(back):
            self.states.pop()
        self.state = state
        for number, after in zip(answer.order, answer.states, strict=True):
            self._put(piece[number], after)
        return True

    def _unused(self, clients: set[str], used: set[int], end: int) -> Iterator[int]:
        """Yield unknown calls of these clients that are not used and were invoked before ``end``."""
        for calls in self.unknown:
            if self.client[calls[0]] in clients:
                first = islice((call for call in calls if call not in used), SPARE)
                yield from (call for call in first if self.invoked[call] < end)

    def _search(self, part: KeyProblem, model: Model) -> SearchAnswer:
        """Search in a part, whose operations are numbered anew, since few of those of the whole occur in it."""
        which, numbers = np.unique(part.operation, return_inverse=True)
        operations = tuple(part.operations[number] for number in which.tolist())
        part = replace(part, operation=numbers.reshape(-1).astype(np.int32), operations=operations)
        left = min(CONFIGURATIONS, self.budget.configurations - self.tried)
        limits = replace(self.budget, seconds=self.end - monotonic(), configurations=max(1, left))
        answer = Searcher(model, operations, self.effort).search(part, limits)
        self.tried += answer.tried
        return answer

    def _is_over(self) -> bool:
        return self.tried >= self.budget.configurations or monotonic() > self.end or self.budget.stop.is_set()


def _points(problem: KeyProblem) -> list[int]:
    """Guess the entry at which each known call takes effect, in its window: an acquire and a report that a lease is
    lost as late as possible, everything else as early as possible."""
    late = [
        one.f in ACQUIRE or one.f.startswith("acquire") or (one.result or {}).get("good") is False
        if one.known
        else False
        for one in problem.operations
    ]
    points: list[int] = np.where(np.array(late)[problem.operation], problem.returned, problem.invoked).tolist()
    return points


class _Queue:
    """A guess of the order in a queue: clients join it in the order in which they were granted the lock.

    A client whose acquire has an unknown outcome was granted the lock if it released it afterwards. ``turn`` orders
    calls at the same point, and ``assumed`` are the unknown calls that happened if the guess is right.
    """

    def __init__(self, problem: KeyProblem, points: list[int]) -> None:
        self.problem, self.points = problem, points
        self.place: dict[int, int] = {}
        self.assumed: list[int] = []
        self._waiting: dict[str, int] = {}
        self._requested: dict[str, int] = {}
        self._joined: list[tuple[int, int]] = []
        for call, number in enumerate(problem.operation.tolist()):
            self._read(call, problem.operations[number])
        self._line_up()

    def _read(self, call: int, one: Operation) -> None:
        known, me = self.problem.kind[call] == MUST, one.client
        if one.f == "enqueue":
            self._waiting[me] = call
            self.points[call] = int(self.problem.returned[call]) if known else self.points[call]
        elif one.f in ACQUIRE and known:
            if me in self._waiting:
                self._joined.append((self.points[call], self._waiting.pop(me)))
        elif one.f in ACQUIRE:
            self._requested[me] = call
        elif one.f in RELEASE and me in self._waiting and me in self._requested:
            grant = self._requested.pop(me)
            self.points[grant], self.place[grant] = self.points[call], -1
            self.assumed.append(grant)
            self._joined.append((self.points[call], self._waiting.pop(me)))
        elif one.f == "cancel":
            self._waiting.pop(me, None)

    def _line_up(self) -> None:
        latest = 0
        for number, (_, call) in enumerate(sorted(self._joined)):
            latest = max(latest, int(self.problem.invoked[call]))
            self.points[call], self.place[call] = min(latest, int(self.problem.returned[call])), number
            if self.problem.kind[call] != MUST:
                self.assumed.append(call)
