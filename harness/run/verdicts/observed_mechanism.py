"""Write down the mechanism of a violation that was found, for a scenario of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from harness.checkers.base import Violation
from harness.history import History
from harness.plan import Mechanism
from harness.plan.mechanism import VIOLATION, parse

from .mechanism import Scene, mismatch

DECISIVE: Final = (
    "first crash", "first exit", "first lease-end", "first hold-end", "first key-expired", "first key-lost",
    "first release:info", "second acquire",
)  # fmt: skip
"""Events of clients that may belong to a mechanism. All others are too common to tell two mechanisms apart."""


def observed_mechanism(violation: Violation, history: History, faults: Sequence[str]) -> Mechanism:
    """Return a mechanism that the violation has: its cause, and the decisive events before it in their order.

    ``faults`` are the families of the plan. The clients are roles, so that the same mechanism is equal for others.
    """
    scene = Scene(history, violation)
    injections = [f"{fault} inject" for fault in dict.fromkeys(faults)]
    moments = {
        text: moment for text in (*injections, *DECISIVE) if (moment := scene.moment_before(parse(text))) is not None
    }
    order = [*sorted(moments, key=lambda text: moments[text]), VIOLATION]
    mechanism = Mechanism(cause=scene.cause, order=tuple(order))
    while mismatch(mechanism, violation, history) and len(order) > 1:
        order.pop(0)
        mechanism = Mechanism(cause=scene.cause, order=tuple(order))
    return mechanism
