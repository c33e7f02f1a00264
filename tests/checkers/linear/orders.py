"""Linearizability by all orders at once: quick enough to judge every history of six calls.

What is known of a history up to an entry is the set of its configurations: a state, and which of the calls that have
not returned have taken effect. Histories that begin in the same way share the configurations of the beginning.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from harness.checkers.linearizability.problem import MUST, KeyProblem
from harness.checkers.models import Model, Operation
from harness.history import SECOND
from harness.history.calls import NEVER, NO_FENCE, NONE, Calls
from tests.checkers.linear.brute import states_after
from tests.checkers.linear.enumerate import Doing

Configuration = tuple[Any, frozenset[int]]


@dataclass(frozen=True)
class Orders:
    """The configurations after the entries so far; ``going`` are the calls that have not returned. No configuration is
    left if the history is wrong."""

    model: Model
    configurations: frozenset[Configuration]
    going: Mapping[int, Operation]

    @classmethod
    def of(cls, model: Model) -> Orders:
        return cls(model, frozenset({(model.initial, frozenset())}), {})

    def invoke(self, call: int, operation: Operation) -> Orders:
        """Return the orders after the call began: from now on it, and what it makes possible, may take effect."""
        going = {**self.going, call: operation}
        found, new = set(self.configurations), list(self.configurations)
        while new:
            state, done = new.pop()
            for other in going.keys() - done:
                for after in states_after(self.model, state, going[other]):
                    one = after, done | {other}
                    if one not in found:
                        found.add(one)
                        new.append(one)
        return Orders(self.model, frozenset(found), going)

    def come_back(self, call: int) -> Orders:
        """Return the orders after the call returned: it has taken effect."""
        kept = frozenset((state, done - {call}) for state, done in self.configurations if call in done)
        return Orders(self.model, kept, {other: one for other, one in self.going.items() if other != call})


def has_order(problem: KeyProblem, model: Model) -> bool:
    """Return whether a history without loose calls has an order."""
    entries = [(int(at), 0, call) for call, at in enumerate(problem.invoked)]
    entries += [(int(at), 1, call) for call, at in enumerate(problem.returned) if problem.kind[call] == MUST]
    orders = Orders.of(model)
    for _, back, call in sorted(entries):
        orders = orders.come_back(call) if back else orders.invoke(call, problem.operations[problem.operation[call]])
    return bool(orders.configurations)


class Row(NamedTuple):
    """A call: the client, the number of what it does, and the entries of its invocation and return."""

    client: int
    doing: int
    invoked: int
    returned: int


History = tuple[tuple[Row, ...], bool]
"""The calls by invocation, and whether they have an order."""


def every_history(model: Model, doings: Sequence[Doing], clients: int, count: int) -> Iterator[History]:
    """Yield every history of ``count`` calls of at most so many clients.

    A call of unknown outcome does not return, and its client may go on or not. Of the histories that differ in the
    names of the clients, or in the order of neighbouring invocations or of neighbouring returns, one is yielded, so the
    model must not look at the clock. The same call with another result is another history only if it returns.
    """
    return _Growth(model, doings, clients, count).grown([], {}, Orders.of(model), (2, 0), 0)


class _Growth:
    def __init__(self, model: Model, doings: Sequence[Doing], clients: int, count: int) -> None:
        self.clients, self.count = clients, count
        known = {(client, number): True for client in range(clients) for number in range(len(doings))}
        asked = [(f, argument) for f, argument, _ in doings]
        unknown = {at: False for at in known if asked.index(asked[at[1]]) == at[1]}
        self.calls = [(at, True) for at in known] + [(at, False) for at in unknown]
        self.operations = {(at, sure): _operation(doings[at[1]], at[0], sure) for at, sure in self.calls}

    def grown(
        self, rows: list[Row], going: dict[int, int], orders: Orders, last: tuple[int, int], now: int
    ) -> Iterator[History]:
        """``going`` has the client of each call that will return, and ``last`` says what the last entry was (0 for an
        invocation, 1 for a return) and whose."""
        if len(rows) == self.count and not going:
            yield tuple(rows), bool(orders.configurations)
            return
        seen = 1 + max((row.client for row in rows), default=-1)
        for (client, doing), sure in self.calls if len(rows) < self.count else ():
            if client in going or client > seen or (last[0] == 0 and client < last[1]):
                continue
            more = orders.invoke(len(rows), self.operations[(client, doing), sure])
            then = {**going, client: len(rows)} if sure else going
            yield from self.grown([*rows, Row(client, doing, now, NEVER)], then, more, (0, client), now + 1)
        for client, call in going.items():
            if last[0] == 1 and client < last[1]:
                continue
            back = [*rows[:call], rows[call]._replace(returned=now), *rows[call + 1 :]]
            left = {other: at for other, at in going.items() if other != client}
            yield from self.grown(back, left, orders.come_back(call), (1, client), now + 1)


def _operation(doing: Doing, client: int, known: bool) -> Operation:
    f, argument, result = doing
    return Operation(f, argument, result if known else None, known, f"c{client}")


def together(histories: Sequence[tuple[Row, ...]], model: Model, doings: Sequence[Doing], clients: int) -> Calls:
    """Return one history in which each of ``histories`` has a key of its own, one after the other."""
    rows = np.array([row for history in histories for row in history], dtype=np.int64).reshape(-1, len(Row._fields))
    client, doing, invoked, returned = rows.T
    lengths = [len(history) for history in histories]
    before = np.repeat(np.cumsum([0, *lengths[:-1]]) * 2, lengths)
    known = returned != NEVER
    invoked, returned = invoked + before, np.where(known, returned + before, NEVER)
    fs = sorted({f for f, _, _ in doings})
    values = sorted({argument for _, argument, _ in doings if argument is not None})
    arguments = [NONE if argument is None else values.index(argument) for _, argument, _ in doings]
    fences = [(result or {}).get("fence") for _, _, result in doings]
    none = np.full(len(rows), NONE, dtype=np.int32)
    grants = len(rows) if model.wants == "grants" else 0
    fence = np.array([NO_FENCE if one is None else one for one in fences], dtype=np.int64)[doing]
    return Calls(
        fs=fs,
        keys=[str(number) for number in range(len(histories))],
        clients=[f"c{number}" for number in range(clients)],
        f=np.array([fs.index(f) for f, _, _ in doings], dtype=np.int32)[doing],
        key=np.repeat(np.arange(len(histories), dtype=np.int32), lengths),
        client=client.astype(np.int32),
        process=client,
        known=known.astype(np.int8),
        invoked=invoked,
        returned=returned,
        began=invoked * SECOND,
        ended=np.where(known, returned * np.int64(known) * SECOND, NEVER),
        argument=np.array(arguments, dtype=np.int32)[doing],
        result=none,
        fence=np.where(known, fence, NO_FENCE)[:grants],
        lease=np.full(grants, NEVER, dtype=np.int64),
        good=none[:grants].astype(np.int8),
        values=values,
    )
