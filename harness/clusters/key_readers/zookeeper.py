"""Read the holder of a lock from one ZooKeeper server's own copy of the tree."""

from __future__ import annotations

import logging
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.retry import KazooRetry

from harness.clusters.key_watch import ANSWER_S, NoAnswer
from harness.history.lock_keys import KeyObservation, owner_text

QUIET: Final = logging.getLogger("harness.zookeeper")
"""Logger of clients of the control side. Without one, kazoo writes to stderr that a server is down."""
QUIET.addHandler(logging.NullHandler())
QUIET.propagate = False
SESSION: Final = 4.0
"""Session time-out in seconds. The session stays open and owns no nodes."""
DIGITS: Final = 10
"""Digits of the number at the end of a sequential node's name."""


class ZooKeeperKeyReader:
    """Reads as a client of one server, which answers from its own copy.

    The lowest sequential node under ``/locks/KEY`` holds the lock. If there is none, an ephemeral node ``/locks/KEY``
    stands for the session that created it; a persistent one (the Chubby lock) names the owner in its data, empty
    without one.
    """

    def __init__(self, address: str, port: int) -> None:
        never = KazooRetry(max_tries=0)
        self._client = KazooClient(
            f"{address}:{port}", timeout=SESSION, read_only=True, connection_retry=never, command_retry=never,
            logger=QUIET,
        )  # fmt: skip
        try:
            self._client.start(timeout=ANSWER_S * 3)
        except (KazooException, KazooTimeoutError, OSError) as error:
            self.close()
            raise NoAnswer from error

    def look(self, key: str) -> KeyObservation | None:
        try:
            children: list[str] = self._ask(self._client.get_children_async(f"/locks/{key}"))
            numbered = [child for child in children if child[-DIGITS:].isdigit()]
            if numbered:
                return KeyObservation(min(numbered, key=lambda child: child[-DIGITS:]))
            data, stat = self._ask(self._client.get_async(f"/locks/{key}"))
        except NoNodeError:
            return None
        except (KazooException, KazooTimeoutError, OSError) as error:
            raise NoAnswer from error
        if stat.ephemeralOwner:
            return KeyObservation(f"session {stat.ephemeralOwner:x}")
        return KeyObservation(owner_text(data)) if data else None

    def _ask(self, answer: Any) -> Any:
        return answer.get(timeout=ANSWER_S)

    def close(self) -> None:
        self._client.stop()
        self._client.close()
