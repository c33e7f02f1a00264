"""Shared parts of the locks on Consul: a client with clear outcomes of requests, and sessions that a thread renews."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

import consul
import requests
from consul.exceptions import ClientError, ConsulException
from urllib3.exceptions import NewConnectionError

from .base import Endpoints, Indeterminate, LockError

KINDS: Final = ("consul",)
REQUIRES: Final = ("py-consul>=1.8",)
ANSWER_S: Final = 1.0
"""Time-out of a request, in addition to the time for which a blocking query waits."""
PATIENCE_S: Final = 3.0
"""Time for which a request is repeated until it is answered; a server that is started again needs about two seconds to
become leader."""
PAUSE_S: Final = 0.1
"""Pause before a request is repeated."""
LEAST_TTL_S: Final = 10
"""The shortest TTL that Consul accepts (its setting ``session_ttl_min``)."""
TTL_MULTIPLIER: Final = 2
"""Consul ends a session that was not renewed for so many TTLs, and promises one."""
NOT_EXECUTED: Final = ("No cluster leader", "invalid session")
"""Errors by which a server says that a write was not executed. After others, such as "leadership lost while committing
log", it may have been."""
T = TypeVar("T")


class Unanswered(Exception):
    """A request got no answer, or one that leaves its outcome open; ``sent`` is False if it was certainly never
    sent."""

    def __init__(self, error: Exception, *, sent: bool) -> None:
        super().__init__(f"{type(error).__name__}: {error}")
        self.sent = sent


class ConsulClient:
    """A client of the first server, for use by one thread. ``unanswered`` counts the requests that were sent and not
    answered."""

    def __init__(self, endpoints: Endpoints, answer_s: float = ANSWER_S) -> None:
        host, port = endpoints.addresses[0]
        self._client = consul.Consul(host, port, connections_timeout=answer_s)
        self._client.http.session.trust_env = False  # no proxy and no password of this machine's user
        self.unanswered = 0

    def ask(self, request: Callable[[Any], T]) -> T:
        """Return the answer to one request, which is made with a ``consul.Consul``.

        Raises:
            LockError: the server refused it.
            Unanswered: the outcome is unknown, or there is no leader.
        """
        try:
            return request(self._client)
        except ClientError as error:
            raise LockError(f"{type(error).__name__}: {error}") from error
        except ConsulException as error:
            refused = next((text for text in NOT_EXECUTED if text in str(error)), "")
            if refused == "invalid session":
                raise LockError(str(error)) from error
            self.unanswered += not refused
            raise Unanswered(error, sent=not refused) from error
        except requests.RequestException as error:
            sent = not _never_connected(error)
            self.unanswered += sent
            raise Unanswered(error, sent=sent) from error

    def insist(self, request: Callable[[Any], T]) -> T:
        """Return the first answer to a request that is safe to repeat.

        Raises:
            LockError: refused, or certainly never sent.
            Indeterminate: sent, and not answered within :data:`PATIENCE_S`.
        """
        until, sent = time.monotonic() + PATIENCE_S, False
        while True:
            try:
                return self.ask(request)
            except Unanswered as error:
                sent = sent or error.sent
                if time.monotonic() >= until:
                    raise (Indeterminate if sent else LockError)(str(error)) from error
            time.sleep(PAUSE_S)


def _never_connected(error: requests.RequestException) -> bool:
    if isinstance(error, requests.ConnectTimeout):
        return True
    cause = error.args[0] if error.args else None
    return isinstance(getattr(cause, "reason", None), NewConnectionError)


def session_ttl(ttl: float) -> int:
    """Return the TTL (s) of a session that Consul ends ``ttl`` seconds after its last renewal: half of that, in whole
    seconds upwards, and at least 10."""
    return max(LEAST_TTL_S, math.ceil(ttl / TTL_MULTIPLIER))


class ConsulSession:
    """A session that a thread renews every TTL/3, until :meth:`stop` or until it is lost.

    ``ttl`` is what :func:`session_ttl` made of the lock's. Consul never ends a session before its TTL has passed since
    the last renewal; it does so after twice the TTL. The time is counted here from before the last answered renewal was
    sent, so it is never too long. A process that was paused finds its session lost when it wakes.
    """

    def __init__(self, endpoints: Endpoints, ttl: float, lock_delay: float) -> None:
        """Create a session; raises LockError if no answer arrives. It may then exist, and holds nothing."""
        self.ttl = session_ttl(ttl)
        self._client = ConsulClient(endpoints)
        began = 0.0

        def create(client: Any) -> str:
            nonlocal began
            began = time.monotonic()
            created: str = client.session.create(ttl=self.ttl, lock_delay=lock_delay, behavior="release")
            return created

        try:
            self.id = self._client.insist(create)
        except Indeterminate as error:
            raise LockError(str(error)) from error
        self._deadline = began + self.ttl
        self._ended = threading.Event()
        threading.Thread(target=self._renew, name=f"renewal of {self.id}", daemon=True).start()

    def stop(self) -> None:
        self._ended.set()

    def remaining(self) -> float:
        """Return for how many seconds the session certainly lasts."""
        return self._deadline - time.monotonic()

    def lost(self) -> bool:
        """Return whether the session may have ended."""
        return self._ended.is_set() or self.remaining() <= 0

    def _renew(self) -> None:
        pause = self.ttl / 3
        while not self._ended.wait(pause) and not self.lost():
            pause = self.ttl / 3
            began = time.monotonic()
            try:
                self._client.ask(lambda client: client.session.renew(self.id))
            except Unanswered:
                pause = PAUSE_S
            except LockError:  # the server does not know the session
                break
            else:
                self._deadline = began + self.ttl
        self._ended.set()
