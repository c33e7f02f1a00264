"""Interfaces of the simulated PostgreSQL server and its sessions to the modules that they import."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Protocol

from harness.sim.servers.waits import Wait
from harness.sim.service import Conn, ServiceHost

from .errors import PgError
from .locks import LockHolder, LockManager, Mode, Scope, Tag
from .storage import Table, Transaction, Transactions


class ServerInterface(Protocol):
    """See :class:`harness.sim.servers.postgres.server.PostgresServer`; ``session`` arguments are its sessions."""

    host: ServiceHost
    locks: LockManager
    transactions: Transactions
    tables: dict[str, Table]
    settings: dict[str, str]
    plans: dict[tuple[str, tuple[int, ...]], Any]

    def session(self, number: int) -> Any: ...

    def is_open(self, session: Any) -> bool: ...

    def remove_session(self, session: Any) -> None: ...

    def schedule(self, session: Any, *, first: bool = False) -> None: ...

    def run_event(self, fn: Any, *args: Any) -> None: ...

    def cancel(self, number: int, secret: int) -> None: ...

    def executed(self, session: Any, word: str) -> bool: ...


class SessionInterface(Protocol):
    """See :class:`harness.sim.servers.postgres.session.PgSession`."""

    server: ServerInterface
    conn: Conn
    number: int
    secret: int
    holder: LockHolder
    block: bool
    failed: bool

    def wall_ns(self) -> int: ...

    def began_ns(self) -> int: ...

    def setting(self, name: str) -> str: ...

    def set_config(self, name: str, value: str, *, local: bool) -> str: ...

    def reset_settings(self, name: str | None) -> None: ...

    def forget_statements(self) -> None: ...

    def warn(self, text: str, state: str, *, severity: str = "WARNING") -> None: ...

    def lock(self, tag: Tag, mode: Mode, scope: Scope) -> Generator[Wait, None, None]: ...

    def give_way(self) -> Generator[Wait, None, None]: ...

    def raise_if_interrupted(self) -> None: ...

    def terminate(self, failure: PgError) -> None: ...

    def start_statement(self) -> None: ...

    def become_idle(self) -> None: ...

    def transaction(self) -> Transaction: ...

    def begin(self) -> None: ...

    def set_level(self, level: str) -> None: ...

    def end_block(self, *, commit: bool) -> None: ...

    def end_transaction(self, *, commit: bool) -> None: ...

    def fail(self) -> None: ...
