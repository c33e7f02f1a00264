"""Record the calls of a client, each with its outcome and time.

This code runs where the client runs (on a simulated host or in a container), so it uses the client's clocks.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from harness.clusters.base import RecordEntry
from harness.errors import HostEnded, Interruption, LockFailed
from harness.history import NEMESIS, OpType

from .interfaces import ClientSettings

MAX_ERROR_LENGTH: Final = 300
"""Characters of an error that are recorded in the history."""


def error_text(error: BaseException) -> str:
    """Return an error as the history has it."""
    return f"{type(error).__name__}: {error}"[:MAX_ERROR_LENGTH].encode(errors="backslashreplace").decode()


class RecordedCalls:
    """A client as far as it records calls. ``process`` is its number; ``refused`` is the exception class for a call
    that did not happen."""

    def __init__(
        self,
        *,
        node: str,
        process: int,
        settings: ClientSettings,
        refused: type[Exception],
        record: RecordEntry,
        checkpoint: Callable[[], None],
    ) -> None:
        self.node = node
        self.process = process
        self.settings = settings
        self._refused = refused
        self._record = record
        self._checkpoint = checkpoint

    def _enter(self, f: str, key: str, value: Any = None) -> None:
        self._entry("invoke", f, key, value)

    def _leave(self, type_: OpType, f: str, key: str, value: Any = None, error: str | None = None) -> None:
        self._entry(type_, f, key, value, error)

    def _raised(self, f: str, key: str, error: BaseException) -> None:
        """Record ``fail`` if the lock said that the call did not happen, ``info`` (unknown outcome) otherwise.

        After ``info`` the client continues under a new process number, as in Jepsen. Raises LockFailed for an
        exception that is no outcome of a call: it would end the process of a real client.
        """
        if isinstance(error, HostEnded | LockFailed):
            raise error
        if isinstance(error, MemoryError) or not isinstance(error, Exception | Interruption):
            raise LockFailed(f"{f} of the lock raised {type(error).__name__}, which ends a process") from error
        text = error_text(error)
        if isinstance(error, self._refused):
            self._leave("fail", f, key, error=text)
            return
        self._leave("info", f, key, error=text)
        if f != "read":  # a read changes nothing, so its unknown outcome does not matter
            self.process += self.settings.clients

    def _event(self, f: str, value: Any) -> None:
        """Record what happens to this client and is no call."""
        self._entry("info", f, None, value, process=NEMESIS)

    def _entry(
        self,
        type_: OpType,
        f: str,
        key: str | None,
        value: Any = None,
        error: str | None = None,
        *,
        process: int | None = None,
    ) -> None:
        self._record(
            time=time.monotonic_ns(),
            wall=time.time_ns(),
            process=self.process if process is None else process,
            type_=type_,
            f=f,
            key=key,
            value=value,
            error=error,
            node=self.node,
        )
        self._checkpoint()
