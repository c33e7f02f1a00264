"""A look at a lock's node on a real ZooKeeper server."""

from __future__ import annotations

from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.retry import KazooRetry

from ..history.lock_keys import Sight, owner_text
from .docker_keys import Blind
from .docker_kinds import ASK

SESSION: Final = 4.0
"""Seconds of the session, which is kept open and has nothing to lose."""
DIGITS: Final = 10
"""Of the number at the end of a sequential node's name."""


class ZooKeeperEye:
    """Reads as a client of this one server: what it has itself. Under ``/locks/KEY`` the lowest sequential node holds
    the lock; without any the node itself does, for as long as the session lasts that made it. A file that stays (the
    Chubby lock) holds its owner as data, or nothing."""

    def __init__(self, address: str, port: int) -> None:
        never = KazooRetry(max_tries=0)
        self._client = KazooClient(
            f"{address}:{port}", timeout=SESSION, read_only=True, connection_retry=never, command_retry=never
        )
        try:
            self._client.start(timeout=ASK * 3)
        except (KazooException, KazooTimeoutError, OSError) as error:
            self.close()
            raise Blind from error

    def look(self, key: str) -> Sight | None:
        try:
            children: list[str] = self._ask(self._client.get_children_async(f"/locks/{key}"))
            numbered = [child for child in children if child[-DIGITS:].isdigit()]
            if numbered:
                return Sight(min(numbered, key=lambda child: child[-DIGITS:]))
            data, stat = self._ask(self._client.get_async(f"/locks/{key}"))
        except NoNodeError:
            return None
        except (KazooException, KazooTimeoutError, OSError) as error:
            raise Blind from error
        if stat.ephemeralOwner:
            return Sight(f"session {stat.ephemeralOwner:x}")
        return Sight(owner_text(data)) if data else None

    def _ask(self, answer: Any) -> Any:
        return answer.get(timeout=ASK)

    def close(self) -> None:
        self._client.stop()
        self._client.close()
