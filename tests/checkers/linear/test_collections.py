"""Models of stores and collections: histories with verdicts worked out by hand, in memory and as EDN."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from harness import check as check_file
from harness.checkers.linearizability.check import ModelError, check
from harness.checkers.models import MODELS
from tests.checkers.linear.build import Entry, calls, without_grants


def call(f: str, argument: Any = None, result: Any = None, *, by: int = 0) -> list[Entry]:
    """Return a call that overlaps with no other one."""
    return [(by, "invoke", f, argument), (by, "ok", f, result)]


def begun(f: str, argument: Any = None, *, by: int) -> list[Entry]:
    return [(by, "invoke", f, argument)]


def done(f: str, result: Any = None, *, by: int) -> list[Entry]:
    return [(by, "ok", f, result)]


Story = tuple[str, list[Entry], bool]
TWO: Final = [*call("enqueue", 1), *call("enqueue", 2)]
PUSHED: Final = [*call("push", 1), *call("push", 2)]
STORIES: Final[dict[str, Story]] = {
    "queue: first in, first out": ("queue", [*TWO, *call("dequeue", None, 1), *call("dequeue", None, 2)], True),
    "queue: the second comes first": ("queue", [*TWO, *call("dequeue", None, 2)], False),
    "queue: concurrent enqueues have any order": (
        "queue",
        [*begun("enqueue", 1, by=0), *call("enqueue", 2, by=1), *done("enqueue", by=0), *call("dequeue", None, 2)],
        True,
    ),
    "queue: empty although it holds an element": ("queue", [*call("enqueue", 1), *call("dequeue")], False),
    "queue: empty before the enqueue takes effect": (
        "queue",
        [*begun("enqueue", 1, by=1), *call("dequeue"), *done("enqueue", by=1), *call("dequeue", None, 1)],
        True,
    ),
    "queue: an element comes twice": ("queue", [*TWO, *call("dequeue", None, 1), *call("dequeue", None, 1)], False),
    "queue: an element that nobody enqueued": ("queue", [*TWO, *call("dequeue", None, 3)], False),
    "queue: an unknown dequeue took the first": (
        "queue",
        [*TWO, *begun("dequeue", by=1), *call("dequeue", None, 2)],
        True,
    ),
    "queue: an unknown enqueue took effect": (
        "queue",
        [*begun("enqueue", 1, by=1), *call("dequeue", None, 1)],
        True,
    ),
    "stack: last in, first out": ("stack", [*PUSHED, *call("pop", None, 2), *call("pop", None, 1)], True),
    "stack: the first comes first": ("stack", [*PUSHED, *call("pop", None, 1)], False),
    "stack: empty at the end": ("stack", [*call("push", 1), *call("pop", None, 1), *call("pop")], True),
    "stack: empty too early": ("stack", [*call("push", 1), *call("pop")], False),
    "set: contains what was added": ("set", [*call("add", 1), *call("contains", 1, True)], True),
    "set: lost an element": ("set", [*call("add", 1), *call("contains", 1, False)], False),
    "set: removed": ("set", [*call("add", 1), *call("remove", 1, True), *call("contains", 1, False)], True),
    "set: removed twice": ("set", [*call("add", 1), *call("remove", 1, True), *call("remove", 1, True)], False),
    "set: read": ("set", [*call("add", 1), *call("add", 2), *call("read", None, (2, 1))], True),
    "set: a read misses an element": ("set", [*call("add", 1), *call("add", 2), *call("read", None, (2,))], False),
    "list: in order": (
        "append-only-list",
        [*call("append", 1), *call("append", 2), *call("read", None, (1, 2))],
        True,
    ),
    "list: out of order": (
        "append-only-list",
        [*call("append", 1), *call("append", 2), *call("read", None, (2, 1))],
        False,
    ),
    "kv: never put": ("kv", [*call("get", None, ""), *call("get")], True),
    "kv: put, append, get": ("kv", [*call("put", "a"), *call("append", "b"), *call("get", None, "ab")], True),
    "kv: the append is lost": ("kv", [*call("put", "a"), *call("append", "b"), *call("get", None, "a")], False),
    "kv: compare and set": ("kv", [*call("put", "a"), *call("cas", ("a", "b")), *call("get", None, "b")], True),
    "kv: compares another value": ("kv", [*call("put", "a"), *call("cas", ("b", "c"))], False),
    "registers: both at once": (
        "multi-register",
        [*call("txn", (("w", "x", 1), ("w", "y", 2))), *call("txn", None, (("r", "x", 1), ("r", "y", 2)))],
        True,
    ),
    "registers: one of two": (
        "multi-register",
        [*call("txn", (("w", "x", 1), ("w", "y", 2))), *call("txn", None, (("r", "x", 1), ("r", "y", None)))],
        False,
    ),
    "registers: a transaction reads its own write": (
        "multi-register",
        [*call("txn", (("write", "x", 1), ("read", "x", 1)), (("write", "x", 1), ("read", "x", 1)))],
        True,
    ),
}


@pytest.mark.few(4)
@pytest.mark.parametrize(("model", "entries", "valid"), STORIES.values(), ids=STORIES.keys())
@pytest.mark.parametrize("quick", [True, False], ids=["quick", "searched"])
def test_verdict_is_the_one_worked_out_by_hand(model: str, entries: list[Entry], valid: bool, quick: bool) -> None:
    found = check(without_grants(calls(entries)), MODELS[model](), name=model, quick=quick)
    assert found.verdict.valid is valid, found.verdict.explanation
    if not valid:
        assert found.verdict.evidence[0].involved


WRONG_VALUES: Final = {
    "queue": (call("enqueue"), "the value of enqueue is an element, got nil"),
    "set": (call("read", None, 5), "a read returns a collection of elements, got 5"),
    "kv": (call("append", 5), "the value of an append is a text, got 5"),
    "multi-register": (call("txn", (("swap", "x", 1),)), r"is a read \(r\) or a write \(w\), got"),
}


@pytest.mark.parametrize(("model", "entries", "message"), [(name, *rest) for name, rest in WRONG_VALUES.items()])
def test_value_that_the_model_cannot_read_is_named(model: str, entries: list[Entry], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        check(without_grants(calls(entries)), MODELS[model](), name=model)


def test_transactions_of_two_parts_are_no_pairs_of_key_and_value(tmp_path: Path) -> None:
    file = tmp_path / "history.edn"
    lines = [
        (0, "invoke", "[[:write :x 1] [:write :y 2]]"),
        (0, "ok", "[[:write :x 1] [:write :y 2]]"),
        (1, "invoke", "[[:read :x nil] [:read :y nil]]"),
        (1, "ok", "[[:read :x 1] [:read :y 3]]"),
    ]
    text = [f"{{:process {process}, :type :{kind}, :f :txn, :value {value}}}" for process, kind, value in lines]
    file.write_text("\n".join(text) + "\n")
    report = check_file(file, "multi-register")
    assert report.verdict.valid is False
    assert ":y is 2" in report.verdict.explanation


def test_a_store_has_a_key_in_each_entry(tmp_path: Path) -> None:
    """As the logs of Porcupine."""
    file = tmp_path / "history.edn"
    lines = [
        (0, "invoke", "append", "a", '"x 0 0 y"'),
        (0, "ok", "append", "a", '"x 0 0 y"'),
        (1, "invoke", "get", "b", "nil"),
        (1, "ok", "get", "b", '""'),
        (2, "invoke", "get", "a", "nil"),
        (2, "ok", "get", "a", '"x 0 0 y"'),
    ]
    text = [
        f'{{:process {process}, :type :{kind}, :f :{f}, :key "{key}", :value {value}}}'
        for process, kind, f, key, value in lines
    ]
    file.write_text("\n".join(text) + "\n")
    report = check_file(file, "kv")
    assert (report.verdict.valid, report.verdict.stats["keys"]) == (True, 2)
