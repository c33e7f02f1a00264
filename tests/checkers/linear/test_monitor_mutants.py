"""Mistakes in the monitors of collections and registers, each of which changes some verdict."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import Final

import pytest

from harness.checkers.linearizability import chains, elements, lists, queues, sets, stacks
from harness.checkers.linearizability.problem import QuickResult
from harness.checkers.models import CasRegister, KeyValue
from harness.history.calls import Calls
from tests.checkers.linear.build import Entry, mutant
from tests.checkers.linear.test_monitors import BATCH, CASES, batched, concatenated, draw_history, run_history

NUMBER: Final = 500
Check = Callable[[ModuleType, Calls], QuickResult]


def check_queue_elements(module: ModuleType, calls: Calls) -> QuickResult:
    found: QuickResult = module.check(calls, "enqueue", queues._failures)
    return found


def check_stack(module: ModuleType, calls: Calls) -> QuickResult:
    found: QuickResult = module.check_stacks(calls)
    return found


def check_queue(module: ModuleType, calls: Calls) -> QuickResult:
    found: QuickResult = module.check_queues(calls)
    return found


def check_register(module: ModuleType, calls: Calls) -> QuickResult:
    found: QuickResult = module.check(calls, CasRegister())
    return found


def check_store(module: ModuleType, calls: Calls) -> QuickResult:
    found: QuickResult = module.check(calls, KeyValue())
    return found


def check_set(module: ModuleType, calls: Calls) -> QuickResult:
    found: QuickResult = module.check(calls)
    return found


def check_list(module: ModuleType, calls: Calls) -> QuickResult:
    found: QuickResult = module.check(calls, ordered=True)
    return found


def check_growing_set(module: ModuleType, calls: Calls) -> QuickResult:
    found: QuickResult = module.check(calls, ordered=False)
    return found


Mistake = tuple[str, ModuleType, Check, str, str]
"""The case whose histories are judged, the module, how it is called, and the text that is replaced by another."""
MISTAKES: Final[dict[str, Mistake]] = {
    "an element may be removed before it is added": (
        "queue", elements, check_queue_elements,
        "(line.invoked[add] > line.returned[remove])", "(line.invoked[add] < 0)",
    ),
    "an element may be removed twice": (
        "queue", elements, check_queue_elements, "again = remove[place] != taken", "again = remove[place] < 0",
    ),
    "an element may come from nowhere": (
        "queue", elements, check_queue_elements, "for row in taken[~there].tolist()", "for row in []",
    ),
    "an unknown add never happened": (
        "queue", elements, check_queue_elements, "(known[add] | (remove != NONE)) &", "known[add] &",
    ),
    "an unknown removal never happened": (
        "queue", elements, check_queue_elements, "if matched.unsure[one.key]]", "if False]",
    ),
    "elements leave a queue in any order": (
        "queue", queues, check_queue, "(elements.c[first] > elements.d)", "(elements.c[first] < 0)",
    ),
    "concurrent enqueues have an order": (
        "queue", queues, check_queue, "elements.b[order], elements.a)", "elements.b[order], elements.b)",
    ),
    "a queue may be empty at any time": (
        "queue", queues, check_queue, "*false_empties(calls, line, elements)]", "]",
    ),
    "a queue is never empty while the same element stays": (
        "queue", queues, check_queue, "chain_end[place] > returned", "end[place] > returned",
    ),
    "a stack may be empty at any time": (
        "stack", stacks, check_stack, "*false_empties(calls, line, elements), ", "",
    ),
    "a root is pushed first or popped last": (
        "stack", stacks, check_stack, "ready[element] == 2", "ready[element] == 1",
    ),
    "a component needs no root": ("stack", stacks, check_stack, "component[element] = found", "pass"),
    "elements without a core matter": (
        "stack", stacks, check_stack, "np.flatnonzero(elements.b < elements.c)",
        "np.flatnonzero(elements.b < elements.d)",
    ),
    "calls of a block have any order": ("cas-register", chains, check_register, "(before > returned)", "(before < 0)"),
    "two writes may follow one value": (
        "cas-register", chains, check_register, "        yield from self._branches()\n", "",
    ),
    "writes may follow each other in a circle": (
        "cas-register", chains, check_register, "        yield from self._circles()\n", "",
    ),
    "a write may follow a value that nobody wrote": (
        "cas-register", chains, check_register, "        yield from self._lost()\n", "",
    ),
    "long blocks may overlap": (
        "cas-register", chains, check_register, "s[latest[:-1]] > f[long[1:]]", "s[latest[:-1]] < 0",
    ),
    "a short block may lie in a long one": (
        "cas-register", chains, check_register, "(s[latest[place]] > f[short])", "(s[latest[place]] < 0)",
    ),
    "a block lies in a long one that ends before it": (
        "cas-register", chains, check_register, "(s[latest[place]] > f[short])", "(s[latest[place]] > s[short])",
    ),
    "appends have any order": ("kv", chains, check_store, "(before > returned)", "(before < 0)"),
    "a miss needs a moment before the add": (
        "set", sets, check_set, "(calls.returned[self._misses] < removed[key])", "(removed[key] > 0)",
    ),
    "a find needs no moment": (
        "set", sets, check_set, "np.minimum(self._add.end, self._first), end)", "self._add.end, end)",
    ),
    "a remove without an answer changed the set": ("set", sets, check_set, "(removed | kept)", "removed"),
    "an unknown add never happened in a set": (
        "set", sets, check_set, "needed = (self._last != NONE) | firm", "needed = firm",
    ),
    "reads of a list need not agree": (
        "append-only-list", lists, check_list, "== one if self._ordered", "is not None if self._ordered",
    ),
    "reads of a set need not agree": ("set with reads", lists, check_growing_set, "set(one) <= set(two)", "True"),
    "adds and reads have any order": (
        "set with reads", lists, check_growing_set, "returned[row] < invoked[latest]", "returned[row] < 0",
    ),
}  # fmt: skip


CIRCLE: Final[list[Entry]] = [
    (0, "invoke", "cas", (1, 2)),
    (1, "invoke", "cas", (2, 1)),
    (0, "ok", "cas"),
    (1, "ok", "cas"),
]


@cache
def histories(case: str) -> list[Calls]:
    model, draw, run = CASES[case]
    dice = random.Random(7)
    drawn = [draw_history(dice, draw, 3 + n % 4, 3, dice.choice((0, 0.2))) for n in range(NUMBER)]
    drawn += [run_history(dice, model, run) for _ in range(NUMBER)]
    drawn += [CIRCLE] if case == "cas-register" else []
    return [concatenated(batch) for batch in batched(drawn, BATCH)]


def verdicts(check: Check, module: ModuleType, case: str) -> list[tuple[set[int], tuple[int, ...]]]:
    outcomes = [check(module, calls) for calls in histories(case)]
    return [({failure.key for failure in found.failures}, found.undecided) for found in outcomes]


@cache
def right_verdicts(check: Check, module: ModuleType, case: str) -> list[tuple[set[int], tuple[int, ...]]]:
    return verdicts(check, module, case)


@pytest.mark.few(6)
@pytest.mark.parametrize(("case", "module", "check", "old", "new"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_changes_a_verdict(case: str, module: ModuleType, check: Check, old: str, new: str) -> None:
    changed = verdicts(check, mutant(module, (old, new)), case)
    assert changed != right_verdicts(check, module, case)
