"""Convert plain data of documents to texts, and to pairs for tables."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def pairs(data: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return ``data`` as (name, text) pairs, for a table."""
    return tuple((name, plain(value)) for name, value in data.items())


def known_versions(versions: Mapping[str, str | None]) -> tuple[tuple[str, str], ...]:
    """Return the versions of installed packages as (name, version) pairs."""
    return tuple((name, version) for name, version in versions.items() if version is not None)


def compact(value: Any) -> str:
    """Return ``value`` as JSON on one line, without unnecessary spaces."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=str)


def plain(value: Any) -> str:
    """Return ``value`` as text for a reader: strings without quotes, lists with commas, objects as ``name value``."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(not isinstance(item, list | dict) for item in value):
        return ", ".join(plain(item) for item in value)
    if isinstance(value, dict) and all(not isinstance(item, list | dict) for item in value.values()):
        return ", ".join(f"{name} {plain(item)}" for name, item in value.items())
    return compact(value)
