"""Whose a lock's key was on each server, and how it came to be another's."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from ..history.lock_keys import KeyState

PUNCTUAL_NS: Final = 5_000_000
"""A key that goes no earlier than this before its end has run out."""


@dataclass(frozen=True, slots=True)
class Holder:
    """Who has a key on a server: the owner that is stored there, the client if one knows, and until when (ns)."""

    owner: str
    client: str
    until: int | None


@dataclass(frozen=True, slots=True)
class Change:
    """On ``host`` the key went at ``time`` (ns) from one owner to another (None: nobody), by the doing of the client
    ``by``, if it was one's."""

    time: int
    host: str
    old: Holder | None
    new: Holder | None
    by: str

    @property
    def ran_out(self) -> bool:
        """Was its time over by the server's own clock?"""
        return self.old is not None and self.old.until is not None and self.time >= self.old.until - PUNCTUAL_NS


class Keys:
    """One key's states, of all servers, in the order of time; renewals are no changes."""

    def __init__(self, states: Iterable[KeyState], key: str | None) -> None:
        self.changes: list[Change] = []
        self._known: dict[str, set[str]] = {}
        now: dict[str, Holder] = {}
        for state in sorted((one for one in states if one.key == key), key=lambda one: one.time):
            if not state.answers:  # what it has is not gone for that
                continue
            old, new = now.get(state.host), self._holder(state)
            if new is not None and old is not None and self._same(old, new, state):
                now[state.host] = Holder(old.owner, old.client, new.until)
                continue
            if (old is None) != (new is None) or new is not None:
                self.changes.append(Change(state.time, state.host, old, new, state.by or ""))
            now.pop(state.host, None) if new is None else now.__setitem__(state.host, new)

    def _holder(self, state: KeyState) -> Holder | None:
        if state.owner is None:
            return None
        known = self._known.setdefault(state.owner, set())
        if state.by is not None:
            known.add(state.by)
        client = state.by or (next(iter(known)) if len(known) == 1 else "")
        return Holder(state.owner, client, None if state.left is None else state.time + state.left)

    def _same(self, old: Holder, new: Holder, state: KeyState) -> bool:
        """Is it the same lock, renewed? Where all clients store the same, who wrote it tells them apart."""
        return old.owner == new.owner and (state.by is None or not old.client or state.by == old.client)

    def holders(self, time: int) -> dict[str, Holder]:
        """Who has the key at ``time``, by server, in the servers' order."""
        now: dict[str, Holder] = {}
        for change in self.changes:
            if change.time > time:
                break
            if change.new is None:
                now.pop(change.host, None)
            else:
                now[change.host] = change.new
        return dict(sorted(now.items()))

    def free_since(self, time: int) -> int | None:
        """Since when nobody has had it, at ``time``; None if somebody has it, or nobody ever had."""
        before = [change for change in self.changes if change.time <= time]
        return None if not before or self.holders(time) else before[-1].time
