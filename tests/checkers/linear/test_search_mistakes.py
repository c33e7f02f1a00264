"""Brute force catches copies of the search's loop that have one mistake each."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Final

import pytest

from harness.checkers.linearizability import kernel
from harness.checkers.linearizability import search as searching
from harness.checkers.linearizability.problem import LOOSE, MUST, KeyProblem
from harness.checkers.linearizability.search import Searcher
from harness.checkers.models import Operation
from tests.checkers.linear.problems import ALPHABETS, agree, draw_ordered_problem, put

MISTAKES: Final = {
    "a write that changes nothing now is linearized at once": (
        "if nature[fixed[OPERATION, call]] == STILL and fixed",
        "if fixed",
    ),
    "a LOOSE call must be linearized": ("if tried == FIRST and fixed[KIND, call] == LOOSE:", "if False:"),
    "a LOOSE call stands for a MUST call of its operation": (
        "(must and marks[operation] == loose)",
        "False",
    ),
    "a configuration that used more is as good": (
        "more &= entries[entry, i + 1] & ~words[i] == 0",
        "more &= words[i] & ~entries[entry, i + 1] == 0",
    ),
    "calls of unknown outcome do not count": (
        "for i in range(firm, width):\n                    more &= e",
        "for i in range(0):\n                    more &= e",
    ),
    "the state does not count": ("key = (reg[LEVEL] << 32) | reg[STATE]", "key = reg[LEVEL] << 32"),
    "a MUST call that is not linearized is as good as one that is": (
        "firm, width = reg[FIRM], len(words)",
        "firm, width = 0, len(words)",
    ),
    "a call of unknown outcome before it began": ("if call < fixed[INVOKED, reg[LEVEL]]:", "if True:"),
    "only one call of unknown outcome of an operation": (
        "live[USED, moved - reg[CALLS]] -= 1",
        "pass",
    ),
    "only the call that returns next": ("call = live[NEXT, call]\n    for group", "call = n\n    for group"),
    "no write at all after one that nobody sees": ("return int(before == 2)", "return 1"),
    "no write if one other returns before": ("return int(before == 2)", "return int(before >= 1)"),
    "a call that saw the write is forgotten": ("reg[BARRED] = 0", "pass"),
}
"""Replacements in the text of the loop: the old text and the new one."""


@pytest.mark.few(6)
@pytest.mark.parametrize("mistake", [None, *MISTAKES])
def test_a_mistake_in_the_loop_is_caught(mistake: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop with one mistake, or with none as the control."""
    wrong = plain(*MISTAKES[mistake]) if mistake else plain("", "")
    monkeypatch.setattr(searching, "kernel", wrong)
    rng = random.Random(5)
    model, operations = ALPHABETS["cas-register"]
    few = [operations[i] for i in (1, 2, 3, 6, 4)]
    searcher = Searcher(model, few)
    problems = itertools.chain(
        [swap_problem(few)], (draw_ordered_problem(rng, model, few, 10) for _ in range(2000 if mistake else 300))
    )
    try:
        noticed = any(not agree(part, model, searcher) for part in problems)
    except (AssertionError, IndexError):
        noticed = True
    assert noticed is bool(mistake)


def swap_problem(operations: Sequence[Operation]) -> KeyProblem:
    """A write of 0, two swaps of 1 for 0 (one must take effect; the other may, and returns first), and a read of
    1."""
    write, swap, read = (operations.index(one) for one in (operations[2], operations[3], operations[1]))
    windows = [(MUST, 0, 1), (LOOSE, 2, 6), (MUST, 3, 7), (MUST, 4, 5)]
    return put(windows, [write, swap, swap, read], operations)


def plain(old: str, new: str) -> ModuleType:
    """Return the loop with ``new`` in the place of ``old``."""
    text = Path(str(kernel.__file__)).read_text(encoding="utf-8")
    assert not old or text.count(old) == 1, old
    module = ModuleType("plain")
    module.__package__ = kernel.__package__
    exec(compile(text.replace(old, new) if old else text, "plain", "exec"), module.__dict__)
    return module
