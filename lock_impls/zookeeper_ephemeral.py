"""One ephemeral node: who creates it holds the lock; the others find it there and try again.

Requests: ``create /locks/KEY`` EPHEMERAL with a random token as data; NodeExists: try again after 0.05 to 0.15 s ·
``delete /locks/KEY``. When the answer to the create was lost: ``sync`` and ``getData`` tell whose token it is. Fence:
the node's czxid, the number of the transaction that created it, which grows with every grant and with every leader.
Source: article 002 (exclusive ephemeral node, "retry when it exists"); ZooKeeper Programmer's Guide.

Safe for: correctness, together with a resource that refuses a czxid below the highest it has seen. Unfair: whoever asks
at the right moment gets it, and may be overtaken for ever. A session that has ended has lost the lock, and its process
learns of that only when it asks (:meth:`still_valid`). All nodes have the same name: a release that passes its check
and is then paused for longer than the session lasts would delete the next holder's node, if kazoo had opened the next
session before the request was handed to it.
Known failures: zk-pause, ttl-check-then-pause, chubby-late (all saved by the fence).
"""

from __future__ import annotations

import random
import time
import uuid
from typing import Any, ClassVar

from kazoo.exceptions import NodeExistsError, NoNodeError

from lock_impls.base import Grant, LockInfo
from lock_impls.zookeeper_client import DEATH, KINDS, OUTAGE, UNANSWERED, Held, Session, ZooKeeperLock, pausing

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
        fence=True,
        on_death=DEATH,
        outage=OUTAGE,
        no_single_point=True,
        failures=(pausing("zookeeper-ephemeral"),),
    )

    def __init__(self, session: Session, key: str, ttl: float) -> None:
        super().__init__(session, key, ttl)
        self._token = b""
        self._doubtful: set[bytes] = set()
        """Tokens of nodes of which it is not known whether they were created, or deleted."""

    def take(self, deadline: float) -> Grant | None:
        self._clear_doubts()
        while True:
            grant = self._try()
            if grant is not None or time.monotonic() >= deadline:
                return grant
            if not self.wait(deadline):
                return None

    def wait(self, deadline: float) -> bool:
        """Until it may be free; False if that is too late."""
        time.sleep(min(max(0.0, deadline - time.monotonic()), RETRY_DELAY_S * (0.5 + random.random())))
        return True

    def _try(self) -> Grant | None:
        """One create. Its token is doubtful until it is known what became of it."""
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
        self.held, self._token = Held.of(self.path, stat), token
        return Grant(fence=stat.czxid)

    def _mine(self, *tokens: bytes) -> Any:
        """The node, if one of these tokens is in it and its session is the one that is open."""
        try:
            data, stat = self.session.look("get", self.path)
        except NoNodeError:
            return None
        return stat if data in tokens and self.session.made(stat) else None

    def _clear_doubts(self) -> None:
        """Delete what is left of calls of which nobody knew what had become of them: it would block everybody."""
        if self._doubtful and self._mine(*self._doubtful):
            self.session.ask("delete", self.path)
        self._doubtful.clear()

    def give_back(self, held: Held) -> bool:
        """Others create a node of the same name: it is not deleted twice without looking."""
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
