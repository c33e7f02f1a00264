"""Replies of Redis as text that shows their types, in RESP2 and RESP3."""

from __future__ import annotations

from typing import Final

UNORDERED: Final = frozenset({"smembers", "hkeys", "hvals", "hgetall", "channels"})
"""Commands whose reply has an order that Redis does not promise: that of its hash table."""
_BRACKETS: Final = {b"*": "[]", b"~": "~[]", b">": ">[]", b"%": "{}", b"|": "|{}"}


def replies(data: bytes, *, unordered: bool = False) -> tuple[list[str], bytes]:
    """Return the complete replies in ``data`` as text, and the remaining bytes. Sort aggregates if ``unordered``."""
    found, at = [], 0
    while at < len(data):
        try:
            text, at = reply_at(data, at, unordered)
        except (ValueError, IndexError):  # incomplete
            break
        found.append(text)
    return found, data[at:]


def reply_at(data: bytes, at: int, unordered: bool) -> tuple[str, int]:
    """Return a reply as text, and the position after it. Raises ValueError or IndexError if it is incomplete."""
    end = data.index(b"\r\n", at)
    mark, line, at = data[at : at + 1], data[at + 1 : end], end + 2
    if mark in (b"+", b"-", b":", b",", b"#", b"("):
        return (mark + line).decode(errors="backslashreplace"), at
    if mark == b"_":
        return "null", at
    if mark in (b"$", b"=", b"!"):
        return _bulk(data, int(line), at)
    if mark in _BRACKETS:
        return _aggregate(data, mark, int(line), at, unordered)
    raise AssertionError(f"no reply of Redis: {data[at - len(line) - 3 :][:100]!r}")


def _bulk(data: bytes, size: int, at: int) -> tuple[str, int]:
    if size < 0:
        return "nil", at
    if data[at + size : at + size + 2] != b"\r\n":
        raise ValueError("incomplete")
    return repr(data[at : at + size])[1:], at + size + 2


def _aggregate(data: bytes, mark: bytes, size: int, at: int, unordered: bool) -> tuple[str, int]:
    if size < 0:
        return "nil array", at
    items = []
    for _ in range(size):
        item, at = reply_at(data, at, unordered)
        if mark in b"%|":
            value, at = reply_at(data, at, unordered)
            item = f"{item}: {value}"
        items.append(item)
    if unordered or mark in b"~%":
        items.sort()
    brackets = _BRACKETS[mark]
    return f"{brackets[:-1]}{', '.join(items)}{brackets[-1]}", at
