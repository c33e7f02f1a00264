"""An exclusive lock on a file of a Chubby cell; the fence is the lock's generation, taken from its sequencer.

Calls: CreateSession and Open once · Acquire (waits at the master) · GetSequencer · Release; a thread sends KeepAlives.
Source: Burrows, "The Chubby lock service for loosely-coupled distributed systems", OSDI 2006; article 003.

The lock lasts as long as its session. The paper's lease of 12 s and its lock-delay of up to a minute would outlast most
runs, so the ttl is divided: four fifths are the lease and one fifth is the lock-delay. So a lock whose holder has died
is free after a ttl. The options ``lease`` and ``lock_delay`` override that, and the cell's own options override both.
The grace period has the paper's proportion to the lease, 45 to 12.

Safe for: correctness, if the resource checks the generation. Without that it is safe only as long as the holder calls
:meth:`still_valid` and stops in jeopardy, except for requests that it sent before; the lock-delay makes those rarer.

Known failures: ttl-pause-write, ttl-check-then-pause, ttl-net-delay, chubby-late, chubby-jeopardy (the fence covers all
of these), watchdog-zombie. A cell that loses the disks of a majority of its replicas never works again.
"""

from __future__ import annotations

import time
from typing import ClassVar, Final, Self

from .base import Endpoints, Failure, Grant, Indeterminate, LockError, LockInfo
from .chubby_client import Address, ChubbyError, ChubbySession, ChubbyUnanswered, Handle, SessionExpired

PATIENCE_S: Final = 0.75
"""Additional time for the answer to a call, beyond its waiting time."""
LEASE_SHARE: Final = 0.8


class ChubbyLock:
    info: ClassVar = LockInfo(
        name="chubby",
        title="Chubby: a lock on a file, held by a session",
        algorithm="Session with KeepAlives; Acquire on a file; the sequencer gives the generation; Release.",
        source="Burrows, OSDI 2006; article 003",
        safety="F",
        kinds=("chubby",),
        fence=True,
        options={"lease": None, "lock_delay": None, "grace": None},
        on_death="expiry: the session's lease ends, then the lock-delay",
        outage="another replica is elected and takes over sessions and locks; a majority must keep its data",
        no_single_point=True,
        failures=(
            Failure(
                "ttl-pause-write",
                "the holder is paused for longer than its lease",
                "harness run chubby --nemesis client-pause",
            ),
            Failure(
                "chubby-jeopardy",
                "a holder that has lost the cell does not check, and goes on while others have the lock",
                "harness run chubby --nemesis partition-halves --hold 8s --time-limit 2m",
            ),
            Failure(
                "watchdog-zombie",
                "the session of a hung holder is kept alive for ever",
                "harness run chubby --nemesis client-hang",
            ),
        ),
    )

    def __init__(
        self,
        addresses: tuple[Address, ...],
        key: str,
        ttl: float,
        lease: float | None = None,
        lock_delay: float | None = None,
        grace: float | None = None,
    ) -> None:
        self.key = key
        self._addresses = addresses
        self._terms = (
            LEASE_SHARE * ttl if lease is None else lease,
            (1 - LEASE_SHARE) * ttl if lock_delay is None else lock_delay,
            grace,
        )
        self._session: ChubbySession | None = None
        self._file: Handle = {}
        self._held = False

    @classmethod
    def open(
        cls,
        endpoints: Endpoints,
        key: str,
        ttl: float,
        lease: float | None = None,
        lock_delay: float | None = None,
        grace: float | None = None,
    ) -> Self:
        return cls(endpoints.addresses, key, ttl, lease, lock_delay, grace)

    def acquire(self, timeout: float) -> Grant | None:
        began = time.monotonic()
        deadline = began + timeout + PATIENCE_S
        try:
            session = self._ready(began + max(timeout, PATIENCE_S))
        except (ChubbyError, ChubbyUnanswered) as error:
            raise LockError(f"no session: {error}") from error
        try:
            asks = {"handle": self._file, "mode": "exclusive"}
            if not session.call("Acquire", deadline, timeout, **asks)["held"]:
                return None
        except (SessionExpired, ChubbyUnanswered) as error:
            raise self._unknown(error) from error
        except ChubbyError as error:
            raise LockError(str(error)) from error
        return self._grant(session)

    def _ready(self, deadline: float) -> ChubbySession:
        """Return the session, with the file open in it; a new one if the old one has expired."""
        if self._session is None or self._session.state == "expired":
            self._session, self._file, self._held = None, {}, False
            timeout = deadline - time.monotonic()
            lease, lock_delay, grace = self._terms
            self._session = ChubbySession(
                self._addresses, lease=lease, lock_delay=lock_delay, grace=grace, timeout=timeout
            )
        if not self._file:
            self._file = self._session.open(self.key, deadline)
        return self._session

    def _grant(self, session: ChubbySession) -> Grant:
        """Build the grant; gives the lock up if it is not usable any more."""
        try:
            sequencer = session.call("GetSequencer", time.monotonic() + PATIENCE_S, handle=self._file)["sequencer"]
        except (ChubbyError, ChubbyUnanswered) as error:
            self._give_up()
            raise Indeterminate(f"acquired, and then no sequencer: {error}") from error
        valid_for = session.left()
        if not valid_for:
            self._give_up()
            raise Indeterminate("acquired, and then in jeopardy")
        self._held = True
        return Grant(fence=int(sequencer.partition(":")[0]), valid_for=valid_for)

    def _give_up(self) -> None:
        """End the session: a lock that may be held in it must not be kept alive."""
        if self._session is not None:
            self._session.close()
        self._session, self._file, self._held = None, {}, False

    def _unknown(self, error: SessionExpired | ChubbyUnanswered) -> LockError | Indeterminate:
        """Classify a call without an answer.

        What was not sent has not happened. After anything else the lock may be held.
        """
        if isinstance(error, SessionExpired):
            return Indeterminate("the session expired") if error.unanswered else LockError("the session has expired")
        if error.sent:
            self._give_up()
            return Indeterminate(str(error))
        return LockError(str(error))

    def release(self) -> None:
        session = self._session
        if session is None or not self._held:
            raise LockError(f"{self.key} is not held by this client")
        self._held = False
        try:
            session.call("Release", time.monotonic() + session.terms.grace + PATIENCE_S, handle=self._file)
        except (SessionExpired, ChubbyUnanswered) as error:
            raise self._unknown(error) from error
        except ChubbyError as error:
            raise LockError(f"{self.key}: {error}") from error

    def still_valid(self) -> bool:
        """Return True if the lock is held and the session safe. In jeopardy the state is unknown: return False."""
        return self._held and self._session is not None and self._session.state == "safe"
