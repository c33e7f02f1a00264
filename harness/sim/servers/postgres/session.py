"""One client's session on the simulated PostgreSQL: its messages, transaction, parameters and waits.

A message is handled by a generator that yields the waits of its statement; the session resumes it when the wait has
ended. As on the real server, a session that waits notices only after the wait that its client has disconnected.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from harness.sim.servers.log_replication import Event
from harness.sim.servers.sessions import WaitingSession
from harness.sim.servers.waits import Wait, WaitOutcome
from harness.sim.service import Conn, Timer

from . import protocol, settings
from .errors import (
    CANCELED,
    DEADLOCK,
    IDLE_IN_TRANSACTION,
    IDLE_SESSION,
    LOCK_NOT_AVAILABLE,
    TERMINATED,
    PgError,
)
from .interface import ServerInterface
from .locks import LockHolder, Mode, Scope, Tag
from .messages import MessageHandler
from .replication import rows_event
from .storage import Transaction


class PgSession(WaitingSession):
    """The session of one client's connection; ``number`` is its process id."""

    server: ServerInterface

    def __init__(self, server: ServerInterface, conn: Conn, number: int) -> None:
        super().__init__()
        self.server = server
        self.conn = conn
        self.number = number
        self.secret = server.host.rng.randrange(1 << 31)
        self.holder = LockHolder()
        self.block = False
        """True from BEGIN to COMMIT or ROLLBACK."""
        self.failed = False
        """True if the transaction of the block has failed."""
        self.trx: Transaction | None = None
        self._settings = dict(server.settings)
        self._before: dict[str, str] = {}
        self._local: dict[str, str] = {}
        self._handler = MessageHandler(self)
        self._running: Generator[Wait, None, None] | None = None
        self._interrupt: PgError | None = None
        self._stepping = False
        self._gone = False
        self._timers: dict[str, Timer] = {}

    # For SQL functions.

    def wall_ns(self) -> int:
        return self.server.host.wall_ns()

    def began_ns(self) -> int:
        return self.transaction().wall_ns

    def in_recovery(self) -> bool:
        return self.server.settings["in_hot_standby"] == "on"

    def setting(self, name: str) -> str:
        """Return a run-time parameter as SHOW does."""
        return self._settings[settings.known(name)]

    def set_config(self, name: str, value: str | None, *, local: bool) -> str:
        """Set a run-time parameter, for the present transaction only if ``local``. None is the server's value."""
        name = settings.known(name)
        text = self.server.settings[name] if value is None else settings.checked(name, value)
        if local:
            if self.trx is None:
                self.warn("SET LOCAL can only be used in transaction blocks", "25P01")
                return text
            self._local.setdefault(name, self._settings[name])
        else:
            self._local.pop(name, None)
        self._settings[name] = text
        if name in settings.REPORTED:
            self._handler.send(protocol.parameter_status(settings.REPORTED[name], text))
        return text

    def reset_settings(self, name: str | None) -> None:
        """Set one parameter, or all, to the server's value."""
        for one in settings.DEFAULTS if name is None else (name,):
            self._settings[one] = self.server.settings[one]

    def forget_statements(self) -> None:
        self._handler.statements.clear()

    def warn(self, text: str, state: str, *, severity: str = "WARNING") -> None:
        """Send a notice before the answer of the statement."""
        self._handler.send(protocol.notice(severity, text, state))

    # Messages.

    def received(self, data: bytes) -> None:
        self._handler.add(data)
        self.serve()

    def serve(self) -> None:
        """Handle messages until one waits, or none is left."""
        while self._running is None and self.server.is_open(self):
            work = self._handler.next()
            if work is None:
                if self._gone:
                    self.server.remove_session(self)
                    self.conn.close()
                return
            self._cancel_timers()
            self._running = work
            self._step()

    def resume(self) -> None:
        """Continue the statement whose wait has ended."""
        if self._running is not None:
            self._step()
            self.serve()

    def _step(self) -> None:
        assert self._running is not None
        for name in ("lock", "deadlock"):
            if name in self._timers:
                self._timers.pop(name).cancel()
        self._wait, self._stepping = None, True
        try:
            wait = next(self._running)
        except StopIteration:
            self._running = None
        else:
            self._await(wait)
        finally:
            self._stepping = False

    def _await(self, wait: Wait) -> None:
        self._wait = wait
        wait.on_end = lambda: self.server.schedule(self)
        if wait.ended is not None:
            self.server.schedule(self, first=True)
            return
        if wait.limit_ns is not None:
            self._start_timer("lock", wait.limit_ns, wait.end, WaitOutcome.TIMEOUT)
        if self.holder.request is not None:
            delay = self.duration_ns("deadlock_timeout")
            self._start_timer("deadlock", delay, self.server.locks.check_deadlock, self.holder)

    # Timers.

    def duration_ns(self, name: str) -> int:
        return settings.duration_ns(name, self._settings[name])

    def _start_timer(self, name: str, delay_ns: int, fn: Any, *args: Any) -> None:
        self._timers[name] = self.server.host.call_later(delay_ns, self.server.run_event, fn, *args)

    def _cancel_timers(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def start_statement(self) -> None:
        """Start the timer of ``statement_timeout``."""
        limit = self.duration_ns("statement_timeout")
        if limit and "statement" not in self._timers:
            failure = PgError(CANCELED, "canceling statement due to statement timeout")
            self._start_timer("statement", limit, self._interrupt_by, failure)

    def become_idle(self) -> None:
        """Start the timer of an idle session."""
        self._cancel_timers()
        self._interrupt = None
        name = "idle_in_transaction_session_timeout" if self.block else "idle_session_timeout"
        limit = self.duration_ns(name)
        if limit:
            failure = (
                PgError(IDLE_IN_TRANSACTION, "terminating connection due to idle-in-transaction timeout", fatal=True)
                if self.block
                else PgError(IDLE_SESSION, "terminating connection due to idle-session timeout", fatal=True)
            )
            self._start_timer("idle", limit, self._interrupt_by, failure)

    def report_role(self) -> None:
        """Report that the server is no standby any more, if it was one at the last report."""
        name, value = "in_hot_standby", self.server.settings["in_hot_standby"]
        if self._settings[name] != value:
            self._settings[name] = value
            self._handler.send(protocol.parameter_status(settings.REPORTED[name], value))

    # Waits for locks.

    def lock(self, tag: Tag, mode: Mode, scope: Scope) -> Generator[Wait, None, None]:
        """Acquire a lock. Raises PgError on a deadlock, a time-out or an interrupt."""
        limit = self.duration_ns("lock_timeout") or None
        outcome = yield from self.server.locks.acquire(self.holder, tag, mode, scope, limit)
        if outcome is WaitOutcome.TIMEOUT:
            raise PgError(LOCK_NOT_AVAILABLE, "canceling statement due to lock timeout")
        if outcome is WaitOutcome.DEADLOCK:
            raise PgError(DEADLOCK, "deadlock detected")
        self.raise_if_interrupted()

    def give_way(self) -> Generator[Wait, None, None]:
        """Let other sessions go on where a real server may run them first. Here this one goes on first."""
        wait = Wait(None)
        wait.end(WaitOutcome.GRANTED)
        yield wait
        self.raise_if_interrupted()

    def raise_if_interrupted(self) -> None:
        """Raise the PgError of an interrupt of this statement."""
        if self._interrupt is not None:
            failure, self._interrupt = self._interrupt, None
            raise failure

    def interrupt(self, *, terminate: bool) -> None:
        """Cancel the statement of this session, or end the session."""
        if terminate:
            text = "terminating connection due to administrator command"
            self._interrupt_by(PgError(TERMINATED, text, fatal=True))
        else:
            self._interrupt_by(PgError(CANCELED, "canceling statement due to user request"))

    def _interrupt_by(self, failure: PgError) -> None:
        if self._wait is not None:
            self._interrupt = failure
            self._wait.end(WaitOutcome.KILLED)
        elif self._running is not None:
            self._interrupt = failure
        elif failure.fatal:
            self.terminate(failure)

    def terminate(self, failure: PgError) -> None:
        """Send a fatal error and end the session."""
        self._handler.send(protocol.error(failure))
        self._close()

    def _close(self) -> None:
        self._handler.flush()
        self.server.remove_session(self)
        self.conn.close()

    # Transactions.

    def transaction(self) -> Transaction:
        """Return the present transaction; begin one if there is none."""
        if self.trx is None:
            level = self._settings["default_transaction_isolation"]
            repeatable = level == "repeatable read"
            self.trx = self.server.transactions.begin(
                self.conn.peer, self.wall_ns(), repeatable=repeatable, read_only=self.in_recovery()
            )
            self._before = dict(self._settings)
            self._settings["transaction_isolation"] = level
            self.server.locks.try_acquire(self.holder, self.trx.tag, "X", "transaction")
        return self.trx

    def begin(self) -> None:
        self.transaction()
        self.block = True

    def set_level(self, level: str) -> None:
        """Set the isolation level of the present transaction. Raises PgError."""
        trx = self.transaction()
        text = settings.checked("transaction_isolation", level)
        if trx.queried and text != self._settings["transaction_isolation"]:
            raise PgError("25001", "SET TRANSACTION ISOLATION LEVEL must be called before any query")
        self._settings["transaction_isolation"] = text
        trx.repeatable = text == "repeatable read"

    def end_block(self) -> None:
        """End the block, before its transaction is committed or rolled back."""
        self.block = self.failed = False

    def commit(self) -> Generator[Wait, None, None]:
        """Commit. If commits are synchronous, wait for a standby before others see the changes, and with the locks."""
        trx = self.trx
        if trx is not None and (trx.changed or trx.locked_rows):
            trx.logged = True
            yield from self.replicate(rows_event(trx))
        self.end_transaction(commit=True)

    def replicate(self, event: Event) -> Generator[Wait, None, None]:
        """Send an event of the log to the standbys, and wait for one if commits are synchronous in this session.

        An interrupt ends the wait only: the event is in the log. A session that it ends gets no answer.
        """
        if "statement" in self._timers:  # PostgreSQL stops it before the commit
            self._timers.pop("statement").cancel()
        waits = self._settings["synchronous_commit"] not in ("local", "off")
        yield from self.server.replicate(event, waits=waits)
        failure, self._interrupt = self._interrupt, None
        if failure is not None and failure.fatal:
            self.warn(f"canceling the wait for synchronous replication and {failure.text}", failure.state)
            self._close()
        elif failure is not None:
            self.warn("canceling wait for synchronous replication due to user request", "01000")

    def end_transaction(self, *, commit: bool) -> None:
        """Commit or roll back, then release the locks of the transaction."""
        trx, self.trx = self.trx, None
        if self.failed:
            self._handler.fail_portals()
        else:
            self._handler.forget_portals()
        if trx is None:
            return
        self.server.transactions.end(trx, commit=commit)
        self.server.locks.release_scope(self.holder, "transaction")
        self._settings.update(self._local if commit else self._before)
        self._local.clear()

    def fail(self) -> None:
        """Roll back after an error."""
        self.failed = self.block
        self.end_transaction(commit=False)

    # End of the session.

    def closed(self) -> None:
        """End the session because the client has disconnected: at once if it is idle, otherwise after its statement."""
        self._gone = True
        if self._running is None:
            self.server.remove_session(self)
        else:
            self._handler.client_is_gone()

    def drop(self) -> None:
        """Release everything that the session holds and stop its timers."""
        self._cancel_timers()
        if self._wait is not None:
            self._wait.on_end = lambda: None
            self._wait.end(WaitOutcome.KILLED)
        if self._running is not None and not self._stepping:
            self._running.close()
        self._running = None
        self.end_transaction(commit=self.trx is not None and self.trx.logged)
        self.server.locks.release_scope(self.holder, "session")
