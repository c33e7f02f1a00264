"""Find and replace references to standard-library functions that other modules captured when they were imported.

``from time import sleep``, ``sleep = time.sleep`` in a class (as ``_select`` in ``selectors.SelectSelector``),
``sleep_func = staticmethod(time.sleep)`` and ``def retry(sleep=time.sleep)`` (the last two are in kazoo) keep a
reference to the real function, which replacing ``time.sleep`` does not change. Such references are searched in module
globals, class attributes and parameter defaults.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any

Reference = tuple[Any, str, Any]
"""(module, class or function; attribute; original value)."""


@dataclass(frozen=True, slots=True)
class _SearchResult:
    module: ModuleType
    names: int
    references: tuple[Reference, ...]


_searched: dict[str, _SearchResult] = {}
"""Results of earlier searches, by module name."""
_wanted: set[int] = set()


def replace(new_of: Mapping[int, Any]) -> Iterator[Reference]:
    """Replace captured references in all loaded modules, and yield (object, attribute, original value) for undoing it.

    ``new_of`` maps the ``id`` of an original to its replacement. Search results are cached, since the modules of a
    process hold some hundred thousand values. A module is searched again when its number of names has changed.
    """
    if new_of.keys() != _wanted:
        _searched.clear()
        _wanted.clear()
        _wanted.update(new_of)
    for name, module in list(sys.modules.items()):
        if module is None:
            continue
        seen = _searched.get(name)
        if seen is None or seen.module is not module or seen.names != len(vars(module)):
            found = () if name.startswith(("harness.sim", "greenlet")) else tuple(_search(name, module, new_of))
            seen = _searched[name] = _SearchResult(module, len(vars(module)), found)
        for owner, attribute, value in seen.references:
            if owner is module and vars(module).get(attribute) is not value:
                continue  # the name was rebound since the search, for example by a test
            setattr(owner, attribute, _replace_captured(value, new_of))
            yield owner, attribute, value


def _search(name: str, module: ModuleType, new_of: Mapping[int, Any]) -> Iterator[Reference]:
    for attribute, value in list(vars(module).items()):
        if id(value) in new_of:
            yield module, attribute, value
        elif getattr(value, "__module__", None) != name:
            continue
        elif isinstance(value, FunctionType):
            yield from _defaults(value, new_of)
        elif isinstance(value, type):
            for member, held in list(vars(value).items()):
                if id(held) in new_of:
                    yield value, member, held
                elif isinstance(held, FunctionType):
                    yield from _defaults(held, new_of)
                elif isinstance(held, staticmethod) and id(held.__func__) in new_of:
                    yield value, member, held


def _defaults(function: FunctionType, new_of: Mapping[int, Any]) -> Iterator[Reference]:
    if any(id(held) in new_of for held in function.__defaults__ or ()):
        yield function, "__defaults__", function.__defaults__
    if any(id(held) in new_of for held in (function.__kwdefaults__ or {}).values()):
        yield function, "__kwdefaults__", function.__kwdefaults__


def _replace_captured(value: Any, new_of: Mapping[int, Any]) -> Any:
    if id(value) in new_of:
        return new_of[id(value)]
    if isinstance(value, staticmethod):
        return staticmethod(new_of[id(value.__func__)])
    if isinstance(value, tuple):
        return tuple([new_of.get(id(held), held) for held in value])
    return {key: new_of.get(id(held), held) for key, held in value.items()}
