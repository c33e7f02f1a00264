"""The general search: any model, any history of one key. It is exact; only its budget can end it without an answer.

*What is searched.* Returns are passed in their order (just-in-time linearization: G. Lowe, "Testing for
linearizability", 2017, after J. Wing and C. Gong, "Testing and verifying concurrent objects", 1993). A configuration is
the number of returns passed, the model's state, and which of the pending calls (invoked before the next return, not
returned yet) are linearized. A move linearizes a pending call that the model allows; once the call that returns next is
linearized its return is passed, and the next calls are pending. A LOOSE call may also return without. This is complete:
in a valid order, let each call take effect as late as its own and the later ones' returns allow; then each takes effect
right before some return, when all that were invoked by then are pending, and whatever comes before it has taken its
place. MUST calls that have returned are linearized and LOOSE ones no candidates, so that pending ones are all there is
to remember. The moves from a configuration that end with all returns passed are its *completion*. A call may change
places with a neighbour in a completion, or take another one's, if its window allows it: what is linearized from now on
has not returned yet, so a pending call may come first.

*What is left out*, each with the reason why what has a completion keeps one, no longer than before:

(a) A pending MUST call whose operation never changes any state, and is possible now, is linearized at once, without an
    alternative: take it out of the completion and put it first; the states stay what they were. That it changes nothing
    *now* is not enough (a write of the value that is there may be needed later, after another one), so this is done
    only where the whole table is known.
(b) A MAY or LOOSE call that would not change the state is not linearized: leave it out of the completion.
(c) Of pending calls a and b of the same operation, a returning first (MAY calls never; of them the one invoked first),
    b is not linearized while a is pending, unless a is LOOSE and b MUST. If a comes later in the completion, the two
    change places: both are pending, and b's place is then a's, before both their returns. If a does not come at all,
    it is LOOSE or MAY, and so is b: a takes b's place, and b is left out.
(d) A configuration is not gone into if one with the same returns passed, state and MUST calls has been, in which the
    LOOSE and MAY calls linearized are some of, or all, those of this one: what completes this one completes that one.
    By (c) the MAY calls of one operation are used in the order of invocation, so that they are counted, in effect.
(e) Let a *write* be a call whose operation leads from every state to the same one, and let it be unseen if another
    write comes next. After an unseen MAY or LOOSE write, and after an unseen MUST write p if two or more MUST writes
    that return before p are not yet linearized, no write is tried (the configuration is *barred*; for (d) that is as
    good as one more LOOSE call linearized). An unseen MAY or LOOSE write can be left out. As for p, call writes in
    direct succession a run; all but its last are unseen. If a MUST write q of a later run returns before p, p can go
    right before q: whatever comes before q was invoked before q returns, thus before p does; p is possible there, q
    leads where it led, and where p was nothing changes. So let every unseen write be in the last run it can be in, and
    let those of one run be in the order of their returns (they can be: they are all pending, or sorted already). Then
    of the MUST writes that come after p, only the last one of its own run may return before p does.

Together: take an order; apply (a) to (e) to it as long as they change something. That ends, since each makes the order
shorter; or, at the same length, brings a call of (a) before more of the others, while none but (a) moves these, and
nothing brings others before them; or, if neither, moves unseen writes to later runs, but none to earlier ones; or, if
none of that, puts two calls of one run or operation in the order of their returns. What results is an order that the
search could follow move by move, without being barred. Where (d) cuts it off, what is left of the order completes the
configuration that was gone into instead (with the calls of (c) in their order again), whose moves the search has made
too, so that it follows the rest from there; and the rest gets shorter with each move. So the search ends with an order
if there is one. This does not ask how much is remembered: what is forgotten, or never stored because memory is full,
is only tried again.

(d) is the memory of G. Lowe's paper and of A. Horn and D. Kroening, "Faster linearizability checking via
P-compositionality", 2015, with calls that may be left out taken into account; without that, n calls of unknown
outcome cost 2^n. To have few of them linearized in what is remembered, MAY calls are tried last, and LOOSE ones passed
by first; other calls are tried in the order of their returns.

*How long the explanation is.* No order reaches a return that the search did not reach: the same argument, with what
leads up to that return in the place of an order (unseen writes that return later can be left out of it).

*Memory.* The problem takes 92 bytes a call. A configuration that is remembered takes 20, and 8 for every 64 calls that
are ever pending at once, or of unknown outcome; these, and the model's table, are what the budget bounds.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from threading import Event
from time import monotonic
from typing import Final

import numpy as np

from checkers.linearizability import arrays, kernel
from checkers.linearizability.problem import LOOSE, MAY, MUST, Answer, Problem, until
from checkers.linearizability.table import Table, options
from checkers.models import Model, Operation
from harness.history.calls import Codes, Ints

STEPS: Final = 20_000
"""So many steps are made between two looks at the clock, some milliseconds; fewer if each looks at many calls."""
ENTRIES: Final = 1024
"""Room for so many configurations is there at first."""


@dataclass(frozen=True, slots=True)
class Budget:
    """What one search may take: seconds, and bytes for what it remembers. When the memory is full it goes on, slower,
    without remembering more; when the time is over it gives up."""

    seconds: float = 60.0
    memory: int = 2**30
    stop: Event = field(default_factory=Event, compare=False, repr=False)
    """Set by somebody else, it ends the search as if its time were over."""


def search(problem: Problem, model: Model, budget: Budget) -> Answer:
    """Is there an order of the calls of ``problem`` that ``model`` allows and that respects their windows?

    What the model raises (ValueError, if it does not understand a value) passes through.
    """
    return Searcher(model, problem.operations).search(problem, budget)


class Searcher:
    """Searches problems of the same operations; what the model said is remembered from one to the next."""

    def __init__(self, model: Model, operations: Sequence[Operation]) -> None:
        self._table = Table(model, operations)

    def search(self, problem: Problem, budget: Budget) -> Answer:
        """As :func:`search`; the operations of ``problem`` must be those of this searcher."""
        never = np.flatnonzero((problem.kind == MUST) & self._table.impossible[problem.operation])
        if len(never):
            return self._without(problem, int(never[np.argmin(problem.returned[never])]), budget)
        return self._searched(problem, budget)

    def _without(self, problem: Problem, never: int, budget: Budget) -> Answer:
        """The answer where the call ``never`` is possible in no state that the calls could lead to: a read of what
        nobody writes. No order gets past its return; whether one gets so far is all there is to find out."""
        stuck = int(problem.returned[never])
        before = until(problem, stuck)
        kind = before.kind.copy()
        kind[never] = LOOSE
        found = self._searched(replace(before, kind=kind), budget)
        if found.valid is False:
            return found
        return Answer(False, found.order, found.states, stuck, never, found.tried)

    def _searched(self, problem: Problem, budget: Budget) -> Answer:
        begun = monotonic()
        run = _Run(problem, self._table, budget.memory)
        while True:
            status = run.go_on()
            if status == kernel.VALID:
                return run.valid()
            if status == kernel.INVALID:
                return run.invalid()
            if monotonic() - begun > budget.seconds or budget.stop.is_set():
                return run.gave_up(f"the time for the search, {budget.seconds:g} s, ran out")
            if status == kernel.ASK and self._table.memory > max(budget.memory, LEAST):
                return run.gave_up(f"the memory for the model's states, {budget.memory / 2**20:g} MiB, ran out")


LEAST: Final = 2**20
"""The model's table may always have so many bytes."""


