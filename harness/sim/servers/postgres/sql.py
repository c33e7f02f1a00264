"""Parses the SQL statements of PostgreSQL with sqlglot."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final

import sqlglot
from sqlglot import expressions as exp
from sqlglot.errors import SqlglotError

from .errors import SYNTAX, PgError, unsupported

PARAMETER: Final = "p"
_PIECE: Final = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\*.*?\*/|\$(\d+)|(;)", re.DOTALL)
_FIRST: Final = re.compile(r"\s*([A-Za-z]+)")


def first_word(statement: str) -> str:
    """Return the statement's first keyword, in upper case, "" for an empty statement."""
    found = _FIRST.match(statement)
    return found[1].upper() if found else ""


def statements(text: str) -> list[str]:
    """Return the statements of a text, without comments and with ``:p1`` in the place of ``$1``."""
    found, at, current = [], 0, ""
    for piece in _PIECE.finditer(text):
        current += text[at : piece.start()]
        at = piece.end()
        if piece[2]:
            found.append(current)
            current = ""
        elif piece[1]:  # sqlglot takes $1,$ for the beginning of a quoted text
            current += f":{PARAMETER}{piece[1]}"
        else:
            current += " " if piece[0][0] in "-/" else piece[0]
    return [one.strip() for one in (*found, current + text[at:]) if one.strip()]


@lru_cache(maxsize=4096)
def parse(statement: str) -> Any:
    """Parse one statement. Raises PgError for wrong syntax."""
    try:
        found = sqlglot.parse_one(statement, read="postgres")
    except SqlglotError as error:
        raise PgError(SYNTAX, f"syntax error in: {statement[:80]}") from error
    if isinstance(found, exp.Command):
        raise unsupported(statement)
    return found


def whole_number(node: Any) -> int:
    """Return the number of a LIMIT clause."""
    found = node.expression
    if not isinstance(found, exp.Literal) or not str(found.this).isdigit():
        raise unsupported(node.sql("postgres"))
    return int(found.this)
