"""Finds plug-ins by looking into their folder: whoever adds a fault or a workload adds one file, and nothing lists
it."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from types import ModuleType
from typing import Any

from .errors import unknown_name


@cache
def classes(package: str, marker: str) -> dict[str, Any]:
    """Classes defined in ``package``'s modules that have a ``name`` and an attribute ``marker``; by name, sorted."""
    parent = importlib.import_module(package)
    found = {}
    for info in pkgutil.iter_modules(parent.__path__):
        module = importlib.import_module(f"{package}.{info.name}")
        found.update({cls.name: cls for cls in _marked(module, marker)})
    return dict(sorted(found.items()))


def _marked(module: ModuleType, marker: str) -> list[Any]:
    return [
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and value.__module__ == module.__name__
        and isinstance(getattr(value, "name", None), str)
        and hasattr(value, marker)
    ]


def find(what: str, package: str, marker: str, name: str) -> Any:
    """The class called ``name``; UsageError with the nearest names if there is none."""
    known = classes(package, marker)
    if name not in known:
        raise unknown_name(what, name, known)
    return known[name]
