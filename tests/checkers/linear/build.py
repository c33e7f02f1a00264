"""Small histories for the tests of linearizability: written by hand, enumerated or drawn at random."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Collection, Iterable
from types import ModuleType
from typing import Any, Final

import numpy as np

from harness.history import SECOND
from harness.history.calls import NEVER, NO_FENCE, NONE, REFUSED, Calls

Entry = tuple[int, str, str] | tuple[int, str, str, Any] | tuple[int, str, str, Any, str]
"""Process, type, f, value, key; processes are clients."""


TYPES: Final[dict[str, Any]] = {
    **dict.fromkeys(("f", "key", "client", "argument", "result"), np.int32),
    **dict.fromkeys(("known", "good"), np.int8),
    **dict.fromkeys(("process", "invoked", "returned", "began", "ended", "fence", "lease"), np.int64),
}


def calls(entries: Iterable[Entry], *, clients: dict[int, int] | None = None, refusals: Collection[str] = ()) -> Calls:
    """Return the calls of ``entries``, which are one second apart.

    ``clients`` maps processes to clients; by default each process is a client. Failed calls of the functions
    ``refusals`` are kept. The result is what a file reader would
    return, without a reader: it keeps every value, and reads grants too."""
    rows: list[dict[str, Any]] = []
    open_calls: dict[int, dict[str, Any]] = {}
    values: list[Any] = []
    fs: list[str] = []
    keys: list[str] = []
    count = 0
    for position, (process, kind, f, *rest) in enumerate(entries):
        value, key = rest[0] if rest else None, rest[1] if len(rest) > 1 else "k"
        count += 1
        if kind == "invoke":
            row = {"f": _number(fs, f), "key": _number(keys, key), "process": process, "known": 0}
            row |= {"client": (clients or {}).get(process, process), "invoked": position, "returned": NEVER}
            row |= {"began": position * SECOND, "ended": NEVER, "argument": _value(values, value), "result": NONE}
            row |= {"fence": NO_FENCE, "lease": NEVER, "good": NONE, "failed": False}
            rows.append(row)
            open_calls[process] = row
            continue
        row = open_calls.pop(process)
        assert fs[row["f"]] == f, f"entry {position}"
        row["failed"] = kind == "fail" and f not in refusals
        if kind == "fail" and f in refusals:
            row |= {"f": _number(fs, REFUSED + f), "known": 1, "returned": position, "ended": position * SECOND}
        if kind == "ok":
            row |= {"known": 1, "returned": position, "ended": position * SECOND, "result": _value(values, value)}
            if isinstance(value, dict):
                good = value.get("extended", value.get("valid"))
                lease = value.get("valid_for")
                row["fence"] = NO_FENCE if value.get("fence") is None else value["fence"]
                row["lease"] = NEVER if lease is None else int(lease * SECOND)
                row["good"] = NONE if good is None else int(good)
    kept = [row for row in rows if not row["failed"]]
    width = max([row["client"] for row in rows], default=-1) + 1
    columns: dict[str, Any] = {name: np.array([row[name] for row in kept], dtype=TYPES[name]) for name in TYPES}
    return Calls(
        fs=fs,
        keys=keys,
        clients=[f"c{number}" for number in range(width)],
        values=values,
        failed=len(rows) - len(kept),
        entries=count,
        **columns,
    )


def without_grants(found: Calls) -> Calls:
    """Return the calls as a model reads them that needs values, or nothing."""
    found.fence = found.lease = np.empty(0, dtype=np.int64)
    found.good = np.empty(0, dtype=np.int8)
    return found


def _number(names: list[str], name: str) -> int:
    if name not in names:
        names.append(name)
    return names.index(name)


def _value(values: list[Any], value: Any) -> int:
    if value is None:
        return NONE
    for number, known in enumerate(values):
        if type(known) is type(value) and known == value:
            return number
    values.append(value)
    return len(values) - 1


def mutant(module: ModuleType, *changes: tuple[str, str]) -> ModuleType:
    """Return a copy of ``module`` in which each given piece of text, which must occur exactly once, is replaced."""
    text = inspect.getsource(module)
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    changed = ModuleType(f"{module.__name__}_changed")
    sys.modules[changed.__name__] = changed  # dataclasses look the module up there
    exec(text, changed.__dict__)
    return changed
