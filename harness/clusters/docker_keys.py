"""Looks at the locks' keys on real servers, again and again, on the control side's own way that no fault touches.

What is seen is as fine as the looks are dense: a key that comes and goes between two of them is not seen. A look must
change nothing: a family that cannot look without touching what decides evictions, say, finds another way.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from ..containers.gate import Gate, Shut
from ..history.lock_keys import KeyState, Sight, Tell

EVERY: Final = 0.025
"""Seconds from one look at a server to the next."""
STRAYS: Final = 30_000_000
"""ns by which two looks may differ on when a key ends: answers take time, and servers count in ms."""


class Blind(Exception):
    """The server did not answer."""


class Eye(Protocol):
    """A connection to one server, made at the first look."""

    def look(self, key: str) -> Sight | None:
        """What it has under the lock's key, None for nothing; raises :class:`Blind`."""

    def close(self) -> None: ...


class KeyWatch:
    """One thread a server. ``tell`` is called by one thread at a time."""

    def __init__(self, keys: Sequence[str], tell: Tell, gate: Gate) -> None:
        self._keys = keys
        self._tell = tell
        self._gate = gate
        self._telling = threading.Lock()
        self._over = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self, host: str, eye: Callable[[], Eye]) -> None:
        """Begin to look at a server; ``eye`` is asked for another one each time the server did not answer."""
        thread = threading.Thread(target=self._watch, args=(host, eye), name=f"keys-{host}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def stop(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _watch(self, host: str, open_eye: Callable[[], Eye]) -> None:
        last: dict[str, KeyState] = {key: KeyState(0, host, key) for key in self._keys}
        eye: Eye | None = None
        sights: dict[str, Sight | None] | None
        while not self._over.wait(EVERY):
            try:
                with self._gate.open():
                    eye = eye or open_eye()
                    sights = {key: eye.look(key) for key in self._keys}
            except Shut:
                break
            except Exception:  # noqa: BLE001 - Blind, or what a client library makes of a server that is going
                self._close(eye)
                eye, sights = None, None
            for key, before in last.items():
                last[key] = self._told(before, sights)
        self._close(eye)

    @staticmethod
    def _close(eye: Eye | None) -> None:
        if eye is not None:
            with contextlib.suppress(Exception):
                eye.close()

    def _told(self, before: KeyState, sights: dict[str, Sight | None] | None) -> KeyState:
        """What is known from now on; told if it is news."""
        with self._telling:
            now = time.monotonic_ns()
            state = _state(now, before.host, before.key, sights)
            if _same(before, state):
                return before
            self._tell(state)
            return state


def _state(now: int, host: str, key: str, sights: dict[str, Sight | None] | None) -> KeyState:
    if sights is None:
        return KeyState(now, host, key, answers=False)
    sight = sights[key]
    return KeyState(now, host, key) if sight is None else KeyState(now, host, key, sight.owner, sight.left)


def _same(before: KeyState, now: KeyState) -> bool:
    if (before.owner, before.answers, before.left is None) != (now.owner, now.answers, now.left is None):
        return False
    return before.left is None or now.left is None or abs(before.time + before.left - now.time - now.left) < STRAYS
