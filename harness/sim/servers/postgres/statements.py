"""Prepares and executes the statements of a session: compiled ones, transactions, parameters, definitions."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Final

from sqlglot import expressions as exp

from harness.sim.servers.waits import Wait

from . import settings, sql
from .definitions import DEFINITIONS
from .errors import ABORTED, DUPLICATE_TABLE, IN_FAILED_TRANSACTION, SYNTAX, PgError, read_only, unsupported
from .interface import SessionInterface
from .plans import Outcome, Plan
from .protocol import Field
from .select import compile_select
from .storage import Table
from .values import TEXT
from .write import compile_change, compile_insert

_LEVEL: Final = re.compile(r"ISOLATION\s+LEVEL\s+(\w+(?:\s+(?:READ|COMMITTED|UNCOMMITTED))?)", re.IGNORECASE)
_SET: Final = re.compile(r"SET\s+(?:(SESSION|LOCAL)\s+)?([\w.]+)\s*(?:=|\bTO\b)\s*(.+)", re.IGNORECASE | re.DOTALL)
_NAMED: Final = re.compile(r"\w+\s+(.+)", re.DOTALL)
_COMMITS: Final = ("COMMIT", "END")
_COMPILED: Final = ("SELECT", "INSERT", "UPDATE", "DELETE")
ENDS: Final = ("COMMIT", "END", "ROLLBACK", "ABORT")
"""Statements that a failed transaction accepts."""


@dataclass(slots=True)
class Prepared:
    """A statement that is ready to run; ``plan`` is None if it is no query."""

    text: str
    word: str
    plan: Plan | None

    @property
    def parameters(self) -> tuple[int, ...]:
        return () if self.plan is None else self.plan.parameters

    @property
    def fields(self) -> list[Field] | None:
        if self.word == "SHOW":
            return [Field(_argument(self.text).lower().replace(" ", "_"), TEXT)]
        return None if self.plan is None else self.plan.fields


def prepare(session: SessionInterface, text: str, declared: tuple[int, ...] = ()) -> Prepared:
    """Compile a statement. Raises PgError."""
    word = sql.first_word(text)
    if word in ("", *_COMPILED):
        return Prepared(text, word, _plan(session, text, declared) if text else None)
    if word not in (*_STATEMENTS, *DEFINITIONS, *_COMMITS):
        raise PgError(SYNTAX, f'syntax error at or near "{word}"')
    return Prepared(text, word, None)


def _plan(session: SessionInterface, text: str, declared: tuple[int, ...]) -> Plan:
    plans = session.server.plans
    found = plans.get((text, declared))
    if found is None:
        if len(plans) > 4096:
            plans.clear()
        found = plans[text, declared] = compile_statement(text, declared, session.server.tables)
    return found


def compile_statement(text: str, declared: tuple[int, ...], tables: dict[str, Table]) -> Plan:
    """Compile a SELECT, INSERT, UPDATE or DELETE. Raises PgError."""
    tree = sql.parse(text)
    if isinstance(tree, exp.Select):
        return compile_select(tree, tables, declared)
    if isinstance(tree, exp.Insert):
        return compile_insert(tree, tables, declared)
    if isinstance(tree, exp.Update | exp.Delete):
        return compile_change(tree, tables, declared)
    raise unsupported(text)


def run(session: SessionInterface, prepared: Prepared, parameters: list[Any]) -> Generator[Wait, None, Outcome]:
    """Execute a statement. Raises PgError."""
    if session.failed and prepared.word not in ENDS:
        raise PgError(IN_FAILED_TRANSACTION, ABORTED)
    if prepared.plan is not None:
        trx = session.transaction()
        trx.queried = True
        if trx.read_only and prepared.plan.writes:
            raise read_only(prepared.plan.writes)
        session.server.transactions.snapshot(trx)
        return (yield from prepared.plan.run(session, parameters))
    if prepared.word in DEFINITIONS:
        return (yield from _define(session, prepared))
    if prepared.word in _COMMITS:
        return (yield from _commit(session))
    return _STATEMENTS[prepared.word](session, prepared.text)


def _define(session: SessionInterface, prepared: Prepared) -> Generator[Wait, None, Outcome]:
    if session.block:
        raise unsupported(f"{prepared.word} in a transaction block")
    if session.in_recovery():
        raise read_only(f"{prepared.word} TABLE")
    tree = sql.parse(prepared.text)
    notice = DEFINITIONS[prepared.word](session.server.tables, tree)
    session.server.plans.clear()
    if notice:
        session.warn(notice, DUPLICATE_TABLE if prepared.word == "CREATE" else "00000", severity="NOTICE")
    else:
        yield from session.replicate({"definition": prepared.text})
    return Outcome(prepared.word if prepared.word == "TRUNCATE" else f"{prepared.word} TABLE")


# Transactions.


def _begin(session: SessionInterface, text: str) -> Outcome:
    if session.block:
        session.warn("there is already a transaction in progress", "25001")
    _set_level(session, text)
    session.begin()
    return Outcome("START TRANSACTION" if sql.first_word(text) == "START" else "BEGIN")


def _set_level(session: SessionInterface, text: str) -> None:
    found = _LEVEL.search(text)
    if found is not None:
        session.set_level(found[1])


def _commit(session: SessionInterface) -> Generator[Wait, None, Outcome]:
    if not session.block:
        session.warn("there is no transaction in progress", "25P01")
    failed = session.failed
    session.end_block()
    if failed:
        session.end_transaction(commit=False)
    else:
        yield from session.commit()
    return Outcome("ROLLBACK" if failed else "COMMIT")


def _rollback(session: SessionInterface, text: str) -> Outcome:
    if re.search(r"\bTO\b", text, re.IGNORECASE):
        raise unsupported("SAVEPOINT")
    if not session.block:
        session.warn("there is no transaction in progress", "25P01")
    session.end_block()
    session.end_transaction(commit=False)
    return Outcome("ROLLBACK")


# Parameters.


def _argument(text: str) -> str:
    found = _NAMED.match(text)
    if found is None:
        raise PgError(SYNTAX, f"syntax error in: {text}")
    return found[1].strip()


def _set(session: SessionInterface, text: str) -> Outcome:
    if _LEVEL.search(text):
        if "CHARACTERISTICS" in text.upper():
            level = _LEVEL.search(text)
            session.set_config("default_transaction_isolation", level[1] if level else "", local=False)
        else:
            _set_level(session, text)
        return Outcome("SET")
    found = _SET.fullmatch(text)
    if found is None:
        raise unsupported(text)
    name, value = settings.known(found[2]), found[3].strip()
    if value.startswith("'"):
        value = value[1:-1].replace("''", "'")
    elif value.upper() == "DEFAULT":
        value = session.server.settings[name]
    session.set_config(name, value, local=(found[1] or "").upper() == "LOCAL")
    return Outcome("SET")


def _show(session: SessionInterface, text: str) -> Outcome:
    name = _argument(text).lower().replace(" ", "_").replace("transaction_isolation_level", "transaction_isolation")
    return Outcome("SHOW", [(session.setting(name),)])


def _reset(session: SessionInterface, text: str) -> Outcome:
    name = _argument(text).lower()
    session.reset_settings(None if name == "all" else settings.known(name))
    return Outcome("RESET")


def _discard(session: SessionInterface, text: str) -> Outcome:  # noqa: ARG001
    session.reset_settings(None)
    session.forget_statements()
    session.server.locks.release_scope(session.holder, "session", "advisory")
    return Outcome("DISCARD ALL")


def _deallocate(session: SessionInterface, text: str) -> Outcome:
    name = _argument(text).upper()
    if name != "ALL":
        raise unsupported(text)
    session.forget_statements()
    return Outcome("DEALLOCATE ALL")


_STATEMENTS: Final[dict[str, Callable[[SessionInterface, str], Outcome]]] = {
    "BEGIN": _begin,
    "START": _begin,
    "ROLLBACK": _rollback,
    "ABORT": _rollback,
    "SET": _set,
    "SHOW": _show,
    "RESET": _reset,
    "DISCARD": _discard,
    "DEALLOCATE": _deallocate,
    "CLOSE": lambda session, text: Outcome("CLOSE CURSOR ALL"),  # noqa: ARG005 - there are no cursors
    "UNLISTEN": lambda session, text: Outcome("UNLISTEN"),  # noqa: ARG005 - nor notifications
}
