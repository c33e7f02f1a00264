"""Models of registers, after those of Knossos (https://github.com/jepsen-io/knossos, ``knossos.model``)."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

from harness.history.values import Exact, Items

from .base import Inconsistent, Model, Operation

NIL_READS: Final = ("initial", "any")


class Register(Model):
    """A register with one value. A read with an unknown outcome is consistent with any value.

    A read that returned nil (null) is a read of nil; with ``nil_reads = "any"`` it may be a read of any value, as in
    Knossos, whose histories also contain nil if the value is unknown. Values are those of the calls; in
    histories of ours, what is under ``value`` in them.
    """

    name = "register"
    fs = frozenset({"read", "write"})
    refuses = frozenset({"cas", "take", "mark"})
    clients = False

    def __init__(self, initial: Any = None, nil_reads: str = "initial") -> None:
        if nil_reads not in NIL_READS:
            raise ValueError(f"nil_reads must be one of {', '.join(NIL_READS)}, got {nil_reads!r}")
        self._initial = frozen(initial)
        self.nil_says = nil_reads == "initial"

    @property
    def initial(self) -> Hashable:
        return self._initial

    def step(self, state: Hashable, operation: Operation) -> Hashable | Inconsistent:
        if operation.f == "write":
            return self.value_of(operation.argument)
        if not operation.known:
            return state
        seen = self.value_of(operation.result)
        if seen == state or (seen is None and not self.nil_says):
            return state
        return Inconsistent(f"the value is {worded(state)}")

    def value_of(self, value: Any) -> Hashable:
        """Return the content of the register that a call wrote or read."""
        return plain(value)

    def describe(self, state: Hashable) -> str:
        return worded(state)


class CasRegister(Register):
    """A register with compare-and-set: ``[old, new]`` writes ``new`` if the value is ``old``.

    A compare-and-set that found another value failed. It is left out, unless failed calls are evidence."""

    name = "cas-register"
    fs = Register.fs | {"cas"}
    refusals = frozenset({"cas"})
    refuses = frozenset({"take", "mark"})

    def step(self, state: Hashable, operation: Operation) -> Hashable | Inconsistent:
        if operation.f != "cas":
            return super().step(state, operation)
        if operation.argument is None and not operation.known:
            return Inconsistent("the value that it would have written is unknown")
        old, new = old_and_new(operation.argument)
        return new if old == state else Inconsistent(f"the value is {worded(state)}")

    def refuse(self, state: Hashable, operation: Operation) -> Hashable | Inconsistent:
        old, _ = old_and_new(operation.argument)
        return state if old != state else Inconsistent(f"the value is {worded(state)}")


def old_and_new(argument: Any) -> tuple[Hashable, Hashable]:
    """Return the two values of a compare-and-set; raises ValueError if it has not got them."""
    pair = argument
    if type(pair) is tuple and len(pair) == 2 and type(pair[0]) in _DISTINCT and type(pair[1]) in _DISTINCT:
        return pair  # nearly every history has these, and a table asks for each pair often
    pair = frozen(pair)
    if not isinstance(pair, tuple) or len(pair) != 2:
        raise ValueError(f"the value of a cas is [old, new], got {argument!r}")
    return pair


def plain(value: Any) -> Hashable:
    """Return the value that a call wrote or read: its value, or the entry ``value`` of a mapping."""
    if type(value) in _DISTINCT:
        return value  # type: ignore[no-any-return]
    return frozen(value["value"] if isinstance(value, Mapping) and "value" in value else value)


_DISTINCT: Final = frozenset({int, str, type(None)})
"""Types whose values are equal to no value of another type, once :class:`Exact` has replaced other numbers."""


def frozen(value: Any) -> Hashable:
    """Return ``value`` in a form that can be a state: lists become tuples, mappings :class:`Items`, and numbers that
    are no integers :class:`Exact`."""
    if type(value) in _DISTINCT:
        return value  # type: ignore[no-any-return]
    if isinstance(value, bool | float | Decimal):
        return Exact.of(value)
    if isinstance(value, Fraction):  # 2/2 is the integer 1
        return value if value.denominator > 1 else int(value)
    if isinstance(value, list | tuple):
        return tuple(frozen(item) for item in value)
    if isinstance(value, Mapping):
        return Items((frozen(key), frozen(item)) for key, item in value.items())
    if isinstance(value, Items):
        return Items((frozen(key), frozen(item)) for key, item in value)
    if isinstance(value, set | frozenset):
        return frozenset(frozen(item) for item in value)
    hash(value)
    return value  # type: ignore[no-any-return]


def worded(value: Any) -> str:
    """Return a value as text, the same for equal values: ``nil``, ``[1 2]``, ``{a 1}``, ``#{1 2}``."""
    if type(value) is int:
        return str(value)
    if isinstance(value, Exact):
        value = value.value
    if value is None:
        return "nil"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return f"[{' '.join(map(worded, value))}]"
    if isinstance(value, Mapping | Items):
        items = value.items() if isinstance(value, Mapping) else value
        return f"{{{', '.join(sorted(f'{worded(key)} {worded(item)}' for key, item in items))}}}"
    if isinstance(value, set | frozenset):
        return f"#{{{' '.join(sorted(map(worded, value)))}}}"
    return str(value)
