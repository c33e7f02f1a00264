"""What a real PostgreSQL reports about waits: in its log (``log_lock_waits``) and in ``pg_locks``."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path
from typing import Final

from pg8000.native import Connection

from harness.clusters.kinds import ACCOUNT
from harness.fidelity.processes import await_true

_LINE: Final = re.compile(rb"process (\d+) (still waiting|acquired|avoided|detected|failed)")
_CLIENTS: Final = "FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
_STATES: Final = """SELECT pid, pid IN (SELECT pid FROM pg_lock_status() WHERE NOT granted)
FROM pg_stat_get_activity(NULL) WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"""
"""The functions behind pg_locks and pg_stat_activity: the views take ten times as long, since they join catalogues."""


class Monitor:
    """A connection to the real server, and its log."""

    def __init__(self, address: tuple[str, int], log: Path) -> None:
        host, port = address
        self._connection = Connection(ACCOUNT, host=host, port=port, database=ACCOUNT, ssl_context=False)
        self._states = self._connection.prepare(_STATES)
        self._log = log
        self._at = log.stat().st_size
        self._rest = b""
        self._last: dict[int, bytes] = {}
        """The last report about each process."""

    def execute(self, statement: str) -> None:
        self._connection.run(statement)

    def states(self) -> dict[int, bool]:
        """Return the processes of clients, with whether each waits for a lock and has looked for a deadlock.

        The log is read last: a process that was granted a lock writes so before it waits for the next one.
        """
        rows = self._states.run()
        self._read_log()
        return {pid: bool(waits and self._last.get(pid) == b"still waiting") for pid, waits in rows}

    def forget(self, pid: int) -> None:
        """Forget the reports about a process that is about to get a statement: no report says that a wait was
        cancelled."""
        self._read_log()
        self._last.pop(pid, None)

    def _read_log(self) -> None:
        with self._log.open("rb") as file:
            file.seek(self._at)
            data = file.read()
        self._at += len(data)
        whole, newline, self._rest = (self._rest + data).rpartition(b"\n")
        for pid, report in _LINE.findall(whole + newline):
            self._last[int(pid)] = report

    def end_clients(self) -> None:
        """End the sessions of all clients."""
        self.execute(f"SELECT pg_terminate_backend(pid) {_CLIENTS}")
        await_true(lambda: not self.states(), "the end of all sessions")

    def close(self) -> None:
        """Close the connection."""
        with closing(self._connection):
            self._last.clear()
