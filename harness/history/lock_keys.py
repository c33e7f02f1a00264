"""What servers had under a lock's key, and for whom: ``keys.jsonl``, recorded beside a history and never part of it.

A history has what clients did and believed; checkers judge that alone. This is what the servers themselves had
meanwhile, for people who want to see *why*: one line each time it changed, in the order in which it was seen.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Annotated, Final, Self

import msgspec

KEYS: Final = "keys.jsonl"
Ns = Annotated[int, msgspec.Meta(gt=-(2**62), lt=2**62)]


class Sight(msgspec.Struct, frozen=True):
    """A lock's key as one look at a server shows it: the owner that is stored there (a token, a session, a row's
    owner; the first of those who wait), and for how many ns more by the server's own clock, None if it has no end."""

    owner: str
    left: int | None = None
    client: str | None = None
    """Whose it is, where the server itself knows: the client of a session."""


def owner_text(stored: bytes) -> str:
    """What is stored as an owner, as text that tells it from others: what is no UTF-8 in hexadecimal digits."""
    try:
        return stored.decode()
    except UnicodeDecodeError:
        return stored.hex()


class KeyState(msgspec.Struct, frozen=True, omit_defaults=True):
    """From ``time`` (ns, ``CLOCK_MONOTONIC``) on, server ``host`` had ``key`` for ``owner``, None: for nobody.

    ``left`` is as in :class:`Sight`. ``by`` is the client whose session has the key, where the server knows; else the
    one whose message made the change, None where the server did it by itself (an expiry, a replica that follows its
    primary) or where nobody could tell. ``answers`` is False from the
    moment a server was down or gave no answer: nobody knows what it has.
    """

    time: Ns
    host: str
    key: str
    owner: str | None = None
    left: Ns | None = None
    by: str | None = None
    answers: bool = True


Tell = Callable[[KeyState], None]


class KeyWriter:
    """Writes states as they are seen, a line each; not flushed one by one, since a history does without them."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")
        self._encode = msgspec.json.Encoder().encode

    def write(self, state: KeyState) -> None:
        if not self._file.closed:
            self._file.write(self._encode(state) + b"\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


def read_keys(path: Path) -> tuple[list[KeyState], str]:
    """The states of a run, none if none were recorded, and why they are not all: empty, or what is wrong with the file
    from the first line on that is no state (a run that was killed leaves half of one)."""
    try:
        lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    except OSError as error:
        return [], f"{path.name} cannot be read: {error.strerror}"
    decoder = msgspec.json.Decoder(KeyState)
    states: list[KeyState] = []
    for number, line in enumerate(lines, 1):
        try:
            states.append(decoder.decode(line))
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            if number == len(lines) and not line.endswith(b"\n"):
                return states, f"{path.name} is cut off at line {number:,}"
            return states, f"{path.name}, line {number:,}: expected a key's state as a JSON object: {error}"
    return states, ""
