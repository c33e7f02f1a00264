"""Failed calls as evidence: any model, and what the failures of its calls say about the state."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from harness.history.calls import REFUSED

from .base import Either, Inconsistent, Model, Operation


class WithRefusals(Model):
    """``model``, for histories in which its failed calls were kept as calls of ``refused <function>``.

    Such a call changes nothing, and says that ``model`` could not grant it at some moment of its window. Without these
    calls, what ``model`` allows is the same.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self.name = model.name  # type: ignore[misc]
        self.fs = model.fs | {REFUSED + f for f in model.refusals}  # type: ignore[misc]
        self.refuses = model.refuses  # type: ignore[misc]
        self.clients, self.timed, self.wants = model.clients, model.timed, model.wants  # type: ignore[misc]

    @property
    def initial(self) -> Hashable:
        return self.model.initial

    def step(self, state: Any, operation: Operation) -> Hashable | Inconsistent | Either:
        if operation.f.startswith(REFUSED):
            return self.model.refuse(state, operation)
        return self.model.step(state, operation)

    def describe(self, state: Any) -> str:
        return self.model.describe(state)
