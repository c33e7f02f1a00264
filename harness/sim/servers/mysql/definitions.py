"""Executes the SQL statements that define tables: CREATE, DROP and TRUNCATE.

They commit first, and wait for transactions that have used the table.
"""

from __future__ import annotations

from typing import Any, Final

from sqlglot import expressions as exp

from . import schema, sql
from .errors import UNSUPPORTED, SqlError
from .interface import ServerInterface
from .protocol import ACCOUNT
from .session import SqlSession, Statement
from .storage import SqlTable
from .write import WriteResult

_SYSTEM_SCHEMAS: Final = ("information_schema", "mysql", "performance_schema", "sys")


def find_table(session: SqlSession, node: exp.Table) -> SqlTable:
    """Return the table that a statement names. Raises SqlError."""
    schema_name = node.db or session.database
    if node.db.lower() in _SYSTEM_SCHEMAS:
        raise SqlError(UNSUPPORTED, f"the table {node.db}.{node.name}")
    if not schema_name:
        raise SqlError(1046)
    found = session.server.tables.get(node.name) if schema_name == ACCOUNT else None
    if found is None:
        raise SqlError(1146, schema_name, node.name)
    return found


def create(session: SqlSession, text: str) -> Statement:
    """Create a table. A database that exists already is no error with IF NOT EXISTS."""
    template, texts = sql.template(text)
    tree = sql.parse(sql.fill_in(template, [value.replace("'", "''") for value in texts]))
    assert isinstance(tree, exp.Create)
    if tree.args.get("kind") in ("DATABASE", "SCHEMA") and tree.args.get("exists"):
        return WriteResult()
    yield from session.commit()
    session.server.refuse_if_read_only()
    table = schema.create(tree)
    if table.name in session.server.tables:
        if tree.args.get("exists"):
            return WriteResult()
        raise SqlError(1050, table.name)
    session.server.tables[table.name] = table
    yield from session.server.replicate_definition(text)
    return WriteResult()


def drop(session: SqlSession, text: str) -> Statement:
    """Drop tables."""
    tree = sql.parse(text)
    assert isinstance(tree, exp.Drop)
    nodes = [tree.this] if tree.args.get("tables") is None else tree.args["tables"]
    yield from session.commit()
    session.server.refuse_if_read_only()
    missing = []
    for node in nodes:
        table = session.server.tables.get(node.name)
        if table is None:
            missing.append(f"{ACCOUNT}.{node.name}")
            continue
        yield from session.server.wait_until_unused(table)
        session.server.tables.pop(node.name, None)
    yield from session.server.replicate_definition(text)
    if missing and not tree.args.get("exists"):
        raise SqlError(1051, ",".join(missing))
    return WriteResult()


def truncate(session: SqlSession, text: str) -> Statement:
    """Delete all rows of tables."""
    tree = sql.parse(text)
    assert isinstance(tree, exp.TruncateTable)
    yield from session.commit()
    session.server.refuse_if_read_only()
    for node in tree.expressions:
        table = find_table(session, node)
        yield from session.server.wait_until_unused(table)
        table.clear()
    yield from session.server.replicate_definition(text)
    return WriteResult()


def apply_definition(server: ServerInterface, text: str) -> None:
    """Apply the primary's CREATE, DROP or TRUNCATE statement to a replica's tables."""
    template, texts = sql.template(text)
    tree: Any = sql.parse(sql.fill_in(template, [value.replace("'", "''") for value in texts]))
    if isinstance(tree, exp.Create):
        table = schema.create(tree)
        server.tables.setdefault(table.name, table)
    elif isinstance(tree, exp.Drop):
        for node in [tree.this] if tree.args.get("tables") is None else tree.args["tables"]:
            server.tables.pop(node.name, None)
    else:
        for node in tree.expressions:
            if node.name in server.tables:
                server.tables[node.name].clear()
