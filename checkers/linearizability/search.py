"""Search for a valid order of the calls of one key, for any model.

The search ends without an answer only if its budget is exhausted.

*What is searched.* The search passes the returns in their order (just-in-time linearization: G. Lowe, "Testing for
linearizability", 2017, after J. Wing and C. Gong, "Testing and verifying concurrent objects", 1993). A *configuration*
is the number of returns passed, the state of the model, and the set of pending calls that are linearized (a call is
pending if it was invoked before the next return and has not returned yet). A *move* linearizes a pending call that the
model allows. Once the call that returns next is linearized, its return is passed, and the calls invoked before the
following return become pending. A LOOSE call may also return without being linearized. This search is complete: in a
valid order, let each call take effect as late as its own return and those of later calls allow. Then each call takes
effect immediately before some return and is pending there, like all calls invoked by then, and every earlier call of
the order has its place already. All MUST calls that have returned are linearized, and LOOSE calls that have returned
are no candidates, so a configuration need only remember the pending calls.

The moves that lead from a configuration past all returns are its *completion*. In a completion, a call may swap with a
neighbour, or take another call's place, if its window allows it. Calls that are linearized from now on have not
returned yet, so a pending call may come first.

*What is left out.* Five rules reduce the search. Each comes with the reason why a configuration that has a completion
keeps one that is no longer than before:

(a) A pending MUST call whose operation never changes any state, and that is possible now, is linearized at once,
    without an alternative. Reason: take it out of the completion and put it first; the states stay the same. It is not
    enough that the call changes nothing *now* (a write of the current value may be needed later, after another write),
    so the rule applies only where the whole table is known.
(b) A MAY or LOOSE call that would not change the state is not linearized. Reason: leave it out of the completion.
(c) Let a and b be pending calls of the same operation, where a returns first (MAY calls never return; of two MAY calls,
    let a be the one invoked first). Then b is not linearized while a is pending, unless a is LOOSE and b is MUST.
    Reason: if a comes later in the completion, the two swap; both are pending, and the place of b, which a takes, is
    before both returns. If a is not in the completion, a is LOOSE or MAY, and so is b: a takes the place of b, and b is
    left out.
(d) A configuration is not entered if an earlier one had the same returns passed, the same state and the same linearized
    MUST calls, and its linearized LOOSE and MAY calls are a subset of this one's (or the same set). Reason: what
    completes this configuration completes the earlier one. By (c), the MAY calls of one operation are used in the order
    of invocation, so in effect they are only counted.
(e) Call an operation a *write* if it leads from every state to the same one. Call a write *unseen* if the next call is
    another write. After an unseen MAY or LOOSE write, no write is tried. Nor is one tried after an unseen MUST write p,
    if two or more MUST writes that return before p are not linearized yet. Such a configuration is *barred*; for (d),
    being barred counts like one more linearized LOOSE call. Reason for MAY and LOOSE: an unseen one can be left out.
    Reason for p: call writes in direct succession a *run*; all but the last write of a run are unseen. If a MUST write
    q of a later run returns before p does, p can move to directly before q. For whatever comes before q was invoked
    before q returns, thus before p returns; p is possible there; q leads to the same state as before; and nothing
    changes at the old place of p. So let every unseen write be in the last run that it can be in, and let the unseen
    writes of one run be in the order of their returns (this is possible: they are all pending, or sorted already).
    Then, of the MUST writes that come after p, only the last one of its own run may return before p does.

*Why the rules work together.* Take an order, and apply (a) to (e) to it as long as they change something. This ends,
since each change makes the order shorter; or keeps the length and brings a call of (a) before more of the other calls,
while only (a) moves such calls, and no rule brings other calls before them; or does neither and moves unseen writes to
later runs, but none to earlier runs; or does none of these and sorts two calls of one run or operation by their
returns. The result is an order that the search could follow move by move without being barred. Where (d) stops the
search, the rest of the order completes the configuration that was entered instead (with the calls of (c) in their order
again). The search has made the moves of that configuration too, so it follows the rest from there; and the rest gets
shorter with each move. So if there is an order, the search ends with one. This argument does not depend on how much is
remembered: a configuration that was forgotten, or was never stored because the memory is full, is only tried again.

Rule (d) is the memory of G. Lowe's paper and of A. Horn and D. Kroening, "Faster linearizability checking via
P-compositionality", 2015, extended to calls that may be left out; without that extension, n calls of unknown outcome
cost 2^n. To have few such calls linearized in what is remembered, the search tries MAY calls last, and first tries to
skip LOOSE calls. It tries all other calls in the order of their returns.

*How long the explanation is.* No order reaches a return that the search did not reach. The argument is the same,
applied to the moves up to that return instead of a whole order (unseen writes that return later can be left out of
them).

*Memory.* A problem takes 92 bytes a call. A remembered configuration takes 20 bytes, plus 8 bytes for every 64 calls
that are ever pending at once or have an unknown outcome. The budget limits the memory for configurations and for the
model's table.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from time import monotonic
from typing import Final

import numpy as np

from harness.checkers.models import Model, Operation
from harness.history.calls import Codes, Ints
from harness.history.compiled import fastest

from . import arrays, kernel
from .problem import LOOSE, MAY, MUST, Budget, KeyProblem, SearchAnswer, until
from .table import ModelTable, options

STEPS: Final = 20_000
"""Steps between two checks of the clock (some milliseconds); fewer if many calls are pending."""
PLAIN_STEPS: Final = STEPS // 20
"""Steps between two checks of the clock if the loop runs as plain Python."""
ROWS_PER_CALL: Final = 5
ROWS_PER_STEP: Final = 10
"""Number of rows that cost as much time in plain Python as one call of the problem, or one step (see
:func:`fastest`)."""
ENTRIES: Final = 1024
"""Number of configurations for which there is room at first."""


@dataclass(slots=True)
class Effort:
    """The work of searches so far, in rows (see :func:`fastest`); it decides when machine code pays."""

    rows: int = 0


def search(problem: KeyProblem, model: Model, budget: Budget) -> SearchAnswer:
    """Search for an order of the calls of ``problem`` that ``model`` allows and that respects their windows.

    Exceptions of the model pass through (ValueError if it does not understand a value).
    """
    return Searcher(model, problem.operations).search(problem, budget)


class Searcher:
    """Searches several problems with the same operations, and keeps the model's answers from one to the next.

    ``effort`` counts the work of several searchers together; without it, this searcher counts for itself.
    """

    def __init__(self, model: Model, operations: Sequence[Operation], effort: Effort | None = None) -> None:
        self._table = ModelTable(model.for_operations(operations), operations)
        self._effort = effort or Effort()

    def search(self, problem: KeyProblem, budget: Budget) -> SearchAnswer:
        """Search as :func:`search` does; the operations of ``problem`` must be those of this searcher."""
        never = np.flatnonzero((problem.kind == MUST) & self._table.impossible[problem.operation])
        if len(never):
            return self._without(problem, int(never[np.argmin(problem.returned[never])]), budget)
        return self._searched(problem, budget)

    def _without(self, problem: KeyProblem, never: int, budget: Budget) -> SearchAnswer:
        """Return the answer if the call ``never`` is possible in no reachable state, such as a read of a value that
        nobody writes.

        No order passes the return of that call, so the search only finds out whether an order reaches it.
        """
        stuck = int(problem.returned[never])
        before = until(problem, stuck)
        kind = before.kind.copy()
        kind[never] = LOOSE
        found = self._searched(replace(before, kind=kind), budget)
        if found.valid is False:
            return found
        return SearchAnswer(False, found.order, found.states, stuck, never, found.tried)

    def _searched(self, problem: KeyProblem, budget: Budget) -> SearchAnswer:
        begun = monotonic()
        run = _Run(problem, self._table, budget, self._effort)
        while True:
            status = run.go_on()
            if status == kernel.VALID:
                return run.valid()
            if status == kernel.INVALID:
                return run.invalid()
            if status == kernel.OVER:
                return run.gave_up("the search used up its budget")
            if monotonic() - begun > budget.seconds or budget.stop.is_set():
                return run.gave_up(f"the search used up its budget of {budget.seconds:g} s")
            if status == kernel.ASK and self._table.memory > max(budget.memory, LEAST):
                return run.gave_up(f"the search used up its memory of {budget.memory / 2**20:g} MiB")


LEAST: Final = 2**20
"""Bytes that the model's table may always use."""


