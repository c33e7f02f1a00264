"""Compiles and executes INSERT, UPDATE and DELETE statements over one table."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

from sqlglot import expressions as exp

from harness.sim.servers.waits import Wait

from . import sql
from .errors import SqlError
from .expressions import Compiler, Context, Fn
from .functions import FUNCTIONS
from .paths import AccessPath, WhereClause, compile_where
from .rows import Duplicate, RowWriter
from .scan import LockingRead
from .select import OrderBy, names_of
from .storage import Row, RowRecord, SqlTable
from .values import ColumnDefinition, Value, convert, datetime_of, sort_key


@dataclass(slots=True)
class WriteResult:
    """The result of a statement that changes rows.

    ``affected`` and ``found`` are numbers of rows; clients choose which they get. ``insert_id`` is the id sent to the
    client. ``generated`` is the id for LAST_INSERT_ID(), set even if the statement fails at a later row.
    """

    affected: int = 0
    found: int = 0
    insert_id: int = 0
    generated: int | None = None


DEFAULT = object()


@dataclass(slots=True)
class Insert:
    """A compiled INSERT ... VALUES. Each row has an expression or ``DEFAULT`` for each of the columns ``targets``.

    ``assignments`` are those of ON DUPLICATE KEY UPDATE.
    """

    table: SqlTable
    targets: list[int]
    rows: list[list[Any]]
    ignore: bool = False
    assignments: list[tuple[int, Fn]] | None = None

    def run(self, c: Context, rows: RowWriter, done: WriteResult) -> Generator[Wait, None, None]:
        reserved = _AutoIncrement(self.table, len(self.rows))
        for number, cells in enumerate(self.rows, 1):
            row, automatic = self._row(c, cells, number, reserved)
            check = "S" if self.assignments is None else "X"
            try:
                yield from rows.insert(self.table, row, check)  # type: ignore[arg-type]
            except Duplicate as duplicate:
                if self.assignments is not None:
                    self._skip_explicit(row, automatic, reserved)
                    yield from self._update_duplicate(c, rows, row, duplicate, number, done)
                elif not self.ignore:
                    raise duplicate.error() from duplicate
                continue
            done.affected += 1
            done.found += 1
            self._skip_explicit(row, automatic, reserved)
            self._set_insert_id(done, row, automatic)

    def _row(self, c: Context, cells: list[Any], number: int, reserved: _AutoIncrement) -> tuple[Row, bool]:
        table = self.table
        given: dict[int, Value] = {}
        made: list[Value] = [None] * len(table.columns)
        for at, cell in zip(self.targets, cells, strict=True):
            if cell is not DEFAULT:
                c.row = made
                given[at] = made[at] = convert(table.columns[at], cell(c), table.name, number)
        automatic = False
        for at, column in enumerate(table.columns):
            value = given.get(at)
            if column.auto_increment and (value is None or value == 0):
                made[at], automatic = reserved.next_value(), True
            elif at not in given:
                made[at] = _default(column, c, table, number)
            elif value is None and not column.nullable:
                if not self.ignore:
                    raise SqlError(1048, column.name)
                made[at] = "" if column.kind == "text" else 0
        return tuple(made), automatic

    def _skip_explicit(self, row: Row, automatic: bool, reserved: _AutoIncrement) -> None:
        at = self.table.auto_column
        if at is not None and not automatic:
            value = row[at]
            if isinstance(value, int):
                reserved.skip_past(value)

    def _set_insert_id(self, done: WriteResult, row: Row, automatic: bool) -> None:
        at = self.table.auto_column
        if at is None:
            return
        value = row[at]
        assert isinstance(value, int)
        if automatic and done.generated is None:
            done.generated = done.insert_id = value
        elif done.generated is None:
            done.insert_id = value

    def _update_duplicate(
        self, c: Context, rows: RowWriter, row: Row, duplicate: Duplicate, number: int, done: WriteResult
    ) -> Generator[Wait, None, None]:
        assert self.assignments is not None
        yield from rows.lock(self.table, duplicate.record)
        old = duplicate.record.versions[0].row
        assert old is not None
        c.new = row
        changed = _assign(self.table, c, old, self.assignments, number)
        done.found += 1
        if changed == old:
            return
        try:
            yield from rows.update(self.table, duplicate.record, changed)
        except Duplicate as other:
            raise other.error() from other
        done.affected += 2
        done.found += 1
        at = self.table.auto_column
        if at is not None and done.generated is None:
            value = changed[at]
            done.insert_id = value if isinstance(value, int) else 0


class _AutoIncrement:
    """AUTO_INCREMENT values for one statement: it reserves as many as it has rows, and never returns one."""

    def __init__(self, table: SqlTable, rows: int) -> None:
        self._table = table
        self._left = 0
        self._next = 0
        self._size = rows

    def next_value(self) -> int:
        if not self._left:
            self._next, self._left = self._table.next_auto, self._size
            self._table.next_auto += self._size
        self._left -= 1
        self._next += 1
        return self._next - 1

    def skip_past(self, value: int) -> None:
        """Continue after ``value``, which a row has given explicitly."""
        self._table.next_auto = max(self._table.next_auto, value + 1)
        if value >= self._next:
            self._left = 0


def _default(column: ColumnDefinition, c: Context, table: SqlTable, number: int) -> Value:
    if column.default is None:
        raise SqlError(1364, column.name)
    return convert(column, column.default(c), table.name, number)


def _assign(table: SqlTable, c: Context, old: Row, assignments: list[tuple[int, Fn]], number: int) -> Row:
    """Return a row after assignments from left to right; later assignments see earlier ones."""
    made = list(old)
    c.row = made
    for at, value in assignments:
        column = table.columns[at]
        made[at] = convert(column, value(c), table.name, number)
        if made[at] is None and not column.nullable:
            raise SqlError(1048, column.name)
    assigned = {at for at, _ in assignments}
    if made != list(old):
        for at, column in enumerate(table.columns):
            if column.on_update and at not in assigned:
                made[at] = datetime_of(c.moment_ns, column.size)
    return tuple(made)


@dataclass(slots=True)
class UpdateOrDelete:
    """A compiled UPDATE, or DELETE if ``assignments`` is None."""

    table: SqlTable
    where: WhereClause
    assignments: list[tuple[int, Fn]] | None
    order: list[OrderBy] = field(default_factory=list)
    limit: int | None = None

    def run(self, c: Context, rows: RowWriter, done: WriteResult) -> Generator[Wait, None, None]:
        path = None if self.where.constant and not self.where.matches(c) else self.where.path(c)
        if path is None or self.limit == 0:
            return
        at_once = not self.order and not self._may_move_along(path)
        later: list[RowRecord] = []

        def test(row: Row) -> bool:
            c.row = row
            return self.where.matches(c)

        def visit(record: RowRecord) -> Generator[Wait, None, bool]:
            if at_once:
                yield from self._change(c, rows, record, done)
                return done.found == self.limit
            later.append(record)
            return not self.order and len(later) == self.limit

        read = LockingRead(
            rows.trx, self.table, "X", test, visit, semi_consistent=self.assignments is not None and not path.unique
        )
        yield from read.run(path)
        for record in self._sorted(c, later):
            yield from self._change(c, rows, record, done)

    def _may_move_along(self, path: AccessPath) -> bool:
        """Return whether an update could move a row along the path, so that the read would meet it again."""
        changed = {at for at, _ in self.assignments or ()}
        return bool(changed.intersection([*path.index.columns, *self.table.clustered.columns]))

    def _sorted(self, c: Context, records: list[RowRecord]) -> list[RowRecord]:
        for order in reversed(self.order):

            def key(record: RowRecord, order: OrderBy = order) -> Any:
                c.row = record.versions[0].row or ()
                return sort_key(order.value(c))

            records = sorted(records, key=key, reverse=order.descending)
        return records[: self.limit]

    def _change(self, c: Context, rows: RowWriter, record: RowRecord, done: WriteResult) -> Generator[Wait, None, None]:
        done.found += 1
        if self.assignments is None:
            yield from rows.delete(self.table, record)
            done.affected += 1
            return
        old = record.versions[0].row
        assert old is not None
        changed = _assign(self.table, c, old, self.assignments, done.found)
        if changed == old:
            return
        try:
            yield from rows.update(self.table, record, changed)
        except Duplicate as duplicate:
            raise duplicate.error() from duplicate
        done.affected += 1


def compile_insert(tree: exp.Insert, table: SqlTable) -> Insert:
    target = tree.this
    compiler = Compiler(table.columns, [table.name], FUNCTIONS)
    named = target.expressions if isinstance(target, exp.Schema) else []
    targets = [compiler.column(node) for node in named] or list(range(len(table.columns)))
    for at in targets:
        if targets.count(at) > 1:
            raise SqlError(1110, table.columns[at].name)
    values = tree.expression
    if not isinstance(values, exp.Values) or tree.args.get("returning"):
        raise SqlError(1235, "INSERT other than of VALUES")
    rows = []
    for number, node in enumerate(values.expressions, 1):
        cells = node.expressions if isinstance(node, exp.Tuple) else [node]
        if len(cells) == 0 and not named:
            cells = [exp.Var(this="DEFAULT")] * len(targets)
        if len(cells) != len(targets):
            raise SqlError(1136, number)
        rows.append([DEFAULT if _is_default(cell) else compiler.compile(cell) for cell in cells])
    made = Insert(table, targets, rows, ignore=bool(tree.args.get("ignore")))
    conflict = tree.args.get("conflict")
    if conflict is not None:
        made.assignments = _assignments(compiler, table, conflict.expressions)
    if compiler.waits:
        raise SqlError(1235, "functions that wait, in an INSERT")
    return made


def _is_default(node: Any) -> bool:
    return isinstance(node, exp.Var) and node.name.upper() == "DEFAULT"


def _assignments(compiler: Compiler, table: SqlTable, nodes: list[Any]) -> list[tuple[int, Fn]]:
    compiler.clause = "field list"
    found: list[tuple[int, Fn]] = []
    for node in nodes:
        at = compiler.column(node.this)
        default = table.columns[at].default
        value = default if _is_default(node.expression) else compiler.compile(node.expression)
        if value is None:
            raise SqlError(1364, table.columns[at].name)
        found.append((at, value))
    return found


def compile_change(tree: exp.Update | exp.Delete, table: SqlTable) -> UpdateOrDelete:
    target = tree.this
    compiler = Compiler(table.columns, names_of(target), FUNCTIONS)
    assignments = _assignments(compiler, table, tree.expressions) if isinstance(tree, exp.Update) else None
    made = UpdateOrDelete(table, compile_where(compiler, table, tree.args.get("where")), assignments)
    compiler.clause = "order clause"
    order = tree.args.get("order")
    for node in order.expressions if order is not None else []:
        made.order.append(OrderBy(compiler.compile(node.this), None, bool(node.args.get("desc"))))
    if tree.args.get("limit") is not None:
        made.limit = sql.limit_number(tree.args["limit"])
    if compiler.waits:
        raise SqlError(1235, "functions that wait, for each row of a table")
    return made
