"""The interface of models: operations, the results of a step, and the base class.

A user's model is any class with ``initial`` and ``step``; a subclass of :class:`Model` inherits the rest.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from harness.history.calls import NEVER, Wants


@dataclass(frozen=True, slots=True)
class Operation:
    """The part of a call that a model sees.

    It has the value with which it was invoked, the value that it returned (None if that is unknown), and whether it is
    known to have happened. For models that need them, it has the client's name, and when the call began and ended (ns
    since the history's first entry; ``ended`` is NEVER if it did not return).
    """

    f: str
    argument: Any = None
    result: Any = None
    known: bool = True
    client: str = ""
    began: int = 0
    ended: int = NEVER


@dataclass(frozen=True, slots=True)
class Inconsistent:
    """Result of a step that is impossible in that state, with the reason: a phrase that follows "it cannot have,
    ..."."""

    why: str


@dataclass(frozen=True, slots=True)
class Either:
    """Result of a step after which any of these states may follow."""

    states: frozenset[Hashable]


class Model:
    """A sequential object, called ``name`` on the command line.

    ``fs`` are the functions it answers for; calls of others are none of its business, except those in ``refuses``, of
    which it would have to know what they do.

    ``refusals`` are functions whose failure says something about the state, if failed calls are evidence: an acquire
    that was refused says that somebody held the lock. See :meth:`refuse`.

    ``clients`` and ``timed`` say whether it asks who called, and when. ``wants`` is what it reads of values. A
    parameter of the constructor can be set on the command line with ``--model-option``.
    """

    name: ClassVar[str] = ""
    fs: ClassVar[frozenset[str]]
    refuses: ClassVar[frozenset[str]] = frozenset()
    refusals: ClassVar[frozenset[str]] = frozenset()
    clients: ClassVar[bool] = True
    timed: ClassVar[bool] = False
    wants: ClassVar[Wants] = "values"

    @property
    def initial(self) -> Hashable:
        """Return the state before the first operation."""
        raise NotImplementedError

    def step(self, state: Any, operation: Operation) -> Hashable | Inconsistent | Either:
        """Return the state after ``operation`` in ``state``, or why the operation is impossible, or several possible
        states."""
        raise NotImplementedError

    def refuse(self, state: Any, operation: Operation) -> Hashable | Inconsistent | Either:
        """Return the state after a call of one of the ``refusals`` failed in ``state``, or why it cannot have failed
        there. Its function is ``refused <function>``."""
        raise NotImplementedError

    def for_operations(self, operations: Sequence[Operation]) -> Model:
        """Return a model that allows the same orders of these operations, if possible with fewer states."""
        del operations
        return self

    def describe(self, state: Any) -> str:
        """Return the state in a few words, for reports."""
        return str(state)
