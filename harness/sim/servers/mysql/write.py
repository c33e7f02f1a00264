"""INSERT, UPDATE and DELETE, compiled: of one table."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

from sqlglot import expressions as exp

from harness.sim.servers.mysql import sql
from harness.sim.servers.mysql.errors import SqlError
from harness.sim.servers.mysql.expressions import Compiler, Context, Fn
from harness.sim.servers.mysql.functions import FUNCTIONS
from harness.sim.servers.mysql.locks import Wait
from harness.sim.servers.mysql.paths import Path, Search, search
from harness.sim.servers.mysql.rows import Duplicate, Rows
from harness.sim.servers.mysql.scan import LockingRead
from harness.sim.servers.mysql.select import Order, names_of
from harness.sim.servers.mysql.storage import Record, Row, Table
from harness.sim.servers.mysql.values import Column, Value, convert, now, sort_key


@dataclass(slots=True)
class Done:
    """What a change answers: rows affected (and rows found, for clients that want these), an id for the client, and
    the id for LAST_INSERT_ID() if the statement made one (though it then failed at a later row)."""

    affected: int = 0
    found: int = 0
    insert_id: int = 0
    generated: int | None = None


DEFAULT = object()


@dataclass(slots=True)
class Insert:
    """INSERT ... VALUES; each row has a function (or ``DEFAULT``) for each of ``targets``."""

    table: Table
    targets: list[int]
    rows: list[list[Any]]
    ignore: bool = False
    assignments: list[tuple[int, Fn]] | None = None

    def run(self, c: Context, rows: Rows, done: Done) -> Generator[Wait, None, None]:
        reserved = _Numbers(self.table, len(self.rows))
        for number, cells in enumerate(self.rows, 1):
            row, automatic = self._row(c, cells, number, reserved)
            check = "S" if self.assignments is None else "X"
            try:
                yield from rows.insert(self.table, row, check)  # type: ignore[arg-type]
            except Duplicate as duplicate:
                if self.assignments is not None:
                    self._count_explicit(row, automatic, reserved)
                    yield from self._instead(c, rows, row, duplicate, number, done)
                elif not self.ignore:
                    raise duplicate.error() from duplicate
                continue
            done.affected += 1
            done.found += 1
            self._count_explicit(row, automatic, reserved)
            self._note(done, row, automatic)

    def _row(self, c: Context, cells: list[Any], number: int, reserved: _Numbers) -> tuple[Row, bool]:
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
                made[at], automatic = reserved.take(), True
            elif at not in given:
                made[at] = _default(column, c, table, number)
            elif value is None and not column.nullable:
                if not self.ignore:
                    raise SqlError(1048, column.name)
                made[at] = "" if column.kind == "text" else 0
        return tuple(made), automatic

    def _count_explicit(self, row: Row, automatic: bool, reserved: _Numbers) -> None:
        at = self.table.auto_column
        if at is not None and not automatic:
            value = row[at]
            if isinstance(value, int):
                reserved.pass_by(value)

    def _note(self, done: Done, row: Row, automatic: bool) -> None:
        at = self.table.auto_column
        if at is None:
            return
        value = row[at]
        assert isinstance(value, int)
        if automatic and done.generated is None:
            done.generated = done.insert_id = value
        elif done.generated is None:
            done.insert_id = value

    def _instead(
        self, c: Context, rows: Rows, row: Row, duplicate: Duplicate, number: int, done: Done
    ) -> Generator[Wait, None, None]:
        assert self.assignments is not None
        yield from rows.lock(self.table, duplicate.record)
        old = duplicate.record.versions[0].row
        assert old is not None
        c.new = row
        changed = _assigned(self.table, c, old, self.assignments, number)
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


class _Numbers:
    """Values of an AUTO_INCREMENT column: a statement takes as many at once as it has rows, and never gives one
    back."""

    def __init__(self, table: Table, rows: int) -> None:
        self._table = table
        self._left = 0
        self._next = 0
        self._size = rows

    def take(self) -> int:
        if not self._left:
            self._next, self._left = self._table.next_auto, self._size
            self._table.next_auto += self._size
        self._left -= 1
        self._next += 1
        return self._next - 1

    def pass_by(self, value: int) -> None:
        """A row has brought a value of its own: numbers go on after it."""
        self._table.next_auto = max(self._table.next_auto, value + 1)
        if value >= self._next:
            self._left = 0


def _default(column: Column, c: Context, table: Table, number: int) -> Value:
    if column.default is None:
        raise SqlError(1364, column.name)
    return convert(column, column.default(c), table.name, number)


def _assigned(table: Table, c: Context, old: Row, assignments: list[tuple[int, Fn]], number: int) -> Row:
    """A row with values assigned, left to right: later ones see earlier ones."""
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
                made[at] = now(c.moment_ns, column.size)
    return tuple(made)


@dataclass(slots=True)
class Change:
    """UPDATE, or DELETE if there are no ``assignments``."""

    table: Table
    search: Search
    assignments: list[tuple[int, Fn]] | None
    order: list[Order] = field(default_factory=list)
    limit: int | None = None

    def run(self, c: Context, rows: Rows, done: Done) -> Generator[Wait, None, None]:
        path = None if self.search.constant and not self.search.matches(c) else self.search.path(c)
        if path is None or self.limit == 0:
            return
        at_once = not self.order and not self._moves_along(path)
        later: list[Record] = []

        def test(row: Row) -> bool:
            c.row = row
            return self.search.matches(c)

        def visit(record: Record) -> Generator[Wait, None, bool]:
            if at_once:
                yield from self._change(c, rows, record, done)
                return done.found == self.limit
            later.append(record)
            return not self.order and len(later) == self.limit

        read = LockingRead(
            rows.trx, self.table, "X", test, visit, semi=self.assignments is not None and not path.unique
        )
        yield from read.run(path)
        for record in self._sorted(c, later):
            yield from self._change(c, rows, record, done)

    def _moves_along(self, path: Path) -> bool:
        """Might a change put a row further down the path, to be met again?"""
        changed = {at for at, _ in self.assignments or ()}
        return bool(changed.intersection([*path.index.columns, *self.table.clustered.columns]))

    def _sorted(self, c: Context, records: list[Record]) -> list[Record]:
        for order in reversed(self.order):

            def key(record: Record, order: Order = order) -> Any:
                c.row = record.versions[0].row or ()
                return sort_key(order.value(c))

            records = sorted(records, key=key, reverse=order.descending)
        return records[: self.limit]

    def _change(self, c: Context, rows: Rows, record: Record, done: Done) -> Generator[Wait, None, None]:
        done.found += 1
        if self.assignments is None:
            yield from rows.delete(self.table, record)
            done.affected += 1
            return
        old = record.versions[0].row
        assert old is not None
        changed = _assigned(self.table, c, old, self.assignments, done.found)
        if changed == old:
            return
        try:
            yield from rows.update(self.table, record, changed)
        except Duplicate as duplicate:
            raise duplicate.error() from duplicate
        done.affected += 1


def compile_insert(tree: exp.Insert, table: Table) -> Insert:
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
    if compiler.waiting:
        raise SqlError(1235, "functions that wait, in an INSERT")
    return made


def _is_default(node: Any) -> bool:
    return isinstance(node, exp.Var) and node.name.upper() == "DEFAULT"


def _assignments(compiler: Compiler, table: Table, nodes: list[Any]) -> list[tuple[int, Fn]]:
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


def compile_change(tree: exp.Update | exp.Delete, table: Table) -> Change:
    target = tree.this
    compiler = Compiler(table.columns, names_of(target), FUNCTIONS)
    assignments = _assignments(compiler, table, tree.expressions) if isinstance(tree, exp.Update) else None
    made = Change(table, search(compiler, table, tree.args.get("where")), assignments)
    compiler.clause = "order clause"
    order = tree.args.get("order")
    for node in order.expressions if order is not None else []:
        made.order.append(Order(compiler.compile(node.this), None, bool(node.args.get("desc"))))
    if tree.args.get("limit") is not None:
        made.limit = sql.number(tree.args["limit"])
    if compiler.waiting:
        raise SqlError(1235, "functions that wait, for each row of a table")
    return made
