"""ZooKeeper lock with one ephemeral node: the client that creates it holds the lock; the others retry.

Requests: ``create /locks/KEY`` EPHEMERAL with a random token as data; NodeExists: try again after 0.05 to 0.15 s ·
``delete /locks/KEY``. If the answer to the create was lost: ``sync`` and ``getData`` show whose token it is. Fence: the
node's czxid, the number of the transaction that created it, which grows with every grant and with every leader.
Source: article 002 (exclusive ephemeral node, "retry when it exists"); ZooKeeper Programmer's Guide.

Safe for: correctness, if the resource refuses a czxid below the highest it has seen. Unfair: the client that asks at
the right moment gets it, and another may be overtaken for ever. When a session ends its lock is lost, and its process
learns that only when it asks (:meth:`still_valid`). All nodes have the same name, which leaves a gap: a release passes
its check and is then paused for longer than the session lasts; if kazoo opens the next session before it sends the
request, the request deletes the next holder's node.

Known failures: zk-pause, ttl-check-then-pause, chubby-late (the fence covers all of these).
"""

from __future__ import annotations

import random
import time
import uuid
from typing import Any, ClassVar

from kazoo.exceptions import NodeExistsError, NoNodeError

from .base import Grant, LockInfo
from .zookeeper_client import (
    DEATH,
    KINDS,
    OUTAGE,
    REQUIRES,
    UNANSWERED,
    HeldNode,
    ZooKeeperLock,
    ZooKeeperSession,
    paused_holder,
)

RETRY_DELAY_S = 0.1
"""Mean pause between two tries for a busy lock."""


class EphemeralLock(ZooKeeperLock):
    info: ClassVar = LockInfo(
        name="zookeeper-ephemeral",
        title="One exclusive ephemeral node",
        algorithm="create /locks/KEY (ephemeral); if it exists, try again; delete it. The fence is its czxid.",
        source="article 002",
        safety="F",
        kinds=KINDS,
        requires=REQUIRES,
        fence=True,
        on_death=DEATH,
        outage=OUTAGE,
        no_single_point=True,
        failures=(paused_holder("zookeeper-ephemeral"),),
    )

    def __init__(self, session: ZooKeeperSession, key: str, ttl: float) -> None:
        super().__init__(session, key, ttl)
        self._token = b""
        self._doubtful: set[bytes] = set()
        """Tokens of nodes of which it is unknown whether they were created, or deleted."""

    def take(self, deadline: float) -> Grant | None:
        self._clear_doubts()
        while True:
            grant = self._try()
            if grant is not None or time.monotonic() >= deadline:
                return grant
            if not self.wait(deadline):
                return None

    def wait(self, deadline: float) -> bool:
        """Wait until the lock may be free; False if the deadline comes first."""
        time.sleep(min(max(0.0, deadline - time.monotonic()), RETRY_DELAY_S * (0.5 + random.random())))
        return True

    def _try(self) -> Grant | None:
        """Try one create. Its token is doubtful until the outcome is known."""
        token = uuid.uuid4().hex.encode()
        self._doubtful.add(token)
        try:
            stat = self.session.make(self.path, token)[1]
        except NodeExistsError:
            stat = None
        except UNANSWERED:
            stat = self._mine(token)
        self._doubtful.discard(token)
        if stat is None:
            return None
        self.held, self._token = HeldNode.of(self.path, stat), token
        return Grant(fence=stat.czxid)

    def _mine(self, *tokens: bytes) -> Any:
        """Return the node's stat if it contains one of these tokens and belongs to the current session."""
        try:
            data, stat = self.session.look("get", self.path)
        except NoNodeError:
            return None
        return stat if data in tokens and self.session.made(stat) else None

    def _clear_doubts(self) -> None:
        """Delete a node that an earlier request with unknown outcome may have left: it would block all clients."""
        if self._doubtful and self._mine(*self._doubtful):
            self.session.ask("delete", self.path)
        self._doubtful.clear()

    def give_back(self, held: HeldNode) -> bool:
        """Delete the node. Others create nodes of the same name, so the delete is not repeated without a check."""
        if self.session.id not in (held.session, None):
            return False
        self._doubtful.add(self._token)
        try:
            self.session.ask("delete", held.path)
            deleted = True
        except NoNodeError:
            deleted = False
        except UNANSWERED:
            if self._mine(self._token):
                self.session.ask("delete", held.path)
            deleted = True
        self._doubtful.discard(self._token)
        return deleted
