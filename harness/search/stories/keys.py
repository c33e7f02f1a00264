"""Owners of a lock's key on each server over time, and the changes of owner."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from harness.history.lock_keys import KeyState

PUNCTUAL_NS: Final = 5_000_000
"""A key that disappears at most this long (ns) before its end counts as expired."""


@dataclass(frozen=True, slots=True)
class KeyOwner:
    """Owner of a key on a server: the stored token, the client (empty if unknown), and the end of the lease (ns)."""

    owner: str
    client: str
    until: int | None


@dataclass(frozen=True, slots=True)
class OwnerChange:
    """Change of the key's owner on ``host`` at ``time`` (ns), caused by the client ``by`` (empty: no client)."""

    time: int
    host: str
    old: KeyOwner | None
    new: KeyOwner | None
    by: str

    @property
    def expired(self) -> bool:
        """Return whether the key had expired by the server's own clock."""
        return self.old is not None and self.old.until is not None and self.time >= self.old.until - PUNCTUAL_NS


class Keys:
    """Changes of one key on all servers, in the order of time; renewals are not changes."""

    def __init__(self, states: Iterable[KeyState], key: str | None) -> None:
        self.changes: list[OwnerChange] = []
        self._known: dict[str, set[str]] = {}
        now: dict[str, KeyOwner] = {}
        for state in sorted((one for one in states if one.key == key), key=lambda one: one.time):
            if not state.answers:  # a server that is down keeps its keys
                continue
            old, new = now.get(state.host), self._holder(state)
            if new is not None and old is not None and self._belong_together(old, new, state):
                now[state.host] = KeyOwner(old.owner, old.client, new.until)
                continue
            if (old is None) != (new is None) or new is not None:
                self.changes.append(OwnerChange(state.time, state.host, old, new, state.by or ""))
            now.pop(state.host, None) if new is None else now.__setitem__(state.host, new)

    def _holder(self, state: KeyState) -> KeyOwner | None:
        if state.owner is None:
            return None
        known = self._known.setdefault(state.owner, set())
        if state.by is not None:
            known.add(state.by)
        client = state.by or (next(iter(known)) if len(known) == 1 else "")
        return KeyOwner(state.owner, client, None if state.left is None else state.time + state.left)

    def _belong_together(self, old: KeyOwner, new: KeyOwner, state: KeyState) -> bool:
        """Return whether the key was only renewed. If all clients store the same token, compare the writers."""
        return old.owner == new.owner and (state.by is None or not old.client or state.by == old.client)

    def holders(self, time: int) -> dict[str, KeyOwner]:
        """Return the owners of the key at ``time``, by server, sorted."""
        now: dict[str, KeyOwner] = {}
        for change in self.changes:
            if change.time > time:
                break
            if change.new is None:
                now.pop(change.host, None)
            else:
                now[change.host] = change.new
        return dict(sorted(now.items()))

    def free_since(self, time: int) -> int | None:
        """Return since when the key is free at ``time``; None if it has an owner, or never had one."""
        before = [change for change in self.changes if change.time <= time]
        return None if not before or self.holders(time) else before[-1].time
