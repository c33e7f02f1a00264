"""Models of collections: a queue, a stack, a set, and a list that only grows.

The queue and the set follow Knossos (https://github.com/jepsen-io/knossos, ``knossos.model``). Values of elements are
those of the calls; in histories of ours, what is under ``value`` in them. No element is nil, because nil as a result
means that the collection was empty.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, Final

from harness.history.values import Exact

from .base import Inconsistent, Model, Operation
from .registers import frozen, plain, worded


def element(operation: Operation) -> Hashable:
    """Return the element that a call adds, removes or looks for; raises ValueError if it has none."""
    value = plain(operation.argument)
    if value is None:
        raise ValueError(f"the value of {operation.f} is an element, got nil")
    return value


class FifoQueue(Model):
    """A first-in-first-out queue: dequeue returns the oldest element, or nil if there is none.

    A dequeue with an unknown outcome removes the oldest element, if there is one. State: the elements, the oldest one
    first.
    """

    name = "queue"
    fs = frozenset({"enqueue", "dequeue"})
    clients = False

    @property
    def initial(self) -> tuple[Hashable, ...]:
        return ()

    def step(self, state: tuple[Hashable, ...], operation: Operation) -> tuple[Hashable, ...] | Inconsistent:
        if operation.f == "enqueue":
            return (*state, element(operation))
        return _without(state, 0, operation)

    def describe(self, state: tuple[Hashable, ...]) -> str:
        return _listed(state)


class Stack(Model):
    """A stack: pop returns the newest element, or nil if there is none.

    A pop with an unknown outcome removes the newest element, if there is one. State: the elements, the newest one last.
    """

    name = "stack"
    fs = frozenset({"push", "pop"})
    clients = False

    @property
    def initial(self) -> tuple[Hashable, ...]:
        return ()

    def step(self, state: tuple[Hashable, ...], operation: Operation) -> tuple[Hashable, ...] | Inconsistent:
        if operation.f == "push":
            return (*state, element(operation))
        return _without(state, -1, operation)

    def describe(self, state: tuple[Hashable, ...]) -> str:
        return _listed(state)


def _without(state: tuple[Hashable, ...], place: int, operation: Operation) -> tuple[Hashable, ...] | Inconsistent:
    """Return the elements without the one at ``place`` (0 or -1), which a known call must have returned."""
    left = state[1:] if place == 0 else state[:-1]
    if not operation.known:
        return left
    result = plain(operation.result)
    if result is None:
        return state if not state else Inconsistent(f"it holds {_listed(state)}")
    if not state:
        return Inconsistent("it is empty")
    return left if state[place] == result else Inconsistent(f"{worded(state[place])} comes first")


LISTED: Final = 8
"""The most elements that a description of a state names."""


def _listed(state: tuple[Hashable, ...]) -> str:
    more = f" and {len(state) - LISTED} more" if len(state) > LISTED else ""
    return f"{worded(state[:LISTED])}{more}" if state else "empty"


class ElementSet(Model):
    """A set: contains says whether it has an element, read returns all of them.

    An add or a remove that returned true changed the set, and one that returned false did not; any other result says
    nothing. State: the elements.
    """

    name = "set"
    fs = frozenset({"add", "remove", "contains", "read"})
    clients = False

    @property
    def initial(self) -> frozenset[Hashable]:
        return frozenset()

    def step(self, state: frozenset[Hashable], operation: Operation) -> frozenset[Hashable] | Inconsistent:
        if operation.f == "read":
            return self._read(state, operation)
        value = element(operation)
        said = truth(operation)
        present = value in state
        if operation.f == "contains":
            return state if said is None or said == present else _present(value, present=present)
        changes = present == (operation.f == "remove")
        if said is not None and said != changes:
            return _present(value, present=present)
        return state | {value} if operation.f == "add" else state - {value}

    @staticmethod
    def _read(state: frozenset[Hashable], operation: Operation) -> frozenset[Hashable] | Inconsistent:
        if not operation.known or frozenset(elements(operation.result)) == state:
            return state
        return Inconsistent(f"it holds {worded(state)}")

    def describe(self, state: frozenset[Hashable]) -> str:
        return worded(state)


def _present(value: Hashable, *, present: bool) -> Inconsistent:
    return Inconsistent(f"{worded(value)} is {'already' if present else 'not'} in it")


def truth(operation: Operation) -> bool | None:
    """Return the truth value that a call of a set returned; None if it did not return one.

    Jepsen's add returns its element, so true as the answer to the add of true says nothing.
    """
    result = plain(operation.result) if operation.known else None
    if isinstance(result, Exact) and isinstance(result.value, bool) and result != plain(operation.argument):
        return result.value
    return None


def elements(value: Any) -> tuple[Hashable, ...]:
    """Return the elements that a read returned; raises ValueError if it returned no collection."""
    value = value["value"] if isinstance(value, Mapping) and "value" in value else value
    if value is None:
        return ()
    if not isinstance(value, list | tuple | set | frozenset):
        raise ValueError(f"a read returns a collection of elements, got {value!r}")
    return tuple(map(frozen, value))


class AppendOnlyList(Model):
    """A list to which elements are appended and from which none is removed: read returns all of them in order.

    State: the elements.
    """

    name = "append-only-list"
    fs = frozenset({"append", "read"})
    clients = False

    @property
    def initial(self) -> tuple[Hashable, ...]:
        return ()

    def step(self, state: tuple[Hashable, ...], operation: Operation) -> tuple[Hashable, ...] | Inconsistent:
        if operation.f == "append":
            return (*state, element(operation))
        if not operation.known or elements(operation.result) == state:
            return state
        return Inconsistent(f"it is {_listed(state)}")

    def describe(self, state: tuple[Hashable, ...]) -> str:
        return _listed(state)
