"""The replies of a recorded ZooKeeper with the requests that they answer."""

from __future__ import annotations

from collections.abc import Iterator

from harness.protocols.messages import Reply, Request
from harness.protocols.zookeeper import CONNECT, is_event

from .conversation import Conversation


def answered(talk: Conversation) -> Iterator[tuple[Request, Reply]]:
    """Yield the requests of a connection that have a reply, with it."""
    replies = iter(talk.replies)
    for request in talk.requests:
        if request.replied_ns is None:
            return
        for reply in replies:
            if request.words == (CONNECT,) or not is_event(reply.data):
                yield request, reply
                break
