"""Executes the SQL statements of a session: finds the table, compiles and runs the statement, ends the transaction."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

from sqlglot import expressions as exp

from harness.sim.servers.waits import Wait, WaitOutcome

from . import sql, variables
from .definitions import create, drop, find_table, truncate
from .errors import DEADLOCK, INTERRUPTED, KILLED, NAME_TOO_LONG, SqlError
from .expressions import NAMED_LOCK_FUNCTIONS, Compiler, Context, Fn
from .functions import FUNCTIONS
from .named_locks import NS_PER_S, lock_name
from .protocol import ACCOUNT, LONG, VARSTRING, Field
from .rows import RowWriter
from .select import ResultSet, Select, compile_select
from .session import SqlSession, Statement
from .storage import SqlTable
from .values import Value, to_number
from .write import Insert, UpdateOrDelete, WriteResult, compile_change, compile_insert

_KILL: Final = re.compile(r"\s*KILL\s+(?:(?:HARD|SOFT)\s+)?(?:(CONNECTION|QUERY)\s+)?(\d+)\s*;?\s*$", re.IGNORECASE)
_LEVEL: Final = re.compile(
    r"\s*SET\s+(?:(SESSION|GLOBAL|LOCAL)\s+)?TRANSACTION\s+ISOLATION\s+LEVEL\s+"
    r"(READ\s+UNCOMMITTED|READ\s+COMMITTED|REPEATABLE\s+READ|SERIALIZABLE)\s*;?\s*$",
    re.IGNORECASE,
)
_IGNORED_BY_DO: Final = frozenset({DEADLOCK, NAME_TOO_LONG})
"""Errors of functions when they are called. Those in the statement itself are not ignored."""
_NAMES: Final = re.compile(r"\s*SET\s+(NAMES|CHARACTER\s+SET)\b", re.IGNORECASE)
_SNAPSHOT: Final = re.compile(r"\s*START\s+TRANSACTION\s+WITH\s+CONSISTENT\s+SNAPSHOT", re.IGNORECASE)


def run(session: SqlSession, text: str) -> Statement:
    """Run one statement of a session. Raises SqlError."""
    word = sql.first_word(text.encode())
    statement = _STATEMENTS.get(word)
    if statement is None:
        raise SqlError(1064, text[:80])
    session.explicit_insert_id = None
    return (yield from statement(session, text))


# SELECT, INSERT, UPDATE, DELETE.


def _cached_plan(session: SqlSession, template: str) -> Select | Insert | UpdateOrDelete:
    """Return the compiled statement, from the table's cache if possible."""
    tree = sql.parse(template)
    table = _table(session, tree)
    if table is None:
        return _compile_without_table(template)
    found = table.plans.get(template)
    if found is None:
        found = _compile(tree, template, table)
        if len(table.plans) > 4096:
            table.plans.clear()
        table.plans[template] = found
    return found


@lru_cache(maxsize=1024)
def _compile_without_table(template: str) -> Select | Insert | UpdateOrDelete:
    return _compile(sql.parse(template), template, None)


def _compile(tree: exp.Expression, template: str, table: SqlTable | None) -> Select | Insert | UpdateOrDelete:
    if isinstance(tree, exp.Select):
        return compile_select(tree, template, table)
    if table is None:
        raise SqlError(1064, template[:80])
    if isinstance(tree, exp.Insert):
        return compile_insert(tree, table)
    if isinstance(tree, exp.Update | exp.Delete):
        return compile_change(tree, table)
    raise SqlError(1235, template[:80])


def _table(session: SqlSession, tree: exp.Expression) -> SqlTable | None:
    source: Any = tree.args.get("from_") if isinstance(tree, exp.Select) else tree
    if source is None:
        return None
    node = source.this.this if isinstance(source.this, exp.Schema) else source.this
    if not isinstance(node, exp.Table):
        raise SqlError(1235, tree.sql("mysql")[:80])
    return None if node.name.lower() == "dual" and not node.db else find_table(session, node)


