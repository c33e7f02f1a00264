"""Tells you whether your distributed lock is safe.

``from harness import run, hunt, check, compare, Plan, Lock, Grant``; see the README for ten lines that test a lock of
your own. Each name is imported on first use, so that a part of the package can be used without loading all of it.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .lock_impls.base import Endpoints, Grant, Indeterminate, Lock, LockError
    from .plan import FaultSpec, Plan
    from .run.check.checking import Report, check
    from .run.runs import run
    from .run.verdicts.judging import Result
    from .search.hunt import HuntResult, LockFails, hunt
    from .search.request import HuntRequest
    from .studies.bisect_releases import BisectRequest, bisect_releases
    from .studies.compare import compare
    from .studies.compare.plans import ComparisonRequest
    from .studies.compare_releases import VersionsRequest, compare_releases
    from .studies.publication import publish

_HOMES = {
    "run": "harness.run.runs",
    "Result": "harness.run.verdicts.judging",
    "check": "harness.run.check.checking",
    "Report": "harness.run.check.checking",
    "compare": "harness.studies.compare",
    **dict.fromkeys(("bisect_releases", "BisectRequest"), "harness.studies.bisect_releases"),
    **dict.fromkeys(("compare_releases", "VersionsRequest"), "harness.studies.compare_releases"),
    "ComparisonRequest": "harness.studies.compare.plans",
    "publish": "harness.studies.publication",
    **dict.fromkeys(("hunt", "HuntResult", "LockFails"), "harness.search.hunt"),
    "HuntRequest": "harness.search.request",
    "Plan": "harness.plan",
    "FaultSpec": "harness.plan",
    **dict.fromkeys(("Endpoints", "Grant", "Indeterminate", "Lock", "LockError"), "harness.lock_impls.base"),
}
__all__ = [
    "BisectRequest", "ComparisonRequest", "Endpoints", "FaultSpec", "Grant", "HuntRequest", "HuntResult",
    "Indeterminate", "Lock", "LockError", "LockFails", "Plan", "Report", "Result", "VersionsRequest",
    "bisect_releases", "check", "compare", "compare_releases", "hunt", "publish", "run",
]  # fmt: skip


class _Package(ModuleType):
    """This package as a module whose attribute ``run`` is always the function.

    ``harness.run`` is also a package, and importing that would put it in the function's place, so that what
    ``from harness import run`` gives would depend on what was imported before.
    """

    @property
    def run(self) -> Any:
        return __getattr__("run")

    @run.setter
    def run(self, package: ModuleType) -> None:
        """Ignore the package, which the import system assigns; it is found in ``sys.modules``."""


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'harness' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


sys.modules[__name__].__class__ = _Package
