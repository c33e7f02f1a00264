"""SELECT: of expressions, or of one table, with FOR UPDATE [NOWAIT | SKIP LOCKED], ORDER BY, LIMIT and aggregates."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Final

from sqlglot import expressions as exp

from harness.sim.servers.waits import Wait

from . import sql
from .errors import unsupported
from .expressions import Compiler, Context, Expr
from .interface import SessionInterface
from .plans import (
    Outcome,
    Output,
    Plan,
    Policy,
    Search,
    compile_output,
    compile_search,
    find_table,
    parameter_types,
    run_calls,
)
from .protocol import Field
from .storage import Row, Table
from .values import INT8

_POLICIES: Final[dict[bool | None, Policy]] = {None: "wait", True: "nowait", False: "skip"}
_AGGREGATES: Final = (exp.Count, exp.Max, exp.Min)
_CLAUSES: Final = ("group", "having", "joins", "distinct", "with_", "offset", "windows")


@dataclass(slots=True)
class SelectValues:
    """A SELECT without a table."""

    parameters: tuple[int, ...]
    fields: list[Field] | None
    output: Output
    calls: list[tuple[str, list[Expr]]]

    @property
    def writes(self) -> str:
        return ""

    def run(self, session: SessionInterface, parameters: list[Any]) -> Generator[Wait, None, Outcome]:
        c = Context(session, parameters)
        yield from run_calls(session, c, self.calls)
        return Outcome("SELECT 1", [self.output.row(c)])


@dataclass(slots=True)
class SelectRows:
    """A SELECT of one table's rows. ``order`` are (value, descending); ``policy`` is None without FOR UPDATE."""

    parameters: tuple[int, ...]
    fields: list[Field] | None
    output: Output
    search: Search
    order: list[tuple[Callable[[Context], Any], bool]]
    limit: int | None
    policy: Policy | None

    @property
    def writes(self) -> str:
        return "" if self.policy is None else "SELECT FOR UPDATE"

    def run(self, session: SessionInterface, parameters: list[Any]) -> Generator[Wait, None, Outcome]:
        c = Context(session, parameters)
        rows, snapshot = self.search.candidates(session, c)
        trx = session.transaction()
        rows = self._sorted(c, rows, lambda row: row.seen(trx, snapshot))
        found: list[tuple[Any, ...]] = []
        for row in rows:
            if self.limit is not None and len(found) >= self.limit:
                break
            if self.policy is None:
                c.row = row.seen(trx, snapshot) or ()
            elif not (yield from self.search.lock(session, c, row, snapshot, self.policy)):
                continue
            found.append(self.output.row(c))
        return Outcome(f"SELECT {len(found)}", found)

    def _sorted(self, c: Context, rows: list[Row], values: Callable[[Row], Any]) -> list[Row]:
        for key, descending in reversed(self.order):

            def place(row: Row, key: Callable[[Context], Any] = key) -> tuple[bool, Any]:
                c.row = values(row)
                found = key(c)
                return (found is None, 0 if found is None else found)

            rows = sorted(rows, key=place, reverse=descending)
        return rows


@dataclass(slots=True)
class SelectAggregates:
    """A SELECT of count, max and min of one table's rows. ``functions`` are (kind, argument; None for count(*))."""

    parameters: tuple[int, ...]
    fields: list[Field] | None
    functions: list[tuple[type, Expr | None]]
    search: Search

    @property
    def writes(self) -> str:
        return ""

    def run(self, session: SessionInterface, parameters: list[Any]) -> Generator[Wait, None, Outcome]:
        yield from ()
        c = Context(session, parameters)
        rows, snapshot = self.search.candidates(session, c)
        trx = session.transaction()
        seen = [row.seen(trx, snapshot) or () for row in rows]
        return Outcome("SELECT 1", [tuple(self._computed(c, seen, *function) for function in self.functions)])

    @staticmethod
    def _computed(c: Context, rows: list[tuple[Any, ...]], kind: type, argument: Expr | None) -> Any:
        if argument is None:
            return len(rows)
        found = []
        for c.row in rows:
            value = argument.value(c)
            if value is not None:
                found.append(value)
        if kind is exp.Count:
            return len(found)
        return (max if kind is exp.Max else min)(found, default=None)


def compile_select(tree: Any, tables: dict[str, Table], declared: tuple[int, ...]) -> Plan:
    """Compile a SELECT. Raises PgError."""
    if any(tree.args.get(clause) for clause in _CLAUSES):
        raise unsupported(tree.sql("postgres"))
    source = tree.args.get("from_") or tree.args.get("from")
    if source is None:
        if tree.args.get("where"):
            raise unsupported("WHERE without FROM")
        compiler = Compiler(None, declared)
        output = compile_output(compiler, tree.expressions)
        return SelectValues(parameter_types(compiler), output.fields, output, compiler.calls)
    table = find_table(tables, source.this)
    compiler = Compiler(table, declared)
    compiler.alias = source.this.alias
    search = compile_search(compiler, table, tree.args.get("where"), reads=True)
    plan = _aggregates(compiler, tree, search) or _rows(compiler, tree, search)
    if compiler.calls:
        raise unsupported(tree.sql("postgres"))
    return plan


def _rows(compiler: Compiler, tree: Any, search: Search) -> Plan:
    order = tree.args.get("order")
    terms = [(compiler.compile(item.this).value, bool(item.args.get("desc"))) for item in _items(order)]
    limit = tree.args.get("limit")
    output = compile_output(compiler, tree.expressions)
    return SelectRows(
        parameter_types(compiler), output.fields, output, search, terms,
        None if limit is None else sql.whole_number(limit), _policy(tree),
    )  # fmt: skip


def _items(order: Any) -> list[Any]:
    return [] if order is None else list(order.expressions)


def _policy(tree: Any) -> Policy | None:
    locks = tree.args.get("locks") or []
    if not locks:
        return None
    if len(locks) > 1 or not locks[0].args.get("update"):
        raise unsupported(tree.sql("postgres"))
    return _POLICIES[locks[0].args.get("wait")]


def _aggregates(compiler: Compiler, tree: Any, search: Search) -> Plan | None:
    items = [item.this if isinstance(item, exp.Alias) else item for item in tree.expressions]
    if not all(isinstance(item, _AGGREGATES) for item in items):
        return None
    functions: list[tuple[type, Expr | None]] = []
    fields = []
    for item, node in zip(tree.expressions, items, strict=True):
        argument = None if isinstance(node.this, exp.Star) else compiler.compile(node.this)
        counts = isinstance(node, exp.Count) or argument is None
        functions.append((type(node), argument))
        fields.append(Field(item.alias or type(node).__name__.lower(), INT8 if counts else argument.oid))  # type: ignore[union-attr]
    return SelectAggregates(parameter_types(compiler), fields, functions, search)
