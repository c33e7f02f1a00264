"""The monitors of collections, compared with brute force."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from itertools import islice, product
from typing import Any, Final

import numpy as np
import pytest

from harness.checkers.linearizability.check import check, quick_algorithm
from harness.checkers.linearizability.problem import KeyProblem, problem
from harness.checkers.models import (
    AppendOnlyList,
    CasRegister,
    ElementSet,
    FifoQueue,
    Inconsistent,
    KeyValue,
    Model,
    MultiRegister,
    Operation,
    Stack,
)
from harness.history.calls import NEVER, Calls
from tests.checkers.linear.brute import linearizable
from tests.checkers.linear.build import Entry, calls, without_grants

Doing = tuple[str, Any, Any]
"""A function, its argument, and what it returns if that is known."""
Draw = Callable[[random.Random, int], Doing]
"""Draws a call, given the number of calls before."""


def concatenated(histories: list[list[Entry]]) -> Calls:
    """Return one history in which each of ``histories`` has a key of its own, one after the other."""
    entries: list[Entry] = []
    first = 0
    for number, history in enumerate(histories):
        most = max(entry[0] for entry in history) + 1
        entries += [(first + entry[0], entry[1], entry[2], value_of(entry), f"{number}") for entry in history]
        first += most
    return without_grants(calls(entries))


def value_of(entry: Entry) -> Any:
    return entry[3] if len(entry) > 3 else None


def draw_history(dice: random.Random, draw: Draw, count: int, clients: int, unknown: float) -> list[Entry]:
    """Draw ``count`` calls, interleaved at random, some of which never return."""
    entries: list[Entry] = []
    going: dict[int, Doing] = {}
    process, made = 0, 0
    while made < count or going:
        if made < count and ((len(going) < clients and dice.random() < 0.5) or not going):
            going[process] = draw(dice, made)
            entries.append((process, "invoke", *going[process][:2]))
            process, made = process + 1, made + 1
            continue
        ended = dice.choice(list(going))
        f, _, result = going.pop(ended)
        if dice.random() >= unknown:
            entries.append((ended, "ok", f, result))
    return entries


def draw_element(adds: str, removes: str, size: int = 4) -> Draw:
    """Draw calls that add each element once, and calls that remove any of ``size`` elements or find nothing."""

    def draw(dice: random.Random, number: int) -> Doing:
        if dice.random() < 0.5:
            return adds, number + 1, None
        return removes, None, dice.choice((None, *range(1, size + 1)))

    return draw


def run_history(dice: random.Random, model: Model, doings: Callable[[random.Random, Any, int], Doing]) -> list[Entry]:
    """Return a history that ``model`` allows, or one with two changed entries: windows around a sequential run."""
    state: Any = model.initial
    count = dice.randint(4, 9)
    events: list[tuple[float, int, Entry]] = []
    wide = dice.choice((0.4, 1.2, 3.0))
    for number in range(count):
        f, argument, result = doings(dice, state, number)
        after = model.step(state, Operation(f, argument, result))
        state = state if isinstance(after, Inconsistent) else after
        begin, end = number - dice.uniform(0, wide), number + dice.uniform(0, wide)
        events.append((begin, number, (number, "invoke", f, argument)))
        if dice.random() > 0.1:
            events.append((end, number, (number, "ok", f, result)))
    if dice.random() < 0.6:
        one, two = dice.randrange(len(events)), dice.randrange(len(events))
        events[one], events[two] = (events[two][0], *events[one][1:]), (events[one][0], *events[two][1:])
    begun: set[int] = set()
    entries = []
    for _, number, entry in sorted(events, key=lambda event: event[0]):
        if entry[1] == "invoke":
            begun.add(number)
        if number in begun:
            entries.append(entry)
    return entries


BATCH: Final = 200
"""Histories that are checked together, as keys of one."""


def compare(model: Model, histories: Iterable[list[Entry]]) -> tuple[int, int]:
    """Compare each verdict and each wrong part with brute force; return the numbers of wrong and of undecided ones."""
    counts = [compare_batch(model, batch) for batch in batched(histories, BATCH)]
    return sum(wrong for wrong, _ in counts), sum(undecided for _, undecided in counts)


def batched(histories: Iterable[list[Entry]], size: int) -> Iterator[list[list[Entry]]]:
    left = iter(histories)
    while batch := list(islice(left, size)):
        yield batch


def compare_batch(model: Model, histories: list[list[Entry]]) -> tuple[int, int]:
    found = concatenated(histories)
    algorithm = quick_algorithm(model)
    assert algorithm is not None
    outcome = algorithm(found)
    failures = {failure.key: failure for failure in outcome.failures}
    for key, history in enumerate(histories):
        if key in outcome.undecided:
            assert key not in failures
            continue
        part = problem(found, model, key)
        assert linearizable(part, model) == (key not in failures), history
        if key in failures:
            rows = np.array(failures[key].rows)
            assert not linearizable(at(found, model, key, rows, failures[key].position), model), (history, rows)
    return len(failures), len(outcome.undecided)


def at(found: Calls, model: Model, key: int, rows: Any, position: int) -> KeyProblem:
    """Return the problem of these rows as known up to and including ``position``."""
    part = found.pick(rows)
    part = part.pick(part.invoked <= position)
    late = part.returned > position
    part.known = np.where(late, 0, part.known).astype(np.int8)
    part.returned = np.where(late, NEVER, part.returned)
    return problem(part, model, key)


QUEUE: Final = draw_element("enqueue", "dequeue")


def queue_run(dice: random.Random, state: Any, number: int) -> Doing:
    if dice.random() < 0.5:
        return "enqueue", number + 1, None
    return "dequeue", None, state[0] if state else None


def stack_run(dice: random.Random, state: Any, number: int) -> Doing:
    if dice.random() < 0.55:
        return "push", number + 1, None
    return "pop", None, state[-1] if state else None


def draw_write(dice: random.Random, number: int) -> Doing:
    """Draw a write of a new value, a compare-and-set to one, or a read of any."""
    f = dice.choice(("write", "cas", "read", "read"))
    if f == "read":
        return f, None, dice.choice((None, *range(1, 5)))
    value = number + 1 if f == "write" else (dice.choice((None, 1, 2, 3)), number + 1)
    return f, value, None


def register_run(dice: random.Random, state: Any, number: int) -> Doing:
    f = dice.choice(("write", "cas", "read", "read"))
    if f == "read":
        return f, None, state
    return f, number + 1 if f == "write" else (state, number + 1), None


def draw_text(dice: random.Random, number: int) -> Doing:
    """Draw a put or an append of a new letter, or a get of any few."""
    f = dice.choice(("put", "append", "append", "get", "get"))
    if f == "get":
        return f, None, "".join(dice.sample("abcd", dice.randint(0, 2)))
    return f, "abcdefghij"[number], None


def text_run(dice: random.Random, state: Any, number: int) -> Doing:
    f = dice.choice(("put", "append", "append", "append", "get", "get", "get"))
    return (f, None, state) if f == "get" else (f, "abcdefghij"[number], None)


def draw_on_set(dice: random.Random, number: int) -> Doing:
    """Draw a call on one element."""
    f = dice.choice(("add", "remove", "contains", "contains"))
    return f, 1, dice.choice((True, False)) if f == "contains" else dice.choice((None, None, True, False))


def set_run(dice: random.Random, state: Any, number: int) -> Doing:
    f = dice.choice(("add", "remove", "contains", "contains"))
    said = (1 in state) == (f != "add")
    return f, 1, said if f == "contains" else dice.choice((None, said))


def draw_read(f: str) -> Draw:
    """Draw an add of a new element, or a read of any few."""

    def draw(dice: random.Random, number: int) -> Doing:
        if dice.random() < 0.5:
            return f, number + 1, None
        return "read", None, tuple(dice.sample(range(1, number + 2), dice.randint(0, min(2, number))))

    return draw


def read_run(f: str) -> Callable[[random.Random, Any, int], Doing]:
    def run(dice: random.Random, state: Any, number: int) -> Doing:
        if dice.random() < 0.5:
            return f, number + 1, None
        kept = dice.choice((1.0, 1.0, 0.6))  # a read that misses some elements is wrong
        return "read", None, tuple(value for value in state if dice.random() < kept)

    return run


CASES: Final = {
    "set": (ElementSet(), draw_on_set, set_run),
    "set with reads": (ElementSet(), draw_read("add"), read_run("add")),
    "append-only-list": (AppendOnlyList(), draw_read("append"), read_run("append")),
    "cas-register": (CasRegister(), draw_write, register_run),
    "kv": (KeyValue(), draw_text, text_run),
    "queue": (FifoQueue(), QUEUE, queue_run),
    "stack": (Stack(), draw_element("push", "pop"), stack_run),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("number", [150, pytest.param(3_000, marks=pytest.mark.slow)])
def test_brute_force_agrees_on_drawn_histories(name: str, number: int) -> None:
    model, draw, run = CASES[name]
    dice = random.Random(number)
    drawn = [draw_history(dice, draw, 2 + n % 4, 3, dice.choice((0, 0.2))) for n in range(number)]
    drawn += [run_history(dice, model, run) for _ in range(number)]
    wrong, undecided = compare(model, drawn)
    assert number / 5 < wrong < number * 9 / 5
    assert undecided < number * (1 if name == "set" else 0.3)


def test_appends_that_contradict_each_other_are_proved_wrong_by_what_tells_of_them() -> None:
    """The texts say that c is the first append and the second one. The order of a and c is not known otherwise."""
    entries: list[Entry] = [
        (0, "invoke", "append", "a"), (1, "invoke", "get", None), (2, "invoke", "append", "c"),
        (2, "ok", "append", None), (1, "ok", "get", "c"), (3, "invoke", "get", None), (4, "invoke", "get", None),
        (0, "ok", "append", None), (4, "ok", "get", "ac"), (3, "ok", "get", "b"),
    ]  # fmt: skip
    assert compare(KeyValue(), [entries]) == (1, 0)
    assert compare(KeyValue(), [entries[:-1]]) == (1, 0)


def small_histories(doings: list[Doing], count: int) -> Iterator[list[Entry]]:
    """Yield all histories of ``count`` calls of these kinds, each with or without a return, in all interleavings."""

    def more(entries: list[Entry], going: list[tuple[int, Doing]], made: int) -> Iterator[list[Entry]]:
        if made == count:
            yield from ending(entries, going)
            return
        for doing in doings:
            yield from more([*entries, (made, "invoke", *doing[:2])], [*going, (made, doing)], made + 1)
        for process, doing in going:
            left = [other for other in going if other[0] != process]
            yield from more([*entries, (process, "ok", doing[0], doing[2])], left, made)

    def ending(entries: list[Entry], going: list[tuple[int, Doing]]) -> Iterator[list[Entry]]:
        for returns in product((False, True), repeat=len(going)):
            last = [(p, "ok", d[0], d[2]) for (p, d), known in zip(going, returns, strict=True) if known]
            yield [*entries, *last]

    return more([], [], 0)


KINDS: Final[dict[str, list[Doing]]] = {
    "set": [
        *(("add", 1, said) for said in (None, True, False)),
        *(("remove", 1, said) for said in (None, True, False)),
        *(("contains", 1, said) for said in (True, False)),
    ],
    "set with reads": [*(("add", value, None) for value in (1, 2)), *(("read", None, v) for v in ((), (1,), (2, 1)))],
    "append-only-list": [
        *(("append", value, None) for value in (1, 2)),
        *(("read", None, values) for values in ((), (1,), (2, 1), (1, 2))),
    ],
    "cas-register": [
        *(("write", 1, None), ("cas", (1, 2), None), ("cas", (None, 1), None), ("cas", (2, 3), None)),
        *(("read", None, value) for value in (None, 1, 2)),
    ],
    "kv": [
        *(("put", "a", None), ("append", "b", None), ("append", "c", None)),
        *(("get", None, value) for value in ("", "a", "b", "ab", "cb")),
    ],
    "queue": [("enqueue", 1, None), ("enqueue", 2, None), *(("dequeue", None, value) for value in (None, 1, 2))],
    "stack": [("push", 1, None), ("push", 2, None), *(("pop", None, value) for value in (None, 1, 2))],
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("count", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_brute_force_agrees_on_all_small_histories(name: str, count: int) -> None:
    histories = list(small_histories(KINDS[name], count))
    wrong, _ = compare(CASES[name][0], histories)
    assert wrong > len(histories) / 20


def draw_on_two_elements(dice: random.Random, number: int) -> Doing:
    f, _, said = draw_on_set(dice, number)
    return f, dice.choice((1, 2)), said


def draw_transaction(dice: random.Random, number: int) -> Doing:
    """Draw a transaction on one or two of four registers, which may be connected or not."""
    registers = dice.choice(("a", "b", "ab", "c", "cd"))
    parts = [(dice.choice("rw"), register, dice.choice((None, 1, 2))) for register in registers]
    return "txn", tuple(parts), tuple(parts)


def draw_twice(dice: random.Random, number: int) -> Doing:
    """Draw a call on a store in which texts occur twice."""
    f = dice.choice(("put", "append", "append", "cas", "get", "get"))
    if f == "cas":
        return f, (dice.choice(("", "a", "ab")), dice.choice("ab")), None
    value = dice.choice("ab")
    return (f, None, dice.choice(("", "a", "ab", "ba"))) if f == "get" else (f, value, None)


SPLIT: Final[dict[str, tuple[Model, Draw]]] = {
    "set": (ElementSet(), draw_on_two_elements),
    "multi-register": (MultiRegister(), draw_transaction),
    "kv": (KeyValue(), draw_twice),
}


@pytest.mark.parametrize("name", SPLIT)
@pytest.mark.parametrize("number", [100, pytest.param(3_000, marks=pytest.mark.slow)])
def test_check_agrees_with_brute_force_on_the_whole_key(name: str, number: int) -> None:
    """Also where the check splits a key, or joins states of a store."""
    model, draw = SPLIT[name]
    dice, wrong = random.Random(number), 0
    for n in range(number):
        found = concatenated([draw_history(dice, draw, 3 + n % 4, 3, dice.choice((0, 0.2)))])
        verdict = check(found, model, workers=1).verdict
        assert verdict.valid == linearizable(problem(found, model, 0), model), found
        wrong += verdict.valid is False
    assert number / 10 < wrong < number * 9 / 10


def test_parts_of_a_key_are_named() -> None:
    added: list[Entry] = [(0, kind, "add", value) for value in (1, 2) for kind in ("invoke", "ok")]
    missed: list[Entry] = [(0, "invoke", "contains", 2), (0, "ok", "contains", False)]
    verdict = check(without_grants(calls([*added, *missed])), ElementSet(), name="set").verdict
    assert verdict.explanation.startswith("No order of the calls on element 2 of k gets past entry 5")
    assert verdict.stats["keys"] == 1