def _select(session: SqlSession, text: str) -> Statement:
    template, texts = sql.template(text)
    plan = _cached_plan(session, template)
    assert isinstance(plan, Select)
    c = Context(session, texts)
    yield from _call_in_order(session, c, plan.ordered_calls)
    if plan.table is None:
        return plan.result(c, [()])
    if plan.lock is None and not (session.outlives_statement and session.level() == "SERIALIZABLE"):
        return plan.result(c, _snapshot(session, plan, c))
    if plan.lock is None:
        plan = replace(plan, lock="S")
    return (yield from _locking_select(session, plan, c))


def _snapshot(session: SqlSession, plan: Select, c: Context) -> list[Any]:
    everyone, table = session.server.transactions, plan.table
    if not session.outlives_statement or table is None:
        return plan.snapshot(c, everyone.new_view(0))
    trx = session.transaction()
    everyone.use(trx, table)
    return plan.snapshot(c, everyone.view(trx))


def _locking_select(session: SqlSession, plan: Select, c: Context) -> Statement:
    trx = session.transaction()
    assert plan.table is not None
    session.server.transactions.use(trx, plan.table)
    trx.policy, usual_ns = plan.policy, trx.lock_wait_ns
    if plan.lock_wait_s is not None:
        trx.lock_wait_ns = plan.lock_wait_s * NS_PER_S
        trx.policy = "wait" if plan.lock_wait_s else "nowait"
    mark = len(trx.undo), len(trx.log)
    try:
        rows = yield from plan.read(c, trx)
        answer = plan.result(c, rows)
    except SqlError as failure:
        session.failed(failure, mark)
        raise
    finally:
        trx.policy, trx.lock_wait_ns = "wait", usual_ns
    if not session.outlives_statement:
        yield from session.commit()
    return answer


def _call_in_order(session: SqlSession, c: Context, calls: list[tuple[str, list[Fn]]]) -> Generator[Wait, None, None]:
    """Execute the calls that wait or use named locks, in the order in which they are written."""
    for name, args in calls:
        values = [arg(c) for arg in args]
        result: Value
        if name in NAMED_LOCK_FUNCTIONS:
            result = session.named(name, values)
        elif name == "SLEEP":
            wait = Wait(round(max(float(to_number(values[0])), 0.0) * NS_PER_S))
            wait.checks_client = True
            yield wait
            if wait.ended is WaitOutcome.KILLED:
                raise SqlError(INTERRUPTED)
            result = 0
        else:
            name_of_lock, timeout = lock_name(name, values[0]), values[1]
            if name_of_lock is None or timeout is None:
                result = None
            else:
                result = yield from session.server.named.get(session, name_of_lock, float(to_number(timeout)))
        if session.closing:
            raise SqlError(INTERRUPTED)
        c.ordered_results.append(result)


def _do(session: SqlSession, text: str) -> Statement:
    try:
        yield from _select(session, re.sub(r"^\s*DO\b", "SELECT", text, flags=re.IGNORECASE))
    except SqlError as error:
        if error.number not in _IGNORED_BY_DO:
            raise
    return WriteResult()


def _write(session: SqlSession, text: str) -> Statement:
    template, texts = sql.template(text)
    plan = _cached_plan(session, template)
    if isinstance(plan, Select):
        raise SqlError(1064, text[:80])
    session.server.refuse_if_read_only()
    trx = session.transaction()
    session.server.transactions.use(trx, plan.table)
    mark = len(trx.undo), len(trx.log)
    done = WriteResult()
    try:
        yield from plan.run(Context(session, texts), RowWriter(session.server.transactions, trx), done)
    except SqlError as failure:
        session.failed(failure, mark)
        raise
    finally:
        if done.generated is not None:
            session.last_insert_id = done.generated
    if session.explicit_insert_id is not None:
        done.insert_id = session.explicit_insert_id
    if not session.outlives_statement:
        yield from session.commit()
    return done


# Transactions and sessions.


def _begin(session: SqlSession, text: str) -> Statement:
    yield from session.commit()
    session.explicit = True
    session.next_level = session.level()  # a later SET SESSION must not affect this transaction
    if _SNAPSHOT.match(text):
        session.server.transactions.view(session.transaction())
    return WriteResult()


def _commit(session: SqlSession, text: str) -> Statement:  # noqa: ARG001
    yield from session.commit()
    return WriteResult()


def _rollback(session: SqlSession, text: str) -> Statement:
    if re.search(r"\bTO\b", text, re.IGNORECASE):
        raise SqlError(1235, "SAVEPOINT")
    session.rollback()
    yield from ()
    return WriteResult()


