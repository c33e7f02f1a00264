"""Find the first place in plain data that does not fit a struct, and say in words what was expected there."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches
from itertools import islice
from typing import Any, Final

import msgspec
from msgspec import inspect

SHOWN: Final = 60
"""Characters of a value or a key that a message quotes."""
NAMED: Final = 12
"""Keys or choices that a message lists."""
SCHEMA: Final = "schema"


@dataclass(frozen=True, slots=True)
class DocumentProblem:
    """``path`` leads to the place (``faults[0].seen``; empty for the whole document), ``text`` says what was expected
    there and what there is."""

    path: str
    text: str


def first_problem(data: object, kind: type[msgspec.Struct]) -> DocumentProblem | None:
    """Return the first problem in the order of the struct's fields; None if there is none that this module knows."""
    return next(_problems(data, inspect.type_info(kind), ""), None)


def _problems(value: Any, kind: inspect.Type, path: str) -> Iterator[DocumentProblem]:
    if isinstance(kind, inspect.UnionType):
        fitting = [one for one in kind.types if _has_shape(value, one)]
        if not fitting:
            yield _unexpected(value, _alternatives([_words(one) for one in kind.types]), path)
        elif not any(next(_problems(value, one, path), None) is None for one in fitting):
            yield from _problems(value, fitting[0], path)
    elif isinstance(kind, inspect.LiteralType):
        if not any(value == choice and type(value) is type(choice) for choice in kind.values):
            yield _no_choice(value, kind.values, path)
    elif not _has_shape(value, kind):
        yield _unexpected(value, _words(kind), path)
    elif isinstance(kind, inspect.StructType):
        yield from _in_struct(value, kind, path)
    else:
        yield from _in_collection(value, kind, path)


def _in_struct(data: dict[str, Any], kind: inspect.StructType, path: str) -> Iterator[DocumentProblem]:
    known = {field.encode_name for field in kind.fields}
    for field in kind.fields:
        name = field.encode_name
        if name in data:
            yield from _problems(data[name], field.type, f"{path}.{name}" if path else name)
        elif field.required:
            yield DocumentProblem(path, f"expected the key {name!r}, got {_hint(name, list(data), known)}")
    for key in data if kind.forbid_unknown_fields else ():
        if key not in known:
            near = get_close_matches(str(key), known, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]!r}?" if near else f"known: {_listed(sorted(known))}"
            yield DocumentProblem(path, f"unknown key {_short(str(key))!r}: {hint}")


def _hint(name: str, there: list[str], known: set[str]) -> str:
    """Say what stands where the key is missing: one that looks like it, else those that are there."""
    near = get_close_matches(name, [key for key in there if key not in known], n=1, cutoff=0.6)
    return repr(_short(near[0])) if near else f"only {_listed(there)}" if there else "nothing"


def _in_collection(value: Any, kind: inspect.Type, path: str) -> Iterator[DocumentProblem]:
    match kind:
        case inspect.DictType():
            for key, item in value.items():
                yield from _problems(item, kind.value_type, f"{path}.{_short(str(key))}")
        case inspect.ListType() | inspect.VarTupleType() | inspect.SetType() | inspect.FrozenSetType():
            for number, item in enumerate(value):
                yield from _problems(item, kind.item_type, f"{path}[{number}]")
        case inspect.TupleType():
            if len(value) != len(kind.item_types):
                yield DocumentProblem(path, f"expected a list of {len(kind.item_types)}, got one of {len(value)}")
            for number, (item, one) in enumerate(zip(value, kind.item_types, strict=False)):
                yield from _problems(item, one, f"{path}[{number}]")
        case inspect.DateTimeType() if isinstance(value, str):
            try:
                datetime.fromisoformat(value)
            except ValueError:
                yield _unexpected(value, _words(kind), path)


_SHAPES: Final[dict[type[inspect.Type], tuple[str, Callable[[object], bool]]]] = {
    inspect.StructType: ("an object", lambda value: isinstance(value, dict)),
    inspect.DictType: ("an object", lambda value: isinstance(value, dict)),
    inspect.ListType: ("a list", lambda value: isinstance(value, list | tuple)),
    inspect.VarTupleType: ("a list", lambda value: isinstance(value, list | tuple)),
    inspect.TupleType: ("a list", lambda value: isinstance(value, list | tuple)),
    inspect.SetType: ("a list", lambda value: isinstance(value, list | tuple | set | frozenset)),
    inspect.FrozenSetType: ("a list", lambda value: isinstance(value, list | tuple | set | frozenset)),
    inspect.StrType: ("a string", lambda value: isinstance(value, str)),
    inspect.BoolType: ("true or false", lambda value: isinstance(value, bool)),
    inspect.NoneType: ("null", lambda value: value is None),
    inspect.FloatType: ("a number", lambda value: isinstance(value, int | float) and not isinstance(value, bool)),
    inspect.IntType: (
        "a whole number",
        lambda value: not isinstance(value, bool) and isinstance(value, int | float) and value == int(value),
    ),
    inspect.DateTimeType: ("a time such as 2026-11-21T20:00:00Z", lambda value: isinstance(value, str | datetime)),
}
"""Words for a type, and a test whether a value has its shape."""


def _has_shape(value: object, kind: inspect.Type) -> bool:
    if isinstance(kind, inspect.LiteralType):
        return any(type(value) is type(choice) for choice in kind.values)
    shape = _SHAPES.get(type(kind))
    return shape is None or shape[1](value)


def _words(kind: inspect.Type) -> str:
    if isinstance(kind, inspect.LiteralType):
        return f"one of {_listed([str(value) for value in kind.values])}"
    shape = _SHAPES.get(type(kind))
    return "a value of another type" if shape is None else shape[0]


def _alternatives(words: list[str]) -> str:
    """Join ``true or false`` and ``null`` to ``true, false or null``."""
    *most, last = [part for some in words for part in some.split(" or ")]
    return f"{', '.join(most)} or {last}" if most else last


def _no_choice(value: object, choices: tuple[object, ...], path: str) -> DocumentProblem:
    if path == SCHEMA:
        known = " or ".join(map(str, choices))
        return DocumentProblem(
            path, f"expected {known}, got {_excerpt(value)}: another version of the harness wrote it"
        )
    words = [str(choice) for choice in choices]
    near = get_close_matches(value, words, n=1) if isinstance(value, str) else []
    hint = f" (did you mean {near[0]}?)" if near else ""
    return DocumentProblem(path, f"expected one of {_listed(words)}, got {_excerpt(value)}{hint}")


def _unexpected(value: object, expected: str, path: str) -> DocumentProblem:
    if not path and expected == "an object":
        expected = "a JSON object"
    return DocumentProblem(path, f"expected {expected}, got {_excerpt(value)}")


def _listed(names: list[str]) -> str:
    more = len(names) - NAMED
    return ", ".join(_short(name) for name in islice(names, NAMED)) + (f" and {more} more" if more > 0 else "")


def _short(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"


def _excerpt(value: object) -> str:
    """Return the value as JSON on one line, truncated; only as much of a large one is encoded as is shown."""
    if isinstance(value, str):
        value = value[: SHOWN + 1]
    elif isinstance(value, list | tuple):
        value = list(islice(value, SHOWN))
    elif isinstance(value, dict):
        value = dict(islice(value.items(), SHOWN))
    try:
        return _short(json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=str))
    except RecursionError:
        return f"a deeply nested {type(value).__name__}"
