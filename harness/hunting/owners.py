"""For which client each server had a lock's key: what was recorded of the keys, with names in place of tokens."""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import NamedTuple

from ..history.lock_keys import KeyState


class Owned(NamedTuple):
    """From ``time`` (ns) on, server ``host`` had the key for somebody (``taken``) or for nobody, or was down (then
    ``answers`` is False). ``client`` is whose it was, None where nobody can tell. ``ends`` is when the lease is over by
    the server's clock as it was then (ns), None without one."""

    time: int
    host: str
    key: str
    taken: bool
    client: str | None
    ends: int | None
    answers: bool


def owned(keys: Iterable[KeyState]) -> list[Owned]:
    """The states in the order of time. A key belongs to whose message put its owner there, on whichever server that
    was first seen: replicas follow without a message, and who prolongs another's lease does not become its owner."""
    authors: dict[str, str | None] = {}
    last: dict[tuple[str, str], KeyState] = {}
    found: list[Owned] = []
    for state in sorted(keys, key=attrgetter("time")):
        owner, place = state.owner, (state.host, state.key)
        client: str | None = None
        if owner is not None:
            before = last.get(place)
            if state.by is not None and (before is None or before.owner != owner):
                authors[owner] = state.by
            client = authors.get(owner)
        ends = None if state.left is None else state.time + state.left
        found.append(Owned(state.time, state.host, state.key, owner is not None, client, ends, state.answers))
        last[place] = state
    return found
