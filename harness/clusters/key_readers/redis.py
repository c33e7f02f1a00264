"""Read a lock's key on a Redis without affecting the order of eviction."""

from __future__ import annotations

import time
from typing import Any, Final

import redis
from redis.backoff import NoBackoff
from redis.exceptions import MovedError
from redis.retry import Retry

from harness.clusters.key_watch import ANSWER_S, END_TOLERANCE_NS, NoAnswer
from harness.history.lock_keys import KeyObservation, owner_text

GONE: Final = -2
ENDLESS: Final = -1


class RedisKeyReader:
    """Reads the expiry with ``PTTL``, which does not count as a use of the key. ``GET``, which does, is sent only if
    the expiry has changed, since the key was just written then. So the key's age, by which a server evicts, is the one
    that clients gave it. A key without expiry is never evicted under the policy that floods set.

    ``cluster``: the server is a node of a Redis Cluster. A node that neither owns the key's slot nor replicates its
    owner redirects the request, and has no such key. ``more`` are options of redis-py
    for the login and TLS."""

    def __init__(self, address: str, port: int, *, cluster: bool = False, **more: Any) -> None:
        connect: Any = _read_replicas if cluster else None  # redis-py's annotation lacks the connection
        self._client = redis.Redis(
            host=address,
            port=port,
            socket_timeout=ANSWER_S,
            socket_connect_timeout=ANSWER_S,
            retry=Retry(NoBackoff(), 0),
            redis_connect_func=connect,
            **more,
        )
        self._known: dict[str, tuple[int, str]] = {}
        """Last reading by key: (expiry in monotonic ns, owner)."""

    def look(self, key: str) -> KeyObservation | None:
        try:
            left: Any = self._client.pttl(key)
            if left == GONE:
                self._known.pop(key, None)
                return None
            owner = self._owner(key, left)
        except MovedError:
            self._known.pop(key, None)
            return None
        except (redis.RedisError, OSError) as error:
            raise NoAnswer from error
        if owner is None:
            return None
        return KeyObservation(owner, None if left == ENDLESS else left * 1_000_000)

    def _owner(self, key: str, left: int) -> str | None:
        """Owner of the key, ``None`` if it no longer exists."""
        if left == ENDLESS:
            return self._read(key)
        end = time.monotonic_ns() + left * 1_000_000
        known, owner = self._known.get(key, (0, ""))
        if abs(end - known) < END_TOLERANCE_NS:
            return owner
        read = self._read(key)
        if read is not None:
            self._known[key] = end, read
        return read

    def _read(self, key: str) -> str | None:
        """Return the key's value; for a hash (reentrant locks) the field that names the owner."""
        try:
            found: Any = self._client.get(key)
        except redis.ResponseError:
            fields: Any = self._client.hkeys(key)
            return owner_text(fields[0]) if fields else None
        return None if found is None else owner_text(found)

    def close(self) -> None:
        self._client.close()


def _read_replicas(connection: Any) -> None:
    """Begin a connection on which a replica of a Redis Cluster answers instead of redirecting to its primary."""
    connection.on_connect()
    connection.send_command("READONLY")
    connection.read_response()
