"""A look at a lock's key on a real Redis."""

from __future__ import annotations

import time
from typing import Any, Final

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from ..history.lock_keys import Sight, owner_text
from .docker_keys import STRAYS, Blind
from .docker_kinds import ASK

GONE: Final = -2
ENDLESS: Final = -1


class RedisEye:
    """Asks with ``PTTL``, which does not count as a use of the key; with ``GET``, which does, only when the end of the
    key is not the one that is known: then it has just been written anyway. So its age, by which a server evicts, stays
    what the clients made it. A key without an end is no candidate of the policy that floods set."""

    def __init__(self, address: str, port: int) -> None:
        self._client = redis.Redis(
            host=address,
            port=port,
            socket_timeout=ASK,
            socket_connect_timeout=ASK,
            retry=Retry(NoBackoff(), 0),
        )
        self._known: dict[str, tuple[int, str]] = {}
        """By key when it ends (monotonic ns) and whose it is."""

    def look(self, key: str) -> Sight | None:
        try:
            left: Any = self._client.pttl(key)
            if left == GONE:
                self._known.pop(key, None)
                return None
            owner = self._owner(key, left)
        except (redis.RedisError, OSError) as error:
            raise Blind from error
        if owner is None:
            return None
        return Sight(owner, None if left == ENDLESS else left * 1_000_000)

    def _owner(self, key: str, left: int) -> str | None:
        """None if the key has gone since."""
        if left == ENDLESS:
            return self._read(key)
        end = time.monotonic_ns() + left * 1_000_000
        known, owner = self._known.get(key, (0, ""))
        if abs(end - known) < STRAYS:
            return owner
        read = self._read(key)
        if read is not None:
            self._known[key] = end, read
        return read

    def _read(self, key: str) -> str | None:
        """The value; of a hash (reentrant locks) the field that names the owner."""
        try:
            found: Any = self._client.get(key)
        except redis.ResponseError:
            fields: Any = self._client.hkeys(key)
            return owner_text(fields[0]) if fields else None
        return None if found is None else owner_text(found)

    def close(self) -> None:
        self._client.close()
