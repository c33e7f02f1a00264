"""The earliest-deadline algorithm for locks without an owner, compared with brute force."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache
from itertools import islice
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

from harness.checkers.linearizability import deadlines
from harness.checkers.linearizability.problem import MAY, MUST, KeyProblem, problem
from harness.checkers.models import Mutex, Operation, Semaphore
from harness.history.calls import NEVER, NONE, Calls
from tests.checkers.linear.brute import linearizable
from tests.checkers.linear.build import calls, mutant
from tests.checkers.linear.orders import has_order

TAKE, GIVE = 0, 1
OPERATIONS = (Operation("acquire"), Operation("release"))
LOCKS: tuple[Mutex | Semaphore, ...] = (Mutex(), Semaphore(2), Semaphore(3))


class Small(NamedTuple):
    """A history of acquires (0) and releases (1), ordered by invocation."""

    sides: tuple[int, ...]
    invoked: tuple[int, ...]
    returned: tuple[int, ...]

    def until(self, position: int) -> Small:
        """Return what has been recorded up to and including ``position``."""
        seen = [call for call, at in enumerate(self.invoked) if at <= position]
        back = [at if at <= position else NEVER for at in self.returned]
        return self.pick(seen)._replace(returned=tuple(back[call] for call in seen))

    def pick(self, rows: list[int] | tuple[int, ...]) -> Small:
        return Small(*(tuple(column[row] for row in rows) for column in self))

    def right(self, model: Mutex | Semaphore) -> bool:
        """Return the verdict of brute force."""
        return linearizable(self.problem(), model)

    def problem(self) -> KeyProblem:
        return KeyProblem(
            np.array(self.invoked, dtype=np.int64),
            np.array(self.returned, dtype=np.int64),
            np.array([MAY if at == NEVER else MUST for at in self.returned], dtype=np.int8),
            np.array(self.sides, dtype=np.int32),
            OPERATIONS,
            np.arange(len(self.sides)),
        )


def together(histories: list[Small]) -> Calls:
    """Return one history in which each of ``histories`` has a key of its own."""
    sides, invoked, returned = (
        np.array([number for history in histories for number in history[column]], dtype=np.int64) for column in range(3)
    )
    lengths = [len(history.sides) for history in histories]
    none, zeros = np.full(len(sides), NONE, dtype=np.int32), np.zeros(len(sides), dtype=np.int64)
    return Calls(
        fs=["acquire", "release"],
        keys=[str(number) for number in range(len(histories))],
        clients=["c0"],
        f=sides.astype(np.int32),
        key=np.repeat(np.arange(len(histories), dtype=np.int32), lengths),
        client=np.zeros(len(sides), dtype=np.int32),
        process=zeros,
        known=(returned != NEVER).astype(np.int8),
        invoked=invoked,
        returned=returned,
        began=invoked,
        ended=returned,
        argument=none,
        result=none,
        fence=zeros[:0],
        lease=zeros[:0],
        good=none[:0].astype(np.int8),
    )


def all_histories(size: int, unknown: int) -> Iterator[Small]:
    """Yield every history of ``size`` calls, at most ``unknown`` of them of unknown outcome. Leave out histories that
    differ from an earlier one only in the order of neighbouring invocations or of neighbouring returns."""

    def grown(found: list[list[int]], now: int, last: tuple[int, int], left: int) -> Iterator[Small]:
        if len(found) == size and all(call[2] >= 0 for call in found):
            columns = zip(*found, strict=True)
            yield Small(*(tuple(NEVER if at == NEVER else at for at in column) for column in columns))
            return
        for kind in range(last[1] if last[0] == 0 else 0, 4 if left else 2) if len(found) < size else ():
            call = [kind % 2, now, NEVER if kind >= 2 else -1]
            yield from grown([*found, call], now + 1, (0, kind), left - kind // 2)
        for number in range(last[1] + 1 if last[0] == 1 else 0, len(found)):
            side, begun, back = found[number]
            twin = number and found[number - 1] == [side, begun - 1, -1]
            if back == -1 and not twin:
                done = [*found[:number], [side, begun, now], *found[number + 1 :]]
                yield from grown(done, now + 1, (1, number), left)

    return grown([], 0, (2, 0), unknown)


def draw_history(seed: int, size: int) -> Small:
    """Draw a history of up to ``size`` calls. About half of these histories are linearizable."""
    dice = random.Random(seed)
    count, wide = dice.randint(2, size), dice.choice((1.0, 2.0, 4.0))
    spots = [at + dice.gauss(0, 0.5) for at in range(count)]
    windows = [(at - dice.expovariate(1 / wide), at + dice.expovariate(1 / wide)) for at in spots]
    sides = [at % 2 if dice.random() < 0.9 else dice.randint(0, 1) for at in range(count)]
    lost = [dice.random() < 0.15 for _ in range(count)]
    order = {at: number for number, at in enumerate(sorted(at for window in windows for at in window))}
    rows = [
        (side, order[begin], NEVER if gone else order[end])
        for side, gone, (begin, end) in zip(sides, lost, windows, strict=True)
    ]
    return Small(*zip(*sorted(rows, key=lambda row: row[1]), strict=True))


def wrong_ones(histories: list[Small], model: Mutex | Semaphore, module: Any = deadlines) -> dict[int, Any]:
    outcome = module.check(together(histories), model)
    assert not outcome.undecided
    return {failure.key: failure for failure in outcome.failures}


def compare(histories: list[Small], model: Mutex | Semaphore) -> int:
    """Compare the verdict, the failing entry and the failing part with brute force. Return the number of failing
    histories."""
    failures = wrong_ones(histories, model)
    first = np.cumsum([0, *(len(history.sides) for history in histories)])
    for number, history in enumerate(histories):
        assert history.right(model) == (number not in failures), history
        if number in failures:
            _, position, rows = failures[number].key, failures[number].position, failures[number].rows
            part = [row - int(first[number]) for row in rows]
            assert not history.pick(part).until(position).right(model), (history, part)
            assert history.until(position - 1).right(model), (history, position)
    return len(failures)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "unknown", "number"), [(LOCKS[0], 1, 4232), (LOCKS[1], 0, 2036), (LOCKS[2], 0, 2036)]
)
def test_brute_force_agrees_on_every_history_of_five_calls(model: Mutex | Semaphore, unknown: int, number: int) -> None:
    """At most one call has an unknown outcome; in histories of up to four calls, at most three have."""
    histories = [history for size in range(1, 6) for history in all_histories(size, unknown if size == 5 else 3)]
    assert len(histories) == number
    assert compare(histories, model) > number // 4


@pytest.mark.slow
@pytest.mark.parametrize("model", LOCKS)
def test_brute_force_agrees_on_every_history_of_six_calls(model: Mutex | Semaphore) -> None:
    histories = list(all_histories(6, 3))
    assert len(histories) == 47701
    assert compare(histories, model) > 15000


@pytest.mark.long
@pytest.mark.parametrize(("model", "unknown", "number"), [(LOCKS[0], 1, 281966), (LOCKS[1], 0, 92248)])
def test_brute_force_agrees_on_every_history_of_seven_calls(
    model: Mutex | Semaphore, unknown: int, number: int
) -> None:
    histories = list(all_histories(7, unknown))
    assert len(histories) == number
    assert compare(histories, model) > number // 3


@pytest.mark.parametrize("model", LOCKS)
@pytest.mark.parametrize(
    ("number", "size"),
    [(150, 8), pytest.param(10_000, 9, marks=pytest.mark.slow), pytest.param(100_000, 9, marks=pytest.mark.long)],
)
def test_brute_force_agrees_on_drawn_histories(number: int, size: int, model: Mutex | Semaphore) -> None:
    wrong = compare([draw_history(seed, size) for seed in range(number)], model)
    assert number / 40 < wrong < number * 9 / 10


@pytest.mark.parametrize("model", LOCKS)
@pytest.mark.parametrize(
    "some", [range(30), pytest.param(range(50_000, 100_000), marks=[pytest.mark.long, pytest.mark.timeout(0)])]
)
def test_all_orders_agree_on_drawn_histories_of_twelve_calls(some: range, model: Mutex | Semaphore) -> None:
    """Brute force takes too long for so many calls, and configurations shared by histories do not."""
    histories = [draw_history(seed, 12) for seed in some]
    failures = wrong_ones(histories, model)
    for number, history in enumerate(histories):
        assert has_order(history.problem(), model) == (number not in failures), history
    assert len(some) / 40 < len(failures) < len(some) * 9 / 10


def mutated_module(*changes: tuple[str, str]) -> ModuleType:
    """Return the module with pieces of its text replaced."""
    return mutant(deadlines, *changes)


LATEST = (
    """            _pop(pending, start[other], size[other])
            size[other] -= 1""",
    "            size[other] -= 1",
)
UNKNOWN_FIRST = "elif size[other]:", "elif size[other] and not spare[other]:"
EAGER = (
    "        if known[row]:",
    """        if taken[this] != (permits if sides[row] == 0 else 0):
            taken[this] += 1 if sides[row] == 0 else -1
        elif known[row]:""",
)
NO_HELP_FROM_UNKNOWN = "elif spare[other]:", "elif False:"
NEVER_SPENT = "spare[other] -= 1", "pass"
ONE_MORE = "(permits if due == take else 0)", "(permits + 1 if due == take else 0)"
NOT_TO_THE_END = "_advance(this, NEVER, permits", "_advance(this, 0, permits"


@cache
def histories_for_mutants() -> list[Small]:
    """Return histories of up to four calls, and linearizable ones of six. It takes six calls to tell the earliest
    deadline from the latest."""
    small = [history for size in range(1, 5) for history in all_histories(size, 2)]
    six = [history for history in all_histories(6, 0) if sum(history.sides) == 3]
    wrong = wrong_ones(six, Mutex())
    return small + [history for number, history in enumerate(six) if number not in wrong]


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "change", [LATEST, UNKNOWN_FIRST, EAGER, NO_HELP_FROM_UNKNOWN, NEVER_SPENT, ONE_MORE, NOT_TO_THE_END]
)
def test_a_mutated_rule_is_caught(change: tuple[str, str]) -> None:
    assert (
        wrong_ones(histories_for_mutants(), Mutex(), mutated_module(change)).keys()
        != wrong_ones(histories_for_mutants(), Mutex()).keys()
    )


def test_the_unchanged_rule_is_not_caught() -> None:
    assert wrong_ones(histories_for_mutants(), Mutex(), mutated_module()) == wrong_ones(
        histories_for_mutants(), Mutex()
    )


def parts(history: Small, permits: int, module: Any = deadlines) -> Iterator[Small]:
    """Return the parts of ``history`` that could be mistaken for the whole history."""
    found, end = together([history]), 2 * len(history.sides)
    rows, sides = np.arange(len(history.sides)), np.array(history.sides, dtype=np.int8)
    for back in range(len(history.sides) + 1):
        part, whole = module.cut(found, rows, sides, permits, end, back)
        yield history.pick(part.tolist())
        if whole:
            return


@pytest.mark.parametrize(
    ("permits", "size"), [(1, 4), (2, 4), *(pytest.param(p, 6, marks=pytest.mark.slow) for p in (1, 2, 3))]
)
def test_every_part_of_a_linearizable_history_is_linearizable(permits: int, size: int) -> None:
    """So a failing part proves that its history fails. Brute force checks this for all such histories and all their
    parts."""
    model, smaller = Semaphore(permits), 0
    for history in all_histories(size, 2):
        if history.right(model):
            for part in parts(history, permits):
                assert part.right(model), (history, part)
                smaller += len(part.sides) < len(history.sides)
    assert smaller > 20


@pytest.mark.parametrize(
    "change",
    [
        ("(taken >= 0) & (taken <= permits)", "taken <= permits"),
        ("    gone[_holders(calls, over[:chosen], sides, int(taken[chosen]))] = False\n", ""),
    ],
)
def test_a_mutated_choice_of_parts_is_caught(change: tuple[str, str]) -> None:
    module = mutated_module(change)
    rights = (history for size in range(1, 5) for history in all_histories(size, 2) if history.right(Mutex()))
    assert any(not part.right(Mutex()) for history in rights for part in parts(history, 1, module))


def plain(history: Small, permits: int) -> int:
    """The same rule in its simplest form: return the entry at which no order is left."""
    waiting: dict[int, list[int]] = {TAKE: [], GIVE: []}
    taken = 0
    entries = [(at, 0, call) for call, at in enumerate(history.invoked)]
    entries += [(at, 1, call) for call, at in enumerate(history.returned) if at != NEVER]
    for at, back, call in sorted(entries):
        side = history.sides[call]
        if not back:
            waiting[side].append(history.returned[call])
        elif at in waiting[side]:
            waiting[side].remove(at)
            if taken == (0 if side else permits):
                if not waiting[1 - side]:
                    return at
                waiting[1 - side].remove(min(waiting[1 - side]))
            else:
                taken += 1 - 2 * side
    return NEVER


@pytest.mark.slow
def test_hundreds_of_pending_calls_give_the_answer_of_the_plain_rule() -> None:
    """The heaps give the same answers as a linear search through a list."""
    dice = random.Random(5)
    wrong = 0
    for _ in range(20):
        spots = [(at + dice.gauss(0, 3), at % 2 if dice.random() < 0.9 else TAKE) for at in range(600)]
        windows = [(at - dice.expovariate(0.02), at + dice.expovariate(0.02), side) for at, side in spots]
        order = {at: number for number, at in enumerate(sorted(at for window in windows for at in window[:2]))}
        rows = sorted(
            (order[begin], NEVER if dice.random() < 0.1 else order[end], side) for begin, end, side in windows
        )
        begun, back, sides = zip(*rows, strict=True)
        history = Small(sides, begun, back)
        for permits in (1, 3):
            position = plain(history, permits)
            failure = wrong_ones([history], Semaphore(permits)).get(0, SimpleNamespace(position=NEVER))
            assert failure.position == position
            wrong += position != NEVER
    assert 5 < wrong < 40


def sequential(*calls: str) -> list[tuple[int, str, str]]:
    """Return a history of calls one after the other: ``a`` acquires, ``r`` releases, and the digit is the client."""
    names = {"a": "acquire", "r": "release"}
    return [(int(call[1]), kind, names[call[0]]) for call in calls for kind in ("invoke", "ok")]


def test_a_second_holder_among_many_calls_is_explained_by_two_calls() -> None:
    turns = [call for turn in range(1000) for call in (f"a{turn % 7}", f"r{turn % 7}")]
    found = calls(sequential(*turns, "a1", "a2", "r2", "r1", *turns))
    (failure,) = deadlines.check(found, Mutex()).failures
    assert (failure.position, failure.rows) == (4003, (2000, 2001))
    assert deadlines.check(found, Semaphore(2)).failures == ()


def test_the_explanation_lists_permits_that_clients_still_hold() -> None:
    found = calls(sequential("a1", "a2", "a3", "r3", "a4", "r4", "a5", "a6"))
    (failure,) = deadlines.check(found, Semaphore(3)).failures
    assert failure.rows == (0, 1, 6, 7)


def test_the_explanation_includes_earlier_uses_of_an_unknown_release() -> None:
    """The release of unknown outcome would allow the last acquire, but an earlier acquire already needed it."""
    lost = [(9, "invoke", "release"), (9, "info", "release")]
    held = sequential("a1", "r1", "a2", "r2", "a3", "r3")
    assert not deadlines.check(calls([*lost, *sequential("a1", "a2", "r2", "a4")]), Mutex()).failures
    found = calls([*held, *lost, *sequential("a1", "a2", "r2", "a4", "r4", "a5", "a6")])
    (failure,) = deadlines.check(found, Mutex()).failures
    part = problem(found.pick(np.array(failure.rows)), Mutex(), 0)
    assert not linearizable(part, Mutex())
    assert failure.rows == (6, 7, 12, 13)


def test_keys_are_checked_separately_and_calls_of_other_models_are_ignored() -> None:
    entries = [
        (0, "invoke", "lock", None, "x"),
        (1, "invoke", "read", None, "x"),
        (0, "ok", "lock", None, "x"),
        (2, "invoke", "lock", None, "y"),
        (1, "ok", "read", None, "x"),
        (2, "ok", "lock", None, "y"),
        (1, "invoke", "lock", None, "y"),
        (0, "invoke", "unlock", None, "x"),
        (0, "ok", "unlock", None, "x"),
        (1, "ok", "lock", None, "y"),
    ]
    outcome = deadlines.check(calls(entries), Mutex())
    assert [(failure.key, failure.position, failure.rows) for failure in outcome.failures] == [(1, 9, (2, 3))]
    assert deadlines.check(calls([]), Mutex()).failures == ()
    assert deadlines.check(calls(islice(entries, 6)), Mutex()).failures == ()
