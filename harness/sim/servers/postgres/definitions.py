"""CREATE TABLE, DROP TABLE and TRUNCATE. Abstracted: they are no part of a transaction, and take no locks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from sqlglot import expressions as exp

from .errors import DUPLICATE_TABLE, NO_COLUMN, NO_TABLE, PgError, unsupported
from .expressions import type_of
from .plans import find_table
from .storage import Column, Table

_TABLE_CONSTRAINTS = (exp.PrimaryKey, exp.UniqueColumnConstraint)


def create(tables: dict[str, Table], tree: Any) -> str:
    """Create a table; return the text of a notice, "" for none. Raises PgError."""
    if tree.args.get("kind") != "TABLE" or not isinstance(tree.this, exp.Schema):
        raise unsupported(tree.sql("postgres"))
    name = tree.this.this.name
    if name in tables:
        if tree.args.get("exists"):
            return f'relation "{name}" already exists, skipping'
        raise PgError(DUPLICATE_TABLE, f'relation "{name}" already exists')
    table = Table(name, [], [])
    for item in tree.this.expressions:
        if isinstance(item, exp.ColumnDef):
            _add_column(table, item)
    for item in tree.this.expressions:
        if not isinstance(item, exp.ColumnDef):
            _add_key(table, item)
    tables[name] = table
    return ""


def _add_column(table: Table, item: Any) -> None:
    column = Column(item.name, type_of(item.args["kind"]))
    table.columns.append(column)
    at = len(table.columns) - 1
    for constraint in item.args.get("constraints") or ():
        kind = constraint.args["kind"]
        if isinstance(kind, exp.PrimaryKeyColumnConstraint):
            column.not_null = True
            table.unique.append((f"{table.name}_pkey", (at,)))
        elif isinstance(kind, exp.UniqueColumnConstraint):
            table.unique.append((f"{table.name}_{column.name}_key", (at,)))
        elif isinstance(kind, exp.NotNullColumnConstraint):
            column.not_null = not kind.args.get("allow_null")
        elif isinstance(kind, exp.DefaultColumnConstraint):
            column.default = kind.this
        else:
            raise unsupported(item.sql("postgres"))


def _add_key(table: Table, item: Any) -> None:
    if not isinstance(item, _TABLE_CONSTRAINTS):
        raise unsupported(item.sql("postgres"))
    primary = isinstance(item, exp.PrimaryKey)
    names = [node.name for node in (item.expressions if primary else item.this.expressions)]
    found = [table.column(name) for name in names]
    columns = tuple(at for at in found if at is not None)
    if len(columns) < len(found):
        raise PgError(NO_COLUMN, f'column "{names[found.index(None)]}" named in key does not exist')
    for at in columns if primary else ():
        table.columns[at].not_null = True
    suffix = "pkey" if primary else f"{'_'.join(names)}_key"
    table.unique.append((f"{table.name}_{suffix}", columns))


def drop(tables: dict[str, Table], tree: Any) -> str:
    """Drop a table; return the text of a notice, "" for none. Raises PgError."""
    node = tree.this if tree.this is not None else tree.args["tables"][0]
    if tree.args.get("kind") != "TABLE":
        raise unsupported(tree.sql("postgres"))
    if node.name not in tables:
        if tree.args.get("exists"):
            return f'table "{node.name}" does not exist, skipping'
        raise PgError(NO_TABLE, f'table "{node.name}" does not exist')
    del tables[node.name]
    return ""


def truncate(tables: dict[str, Table], tree: Any) -> str:
    """Remove all rows of tables. Raises PgError."""
    for node in tree.expressions:
        find_table(tables, node).rows.clear()
    return ""


DEFINITIONS: Final[dict[str, Callable[[dict[str, Table], Any], str]]] = {
    "CREATE": create,
    "DROP": drop,
    "TRUNCATE": truncate,
}
"""Functions that execute a statement by its first word; they return the text of a notice, "" for none."""
