"""Owners of a lock's key: replace the tokens in the recorded key states by the names of clients."""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import NamedTuple

from .lock_keys import KeyState


class Ownership(NamedTuple):
    """State of a key on one server from ``time`` (ns) on.

    ``taken``: the key exists. ``client`` owns it, None if unknown. ``ends`` is the end of the lease (ns) by the
    server's clock at ``time``, None without a lease. ``answers`` is False while the server is down. ``by`` is the
    client whose message made the change, if known.
    """

    time: int
    host: str
    key: str
    taken: bool
    client: str | None
    ends: int | None
    answers: bool
    by: str | None = None


def ownerships(keys: Iterable[KeyState]) -> list[Ownership]:
    """Return the states in the order of time, with the owning clients.

    The client whose message first stored a token owns the key on every server with that token. Replicas copy it without
    a message, and a client that extends another's lease does not become the owner.
    """
    authors: dict[str, str | None] = {}
    last: dict[tuple[str, str], KeyState] = {}
    found: list[Ownership] = []
    for state in sorted(keys, key=attrgetter("time")):
        owner, place = state.owner, (state.host, state.key)
        client: str | None = None
        if owner is not None:
            before = last.get(place)
            if state.by is not None and (before is None or before.owner != owner):
                authors[owner] = state.by
            client = authors.get(owner)
        ends = None if state.left is None else state.time + state.left
        found.append(
            Ownership(state.time, state.host, state.key, owner is not None, client, ends, state.answers, state.by)
        )
        last[place] = state
    return found