def _kill(session: SqlSession, text: str) -> Statement:
    yield from ()
    found = _KILL.match(text)
    if found is None:
        raise SqlError(1064, text[:80])
    target = session.server.session(int(found[2]))
    if target is None:
        raise SqlError(1094, found[2])
    query_only = (found[1] or "").upper() == "QUERY"
    if target is session:
        session.closing = not query_only
        raise SqlError(INTERRUPTED if query_only else KILLED)
    target.kill(query_only=query_only)
    return WriteResult()


def _use(session: SqlSession, text: str) -> Statement:
    yield from ()
    name = text.split(None, 1)[1].strip(" ;`\n") if len(text.split(None, 1)) > 1 else ""
    if name != ACCOUNT:
        raise SqlError(1049, name)
    session.database = name
    return WriteResult()


def _set(session: SqlSession, text: str) -> Statement:
    level = _LEVEL.match(text)
    if level is not None:
        _set_level(session, level)
        return WriteResult()
    if _NAMES.match(text):
        return WriteResult()
    template, texts = sql.template(text)
    tree = sql.parse(template)
    for item in tree.expressions:
        yield from _assign(session, texts, item)
    return WriteResult()


def _set_level(session: SqlSession, found: re.Match[str]) -> None:
    words = " ".join(found[2].upper().split())
    scope = (found[1] or "").upper()
    if scope == "GLOBAL":
        session.server.variables["tx_isolation"] = words.replace(" ", "-")
    elif scope:
        session.variables["tx_isolation"] = words.replace(" ", "-")
    else:
        session.next_level = words  # type: ignore[assignment]


def _assign(session: SqlSession, texts: list[str], item: exp.SetItem) -> Generator[Wait, None, None]:
    node = item.this
    if not isinstance(node, exp.EQ):
        raise SqlError(1064, item.sql("mysql"))
    target = node.this
    if isinstance(target, exp.Parameter):
        session.user_variables[target.name] = yield from _evaluate(session, texts, node.expression)
        return
    name = variables.known(target.name)
    scope = str(item.args.get("kind") or target.args.get("kind") or "").lower()
    setting = yield from _setting(session, texts, name, node.expression)
    value = variables.checked(name, setting)
    if scope == "global" or variables.is_global(name):
        session.server.variables[name] = value
        return
    before = session.variables["autocommit"]
    session.variables[name] = value
    if name == "innodb_lock_wait_timeout" and session.trx is not None:
        session.trx.lock_wait_ns = round(to_number(value) * NS_PER_S)
    if name == "autocommit" and value and not before:
        yield from session.commit()


def _setting(session: SqlSession, texts: list[str], name: str, node: Any) -> Generator[Wait, None, Value]:
    word = node.name if isinstance(node, exp.Column | exp.Var) else ""
    if word.upper() == "DEFAULT":
        return session.server.variables[name]
    if word:
        return word
    return (yield from _evaluate(session, texts, node))


def _evaluate(session: SqlSession, texts: list[str], node: Any) -> Generator[Wait, None, Value]:
    """Return the value of an expression without columns, after the waits of its functions."""
    compiler = Compiler([], [], FUNCTIONS)
    value = compiler.compile(node)
    c = Context(session, texts)
    yield from _call_in_order(session, c, compiler.ordered_calls)
    return value(c)


def _show(session: SqlSession, text: str) -> Statement:  # noqa: ARG001
    yield from ()
    words = text.upper().split()
    if words[1].rstrip(";") in ("WARNINGS", "ERRORS"):
        return ResultSet([Field("Level", VARSTRING), Field("Code", LONG), Field("Message", VARSTRING)], [])
    raise SqlError(1235, text[:80])


_STATEMENTS: Final[dict[str, Callable[[SqlSession, str], Statement]]] = {
    "SELECT": _select,
    "DO": _do,
    "INSERT": _write,
    "UPDATE": _write,
    "DELETE": _write,
    "BEGIN": _begin,
    "START": _begin,
    "COMMIT": _commit,
    "ROLLBACK": _rollback,
    "KILL": _kill,
    "USE": _use,
    "SET": _set,
    "SHOW": _show,
    "CREATE": create,
    "DROP": drop,
    "TRUNCATE": truncate,
}
