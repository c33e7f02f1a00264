"""Tells you whether your distributed lock is safe.

``from harness import run, hunt, check, compare, Plan, Lock, Grant``; see the README for ten lines that test a lock of
your own. The names are imported on first use, so that the parts of the package can be used without all of it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lock_impls.base import Endpoints, Grant, Indeterminate, Lock, LockError

    from .checking import Report, check
    from .comparing import compare
    from .comparing.plans import Asked
    from .hunting.hunts import Hunted, LockFails, hunt
    from .plan import FaultSpec, Plan
    from .runs import Result, run

_HOMES = {
    "run": "harness.runs",
    "Result": "harness.runs",
    "check": "harness.checking",
    "Report": "harness.checking",
    "compare": "harness.comparing",
    "Asked": "harness.comparing.plans",
    **dict.fromkeys(("hunt", "Hunted", "LockFails"), "harness.hunting.hunts"),
    "Plan": "harness.plan",
    "FaultSpec": "harness.plan",
    **dict.fromkeys(("Endpoints", "Grant", "Indeterminate", "Lock", "LockError"), "lock_impls.base"),
}
__all__ = [
    "Asked", "Endpoints", "FaultSpec", "Grant", "Hunted", "Indeterminate", "Lock", "LockError", "LockFails", "Plan",
    "Report", "Result", "check", "compare", "hunt", "run",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'harness' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
