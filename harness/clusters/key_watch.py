"""Poll the locks' keys on real servers and report each change of a key's owner or expiry.

Polling uses connections of the control side, which no fault cuts. A key that exists only between two polls is missed. A
poll must not affect the server, for example the key ages by which it evicts; each family has a reader that ensures
this.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from harness.clusters.gate import NetworkGate, NetworkRemoved
from harness.history.lock_keys import KeyObservation, KeyState, OnKeyChange

ANSWER_S: Final = 0.3
"""Time limit for a probe, seconds."""
EVERY: Final = 0.025
"""Seconds between two polls of a server."""
END_TOLERANCE_NS: Final = 30_000_000
"""ns by which two readings of a key's expiry may differ: answers take time, and servers count in ms."""


class NoAnswer(Exception):
    """The server did not answer a key reader."""


class KeyReader(Protocol):
    """Connection to one server that reads locks' keys; made at the first call of ``look``."""

    def look(self, key: str) -> KeyObservation | None:
        """Read the lock's key: owner and expiry, ``None`` if there is no such key. Raises :class:`NoAnswer`."""

    def close(self) -> None: ...


class KeyWatch:
    """Polls each server in a thread of its own; calls of ``on_change`` never overlap."""

    def __init__(self, keys: Sequence[str], on_change: OnKeyChange, gate: NetworkGate) -> None:
        self._keys = keys
        self._on_change = on_change
        self._gate = gate
        self._telling = threading.Lock()
        self._over = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self, host: str, reader: Callable[[], KeyReader]) -> None:
        """Start to poll a server. ``reader`` makes a connection, and is called again after each failure."""
        thread = threading.Thread(target=self._watch, args=(host, reader), name=f"keys-{host}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def end(self) -> None:
        """Report no change from now on."""
        self._over.set()

    def stop(self) -> None:
        """End, and wait for the readers."""
        self.end()
        for thread in self._threads:
            thread.join()

    def _watch(self, host: str, open_reader: Callable[[], KeyReader]) -> None:
        last: dict[str, KeyState] = {key: KeyState(0, host, key) for key in self._keys}
        reader: KeyReader | None = None
        sights: dict[str, KeyObservation | None] | None
        while not self._over.wait(EVERY):
            try:
                with self._gate.open():
                    reader = reader or open_reader()
                    sights = {key: reader.look(key) for key in self._keys}
            except NetworkRemoved:
                break
            except Exception:  # noqa: BLE001 - NoAnswer, or any error of a client library while a server stops
                self._close(reader)
                reader, sights = None, None
            for key, before in last.items():
                last[key] = self._report_change(before, sights)
        self._close(reader)

    @staticmethod
    def _close(reader: KeyReader | None) -> None:
        if reader is not None:
            with contextlib.suppress(Exception):
                reader.close()

    def _report_change(self, before: KeyState, sights: dict[str, KeyObservation | None] | None) -> KeyState:
        """Return the new state; call ``on_change`` if it differs from the one ``before``."""
        with self._telling:
            if self._over.is_set():
                return before
            now = time.monotonic_ns()
            state = _state(now, before.host, before.key, sights)
            if _same(before, state):
                return before
            self._on_change(state)
            return state


def _state(now: int, host: str, key: str, sights: dict[str, KeyObservation | None] | None) -> KeyState:
    if sights is None:
        return KeyState(now, host, key, answers=False)
    sight = sights[key]
    return KeyState(now, host, key) if sight is None else KeyState(now, host, key, sight.owner, sight.left)


def _same(before: KeyState, now: KeyState) -> bool:
    if (before.owner, before.answers, before.left is None) != (now.owner, now.answers, now.left is None):
        return False
    return (
        before.left is None
        or now.left is None
        or abs(before.time + before.left - now.time - now.left) < END_TOLERANCE_NS
    )
