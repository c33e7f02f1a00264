"""Small parts of the history of one key that prove it wrong, although calls of unknown outcome might explain more.

A part has the last calls of a few clients before some entry of the history, each client's from one of its known
acquires on, and all calls that return later count as unknown. If a part is wrong, so is the history. Take an order of
the whole history:

- It is still one if all calls of a client are removed.
- For a lock that a client holds at most once at a time, it is still one if all calls of a client are removed from one
  known acquire up to the next: at both the client held nothing, or only a lease that had ended. Unknown calls that were
  used in between are removed too; they need not have happened.
- For a lock that a client may hold several times, a part may begin at a known acquire of the client before which it
  has made no more known acquires than known releases. What the client held there it held by unknown acquires, of which
  it had used at least as many. From the moment on at which it last began to hold the lock so many times, nobody else
  held it, so an unknown acquire can take effect at that moment, or at its own later one, in place of the call that did.
  Then everything else of the client before that acquire can be removed.
- In a queue, a part may begin at a known call by which the client joins it, if its next known call is an acquire. At
  the first the client was not waiting, and if it held the lock then, an unknown release ended that before the second.
  So all its calls before can be removed; others wait for less.
- Between two known calls a client needs at most one unknown acquire and one unknown release of a lock that it holds
  once; more would hold the lock for nobody. Of a lock that it may hold several times it needs no unknown acquire that
  no known release ends, and no unknown release of an unknown acquire. In a queue it needs none after which it waits
  and holds what it did before, so at most three, two of them alike. Of equal unknown calls the earlier ones can take
  the place of the later ones. So a part needs only the first few of them, one more than it has known calls of the
  client, and in a queue twice as many; and, of a lock that is held once, not those that the client needed before even
  if it was alone, such as a release between two acquires.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Sequence

import numpy as np

from harness.checkers.models import ACQUIRE, Either, FifoLock, Inconsistent, Model
from harness.history.calls import Ints

from .problem import MAY, MUST, KeyProblem, until

AROUND = 4
"""Calls on each side of the call in question, for each acquire of a part, whose clients are in parts."""


def equal_unknown_calls(problem: KeyProblem) -> list[list[int]]:
    """Return the MAY calls that have the same client, function and argument, each list in the order of invocations."""
    names = [(one.client, one.f, repr(one.argument)) for one in problem.operations]
    found: dict[tuple[str, str, str], list[int]] = defaultdict(list)
    for call in np.flatnonzero(problem.kind == MAY).tolist():
        found[names[problem.operation[call]]].append(call)
    return list(found.values())


class Parts:
    """The parts of ``problem``, whose model is one of :data:`harness.checkers.linearizability.repair.REPAIRABLE`."""

    def __init__(self, problem: KeyProblem, model: Model) -> None:
        self._problem, self._model = problem, model
        self._client = np.array([one.client for one in problem.operations])[problem.operation]
        self._unknown: dict[str, list[list[int]]] = defaultdict(list)
        for calls in equal_unknown_calls(problem):
            self._unknown[str(self._client[calls[0]])].append(calls)
        opens = [one.f in ACQUIRE or one.f.startswith("acquire") for one in problem.operations]
        self._acquires = np.array(opens)[problem.operation] & (problem.kind == MUST)
        joins = [one.f == "enqueue" for one in problem.operations]
        self._joins = np.array(joins)[problem.operation] & (problem.kind == MUST)
        self._queues = isinstance(model, FifoLock)
        self._once = getattr(model, "limit", 1) == 1 and not self._queues
        self._needs: dict[str, list[tuple[int, int]]] = {}

    def near(self, later: Sequence[int], earlier: Sequence[int], acquires: int) -> Iterator[KeyProblem]:
        """Yield the parts with this many known acquires of each client, around the first call of ``later``.

        ``later`` and ``earlier`` are the known calls around it, the nearest first.
        """
        end = max(int(self._problem.returned[call]) for call in later[:acquires])
        around = [*later[: AROUND * acquires], *earlier[: AROUND * acquires]]
        clients = list(dict.fromkeys(self._client[around].tolist()))
        mine = {client: self._last(client, end, acquires) for client in clients}
        for names in _groups(clients):
            rows = np.sort(np.concatenate([mine[name] for name in names]))
            yield until(self._problem.pick(rows), end)

    def _last(self, client: str, end: int, acquires: int) -> Ints:
        invoked = self._problem.invoked
        rows = np.flatnonzero((self._client == client) & (invoked < end))
        known = rows[self._problem.kind[rows] == MUST]
        first = self._beginnings(known)[-acquires:]
        alone = (invoked[known][1:] > self._problem.returned[known][:-1]).all()
        if len(first) < acquires or not alone:
            return rows
        known = known[known >= first[0]]
        chosen = known.tolist()
        needs = self._needed(client) if self._once else []
        needed = Counter(calls for call, calls in needs if call < first[0])
        for number, calls in enumerate(self._unknown[client]):
            left = sum(int(invoked[call]) < end for call in calls) - needed[number]
            most = (len(known) + 1) * (2 if self._queues else 1)
            chosen += calls[: max(0, min(left, most))]
        return np.array(chosen, dtype=np.int64)

    def _beginnings(self, known: Ints) -> Ints:
        """Return those of the ``known`` calls of a client at which a part may begin."""
        begins = self._acquires[known]
        if self._queues:
            begins = self._joins[known] & np.append(begins[1:], False)
        elif not self._once:
            change = np.where(begins, 1, -1)
            begins = begins & (np.cumsum(change) - change <= 0)
        return np.extract(begins, known)

    def _needed(self, client: str) -> list[tuple[int, int]]:
        """Return the known calls of a client that are impossible without an unknown one even if it is alone, each with
        the number of the equal unknown calls of which it needs one."""
        if client not in self._needs:
            rows = np.flatnonzero((self._client == client) & (self._problem.kind == MUST))
            self._needs[client] = list(self._alone(rows.tolist(), self._unknown[client]))
        return self._needs[client]

    def _alone(self, known: list[int], unknown: list[list[int]]) -> Iterator[tuple[int, int]]:
        state = self._model.initial
        for call in known:
            after = self._after(state, call)
            if isinstance(after, Inconsistent | Either):
                between = [self._after(state, calls[0]) for calls in unknown]
                helped = [
                    (number, then)
                    for number, one in enumerate(between)
                    if not isinstance(one, Inconsistent | Either)
                    if not isinstance(then := self._after(one, call), Inconsistent | Either)
                ]
                if len(helped) != 1:  # there is no order, or it is open which unknown call is needed
                    return
                number, after = helped[0]
                yield call, number
            state = after

    def _after(self, state: Hashable, call: int) -> Hashable | Inconsistent | Either:
        return self._model.step(state, self._problem.operations[self._problem.operation[call]])


def _groups(clients: list[str]) -> Iterator[list[str]]:
    """Yield the first client with each other one, and then the nearest ones together, more and more."""
    if len(clients) == 1:
        yield clients
    for other in clients[1:]:
        yield [clients[0], other]
    for count in range(3, len(clients) + 1):
        yield clients[:count]
