"""Which state in the modules of installed libraries changes while a lock runs. Called in a worker."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import FunctionType, ModuleType
from weakref import WeakKeyDictionary, WeakSet

import msgspec

from harness.plan import Plan
from harness.search.trials import run_trial

SCALARS = (int, float, str, bytes, tuple, type(None))


def changed(argument: bytes, channel: object) -> bytes:
    """Run the plan twice, and return what the second run changed in modules and classes of installed libraries.

    The answer is a JSON array of names. The first run loads the modules and fills caches of what every run needs.
    """
    del channel
    plan = msgspec.json.decode(argument, type=Plan)
    run_trial(plan)
    dict(_states())  # texts of Django that are translated when somebody looks at them load more modules
    before = dict(_states())
    run_trial(plan)
    after = dict(_states())
    return msgspec.json.encode(
        sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    )


def _states() -> Iterator[tuple[str, object]]:
    for name, module in list(sys.modules.items()):
        if "site-packages" not in str(getattr(module, "__file__", "")) or name.startswith("greenlet"):
            continue
        yield from _members(name, module)
        for attribute, value in list(vars(module).items()):
            if isinstance(value, type) and value.__module__ == name:
                yield from _members(f"{name}.{attribute}", value)


def _members(name: str, owner: ModuleType | type) -> Iterator[tuple[str, object]]:
    for attribute, value in list(vars(owner).items()):
        if not attribute.startswith("__"):
            yield f"{name}.{attribute}", _state(value)


def _state(value: object) -> object:
    """Return what differs if a value was replaced, or if what it contains changed at the first level."""
    if isinstance(value, SCALARS):
        return repr(value)
    if isinstance(value, WeakKeyDictionary | WeakSet):  # what it has is of objects, and each client has its own
        return id(value)
    if isinstance(value, dict):
        return id(value), [(_identity(key), _identity(item)) for key, item in list(value.items())]
    if isinstance(value, list | set):
        return id(value), [_identity(item) for item in list(value)]
    if isinstance(value, type | ModuleType | FunctionType) or not _has_names(value):
        return id(value), _size(value)
    return id(value), _size(value), [(key, _identity(item)) for key, item in list(vars(value).items())]


def _has_names(value: object) -> bool:
    """Return whether ``vars`` gives the names of an object; objects of C libraries may answer anything."""
    return isinstance(getattr(value, "__dict__", None), dict)


def _identity(value: object) -> object:
    return repr(value) if isinstance(value, SCALARS) else id(value)


def _size(value: object) -> int:
    try:
        return len(value)  # type: ignore[arg-type]
    except (TypeError, AttributeError, RuntimeError, IndexError):  # no length, none without a context, or too long
        return 0
