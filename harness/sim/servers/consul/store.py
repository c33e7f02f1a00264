"""State of a simulated Consul server: keys, sessions and their indexes, as agent/consul/state of Consul 1.15.4.

Everything here survives a restart. Lock-delays and the timers of sessions do not (:mod:`.server`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

NS_PER_S: Final = 1_000_000_000
FIRST_INDEX: Final = 10
"""Raft index of a server that has just become leader: it has written its configuration and its own node."""


class Refused(Exception):
    """A request is answered with an error; ``status`` is the HTTP status."""

    def __init__(self, text: str, status: int = 500) -> None:
        super().__init__(text)
        self.status = status


@dataclass(frozen=True, slots=True)
class KvEntry:
    """A key. ``session`` is empty while none holds it."""

    value: bytes
    flags: int
    session: str
    lock_index: int
    create_index: int
    modify_index: int

    def holds(self) -> tuple[bytes, int, str, int]:
        """Return what a write must change to count as one."""
        return self.value, self.flags, self.session, self.lock_index


@dataclass(frozen=True, slots=True)
class ConsulSession:
    """A session. ``ttl_ns`` is 0 without a TTL; ``ttl`` is its text. ``deletes`` says what happens to its keys."""

    id: str
    name: str
    node: str
    ttl: str
    ttl_ns: int
    lock_delay_ns: int
    deletes: bool
    index: int


class ConsulStore:
    """Keys and sessions. ``on_change`` is called with each key that has changed."""

    def __init__(self) -> None:
        self.index = FIRST_INDEX
        self.keys_index = 0
        """Index of the last change of any key."""
        self.sessions_index = 0
        self.keys: dict[str, KvEntry] = {}
        self.sessions: dict[str, ConsulSession] = {}
        self.on_change: Callable[[str], None] = lambda _: None

    # Keys. Each method is one entry of the Raft log.

    def put(self, key: str, value: bytes, flags: int, cas: int | None = None) -> bool:
        """Write a key, which stays with the session that holds it; with ``cas`` if its ModifyIndex is that (0: if
        there is no such key)."""
        self.index += 1
        old = self.keys.get(key)
        if cas is not None and cas != (old.modify_index if old else 0):
            return False
        # As Consul: a plain write sets the LockIndex to 0.
        self._set(key, KvEntry(value, flags, old.session if old else "", 0, self.index, self.index))
        return True

    def lock(self, key: str, value: bytes, flags: int, session: str) -> bool:
        self.index += 1
        if not session:
            raise Refused("raft apply failed: missing session")
        if session not in self.sessions:
            raise Refused(f'raft apply failed: invalid session "{session}"')
        old = self.keys.get(key)
        if old is not None and old.session not in ("", session):
            return False
        lock_index = 1 if old is None else old.lock_index + (not old.session)
        self._set(key, KvEntry(value, flags, session, lock_index, self.index, self.index))
        return True

    def unlock(self, key: str, value: bytes, flags: int, session: str) -> bool:
        self.index += 1
        if not session:
            raise Refused("raft apply failed: missing session")
        old = self.keys.get(key)
        if old is None or old.session != session:
            return False
        self._set(key, KvEntry(value, flags, "", old.lock_index, self.index, self.index))
        return True

    def delete(self, key: str, cas: int | None = None) -> bool:
        self.index += 1
        old = self.keys.get(key)
        if cas is not None and old is not None and old.modify_index != cas:
            return False
        self._remove(key)
        return True

    def _set(self, key: str, new: KvEntry) -> None:
        old = self.keys.get(key)
        if old is not None and old.holds() == new.holds():
            return
        self.keys[key] = replace(new, create_index=old.create_index) if old else new
        self._changed(key)

    def _remove(self, key: str) -> None:
        if self.keys.pop(key, None) is not None:
            self._changed(key)

    def _changed(self, key: str) -> None:
        self.keys_index = self.index
        self.on_change(key)

    # Sessions.

    def create(self, session: ConsulSession) -> None:
        self.index += 1
        self.sessions_index = self.index
        self.sessions[session.id] = replace(session, index=self.index)

    def destroy(self, session_id: str) -> tuple[ConsulSession, list[str]] | None:
        """End a session, and release or delete its keys; return it with these keys. None if there is no such
        session."""
        self.index += 1
        session = self.sessions.pop(session_id, None)
        if session is None:
            return None
        self.sessions_index = self.index
        held = [key for key, entry in self.keys.items() if entry.session == session_id]
        for key in held:
            if session.deletes:
                self._remove(key)
            else:
                self._set(key, replace(self.keys[key], session="", modify_index=self.index))
        return session, held