class _Run:
    """One search: the arrays, and what the loop asks for when it stops."""

    def __init__(self, problem: Problem, table: Table, memory: int) -> None:
        n = len(problem)
        self._problem, self._memory, self._table = problem, memory, table
        self._reg: Ints = np.zeros(arrays.REG, np.int64)
        self._fixed: Codes = np.zeros((arrays.FIXED, n + 1), np.int32)
        self._live: Codes = np.zeros((arrays.LIVE, n + 1), np.int32)
        self._fixed[arrays.OPERATION, :n] = problem.operation
        self._fixed[arrays.KIND, :n] = problem.kind
        returns = n - int(np.count_nonzero(problem.kind == MAY))
        by_return = np.argsort(problem.returned, kind="stable")[:returns]
        self._reg[arrays.OPERATIONS] = len(problem.operations)
        self._reg[arrays.WHOLE] = table.whole
        self._reg[arrays.BARS] = bool((table.nature == arrays.CONSTANT).any())
        self._reg[arrays.PHASE] = kernel.SETTLE
        self._reg[arrays.BEST_LEVEL] = -1
        width = arrays.prepare(problem.invoked, problem.returned, by_return, self._reg, self._fixed, self._live)
        self._steps = max(1, STEPS // (1 + width))  # a word is of 64 calls that may be pending
        self._words: Ints = np.zeros(width, np.int64)
        self._marks: Ints = np.zeros(len(problem.operations), np.int64)
        self._slots: Codes = np.full(2 * ENTRIES, -1, np.int32)
        self._entries: Ints = np.empty((ENTRIES, 1 + width), np.int64)
        self._chain: Codes = np.empty(ENTRIES, np.int32)

    def go_on(self) -> int:
        """Some steps of the loop; gives back why it stopped, and has given it by then what it lacked."""
        reg, table = self._reg, self._table
        status = kernel.explore(
            reg,
            self._fixed,
            self._live,
            self._words,
            self._marks,
            table.nature,
            table.keys,
            table.cells,
            self._slots,
            self._entries,
            self._chain,
            self._steps,
        )
        if status == kernel.ASK:
            table.ask(int(reg[arrays.ASKED]), int(reg[arrays.ABOUT]))
        elif status == kernel.GROW:
            self._grow()
        return status

    def _grow(self) -> None:
        """Twice the room for configurations, if there is memory for both the old and the new while one is copied."""
        size = len(self._chain)
        more = 2 * (self._entries.nbytes + self._chain.nbytes + self._slots.nbytes)
        if more * 3 // 2 + self._table.memory > self._memory or size >= 2**30:
            self._reg[arrays.FULL] = 1
            return
        entries: Ints = np.empty((2 * size, self._entries.shape[1]), np.int64)
        entries[:size] = self._entries
        self._entries, self._chain = entries, np.empty(2 * size, np.int32)
        self._slots = np.full(4 * size, -1, np.int32)
        arrays.rehash(self._slots, entries, self._chain, size, 1 + int(self._reg[arrays.FIRM]))

    def valid(self) -> Answer:
        length = int(self._reg[arrays.LENGTH])
        order, states = self._told(self._live[arrays.ORDER, :length], self._live[arrays.STATES, :length])
        return Answer(True, order, states, tried=int(self._reg[arrays.TRIED]))

    def invalid(self) -> Answer:
        call = int(self._fixed[arrays.RETURNING, self._reg[arrays.BEST_LEVEL]])
        order, states = self._longest()
        stuck = int(self._problem.returned[call])
        return Answer(False, order, states, stuck, call, int(self._reg[arrays.TRIED]))

    def gave_up(self, why: str) -> Answer:
        tried = int(self._reg[arrays.TRIED])
        order, states = self._longest()
        return Answer(None, order, states, tried=tried, why=f"{why} after {tried:,} configurations")

    def _longest(self) -> tuple[tuple[int, ...], tuple[Hashable, ...]]:
        length = int(self._reg[arrays.BEST_LENGTH])
        return self._told(self._live[arrays.BEST, :length], self._live[arrays.BEST_STATES, :length])

    def _told(self, order: Codes, numbers: Codes) -> tuple[tuple[int, ...], tuple[Hashable, ...]]:
        calls = tuple(order.tolist())
        states = [self._table.states[number] for number in numbers.tolist()]
        if calls and self._table.several:
            states = self._one_of_each(calls, states)
        return calls, tuple(states)

    def _one_of_each(self, order: Sequence[int], states: Sequence[Hashable]) -> list[Hashable]:
        """One way through sets of states, found from its end."""
        chosen = [min(options(states[-1]), key=repr)]
        for place in range(len(order) - 1, 0, -1):
            operation = int(self._problem.operation[order[place]])
            before = sorted(options(states[place - 1]), key=repr)
            chosen.append(next(one for one in before if chosen[-1] in self._table.successors(one, operation)))
        return chosen[::-1]
