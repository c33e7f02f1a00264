"""INSERT with ON CONFLICT, UPDATE and DELETE, each with RETURNING.

Source: https://www.postgresql.org/docs/15/sql-insert.html and src/backend/access/nbtree/nbtinsert.c: an insert of a key
that another running transaction has inserted or deleted waits for the end of that transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

from sqlglot import expressions as exp

from harness.sim.servers.waits import Wait

from .errors import DUPLICATE, NO_COLUMN, NOT_NULL, NOT_SERIALIZABLE, PgError, unsupported
from .expressions import Compiler, Context, Expr, coerce
from .interface import SessionInterface
from .plans import (
    Outcome,
    Output,
    Plan,
    Search,
    compile_output,
    compile_search,
    find_table,
    lock_row,
    parameter_types,
    wait_for_end,
)
from .protocol import Field
from .storage import Row, Table, Transaction, Values

Setter = tuple[int, Callable[[Context], Any]]
Key = tuple[str, tuple[int, ...]]


def _checked(table: Table, values: Values) -> Values:
    for column, value in zip(table.columns, values, strict=True):
        if value is None and column.not_null:
            raise PgError(
                NOT_NULL,
                f'null value in column "{column.name}" of relation "{table.name}" violates not-null constraint',
            )
    return values


def _conflict(session: SessionInterface, table: Table, values: Values, keys: list[Key], own: Row | None) -> Generator[
    Wait, None, tuple[str, Row] | None
]:  # fmt: skip
    """Return the key and the row that new values conflict with, after the end of transactions that may decide it. A key
    that has been looked up is not looked up again after a wait for another one."""
    trx = session.transaction()
    for key in keys:
        while (found := _first_conflict(trx, table, values, [key], own)) is not None:
            writer = found[1].newest().writer
            if writer is trx or writer.ended:
                return found
            yield from wait_for_end(session, writer)
    return None


def _first_conflict(
    trx: Transaction, table: Table, values: Values, keys: list[Key], own: Row | None
) -> tuple[str, Row] | None:
    for name, columns in keys:
        wanted = [values[at] for at in columns]
        if None in wanted:
            continue
        for row in table.rows.values():
            if row is own:
                continue
            for version in row.versions:
                entered = version.values is not None and name not in version.unindexed
                if entered and [version.values[at] for at in columns] == wanted:  # type: ignore[index]
                    return name, row
                if version.writer.ended or version.writer is trx:  # older versions are of the past
                    break
    return None


def _enter(
    session: SessionInterface, table: Table, row: Row, values: Values, keys: list[Key], arbiters: list[Key]
) -> Generator[Wait, None, bool]:
    """Write a version of a row, then enter it into the unique keys in their order. While it waits for a decision about
    one key, it is in those before. Returns False if a key of ON CONFLICT has been taken meanwhile, and nothing is done.

    Raises PgError for a duplicate.
    """
    trx = session.transaction()
    version = session.server.transactions.write(trx, table, row, values)
    version.unindexed = {name for name, _ in keys}
    for key in keys:
        if key in arbiters:
            if _first_conflict(trx, table, values, [key], row) is not None:
                session.server.transactions.withdraw(trx, table, row)
                return False
        elif (yield from _conflict(session, table, values, [key], row)) is not None:
            raise _duplicate(key[0])
        version.unindexed.discard(key[0])
    return True


def _duplicate(name: str) -> PgError:
    return PgError(DUPLICATE, f'duplicate key value violates unique constraint "{name}"')


@dataclass(slots=True)
class Change:
    """What an UPDATE, or an INSERT at a conflict, does with a row; no ``setters`` means DELETE."""

    table: Table
    setters: list[Setter] | None

    def changed(self, c: Context) -> Values:
        """Return the new values of a row whose values are in ``c.row``. Raises PgError for those it cannot have."""
        values = list(c.row)
        for at, value in self.setters or ():
            values[at] = value(c)
        return _checked(self.table, tuple(values))

    def apply(self, session: SessionInterface, c: Context, row: Row) -> Generator[Wait, None, Values]:
        """Change a locked row whose values are in ``c.row``; return the values that RETURNING refers to."""
        trx, server = session.transaction(), session.server
        if self.setters is None:
            server.transactions.write(trx, self.table, row, None)
            return c.row
        changed = self.changed(c)
        keys = [key for key in self.table.unique if any(changed[at] != c.row[at] for at in key[1])]
        yield from _enter(session, self.table, row, changed, keys, [])
        return changed


@dataclass(slots=True)
class UpdateOrDelete:
    """An UPDATE or DELETE."""

    parameters: tuple[int, ...]
    fields: list[Field] | None
    search: Search
    change: Change
    returning: Output | None

    @property
    def writes(self) -> str:
        return "DELETE" if self.change.setters is None else "UPDATE"

    def run(self, session: SessionInterface, parameters: list[Any]) -> Generator[Wait, None, Outcome]:
        c = Context(session, parameters)
        rows, snapshot = self.search.candidates(session, c)
        count, returned = 0, []
        for row in rows:
            c.row = row.seen(session.transaction(), snapshot) or ()
            self.change.changed(c)  # PostgreSQL checks the new values before it waits for the row
            if not (yield from self.search.lock(session, c, row, snapshot, "wait")):
                continue
            count += 1
            c.row = yield from self.change.apply(session, c, row)
            if self.returning is not None:
                returned.append(self.returning.row(c))
        return Outcome(f"{self.writes} {count}", None if self.returning is None else returned)


@dataclass(slots=True)
class OnConflict:
    """The ON CONFLICT clause: the keys that it concerns, and the UPDATE, None for DO NOTHING."""

    keys: list[Key]
    update: Change | None
    where: Callable[[Context], Any]


@dataclass(slots=True)
class Insert:
    """An INSERT of rows of expressions."""

    parameters: tuple[int, ...]
    fields: list[Field] | None
    table: Table
    rows: list[list[Callable[[Context], Any]]]
    on_conflict: OnConflict | None
    returning: Output | None

    @property
    def writes(self) -> str:
        return "INSERT"

    def run(self, session: SessionInterface, parameters: list[Any]) -> Generator[Wait, None, Outcome]:
        c = Context(session, parameters)
        count, returned = 0, []
        for values in self.rows:
            proposed = _checked(self.table, tuple(value(c) for value in values))
            stored = yield from self._store(session, c, proposed)
            if stored is None:
                continue
            count, c.row = count + 1, stored
            if self.returning is not None:
                returned.append(self.returning.row(c))
        return Outcome(f"INSERT 0 {count}", None if self.returning is None else returned)

    def _store(self, session: SessionInterface, c: Context, proposed: Values) -> Generator[Wait, None, Values | None]:
        table, clause = self.table, self.on_conflict
        arbiters = [] if clause is None else clause.keys
        while True:
            found = yield from _conflict(session, table, proposed, arbiters, None)
            if found is None or clause is None:
                if (yield from _enter(session, table, table.add(), proposed, table.unique, arbiters)):
                    return proposed
                continue
            row = found[1]
            if clause.update is None:
                self._check_visible(session, row)
                return None
            snapshot = session.server.transactions.snapshot(session.transaction())
            yield from lock_row(session, table, row, snapshot, "wait")
            values = row.newest().values if row.versions else None
            if values is None:
                continue  # it was deleted meanwhile
            c.row, c.proposed = values, proposed
            if clause.where(c) is not True:
                return None
            return (yield from clause.update.apply(session, c, row))

    @staticmethod
    def _check_visible(session: SessionInterface, row: Row) -> None:
        """Raise PgError if a row that was met at REPEATABLE READ is not in the snapshot."""
        trx, newest = session.transaction(), row.newest()
        snapshot = session.server.transactions.snapshot(trx)
        if trx.repeatable and newest.writer is not trx and newest.writer.committed_at > snapshot:
            raise PgError(NOT_SERIALIZABLE, "could not serialize access due to concurrent update")


# Compilation.


def _setters(compiler: Compiler, table: Table, items: list[Any]) -> list[Setter]:
    found = []
    for item in items:
        at = _number(table, item.this.name)
        oid = table.columns[at].oid
        found.append((at, coerce(compiler.compile(item.expression, oid), oid).value))
    return found


def _number(table: Table, name: str) -> int:
    at = table.column(name)
    if at is None:
        raise PgError(NO_COLUMN, f'column "{name}" of relation "{table.name}" does not exist')
    return at


def _returning(compiler: Compiler, tree: Any) -> Output | None:
    found = tree.args.get("returning")
    return None if found is None else compile_output(compiler, found.expressions)


def compile_change(tree: Any, tables: dict[str, Table], declared: tuple[int, ...]) -> Plan:
    """Compile an UPDATE or DELETE. Raises PgError."""
    table = find_table(tables, tree.this)
    compiler = Compiler(table, declared)
    compiler.alias = tree.this.alias
    setters = _setters(compiler, table, tree.expressions) if isinstance(tree, exp.Update) else None
    search = compile_search(compiler, table, tree.args.get("where"))
    returning = _returning(compiler, tree)
    fields = None if returning is None else returning.fields
    if compiler.calls:
        raise unsupported(tree.sql("postgres"))
    return UpdateOrDelete(parameter_types(compiler), fields, search, Change(table, setters), returning)


def compile_insert(tree: Any, tables: dict[str, Table], declared: tuple[int, ...]) -> Plan:
    """Compile an INSERT ... VALUES. Raises PgError."""
    schema = isinstance(tree.this, exp.Schema)
    table = find_table(tables, tree.this.this if schema else tree.this)
    if not isinstance(tree.expression, exp.Values):
        raise unsupported(tree.sql("postgres"))
    names = [node.name for node in tree.this.expressions] if schema else [column.name for column in table.columns]
    places = [_number(table, name) for name in names]
    compiler = Compiler(table, declared)
    rows = [_row(compiler, table, places, item.expressions) for item in tree.expression.expressions]
    conflict = tree.args.get("conflict")
    clause = None if conflict is None else _on_conflict(compiler, table, conflict)
    returning = _returning(compiler, tree)
    fields = None if returning is None else returning.fields
    if compiler.calls:
        raise unsupported(tree.sql("postgres"))
    return Insert(parameter_types(compiler), fields, table, rows, clause, returning)


def _row(compiler: Compiler, table: Table, places: list[int], nodes: list[Any]) -> list[Callable[[Context], Any]]:
    if len(nodes) > len(places):
        raise PgError("42601", "INSERT has more expressions than target columns")
    if len(nodes) < len(places):
        raise PgError("42601", "INSERT has more target columns than expressions")
    given = dict(zip(places, nodes, strict=True))
    row = []
    for at, column in enumerate(table.columns):
        node = given.get(at, column.default)
        found = Expr(lambda _: None, column.oid) if node is None else compiler.compile(node, column.oid)
        row.append(coerce(found, column.oid).value)
    return row


def _on_conflict(compiler: Compiler, table: Table, node: Any) -> OnConflict:
    columns = [_number(table, item.this.name) for item in node.args.get("conflict_keys") or ()]
    keys = [key for key in table.unique if not columns or sorted(key[1]) == sorted(columns)]
    if not keys:
        raise PgError("42P10", "there is no unique or exclusion constraint matching the ON CONFLICT specification")
    updates = "UPDATE" in node.args["action"].name.upper()
    where = node.args.get("where")
    return OnConflict(
        keys,
        Change(table, _setters(compiler, table, node.expressions)) if updates else None,
        (lambda _: True) if where is None else compiler.condition(where.this),
    )
