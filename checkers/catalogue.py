"""Finds the checkers: every class of this package that has a ``name`` and a ``check``. Nothing lists them."""

from __future__ import annotations

import difflib
import importlib
import inspect
import pkgutil
from functools import cache
from typing import cast

import checkers
from checkers.base import Checker


class UnknownChecker(LookupError):
    """No checker has that name; the message has the nearest one and all others."""


def all() -> list[Checker]:  # noqa: A001 - read as checkers.catalogue.all()
    """One of each checker, in the order of their names."""
    return [kind() for _, kind in sorted(_kinds().items())]


def find(name: str) -> Checker:
    """The checker called ``name``; raises :class:`UnknownChecker`."""
    kinds = _kinds()
    if name in kinds:
        return kinds[name]()
    near = difflib.get_close_matches(name, kinds, 1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise UnknownChecker(f"no checker is called {name!r}; {hint}there are: {', '.join(sorted(kinds))}")


@cache
def _kinds() -> dict[str, type[Checker]]:
    found: dict[str, type[Checker]] = {}
    for module_info in pkgutil.iter_modules(checkers.__path__, "checkers."):
        module = importlib.import_module(module_info.name)
        for _, kind in inspect.getmembers(module, inspect.isclass):
            name = getattr(kind, "name", None)
            if kind.__module__ == module.__name__ and isinstance(name, str) and hasattr(kind, "check"):
                found[name] = cast(type[Checker], kind)
    return found
