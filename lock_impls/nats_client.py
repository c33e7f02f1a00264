"""Shared parts of the locks on NATS JetStream: a connection, and a key-value bucket whose keys expire.

A bucket's ``max_age`` is the lease: each server deletes a value that is older. It holds for the whole bucket, so each
ttl has its own bucket.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import nats
from nats.errors import ConnectionClosedError, Error, NoRespondersError, NoServersError
from nats.js.api import KeyValueConfig
from nats.js.errors import APIError, KeyNotFoundError, NoStreamResponseError, ServerError, ServiceUnavailableError
from nats.js.kv import KeyValue

from .base import Endpoints, Indeterminate, LockError

KINDS: Final = ("nats",)
REQUIRES: Final = ("nats-py>=2.11",)
ANSWER_S: Final = 1.0
"""Time-out of a request."""
CONNECT_S: Final = 3.0
"""Time within which the first connection and the bucket must be made."""
MOST_REPLICAS: Final = 5
"""JetStream accepts no more replicas of a bucket."""
OVERTIME_S: Final = 1.5
"""A server deletes old values at intervals: a lease may last this much longer than its ttl."""
OUTAGE: Final = "unavailable until the servers have elected another leader (4 to 10 s), while a majority is up"
NOT_SENT: Final = (ConnectionClosedError, NoServersError, NoRespondersError, NoStreamResponseError)
"""Errors after which a request was certainly not executed: no server, or none that serves the bucket."""


def kv_key(key: str) -> str:
    """Return the name of a lock's key in a bucket, which may have letters, digits and a few signs only."""
    return re.sub(r"[^-/_.a-zA-Z0-9]", lambda found: f"={ord(found[0]):X}", key)


class Unanswered(Exception):
    """A request got no answer, or one that leaves its outcome open."""


class NatsBucket:
    """A bucket with expiring keys on all servers, made at the first :meth:`open`. ``ttl``: seconds, or 0 for values
    that never expire."""

    def __init__(self, endpoints: Endpoints, ttl: float) -> None:
        self._servers = [f"nats://{host}:{port}" for host, port in endpoints.addresses]
        self.name = f"locks-{round(ttl * 1000)}"
        self._ttl = ttl
        self._kv: KeyValue | None = None
        self._client: Any = None

    async def open(self) -> KeyValue:
        """Return the bucket; raises LockError if no answer arrives."""
        if self._kv is None:
            try:
                self._kv = await asyncio.wait_for(self._make(), CONNECT_S)
            except (Error, OSError, TimeoutError) as error:
                raise LockError(f"no bucket: {type(error).__name__}: {error}") from error
        return self._kv

    def forget(self) -> None:
        """Let the next :meth:`open` make the bucket if the servers do not have it any more."""
        self._kv = None

    async def client(self) -> Any:
        """Return the connection, a ``nats.aio.client.Client``."""
        if self._client is None:
            self._client = await nats.connect(
                self._servers,
                connect_timeout=1,
                max_reconnect_attempts=-1,
                reconnect_time_wait=0.2,
                ping_interval=1,
                error_cb=_ignore,
            )
        return self._client

    @property
    def config(self) -> KeyValueConfig:
        replicas = min(len(self._servers), MOST_REPLICAS)
        return KeyValueConfig(self.name, ttl=self._ttl or None, replicas=replicas)

    async def _make(self) -> KeyValue:
        """Make the bucket, or take the one with this configuration that exists. Servers that have just started may
        refuse the first request."""
        jetstream = (await self.client()).jetstream(timeout=ANSWER_S)
        while True:
            try:
                made: KeyValue = await jetstream.create_key_value(self.config)
            except (APIError, NoRespondersError, TimeoutError):
                await asyncio.sleep(0.1)
            else:
                return made


async def _ignore(error: Exception) -> None:
    """Handle an error of the connection, which the requests report as well."""


@contextmanager
def answered() -> Iterator[None]:
    """Raise errors of requests as Unanswered, and those after which nothing was executed as LockError. Raises
    KeyWrongLastSequenceError and the other answers to conditions as they are."""
    try:
        yield
    except NOT_SENT as error:
        raise LockError(f"{type(error).__name__}: {error}") from error
    except (ServerError, ServiceUnavailableError) as error:
        raise Unanswered(f"{type(error).__name__}: {error}") from error
    except (APIError, KeyNotFoundError):
        raise
    except (Error, OSError, TimeoutError) as error:
        raise Unanswered(f"{type(error).__name__}: {error}") from error


@contextmanager
def known_outcome() -> Iterator[None]:
    """Raise the errors of a lock of a library as LockError or Indeterminate."""
    try:
        with answered():
            yield
    except Unanswered as error:
        raise Indeterminate(str(error)) from error
    except APIError as error:
        raise LockError(f"{type(error).__name__}: {error}") from error
