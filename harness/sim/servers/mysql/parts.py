"""What the parts of the simulated MySQL ask of the server as a whole."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Protocol

from harness.sim.servers.mysql.locks import Wait
from harness.sim.servers.mysql.named_locks import NamedLocks
from harness.sim.servers.mysql.storage import Table
from harness.sim.servers.mysql.transactions import Transaction, Transactions
from harness.sim.servers.mysql.values import Value
from harness.sim.service import ServiceHost


class Server(Protocol):
    """See :class:`harness.sim.servers.mysql.server.MysqlServer`; ``session`` arguments are its sessions."""

    host: ServiceHost
    variables: dict[str, Value]
    tables: dict[str, Table]
    transactions: Transactions
    named: NamedLocks
    on_command: Callable[[str, str], None] | None

    def has(self, session: Any) -> bool: ...

    def session(self, number: int) -> Any: ...

    def leave(self, session: Any) -> None: ...

    def enter(self, fn: Callable[..., None], *args: Any) -> None: ...

    def wake(self, session: Any) -> None: ...

    def execute(self, session: Any, text: str) -> Generator[Wait, None, Any]: ...

    def refuse_if_read_only(self) -> None: ...

    def commit(self, trx: Transaction) -> Generator[Wait, None, None]: ...

    def ended(self, trx: Transaction, *, commit: bool) -> None: ...

    def exclusive(self, table: Table) -> Generator[Wait, None, None]: ...

    def define(self, text: str) -> Generator[Wait, None, None]: ...

    def redefine(self, text: str) -> None: ...

    def empty(self) -> None: ...
