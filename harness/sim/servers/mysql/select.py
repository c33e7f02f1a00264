"""Compiles and executes SELECT statements over one table or none, as consistent or as locking reads."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from functools import cmp_to_key
from typing import Any, Literal

from sqlglot import expressions as exp

from harness.sim.servers.waits import Wait

from . import sql
from .errors import SqlError
from .expressions import Compiler, Context, Fn
from .functions import FUNCTIONS
from .locks import Mode
from .paths import AccessPath, WhereClause, compile_where
from .protocol import Field
from .scan import LockingRead, consistent_read
from .storage import Row, RowRecord, SqlTable
from .transactions import Transaction
from .values import ColumnDefinition, Value, as_text, compare, wire_type


@dataclass(slots=True)
class ResultSet:
    """The result of a SELECT: column descriptions and rows of encoded values (None for NULL)."""

    fields: list[Field]
    rows: list[list[bytes | None]]


@dataclass(slots=True)
class SelectItem:
    """A column of the result; ``column`` is set if it is an unchanged column of the table."""

    name: str
    value: Fn
    column: ColumnDefinition | None = None


@dataclass(slots=True)
class OrderBy:
    """One expression of an ORDER BY; ``column`` is the number of the column if it is one."""

    value: Fn
    column: int | None
    descending: bool


@dataclass(slots=True)
class Select:
    """A compiled SELECT over a table; without a table it has one row without columns.

    ``lock`` is the mode of a locking read, None for a consistent read. ``policy`` is what to do about locked rows.
    ``ordered_calls`` are those of :attr:`.expressions.Compiler.ordered_calls`.
    """

    table: SqlTable | None
    items: list[SelectItem]
    where: WhereClause | None = None
    order: list[OrderBy] = field(default_factory=list)
    limit: int | None = None
    offset: int = 0
    aggregated: bool = False
    lock: Mode | None = None
    policy: Literal["wait", "nowait", "skip"] = "wait"
    lock_wait_s: int | None = None
    ordered_calls: list[tuple[str, list[Fn]]] = field(default_factory=list)

    def sorted_by(self, path: AccessPath) -> bool:
        """Return whether the path yields rows in the order of the ORDER BY."""
        wanted = [order.column for order in self.order]
        if any(order.descending for order in self.order):
            return False
        fixed = len(path.points[0]) if path.points is not None and len(path.points) == 1 else 0
        given = [*path.index.columns, *([] if path.index.clustered else path.index.table.clustered.columns)]
        return (path.unique and fixed > 0) or wanted in (given[: len(wanted)], given[fixed : fixed + len(wanted)])

    def read(self, c: Context, trx: Transaction) -> Generator[Wait, None, list[Row]]:
        """Lock and return the matching rows; stop at the limit if the path yields them in the wanted order."""
        clause, table = self.where, self.table
        assert clause is not None
        assert table is not None
        assert self.lock is not None
        path = None if clause.constant and not clause.matches(c) else clause.path(c)
        found: list[Row] = []
        if path is None or self.limit == 0:
            return found
        most = self.limit + self.offset if self.limit is not None and self.sorted_by(path) else None

        def test(row: Row) -> bool:
            c.row = row
            return clause.matches(c)

        def visit(record: RowRecord) -> Generator[Wait, None, bool]:
            yield from ()
            row = record.versions[0].row
            assert row is not None
            found.append(row)
            return len(found) == most

        keeps_locks = path.unique and path.points is not None and len(path.points) == 1
        yield from LockingRead(trx, table, self.lock, test, visit, keeps_locks=keeps_locks).run(path)
        return found

    def snapshot(self, c: Context, view: Any) -> list[Row]:
        """Return the matching rows of a consistent read."""
        clause = self.where
        assert clause is not None
        path = clause.path(c)
        found: list[Row] = []
        for row in () if path is None else consistent_read(path, view):
            c.row = row
            if clause.matches(c):
                found.append(row)
        return found

    def result(self, c: Context, rows: list[Row]) -> ResultSet:
        """Return the result set for the rows that were found: sorted, limited, and with the items evaluated."""
        if self.aggregated:
            c.rows, c.row = list(rows), rows[0] if rows else [None] * len(self.table.columns if self.table else [])
            values = [[item.value(c) for item in self.items]]
        else:
            values = []
            for row in self._sorted(c, rows):
                c.row = row
                values.append([item.value(c) for item in self.items])
        if self.limit is not None:
            values = values[self.offset : self.offset + self.limit]
        elif self.offset:
            values = values[self.offset :]
        fields = [self._field(item, at, values, c.texts) for at, item in enumerate(self.items)]
        digits = [item.column.size if item.column is not None else None for item in self.items]
        return ResultSet(
            fields, [[_cell(value, size) for value, size in zip(row, digits, strict=True)] for row in values]
        )

    def _sorted(self, c: Context, rows: list[Row]) -> list[Row]:
        if not self.order:
            return rows
        keyed = []
        for row in rows:
            c.row = row
            keyed.append(([order.value(c) for order in self.order], row))

        def compared(left: Any, right: Any) -> int:
            for a, b, order in zip(left[0], right[0], self.order, strict=True):
                sign = (a is not None) - (b is not None) if a is None or b is None else compare(a, b) or 0
                if sign:
                    return -sign if order.descending else sign
            return 0

        return [row for _, row in sorted(keyed, key=cmp_to_key(compared))]

    def _field(self, item: SelectItem, at: int, values: list[list[Value]], texts: Any) -> Field:
        name = sql.fill_in(item.name, texts)
        name = name[1:-1] if name.startswith("'") and name.endswith("'") else name
        if item.column is not None and self.table is not None:
            return Field(name, item.column.wire, self.table.name, 0 if item.column.nullable else 1)
        known = next((row[at] for row in values if row[at] is not None), None)
        return Field(name, wire_type(known))


def _cell(value: Value, digits: int | None) -> bytes | None:
    return None if value is None else as_text(value, digits).encode()


def names_of(node: Any) -> list[str]:
    """Return the names that may qualify the columns of a table: its alias, otherwise its name."""
    return [node.name] if node is None or not node.alias else [node.alias]


def compile_select(tree: exp.Select, text: str, table: SqlTable | None) -> Select:
    """Compile a SELECT. Raises SqlError for what is unknown or unsupported."""
    source = tree.args.get("from_")
    for part in ("group", "having", "joins", "distinct", "with_", "windows"):
        if tree.args.get(part):
            raise SqlError(1235, part)
    if source is None and tree.args.get("where"):
        raise SqlError(1235, "WHERE without FROM")
    compiler = Compiler(table.columns if table else [], names_of(source.this) if source else [], FUNCTIONS)
    items = _items(compiler, tree, text, table)
    made = Select(table, items, aggregated=compiler.aggregated)
    made.ordered_calls = compiler.ordered_calls
    if table is not None:
        made.where = compile_where(compiler, table, tree.args.get("where"))
        if compiler.waits:
            raise SqlError(1235, "functions that wait, for each row of a table")
    made.order = [_order(compiler, node, tree, items) for node in _expressions(tree.args.get("order"))]
    if tree.args.get("limit") is not None:
        made.limit = sql.limit_number(tree.args["limit"])
    if tree.args.get("offset") is not None:
        made.offset = sql.limit_number(tree.args["offset"])
    for lock in tree.args.get("locks") or []:
        made.lock = "X" if lock.args.get("update") else "S"
        wait = lock.args.get("wait")
        if wait is True:
            made.policy = "nowait"
        elif wait is False:
            made.policy = "skip"
        elif wait is not None:
            made.lock_wait_s = sql.limit_number(wait)
    return made


def _expressions(node: Any) -> list[Any]:
    return [] if node is None else list(node.expressions)


def _items(compiler: Compiler, tree: exp.Select, text: str, table: SqlTable | None) -> list[SelectItem]:
    names, found = sql.item_names(text), []
    for node, name in zip(tree.expressions, names, strict=True):
        if isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star)):
            if table is None:
                raise SqlError(1064, "*")
            found += [SelectItem(column.name, _cell_of(at), column) for at, column in enumerate(table.columns)]
            continue
        inner = node.this if isinstance(node, exp.Alias) else node
        column = table.columns[compiler.column(inner)] if isinstance(inner, exp.Column) and table else None
        called = node.alias if isinstance(node, exp.Alias) else inner.name if column else name
        found.append(SelectItem(called, compiler.compile(inner), column))
    return found


def _cell_of(at: int) -> Fn:
    return lambda c: c.row[at]


def _order(compiler: Compiler, node: exp.Ordered, tree: exp.Select, items: list[SelectItem]) -> OrderBy:
    compiler.clause = "order clause"
    inner, descending = node.this, bool(node.args.get("desc"))
    if isinstance(inner, exp.Literal) and not inner.is_string and 1 <= int(inner.this) <= len(items):
        return OrderBy(items[int(inner.this) - 1].value, None, descending)
    if isinstance(inner, exp.Column):
        for item, expression in zip(items, tree.expressions, strict=False):
            if isinstance(expression, exp.Alias) and item.name.lower() == inner.name.lower():
                return OrderBy(item.value, None, descending)
        return OrderBy(compiler.compile(inner), compiler.column(inner), descending)
    return OrderBy(compiler.compile(inner), None, descending)
