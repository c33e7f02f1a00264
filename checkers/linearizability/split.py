"""Split the keys of a history into parts that do not affect each other.

A history of several objects is linearizable if and only if the history of each object is (M. Herlihy and J. Wing,
"Linearizability: a correctness condition for concurrent objects", 1990). A set is as many objects as it has elements,
unless calls read all of them. Registers are several objects if no transaction has accesses to two of them.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

import numpy as np

from harness.checkers.models import ElementSet, Model, MultiRegister, Operation, plain, worded
from harness.checkers.models.key_value import accesses
from harness.history.calls import Calls

from .elements import value_numbers


def split(calls: Calls, model: Model) -> Calls:
    """Return the calls with a key for each part; the parts of other models are the keys.

    Raises ValueError for a value that the model cannot read.
    """
    if type(model) is ElementSet:
        return _by_element(calls)
    if type(model) is MultiRegister:
        return _by_registers(calls)
    return calls


def _by_element(calls: Calls) -> Calls:
    read = np.zeros(len(calls.keys), dtype=np.bool_)
    read[calls.key[calls.named(["read"])]] = True
    rows = np.flatnonzero(~read[calls.key])
    numbers = value_numbers(calls)
    value = numbers[calls.argument[rows]]
    if (value == 0).any():
        raise ValueError("the value of a call on a set is an element, got nil")
    pair = calls.key[rows].astype(np.int64) * (len(numbers) + 1) + value
    _, first, number = np.unique(pair, return_index=True, return_inverse=True)
    names = [
        _named(f"element {worded(plain(calls.argument_of(row)))}", calls.keys[calls.key[row]])
        for row in rows[first].tolist()
    ]
    key = calls.key.copy()
    key[rows] = len(calls.keys) + number
    return replace(calls, key=key, keys=[*calls.keys, *names])


def _named(part: str, key: str) -> str:
    return f"{part} of {key}" if key else part


Register = tuple[int, Hashable]
"""A key of the history and a register."""


def _by_registers(calls: Calls) -> Calls:
    """Return the calls with a key for each set of registers that transactions connect."""
    names = [_registers(calls, row) for row in range(len(calls))]
    above: dict[Register, Register] = {}
    for first, *others in filter(None, names):
        for other in others:
            above[_top(above, other)] = _top(above, first)
    parts: dict[Register, int] = {}
    key = calls.key.copy()
    for row, registers in enumerate(names):
        if registers:
            key[row] = len(calls.keys) + parts.setdefault(_top(above, registers[0]), len(parts))
    return replace(calls, key=key, keys=[*calls.keys, *(_part_name(calls, part) for part in parts)])


def _registers(calls: Calls, row: int) -> list[Register]:
    known = bool(calls.known[row])
    operation = Operation("txn", calls.argument_of(row), calls.result_of(row) if known else None, known)
    return list(dict.fromkeys((int(calls.key[row]), register) for _, register, _ in accesses(operation)))


def _top(above: dict[Register, Register], one: Register) -> Register:
    """Return the register that stands for all that are connected with this one."""
    while (other := above.setdefault(one, one)) != one:
        above[one] = above[other]
        one = other
    return one


def _part_name(calls: Calls, part: Register) -> str:
    return _named(f"the registers with {worded(part[1])}", calls.keys[part[0]])
