"""Interface of the simulated MySQL server to its own modules, which cannot import the server without a cycle."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Protocol

from harness.sim.servers.waits import Wait
from harness.sim.service import ServiceHost

from .named_locks import NamedLocks
from .storage import SqlTable
from .transactions import Transaction, Transactions
from .values import Value


class ServerInterface(Protocol):
    """See :class:`harness.sim.servers.mysql.server.MysqlServer`; ``session`` arguments are its sessions."""

    host: ServiceHost
    variables: dict[str, Value]
    tables: dict[str, SqlTable]
    transactions: Transactions
    named: NamedLocks
    on_command: Callable[[str, str], None] | None

    def is_open(self, session: Any) -> bool: ...

    def session(self, number: int) -> Any: ...

    def remove_session(self, session: Any) -> None: ...

    def run_event(self, fn: Callable[..., None], *args: Any) -> None: ...

    def schedule(self, session: Any) -> None: ...

    def execute(self, session: Any, text: str) -> Generator[Wait, None, Any]: ...

    def refuse_if_read_only(self) -> None: ...

    def commit(self, trx: Transaction) -> Generator[Wait, None, None]: ...

    def end_transaction(self, trx: Transaction, *, commit: bool) -> None: ...

    def wait_until_unused(self, table: SqlTable) -> Generator[Wait, None, None]: ...

    def replicate_definition(self, text: str) -> Generator[Wait, None, None]: ...

    def apply_definition(self, text: str) -> None: ...

    def drop_everything(self) -> None: ...
