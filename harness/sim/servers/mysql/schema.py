"""Builds an empty table with its columns and indexes from the sqlglot tree of a CREATE TABLE statement.

Source: https://mariadb.com/kb/en/create-table/. Abstracted: foreign keys, checks, generated columns, character sets,
storage engines (all tables are InnoDB tables), descending indexes and column prefixes.
"""

from __future__ import annotations

from typing import Any, Final

from sqlglot import expressions as exp

from .errors import SqlError
from .expressions import Compiler
from .functions import FUNCTIONS
from .storage import SqlTable, TableIndex
from .values import ColumnDefinition, ColumnKind

_INTEGERS: Final = {"TINYINT": 8, "SMALLINT": 16, "MEDIUMINT": 24, "INT": 32, "BIGINT": 64}
_UNSIGNED: Final = {"UTINYINT": 8, "USMALLINT": 16, "UMEDIUMINT": 24, "UINT": 32, "UBIGINT": 64}
_TEXTS: Final = {"VARCHAR": 255, "CHAR": 1, "TEXT": 65535, "LONGTEXT": 1 << 30, "MEDIUMTEXT": 1 << 24}
_OTHERS: Final[dict[str, ColumnKind]] = {
    "DOUBLE": "double", "FLOAT": "double", "DECIMAL": "decimal", "DATETIME": "datetime", "TIMESTAMP": "timestamp",
    "TIMESTAMPTZ": "timestamp",
}  # fmt: skip


def create(tree: exp.Create) -> SqlTable:
    """Return the empty table that a CREATE TABLE statement describes. Raises SqlError."""
    schema = tree.this
    if tree.args.get("kind") != "TABLE" or not isinstance(schema, exp.Schema):
        raise SqlError(1235, tree.sql("mysql")[:60])
    columns = [_column(node) for node in schema.expressions if isinstance(node, exp.ColumnDef)]
    names = [column.name.lower() for column in columns]
    for name in names:
        if names.count(name) > 1:
            raise SqlError(1060, name)
    table = SqlTable(schema.this.name, columns)
    _Indexes(table, names).read(schema)
    return table


def _column(node: exp.ColumnDef) -> ColumnDefinition:
    column = _column_of_type(node.name, node.args["kind"])
    for constraint in node.args.get("constraints") or []:
        kind = constraint.kind
        if isinstance(kind, exp.NotNullColumnConstraint):
            column.nullable = bool(kind.args.get("allow_null"))
        elif isinstance(kind, exp.AutoIncrementColumnConstraint):
            column.auto_increment, column.nullable = True, False
        elif isinstance(kind, exp.DefaultColumnConstraint):
            column.default = Compiler([], [], FUNCTIONS).compile(kind.this)
        elif isinstance(kind, exp.OnUpdateColumnConstraint):
            column.on_update = True
        elif isinstance(kind, exp.PrimaryKeyColumnConstraint):
            column.nullable = False
    if column.nullable and column.default is None:
        column.default = lambda c: None  # noqa: ARG005
    return column


def _column_of_type(name: str, kind: exp.DataType) -> ColumnDefinition:
    word = kind.this.name
    sizes = [int(param.name) for param in kind.expressions]
    if word in _INTEGERS:
        half = 1 << (_INTEGERS[word] - 1)
        return ColumnDefinition(name, "int", bounds=(-half, half - 1))
    if word in _UNSIGNED:
        return ColumnDefinition(name, "int", bounds=(0, (1 << _UNSIGNED[word]) - 1))
    if word == "BOOLEAN":
        return ColumnDefinition(name, "int", bounds=(-128, 127))
    if word in _TEXTS:
        return ColumnDefinition(name, "text", sizes[0] if sizes else _TEXTS[word])
    if word not in _OTHERS:
        raise SqlError(1235, word)
    found = _OTHERS[word]
    if found == "decimal":
        return ColumnDefinition(name, found, sizes[1] if len(sizes) > 1 else 0)
    return ColumnDefinition(name, found, sizes[0] if sizes and found != "double" else 0)


