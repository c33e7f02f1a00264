"""The states of lock keys on the servers, stored in ``keys.jsonl`` beside a history.

A history has the calls and beliefs of clients. ``keys.jsonl`` has what the servers stored meanwhile: one line for each
change, in the order of observation. Reports show it, and the checker ``keys`` compares it with the history.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Annotated, Final, Protocol, Self
from weakref import WeakKeyDictionary

import msgspec

from harness.errors import HarnessError
from harness.files import LineStream, refuse_device

from . import History, Op

KEYS: Final = "keys.jsonl"
BUFFER: Final = 8192
"""Bytes of lines that are collected before they are written."""
Ns = Annotated[int, msgspec.Meta(gt=-(2**62), lt=2**62)]


class KeyObservation(msgspec.Struct, frozen=True):
    """One observation of a lock's key on a server: the stored owner, and the remaining ns by the server's own clock.

    The owner is a token, a session, the owner of a row, or the first waiter. The remaining time is None without an end.
    """

    owner: str
    left: int | None = None
    client: str | None = None
    """The client of the session that owns the key, if the server knows it."""


def owner_text(stored: bytes) -> str:
    """Return a stored owner as distinctive text; bytes that are not UTF-8 become hexadecimal digits."""
    try:
        return stored.decode()
    except UnicodeDecodeError:
        return stored.hex()


class KeyState(msgspec.Struct, frozen=True, omit_defaults=True):
    """From ``time`` (ns, ``CLOCK_MONOTONIC``) on, ``key`` on the server ``host`` belonged to ``owner`` (None: to no
    client).

    ``left`` is as in :class:`KeyObservation`. ``by`` is the client whose session owns the key, if known.
    Otherwise it is the client whose message made the change; it is None if the server made the change itself (an
    expiry, a replica that follows its primary) or if the client is unknown. ``answers`` is False from the moment at
    which a server was down or did not answer: its state is then unknown.
    """

    time: Ns
    host: str
    key: str
    owner: str | None = None
    left: Ns | None = None
    by: str | None = None
    answers: bool = True


OnKeyChange = Callable[[KeyState], None]


class KeySink(Protocol):
    """Receives states as they are observed."""

    def write(self, state: KeyState) -> None: ...


class KeyCollector:
    """Keeps the states of a run that is not stored, in the order of observation."""

    def __init__(self) -> None:
        self.states: list[KeyState] = []

    def write(self, state: KeyState) -> None:
        self.states.append(state)


class KeyWriter:
    """Writes states as they are observed, one line each. Lines are collected before they are written, since checkers do
    not need the file.

    An error of the file system is raised at the end, as HarnessError, because states are observed within servers."""

    def __init__(self, path: Path) -> None:
        self._file = LineStream(path, BUFFER)
        self._failure: HarnessError | None = None
        self._encode = msgspec.json.Encoder().encode
        self.written = 0
        """Number of states that were written."""

    def write(self, state: KeyState) -> None:
        if not self._file.closed and self._failure is None:
            try:
                self._file.write(self._encode(state) + b"\n")
                self.written += 1
            except HarnessError as failure:
                self._failure = failure

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
        if error is None and self._failure is not None:
            raise self._failure


def read_keys(path: Path, written: int | None = None) -> tuple[list[KeyState], str]:
    """Read the states of a run, none if none were recorded. ``written`` is the number that the run wrote, None if that
    is not known.

    The second value is empty, or says what is wrong with the file from the first bad line on: it may end within a line,
    or after fewer lines than were written.
    """
    try:
        refuse_device(path)
        lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    except OSError as error:
        return [], f"{path.name} cannot be read: {error.strerror}"
    decoder = msgspec.json.Decoder(KeyState)
    states: list[KeyState] = []
    for number, line in enumerate(lines, 1):
        try:
            states.append(decoder.decode(line))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            if number == len(lines) and not line.endswith(b"\n"):
                return states, f"{path.name} is truncated at line {number:,}"
            return states, f"{path.name}, line {number:,}: expected a key's state as a JSON object: {error}"
    if written is None or len(states) == written:
        return states, ""
    if len(states) < written:
        return states, f"{path.name} is truncated after line {len(states):,} of {written:,}"
    return states, f"{path.name} has {len(states):,} lines, but the run wrote {written:,}"


_recorded: WeakKeyDictionary[History, tuple[KeyState, ...]] = WeakKeyDictionary()


def attach_keys(history: History, states: Iterable[KeyState]) -> None:
    """Give a history the complete record of the servers' keys, for :func:`keys_of`."""
    _recorded[history] = tuple(states)


def keys_of(history: History) -> tuple[KeyState, ...] | None:
    """Return the states of keys in the order of observation; None if not every change was recorded."""
    return _recorded.get(history)


def changed_history(history: History, entries: Iterable[Op]) -> History:
    """Return a history of ``entries``, changed ones of the given history, with its record of the servers' keys."""
    changed = History(entries)
    if (keys := keys_of(history)) is not None:
        attach_keys(changed, keys)
    return changed


def attach_stored_keys(history: History, path: Path, written: int | None = None) -> str:
    """Give a history of the simulator the record at ``path``, if that is complete. Otherwise return what is wrong with
    the file. ``written`` is as for :func:`read_keys`."""
    states, flaw = read_keys(path, written) if path.exists() else ([], f"{path.name} is missing")
    if not flaw:
        attach_keys(history, states)
    return flaw
