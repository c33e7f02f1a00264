"""A lock of PostgreSQL that belongs to an open transaction."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

from .base import Endpoints, Grant, LockError, LockInfo
from .polling import poll
from .postgres_client import LONGEST_WAIT_S, TIMEOUT_S, Busy, PostgresSession, Unreachable


class TransactionLock(ABC):
    """A lock that an open transaction holds until it ends. Subclasses implement ``take`` in SQL."""

    info: ClassVar[LockInfo]
    TABLE: ClassVar[str] = ""

    def __init__(self, endpoints: Endpoints, key: str) -> None:
        self.session = PostgresSession(endpoints, self.TABLE, patience=LONGEST_WAIT_S + TIMEOUT_S)
        self.key = key
        self.held = False

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float, **options: Any) -> Self:  # noqa: ARG003
        """Ignore ``ttl``: the lock lasts as long as the connection."""
        return cls(endpoints, key, **options)

    def before_transaction(self) -> None:  # noqa: B027 - optional hook
        """Create what ``take`` needs, outside the transaction."""

    @abstractmethod
    def take(self) -> None:
        """Lock in the open transaction. Raises :class:`Busy` after ``lock_timeout``."""

    def acquire(self, timeout: float) -> Grant | None:
        deadline = time.monotonic() + timeout
        return poll(lambda: self._try(deadline - time.monotonic()), timeout, worth_another=Unreachable)

    def _try(self, patience: float) -> Grant | None:
        if self.held:
            return None
        self.before_transaction()
        self.session.execute("BEGIN")
        self.session.limit_waits(patience, transaction=True)
        try:
            self.take()
        except Busy:
            self.session.execute("ROLLBACK")
            return None
        self.held = True
        return Grant()

    def still_valid(self) -> bool:
        """Ask the server over the connection that the lock belongs to."""
        return self.held and self.session.answers()

    def release(self) -> None:
        held, self.held = self.held, False
        if not held:
            raise LockError(f"{self.key} is not held by this client")
        if not self.session.connected:
            raise LockError(f"{self.key} was lost with its connection")
        self.session.execute("COMMIT")