class _Indexes:
    """Collects the indexes of a table, then chooses the clustered index and sets their order."""

    def __init__(self, table: SqlTable, names: list[str]) -> None:
        self._table = table
        self._names = names
        self._primary: list[int] | None = None
        self._unique: list[TableIndex] = []
        self._plain: list[TableIndex] = []

    def read(self, schema: exp.Schema) -> None:
        for node in schema.expressions:
            if isinstance(node, exp.ColumnDef):
                self._of_column(node)
            elif isinstance(node, exp.PrimaryKey):
                self._set_primary(self._numbers(node.expressions))
            elif isinstance(node, exp.UniqueColumnConstraint):
                inner = node.this
                self._add(inner.this.name if inner.this else None, self._numbers(inner.expressions), unique=True)
            elif isinstance(node, exp.IndexColumnConstraint):
                name = node.this.name if node.this else None
                self._add(name, self._numbers(node.expressions), unique=False)
            elif isinstance(node, exp.Constraint):
                for inner in node.expressions:
                    self._named_constraint(node, inner)
        self._finish()

    def _named_constraint(self, node: exp.Constraint, inner: Any) -> None:
        if isinstance(inner, exp.PrimaryKey):
            self._set_primary(self._numbers(inner.expressions))
        elif isinstance(inner, exp.UniqueColumnConstraint):
            self._add(node.name, self._numbers(inner.this.expressions), unique=True)
        else:
            raise SqlError(1235, node.sql("mysql"))

    def _of_column(self, node: exp.ColumnDef) -> None:
        at = self._names.index(node.name.lower())
        for constraint in node.args.get("constraints") or []:
            if isinstance(constraint.kind, exp.PrimaryKeyColumnConstraint):
                self._set_primary([at])
            elif isinstance(constraint.kind, exp.UniqueColumnConstraint):
                self._add(None, [at], unique=True)

    def _set_primary(self, columns: list[int]) -> None:
        if self._primary is not None:
            raise SqlError(1068)
        self._primary = columns
        for at in columns:
            self._table.columns[at].nullable = False

    def _numbers(self, nodes: list[Any]) -> list[int]:
        found = []
        for node in nodes:
            inner = node.this if isinstance(node, exp.Ordered) else node
            if inner.name.lower() not in self._names:
                raise SqlError(1072, inner.name)
            found.append(self._names.index(inner.name.lower()))
        return found

    def _add(self, name: str | None, columns: list[int], *, unique: bool) -> None:
        taken = [index.name.lower() for index in self._unique + self._plain]
        if name is not None and name.lower() in taken:
            raise SqlError(1061, name)
        if name is None:
            first, number = self._table.columns[columns[0]].name, 1
            name = first
            while name.lower() in taken:
                number += 1
                name = f"{first}_{number}"
        (self._unique if unique else self._plain).append(TableIndex(self._table, name, columns, unique))

    def _finish(self) -> None:
        table = self._table
        solid = [i for i in self._unique if not any(table.columns[at].nullable for at in i.columns)]
        if self._primary is not None:
            clustered = TableIndex(table, "PRIMARY", self._primary, unique=True, clustered=True)
        elif solid:
            clustered = TableIndex(table, solid[0].name, solid[0].columns, unique=True, clustered=True)
            self._unique.remove(solid[0])
        else:
            clustered = TableIndex(table, "GEN_CLUST_INDEX", [], unique=False, clustered=True)
        # MariaDB puts unique indexes over columns without NULLs first
        self._unique.sort(key=lambda index: any(table.columns[at].nullable for at in index.columns))
        table.indexes = [clustered, *self._unique, *self._plain]
        autos = [at for at, column in enumerate(table.columns) if column.auto_increment]
        keyed = {index.columns[0] for index in table.indexes if index.columns}
        if len(autos) > 1 or not set(autos) <= keyed:
            raise SqlError(1075)