class _Run:
    """One search: the arrays, and the code that supplies what the loop asks for when it stops."""

    def __init__(self, problem: KeyProblem, table: ModelTable, budget: Budget, effort: Effort) -> None:
        n = len(problem)
        self._problem, self._memory, self._table, self._effort = problem, budget.memory, table, effort
        self._reg: Ints = np.zeros(arrays.REG, np.int64)
        self._fixed: Codes = np.zeros((arrays.FIXED, n + 1), np.int32)
        self._live: Codes = np.zeros((arrays.LIVE, n + 1), np.int32)
        self._fixed[arrays.OPERATION, :n] = problem.operation
        self._fixed[arrays.KIND, :n] = problem.kind
        returns = n - int(np.count_nonzero(problem.kind == MAY))
        by_return = np.argsort(problem.returned, kind="stable")[:returns]
        self._reg[arrays.OPERATIONS] = len(problem.operations)
        self._reg[arrays.MOST] = budget.configurations
        self._reg[arrays.WHOLE] = table.whole
        self._reg[arrays.BARS] = bool((table.nature == arrays.CONSTANT).any())
        self._reg[arrays.PHASE] = kernel.SETTLE
        self._reg[arrays.BEST_LEVEL] = -1
        effort.rows += ROWS_PER_CALL * n
        prepare = fastest(arrays.prepare, rows=effort.rows)
        width = prepare(problem.invoked, problem.returned, by_return, self._reg, self._fixed, self._live)
        self._pending = 1 + width  # each word stands for 64 calls that may be pending
        self._words: Ints = np.zeros(width, np.int64)
        self._marks: Ints = np.zeros(len(problem.operations), np.int64)
        self._slots: Codes = np.full(2 * ENTRIES, -1, np.int32)
        self._entries: Ints = np.empty((ENTRIES, 1 + width), np.int64)
        self._chain: Codes = np.empty(ENTRIES, np.int32)

    def go_on(self) -> int:
        """Run some steps of the loop; return why it stopped, after supplying what it lacked."""
        reg, table = self._reg, self._table
        explore = fastest(kernel.explore, rows=self._effort.rows)
        steps = max(1, (PLAIN_STEPS if explore is kernel.explore else STEPS) // self._pending)
        tried = int(reg[arrays.TRIED])
        with np.errstate(over="ignore"):  # a hash of 64 bits wraps around
            status = explore(
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
                steps,
            )
        made = steps if status == kernel.SLICE else int(reg[arrays.TRIED]) - tried + 1
        self._effort.rows += ROWS_PER_STEP * made * self._pending
        if status == kernel.ASK:
            table.ask(int(reg[arrays.ASKED]), int(reg[arrays.ABOUT]))
        elif status == kernel.GROW:
            self._grow()
        return status

    def _grow(self) -> None:
        """Double the room for configurations, if the memory holds both the old and the new arrays during the copy."""
        size = len(self._chain)
        more = 2 * (self._entries.nbytes + self._chain.nbytes + self._slots.nbytes)
        if more * 3 // 2 + self._table.memory > self._memory or size >= 2**30:
            self._reg[arrays.FULL] = 1
            return
        entries: Ints = np.empty((2 * size, self._entries.shape[1]), np.int64)
        entries[:size] = self._entries
        self._entries, self._chain = entries, np.empty(2 * size, np.int32)
        self._slots = np.full(4 * size, -1, np.int32)
        rehash = fastest(arrays.rehash, rows=self._effort.rows)
        with np.errstate(over="ignore"):
            rehash(self._slots, entries, self._chain, size, 1 + int(self._reg[arrays.FIRM]))

    def valid(self) -> SearchAnswer:
        length = int(self._reg[arrays.LENGTH])
        order, states = self._told(self._live[arrays.ORDER, :length], self._live[arrays.STATES, :length])
        return SearchAnswer(True, order, states, tried=int(self._reg[arrays.TRIED]))

    def invalid(self) -> SearchAnswer:
        call = int(self._fixed[arrays.RETURNING, self._reg[arrays.BEST_LEVEL]])
        order, states = self._longest()
        stuck = int(self._problem.returned[call])
        return SearchAnswer(False, order, states, stuck, call, int(self._reg[arrays.TRIED]))

    def gave_up(self, why: str) -> SearchAnswer:
        tried = int(self._reg[arrays.TRIED])
        order, states = self._longest()
        return SearchAnswer(None, order, states, tried=tried, why=f"{why} after {tried:,} configurations")

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
        """Choose one path through sets of states, found backwards from the end."""
        chosen = [min(options(states[-1]), key=repr)]
        for place in range(len(order) - 1, 0, -1):
            operation = int(self._problem.operation[order[place]])
            before = sorted(options(states[place - 1]), key=repr)
            chosen.append(next(one for one in before if chosen[-1] in self._table.successors(one, operation)))
        return chosen[::-1]
