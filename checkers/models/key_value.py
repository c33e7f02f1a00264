"""Models of stores: keys with values, and transactions on several registers.

The keys and their functions are those of the logs of Porcupine (https://github.com/anishathalye/porcupine,
``test_data/kv``), and the transactions those of Knossos (https://github.com/jepsen-io/knossos, ``knossos.model``).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from harness.history.values import Items, bare

from .base import Inconsistent, Model, Operation
from .registers import NIL_READS, CasRegister, frozen, plain, worded


class KeyValue(CasRegister):
    """A key of a store: put sets its value, append extends its text, cas compares and sets, get returns it.

    Each key of the history is checked by itself. A key that was never put holds the empty text; nil means the same.
    """

    name = "kv"
    fs = frozenset({"get", "put", "append", "cas"})
    refuses = frozenset()

    def __init__(self) -> None:
        super().__init__("")

    def step(self, state: Hashable, operation: Operation) -> Hashable | Inconsistent:
        if operation.f == "append":
            return self._append(state, operation)
        if operation.f == "cas":
            return super().step(state, operation)
        if operation.f == "put":
            return text(operation.argument)
        if not operation.known or text(operation.result) == state:
            return state
        return Inconsistent(f"the value is {worded(state) or repr('')}")

    def value_of(self, value: Any) -> Hashable:
        return text(value)

    def for_operations(self, operations: Sequence[Operation]) -> Model:
        return ObservedKeyValue(operations)

    @staticmethod
    def _append(state: Hashable, operation: Operation) -> Hashable | Inconsistent:
        more = text(operation.argument)
        if not isinstance(more, str):
            raise ValueError(f"the value of an append is a text, got {operation.argument!r}")
        return state + more if isinstance(state, str) else Inconsistent(f"the value is {worded(state)}, not a text")

    def describe(self, state: Hashable) -> str:
        return worded(state) or "empty"


@dataclass(frozen=True, slots=True)
class Unobserved:
    """All texts that begin no text that a call returned or compared with."""

    def __str__(self) -> str:
        return "a text that no call returned"


class ObservedKeyValue(KeyValue):
    """The model ``kv`` for these operations, in which all texts of which no call can tell any more are one state.

    After such a text, no get and no compare-and-set is possible until the next put, whatever is appended.
    """

    name = ""

    def __init__(self, operations: Sequence[Operation]) -> None:
        super().__init__()
        seen = [text(one.result) for one in operations if one.f == "get" and one.known]
        seen += [pair[0] for one in operations if one.f == "cas" and isinstance(pair := frozen(one.argument), tuple)]
        texts = [value for value in seen if isinstance(value, str)]
        self._beginnings = {value[:end] for value in texts for end in range(len(value) + 1)}

    def step(self, state: Hashable, operation: Operation) -> Hashable | Inconsistent:
        if isinstance(state, Unobserved) and operation.f == "append":
            return state
        after = super().step(state, operation)
        return after if not isinstance(after, str) or after in self._beginnings else Unobserved()


def text(value: Any) -> Hashable:
    """Return the value of a key; nil is the empty text."""
    found = plain(value)
    return "" if found is None else found


READS: Final = frozenset({"r", "read"})
WRITES: Final = frozenset({"w", "write"})
Access = tuple[str, Hashable, Hashable]
"""A part of a transaction: ``read`` or ``write``, the register, and the value (of a read, nil if it is unknown)."""


class MultiRegister(Model):
    """Several registers: a transaction ``[[read x 1] [write y 2]]`` reads and writes some of them at one instant.

    The value of a transaction is a list of ``[f register value]``, where f is ``read`` (or ``r``) or ``write`` (``w``).
    A read that returned nil means that the register was never written; with ``nil_reads = "any"`` it may be a read of
    any value, as in Knossos. State: the values of the registers that do not have the initial value.
    """

    name = "multi-register"
    fs = frozenset({"txn"})
    clients = False

    def __init__(self, initial: Any = None, nil_reads: str = "initial") -> None:
        if nil_reads not in NIL_READS:
            raise ValueError(f"nil_reads must be one of {', '.join(NIL_READS)}, got {nil_reads!r}")
        self._initial = frozen(initial)
        self._nil_says = nil_reads == "initial"

    @property
    def initial(self) -> Items:
        return Items()

    def step(self, state: Items, operation: Operation) -> Items | Inconsistent:
        values = dict(state)
        for f, register, value in accesses(operation):
            if f == "write":
                values[register] = value
                continue
            now = values.get(register, self._initial)
            checked = operation.known and (value is not None or self._nil_says)
            if checked and value != now:
                return Inconsistent(f"{worded(register)} is {worded(now)}")
        return Items((register, value) for register, value in values.items() if value != self._initial)

    def describe(self, state: Items) -> str:
        return worded(state) if state else "all registers are initial"


def accesses(operation: Operation) -> Iterator[Access]:
    """Yield the parts of a transaction; raises ValueError if it is not a list of ``[f register value]``.

    A known transaction has the values that it returned.
    """
    parts = operation.argument if operation.result is None else operation.result
    parts = parts["value"] if isinstance(parts, Mapping) and "value" in parts else parts
    if not isinstance(parts, Sequence) or isinstance(parts, str):
        raise ValueError(f"the value of a txn is a list of [f register value], got {parts!r}")
    for part in parts:
        if not isinstance(part, Sequence) or isinstance(part, str) or len(part) != 3:
            raise ValueError(f"a part of a txn is [f register value], got {part!r}")
        f = bare(part[0])
        if f not in READS | WRITES:
            raise ValueError(f"a part of a txn is a read (r) or a write (w), got {part!r}")
        yield "read" if f in READS else "write", frozen(part[1]), frozen(part[2])
