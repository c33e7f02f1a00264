"""Parses SQL statements with sqlglot, once for all statements that differ only in their string literals.

Client libraries write values into the statement. String literals are therefore replaced by numbered parameters before
parsing, so that a lock's INSERTs with different tokens are parsed once.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final

import sqlglot
from sqlglot import expressions as exp
from sqlglot.errors import SqlglotError

from .errors import SqlError
from .expressions import PARAMETER

_TEXT: Final = re.compile(
    r"(`[^`]*`|--[^\n]*(?:\n|$)|#[^\n]*(?:\n|$)|/\*.*?\*/)"
    r"|'((?:[^'\\]|\\.|'')*)'|\"((?:[^\"\\]|\\.|\"\")*)\"",
    re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\(.)|''|\"\"", re.DOTALL)
_ESCAPED: Final = {"0": "\0", "n": "\n", "r": "\r", "t": "\t", "b": "\b", "Z": "\x1a"}
_MARK: Final = re.compile(f"'{PARAMETER}(\\d+)'")
_FIRST: Final = re.compile(rb"\s*(?:/\*.*?\*/\s*)*([A-Za-z]+)", re.DOTALL)


def first_word(statement: bytes) -> str:
    """Return the statement's first keyword, in upper case."""
    found = _FIRST.match(statement)
    return found[1].decode().upper() if found else ""


def template(sql: str) -> tuple[str, list[str]]:
    """Return the statement with a numbered mark in place of each string literal, and the literals' values."""
    texts: list[str] = []

    def take(found: re.Match[str]) -> str:
        if found[1] is not None:
            return found[1] if found[1].startswith("`") else " "
        raw = found[2] if found[2] is not None else found[3]
        quote = "'" if found[2] is not None else '"'
        texts.append(_ESCAPE.sub(lambda part: _unescape(part, quote), raw))
        return f"'{PARAMETER}{len(texts) - 1}'"

    return _TEXT.sub(take, sql), texts


def _unescape(part: re.Match[str], quote: str) -> str:
    char = part[1]
    if char is None:
        return quote if part[0] == quote * 2 else part[0]
    return _ESCAPED.get(char, "\\" + char if char in "%_" else char)


def fill_in(text: str, texts: list[str]) -> str:
    """Put the string literals back into a part of a template."""
    return _MARK.sub(lambda found: f"'{texts[int(found[1])]}'", text)


@lru_cache(maxsize=4096)
def parse(sql: str) -> exp.Expression:
    """Parse a template. Raises SqlError 1064 for wrong syntax, 1235 for unsupported statements."""
    try:
        found = sqlglot.parse_one(sql, read="mysql")
    except SqlglotError as error:
        raise SqlError(1064, sql[:80]) from error
    if isinstance(found, exp.Command | exp.Alias):
        raise SqlError(1235, sql[:80])
    return found  # type: ignore[return-value]


def item_names(sql: str) -> list[str]:
    """Return the text of each item of a SELECT, which names a result column without an alias."""
    depth, names, tokens = 0, [], list[Any](sqlglot.tokenize(sql, read="mysql"))
    start = tokens[1].start
    for token in tokens[1:]:
        if token.text in "()":
            depth += 1 if token.text == "(" else -1
        elif not depth and (token.text == "," or token.text.upper() in _AFTER_ITEMS):
            names.append(sql[start : token.start].strip())
            start = token.end + 1
            if token.text != ",":
                return names
    return [*names, sql[start:].strip().rstrip(";").rstrip()]


_AFTER_ITEMS: Final = ("FROM", "LIMIT", "WHERE", "ORDER", "FOR", "LOCK")


def limit_number(node: Any) -> int:
    """Return the number of a LIMIT, OFFSET or WAIT clause. Raises SqlError if it is not a plain integer."""
    found = node.expression if isinstance(node, exp.Limit | exp.Offset) else node
    if not isinstance(found, exp.Literal) or not str(found.this).isdigit():
        raise SqlError(1064, found.sql("mysql"))
    return int(found.this)
