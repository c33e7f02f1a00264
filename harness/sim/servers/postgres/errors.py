"""SQL errors of the simulated PostgreSQL: SQLSTATEs and texts of PostgreSQL 15.

Source: https://www.postgresql.org/docs/15/errcodes-appendix.html, and the server itself for the texts.
"""

from __future__ import annotations

from typing import Final

SYNTAX: Final = "42601"
UNSUPPORTED: Final = "0A000"
NO_TABLE: Final = "42P01"
NO_COLUMN: Final = "42703"
NO_FUNCTION: Final = "42883"
DUPLICATE: Final = "23505"
DUPLICATE_TABLE: Final = "42P07"
NOT_NULL: Final = "23502"
DEADLOCK: Final = "40P01"
NOT_SERIALIZABLE: Final = "40001"
LOCK_NOT_AVAILABLE: Final = "55P03"
CANCELED: Final = "57014"
TERMINATED: Final = "57P01"
READ_ONLY: Final = "25006"
IN_FAILED_TRANSACTION: Final = "25P02"
IDLE_IN_TRANSACTION: Final = "25P03"
IDLE_SESSION: Final = "57P05"
BAD_TEXT: Final = "22P02"
STARTING_UP: Final = "57P03"
FIXED_PARAMETER: Final = "55P02"
PROTOCOL: Final = "08P01"
ABORTED: Final = "current transaction is aborted, commands ignored until end of transaction block"
"""Text of IN_FAILED_TRANSACTION."""


class PgError(Exception):
    """The failure of a statement: SQLSTATE ``state`` and ``text``; ``fatal`` if it also ends the session.

    ``lacks`` says what this server lacks and the real one may have; it is empty for an error that the real server has
    too.
    """

    def __init__(self, state: str, text: str, *, fatal: bool = False, lacks: str = "") -> None:
        self.state = state
        self.text = text
        self.fatal = fatal
        self.lacks = lacks
        super().__init__(f"{state}: {text}")


def read_only(command: str) -> PgError:
    """Return the error for a command that a standby refuses."""
    return PgError(READ_ONLY, f"cannot execute {command} in a read-only transaction")


def unsupported(what: str) -> PgError:
    """Return the error for SQL that PostgreSQL has and this server does not."""
    text = f"this simulated server doesn't support: {what[:80]}"
    return PgError(UNSUPPORTED, text, lacks=f"{what[:80]} in PostgreSQL's SQL")
