"""Functions that code took by value when it was imported: into a module, as an attribute of a class, or as a
parameter's default.

``from time import sleep``, ``sleep_func = staticmethod(time.sleep)`` and ``def retry(sleep=time.sleep)`` (both kazoo's)
hold the real function in a place where replacing it in its own module does not reach.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any

Place = tuple[Any, str, Any]
"""(module, class or function; attribute; what is there)."""


@dataclass(frozen=True, slots=True)
class _Searched:
    module: ModuleType
    names: int
    places: tuple[Place, ...]


_searched: dict[str, _Searched] = {}
_wanted: set[int] = set()


def replace(new_of: Mapping[int, Any]) -> Iterator[Place]:
    """Put replacements (by the ``id`` of the original) where originals were taken; yields what puts them back, as
    (object, attribute, original value). A module is searched again when it has more or fewer names than it had: all
    modules of a process have some hundred thousand values, too many to look at for each run."""
    if new_of.keys() != _wanted:
        _searched.clear()
        _wanted.clear()
        _wanted.update(new_of)
    for name, module in list(sys.modules.items()):
        if module is None or name.startswith(("harness.sim", "greenlet")):
            continue
        seen = _searched.get(name)
        if seen is None or seen.module is not module or seen.names != len(vars(module)):
            seen = _Searched(module, len(vars(module)), tuple(_search(name, module, new_of)))
            _searched[name] = seen
        for owner, attribute, value in seen.places:
            if owner is module and vars(module).get(attribute) is not value:
                continue  # a test, say, has put something else there
            setattr(owner, attribute, _replaced(value, new_of))
            yield owner, attribute, value


def _search(name: str, module: ModuleType, new_of: Mapping[int, Any]) -> Iterator[Place]:
    for attribute, value in list(vars(module).items()):
        if id(value) in new_of:
            yield module, attribute, value
        elif getattr(value, "__module__", None) != name:
            continue
        elif isinstance(value, FunctionType):
            yield from _defaults(value, new_of)
        elif isinstance(value, type):
            for member, held in list(vars(value).items()):
                if isinstance(held, FunctionType):
                    yield from _defaults(held, new_of)
                elif isinstance(held, staticmethod) and id(held.__func__) in new_of:
                    yield value, member, held


def _defaults(function: FunctionType, new_of: Mapping[int, Any]) -> Iterator[Place]:
    if any(id(held) in new_of for held in function.__defaults__ or ()):
        yield function, "__defaults__", function.__defaults__
    if any(id(held) in new_of for held in (function.__kwdefaults__ or {}).values()):
        yield function, "__kwdefaults__", function.__kwdefaults__


def _replaced(value: Any, new_of: Mapping[int, Any]) -> Any:
    if id(value) in new_of:
        return new_of[id(value)]
    if isinstance(value, staticmethod):
        return staticmethod(new_of[id(value.__func__)])
    if isinstance(value, tuple):
        return tuple([new_of.get(id(held), held) for held in value])
    return {key: new_of.get(id(held), held) for key, held in value.items()}
