"""Compiled statements of the simulated PostgreSQL: common parts of reads and writes, and locks on rows.

Source: https://www.postgresql.org/docs/15/transaction-iso.html and src/backend/access/heap/README.tuplock. At READ
COMMITTED a statement that waited for a row looks at its newest version and tests it again.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol

from sqlglot import expressions as exp

from harness.sim.servers.waits import Wait

from . import ordered_calls
from .errors import LOCK_NOT_AVAILABLE, NO_TABLE, NOT_SERIALIZABLE, PgError, unsupported
from .expressions import Compiler, Context, Expr, coerce, type_of
from .interface import SessionInterface
from .locks import Tag
from .protocol import Field
from .storage import RUNNING, Row, Table, Transaction
from .values import BOOL, FLOAT8, INT2, INT4, INT8, INTERVAL, TEXT, TIMESTAMP, TIMESTAMPTZ, UNKNOWN, VARCHAR

Policy = Literal["wait", "nowait", "skip"]
_COLUMN_NAMES: Final[dict[type, str]] = {exp.Boolean: "bool", exp.Interval: "interval"}
_TYPE_NAMES: Final = {
    BOOL: "bool", INT2: "int2", INT4: "int4", INT8: "int8", FLOAT8: "float8", TEXT: "text", VARCHAR: "varchar",
    TIMESTAMP: "timestamp", TIMESTAMPTZ: "timestamptz", INTERVAL: "interval",
}  # fmt: skip


@dataclass(slots=True)
class Outcome:
    """The result of a statement: command tag and, if it returns rows, the rows."""

    tag: str
    rows: list[tuple[Any, ...]] | None = None


class Plan(Protocol):
    """A compiled statement: ``parameters`` are the types of its parameters, ``fields`` the columns of its result."""

    parameters: tuple[int, ...]
    fields: list[Field] | None

    @property
    def writes(self) -> str:
        """Name of the command if it changes or locks rows, which a standby refuses; otherwise empty."""

    def run(self, session: SessionInterface, parameters: list[Any]) -> Generator[Wait, None, Outcome]:
        """Execute the statement. Raises PgError."""


def parameter_types(compiler: Compiler) -> tuple[int, ...]:
    """Return the types of parameters 1 to n."""
    last = max(compiler.parameters, default=0)
    return tuple(compiler.parameters.get(number, TEXT) for number in range(1, last + 1))


@dataclass(slots=True)
class Output:
    """The columns of a result, and the functions that compute them."""

    fields: list[Field] = field(default_factory=list)
    values: list[Callable[[Context], Any]] = field(default_factory=list)

    def row(self, c: Context) -> tuple[Any, ...]:
        return tuple(value(c) for value in self.values)

    def add(self, name: str, found: Expr) -> None:
        found = coerce(found, TEXT) if found.oid == UNKNOWN else found
        self.fields.append(Field(name, found.oid))
        self.values.append(found.value)


def compile_output(compiler: Compiler, items: Sequence[Any]) -> Output:
    """Compile the items of SELECT or RETURNING."""
    output = Output()
    for item in items:
        if isinstance(item, exp.Star):
            for column in () if compiler.table is None else compiler.table.columns:
                output.add(column.name, compiler.compile(exp.column(column.name)))
        else:
            node = item.this if isinstance(item, exp.Alias) else item
            output.add(item.alias or _name(node), compiler.compile(node))
    return output


def _name(node: Any) -> str:
    while isinstance(node, exp.Dot):
        node = node.expression
    if isinstance(node, exp.Column):
        return str(node.name)
    if isinstance(node, exp.Anonymous):
        return str(node.this).lower()
    if isinstance(node, exp.Cast):
        inner = _name(node.this)
        return _TYPE_NAMES[type_of(node.args["to"])] if inner == "?column?" else inner
    if isinstance(node, exp.Func) and not isinstance(node, exp.Connector):
        return "now" if isinstance(node, exp.CurrentTimestamp) else str(node.sql_name()).lower()
    return _COLUMN_NAMES.get(type(node), "?column?")


_SYSTEM_SCHEMAS: Final = ("information_schema", "pg_catalog")


def find_table(tables: dict[str, Table], node: Any) -> Table:
    """Return the table that a statement names. Raises PgError."""
    if not isinstance(node, exp.Table):
        raise unsupported(node.sql("postgres"))
    found = tables.get(node.name)
    if found is None:
        if node.db in _SYSTEM_SCHEMAS or node.name.startswith("pg_"):
            raise unsupported(f"the table {node.name}")
        raise PgError(NO_TABLE, f'relation "{node.name}" does not exist')
    return found


def run_calls(
    session: SessionInterface, c: Context, calls: list[tuple[str, list[Expr]]]
) -> Generator[Wait, None, None]:
    """Execute the calls that lock or wait, in their order."""
    for name, arguments in calls:
        values = [argument.value(c) for argument in arguments]
        c.results.append((yield from ordered_calls.call(session, name, values)))


def lock_row(
    session: SessionInterface, table: Table, row: Row, snapshot: int, policy: Policy, *, reads: bool = False
) -> Generator[Wait, None, bool | None]:
    """Lock a row for a change. Returns True if it took no wait, False after a wait, None if the row is skipped.

    Raises PgError for a refused or failed wait, and at REPEATABLE READ if the row has changed since the snapshot.

    The first session that waits for a version of the row has its turn next: the others queue for its "row" lock. One
    that has waited for a version which is out of date then waits for the writer of the next one without such a lock.
    """
    trx, locks = session.transaction(), session.server.locks
    version = row.seen_version(trx, snapshot) or row.settled(trx)
    turn: Tag | None = None
    waited = False
    while True:
        settled = row.settled(trx)
        if settled is not version and turn is not None:
            locks.release(session.holder, turn, "X", "transaction")
            turn = None
            yield from session.give_way()
            continue
        if (blocker := row.blocker(trx)) is None:
            break
        _refuse_if_changed(trx, row, snapshot, reads=reads)
        if policy == "skip":
            return None
        if policy == "nowait":
            raise PgError(LOCK_NOT_AVAILABLE, f'could not obtain lock on row in relation "{table.name}"')
        waited = True
        if settled is not version and blocker is row.newest().writer:
            yield from wait_for_end(session, blocker)
            continue
        version = settled
        if turn is None and version is not None:
            turn = ("row", table.name, row.number, version.writer.number)
            yield from session.lock(turn, "X", "transaction")
        else:
            yield from wait_for_end(session, blocker)
    if turn is not None:
        locks.release(session.holder, turn, "X", "transaction")
    if not row.versions:
        return False
    _refuse_if_changed(trx, row, snapshot, reads=reads)
    if row.newest().values is not None:
        row.locker, trx.locked_rows = trx, True
    return not waited


def _refuse_if_changed(trx: Transaction, row: Row, snapshot: int, *, reads: bool) -> None:
    """Raise PgError at REPEATABLE READ if a transaction has changed a row since the snapshot and committed."""
    later = [version for version in row.versions if snapshot < version.writer.committed_at < RUNNING]
    if trx.repeatable and later:
        kind = "delete" if later[-1].values is None and not reads else "update"
        raise PgError(NOT_SERIALIZABLE, f"could not serialize access due to concurrent {kind}")


def wait_for_end(session: SessionInterface, other: Transaction) -> Generator[Wait, None, None]:
    """Wait until another transaction has ended. Raises PgError."""
    yield from session.lock(other.tag, "S", "transaction")
    session.server.locks.release(session.holder, other.tag, "S", "transaction")


@dataclass(slots=True)
class Search:
    """The rows of a table that match a condition."""

    table: Table
    condition: Callable[[Context], Any]
    reads: bool
    """True for a SELECT, whose errors call a delete an update."""

    def candidates(self, session: SessionInterface, c: Context) -> tuple[list[Row], int]:
        """Return (the rows that match in a new snapshot, the snapshot). ``c.row`` changes."""
        trx = session.transaction()
        snapshot = session.server.transactions.snapshot(trx)
        found = []
        for row in self.table.rows.values():
            values = row.seen(trx, snapshot)
            if values is not None and self._matches(c, values):
                found.append(row)
        return found, snapshot

    def _matches(self, c: Context, values: tuple[Any, ...]) -> bool:
        c.row = values
        return self.condition(c) is True

    def lock(
        self, session: SessionInterface, c: Context, row: Row, snapshot: int, policy: Policy
    ) -> Generator[Wait, None, bool]:
        """Lock a candidate and put its newest values into ``c.row``; False if it is skipped or no longer matches."""
        locked = yield from lock_row(session, self.table, row, snapshot, policy, reads=self.reads)
        values = row.newest().values if row.versions else None
        return locked is not None and values is not None and self._matches(c, values)


def compile_search(compiler: Compiler, table: Table, where: Any, *, reads: bool = False) -> Search:
    """Compile a WHERE clause, None for none."""
    return Search(table, (lambda _: True) if where is None else compiler.condition(where.this), reads)
