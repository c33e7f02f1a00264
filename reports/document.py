"""Reads JSON documents whose optional parts may be missing: every answer is typed, every complaint says where.

A :class:`Node` is one JSON object together with its place (``results.json: faults[2].params``). Optional values that
are missing or ``null`` are None or empty; a value of the wrong type is an error that names the place.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn


class ReportError(ValueError):
    """A run folder that cannot be reported; the message names the file, the place in it and what was expected."""


@dataclass(frozen=True, slots=True)
class Node:
    """A JSON object and its place."""

    data: dict[str, Any]
    place: str

    def text(self, key: str, default: str = "") -> str:
        value = self.data.get(key)
        if value is None:
            return default
        return value if isinstance(value, str) else self._wrong(key, "a string")

    def number(self, key: str) -> float | None:
        value = self.data.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            self._wrong(key, "a number")
        return value

    def whole(self, key: str) -> int | None:
        value = self.number(key)
        return None if value is None else int(value)

    def truth(self, key: str) -> bool | None:
        value = self.data.get(key)
        if value is None or isinstance(value, bool):
            return value
        return self._wrong(key, "true, false or null")

    def texts(self, key: str) -> tuple[str, ...]:
        return tuple(item if isinstance(item, str) else compact(item) for item in self._items(key))

    def node(self, key: str) -> Node:
        """The object under ``key``; an empty one if there is none."""
        return self._as_node(self.data.get(key) or {}, key)

    def nodes(self, key: str) -> list[Node]:
        return [self._as_node(item, f"{key}[{i}]") for i, item in enumerate(self._items(key))]

    def members(self, key: str) -> list[tuple[str, Node]]:
        """The objects in the object under ``key``, by name, in their own order."""
        inner = self.node(key)
        return [(name, inner.node(name)) for name in inner.data]

    def flat(self, key: str) -> tuple[tuple[str, str], ...]:
        """The object under ``key`` as (name, text) pairs, for a table."""
        return tuple((name, plain(value)) for name, value in self.node(key).data.items())

    def require(self, key: str) -> Any:
        if key not in self.data:
            raise ReportError(f"{self.place}: expected the key {key!r}, got only {', '.join(self.data) or 'nothing'}")
        return self.data[key]

    def _items(self, key: str) -> list[Any]:
        value = self.data.get(key)
        if value is None:
            return []
        return value if isinstance(value, list) else self._wrong(key, "a list")

    def _as_node(self, value: Any, key: str) -> Node:
        if not isinstance(value, dict):
            raise ReportError(f"{self._at(key)}: expected an object, got {compact(value)[:60]}")
        return Node(value, self._at(key))

    def _at(self, key: str) -> str:
        return f"{self.place}{'.' if ': ' in self.place else ': '}{key}"

    def _wrong(self, key: str, expected: str) -> NoReturn:
        raise ReportError(f"{self._at(key)}: expected {expected}, got {compact(self.data[key])[:60]}")


def read_object(path: Path) -> Node:
    """The JSON object in the file ``path``."""
    try:
        data = json.loads(path.read_bytes())
    except OSError as error:
        raise ReportError(f"{path}: cannot read it: {error.strerror}; a run folder has a {path.name}") from error
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise ReportError(f"{path}, {where}: expected a JSON object: {error.msg}; is the file cut off?") from error
    except UnicodeDecodeError as error:
        raise ReportError(f"{path}, byte {error.start}: expected a JSON object in UTF-8: {error.reason}") from error
    if not isinstance(data, dict):
        raise ReportError(f"{path}: expected a JSON object, got {compact(data)[:60]}")
    return Node(data, str(path))


def compact(value: Any) -> str:
    """``value`` as JSON on one line, without needless blanks."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=str)


def plain(value: Any) -> str:
    """``value`` for a reader: strings bare, lists with commas, objects as ``name value``."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(not isinstance(item, list | dict) for item in value):
        return ", ".join(plain(item) for item in value)
    if isinstance(value, dict) and all(not isinstance(item, list | dict) for item in value.values()):
        return ", ".join(f"{name} {plain(item)}" for name, item in value.items())
    return compact(value)
