"""Decide small histories of registers in plain Python, where arrays take longer to set up than to read.

This is the search of :mod:`.search`, of which that module has the argument: it passes the returns in their order and
remembers the configurations that it tried, and rules (a), (b) and (c) leave out moves. Rules (d) for subsets and (e)
are not needed for so few calls. A history that is not decided within a number of configurations is left to the other
algorithms.

A row of numbers says what a call does: the value after it for each value before it (IMPOSSIBLE: it cannot happen then).
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Hashable, Iterator, Sequence
from typing import Any, Final

from harness.checkers.models import Model, Register, WithRefusals
from harness.checkers.models.registers import old_and_new
from harness.history.calls import NEVER, NONE, REFUSED, Calls

from .problem import ProvedImpossible, QuickResult

LARGEST: Final = 200
"""The most calls of a history that is decided here."""
CONFIGURATIONS: Final = 2_000
"""The most configurations that are tried for a key."""
IMPOSSIBLE: Final = -1
Row = tuple[int, ...]
EffectRow = tuple[Row, bool]
"""The value after an effect for each value before it, and True if the effect never changes the value."""
Call = tuple[int, int, int]
"""The positions of invocation and return (NEVER: unknown outcome), and the number of its effect."""
Effect = tuple[int, int, int]
"""The value that must be there (NONE: any), the one that must not, and the one that is written."""


def check(calls: Calls, model: Model) -> QuickResult | None:
    """Decide every key of ``calls``, whose ``model`` is a register, with or without failed calls; None if the history
    is not decided here: it has many calls, its search is long, or another algorithm gives a smaller proof that it is
    wrong.

    Raises ValueError if the value of a compare-and-set is not ``[old, new]``.
    """
    if len(calls) > LARGEST:
        return None
    register = model.model if isinstance(model, WithRefusals) else model
    assert isinstance(register, Register)
    effects = _Effects(calls, register)
    failures = []
    for key, some in effects.by_key().items():
        stuck = _search(some, effects.table)
        if stuck is None or (stuck != NEVER and effects.is_unambiguous(key)):
            return None
        if stuck != NEVER:
            rows = [row for row in effects.rows[key] if effects.invoked[row] < stuck]
            failures.append(ProvedImpossible(key, stuck, tuple(rows)))
    return QuickResult(tuple(sorted(failures, key=lambda failure: failure.position)))


class _Effects:
    """The effects of the calls on the register. Values are numbers, from 0 for the initial one."""

    def __init__(self, calls: Calls, model: Register) -> None:
        self._calls, self._model = calls, model
        self.invoked: list[int] = calls.invoked.tolist()
        self.rows: dict[int, list[int]] = {}
        self._numbers: dict[Hashable, int] = {model.initial: 0}
        columns = (calls.f, calls.argument, calls.result, calls.known)
        self._what = list(zip(*(column.tolist() for column in columns), strict=True))
        effect_of = {what: self._read(*what) for what in set(self._what)}
        self._effects = effects = list({effect for effect in effect_of.values() if effect})
        number = {effect: place for place, effect in enumerate(effects)}
        self._effect = {what: number[effect] if effect else NONE for what, effect in effect_of.items()}
        self.table: list[EffectRow] = [(self._as_row(*effect), effect[2] in (NONE, effect[0])) for effect in effects]

    def by_key(self) -> dict[int, list[Call]]:
        """Return the calls of each key, by invocation, without those that say nothing."""
        found: dict[int, list[Call]] = {}
        returned = self._calls.returned.tolist()
        for row, (key, what) in enumerate(zip(self._calls.key.tolist(), self._what, strict=True)):
            if key not in found:
                found[key], self.rows[key] = [], []
            self.rows[key].append(row)
            effect = self._effect[what]
            if effect != NONE:
                found[key].append((self.invoked[row], returned[row], effect))
        return found

    def is_unambiguous(self, key: int) -> bool:
        """Return whether each value is written once to ``key``, and the initial one never."""
        written = {0}
        for row in self.rows[key]:
            effect = self._effect[self._what[row]]
            if effect == NONE or self._effects[effect][2] == NONE:
                continue
            if self._effects[effect][2] in written:
                return False
            written.add(self._effects[effect][2])
        return True

    def _read(self, f: int, argument: int, result: int, known: int) -> Effect | None:
        """Return the effect of a call, None if it has none and says nothing."""
        calls, name = self._calls, self._calls.fs[f]
        value = None if argument == NONE else calls.values[argument]
        if name == "read":
            return self._seen(None if result == NONE else calls.values[result]) if known else None
        if name == "write":
            return NONE, NONE, self._number(self._model.value_of(value))
        if value is None and not known:
            return None
        old, new = old_and_new(value)
        if name.startswith(REFUSED):
            return NONE, self._number(old), NONE
        return self._number(old), NONE, self._number(new)

    def _seen(self, value: Any) -> Effect | None:
        seen = self._model.value_of(value)
        return None if seen is None and not self._model.nil_says else (self._number(seen), NONE, NONE)

    def _number(self, value: Hashable) -> int:
        return self._numbers.setdefault(value, len(self._numbers))

    def _as_row(self, old: int, other: int, new: int) -> Row:
        count = len(self._numbers)
        row = list(range(count)) if new == NONE else [new] * count
        if old != NONE:
            row = [IMPOSSIBLE] * old + [row[old]] + [IMPOSSIBLE] * (count - old - 1)
        elif other != NONE:
            row[other] = IMPOSSIBLE
        return tuple(row)


Move = tuple[int, int, Row, int, bool]
"""A pending call: its return, its bit, the value after it for each value before it, the number of its effect, and
whether it may be left out."""
Level = tuple[int, int, list[Move], list[Move]]
"""A return: its position, the bit of its call, and the pending calls, by return: those that never change the value, and
the others, after which come those of unknown outcome."""


def _search(calls: Sequence[Call], effects: Sequence[EffectRow]) -> int | None:
    """Return the position of the return that no order of the calls reaches, NEVER if there is none; None if the search
    was given up."""
    returns = sorted([(call[1], number) for number, call in enumerate(calls) if call[1] != NEVER])
    coming = _levels(calls, returns, effects)
    levels: list[Level] = []
    seen: set[tuple[int, int, int]] = set()
    stack = [(0, 0, 0)]
    deepest, last = 0, len(returns)
    while stack:
        level, state, done = stack.pop()
        while level < last:
            if level == len(levels):
                levels.append(next(coming))
            _, back, still, _ = levels[level]
            for _, bit, row, _, _ in still:  # rule (a)
                if row[state] == state:
                    done |= bit
            if not done & back:
                break
            done ^= back
            level += 1
        else:
            return NEVER
        config = level, state, done
        if config not in seen:
            if len(seen) == CONFIGURATIONS:
                return None
            seen.add(config)
            if level > deepest:  # noqa: PLR1730 - max() takes longer
                deepest = level
            stack += _moves(levels[level][3], *config)
    return levels[deepest][0]


def _moves(pending: Sequence[Move], level: int, state: int, done: int) -> list[tuple[int, int, int]]:
    """Return the configurations that one of the ``pending`` calls leads to, the first one last."""
    found = []
    tried = 0
    for _, bit, row, effect, may in pending:
        if done & bit or tried >> effect & 1:  # rule (c)
            continue
        tried |= 1 << effect
        after = row[state]
        if after != IMPOSSIBLE and not (may and after == state):  # rule (b)
            found.append((level, after, done | bit))
    found.reverse()
    return found


def _levels(calls: Sequence[Call], returns: Sequence[tuple[int, int]], effects: Sequence[EffectRow]) -> Iterator[Level]:
    """Yield what is pending at each of the ``returns``: positions, each with the number of its call."""
    pending: tuple[list[Move], list[Move]] = [], []  # those that may change the value, and those that never do
    unknown: list[Move] = []
    left, count = 0, len(calls)
    for end, number in returns:
        while left < count and calls[left][0] < end:
            _, back, effect = calls[left]
            row, still = effects[effect]
            if back != NEVER:
                insort(pending[still], (back, 1 << left, row, effect, False))
            elif not still:  # rule (b)
                unknown.append((back, 1 << left, row, effect, True))
            left += 1
        yield end, 1 << number, pending[1][:], pending[0] + unknown
        del pending[effects[calls[number][2]][1]][0]
