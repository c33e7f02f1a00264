"""Functions that code took by value when it was imported: as an attribute of a class, or as a default of a parameter.

``sleep_func = staticmethod(time.sleep)`` and ``def retry(sleep=time.sleep)`` (both kazoo's) hold the real function in a
place where replacing it in its module, or in those that import it by name, does not reach.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from types import FunctionType, ModuleType
from typing import Any

_searched: dict[str, ModuleType] = {}
_places: list[tuple[Any, str, Any]] = []
"""(class or function, attribute, what is there), of all places where something is held that a simulation replaces."""


def replace(new_of: Mapping[int, Any]) -> Iterator[tuple[Any, str, Any]]:
    """Put replacements (by the ``id`` of the original) where originals were taken; yields what puts them back, as
    (object, attribute, original value). What a module holds is looked up once: what is replaced is always the same."""
    for name, module in list(sys.modules.items()):
        if module is not None and _searched.get(name) is not module and not name.startswith("harness.sim"):
            _searched[name] = module
            _places.extend(_search(name, module, new_of))
    for owner, name, value in _places:
        setattr(owner, name, _replaced(value, new_of))
        yield owner, name, value


def _search(name: str, module: ModuleType, new_of: Mapping[int, Any]) -> Iterator[tuple[Any, str, Any]]:
    for value in list(vars(module).values()):
        if getattr(value, "__module__", None) != name:
            continue
        if isinstance(value, FunctionType):
            yield from _defaults(value, new_of)
        elif isinstance(value, type):
            for attribute, held in list(vars(value).items()):
                if isinstance(held, FunctionType):
                    yield from _defaults(held, new_of)
                elif isinstance(held, staticmethod) and id(held.__func__) in new_of:
                    yield value, attribute, held


def _defaults(function: FunctionType, new_of: Mapping[int, Any]) -> Iterator[tuple[Any, str, Any]]:
    if any(id(held) in new_of for held in function.__defaults__ or ()):
        yield function, "__defaults__", function.__defaults__
    if any(id(held) in new_of for held in (function.__kwdefaults__ or {}).values()):
        yield function, "__kwdefaults__", function.__kwdefaults__


def _replaced(value: Any, new_of: Mapping[int, Any]) -> Any:
    if isinstance(value, staticmethod):
        return staticmethod(new_of[id(value.__func__)])
    if isinstance(value, tuple):
        return tuple([new_of.get(id(held), held) for held in value])
    return {key: new_of.get(id(held), held) for key, held in value.items()}
