"""Commands as the catalogue's locks send them, recorded from their conformance tests on the simulator.

``vocabulary.json`` has the templates, the locks that send each, and the scripts. ``python -m
tests.fidelity.record_redis`` writes it. In a template ``{key}`` stands for the key of a lock, ``{token}`` for an
owner's token, ``{number}`` for a lease or a time, ``{value}`` for other contents, ``{script SHA}`` for a script.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from random import Random
from typing import Final

import msgspec

from .commands import KEYS, Words

FILE: Final = "vocabulary.json"
TOKENS: Final = ("token-a", "token-b", "token-c")
NUMBERS: Final = ("1", "10", "100", "1000", "30000", "1767225600", "1767225601.5")
CONTENTS: Final = ("x", "\x80\x05K\x01.", '{"mode": "exclusive"}')
LOCK_KEYS: Final = ("k0", "k0", "k0", "k1", *KEYS)
NOT_COMPARED: Final = frozenset({"hello", "info", "role"})
"""Commands whose replies describe the server. HELLO would change the protocol of a connection."""
_TOKEN: Final = re.compile(
    r"\b[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}\b|\b[0-9a-zA-Z]{22}\b|^[0-9a-zA-Z+/]{24}$"
)
_NUMBER: Final = re.compile(r"\d{2,}(\.\d+)?|\d+(\.\d+)+")
"""Also the versions of libraries, which CLIENT SETINFO has."""
_SCRIPT: Final = re.compile(r"\{script (\w+)\}")


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """Contents of ``vocabulary.json``: the locks by the template that they send, and the scripts by their SHA-1."""

    commands: dict[str, tuple[str, ...]]
    """Words of a template, as JSON → the names of the locks."""
    scripts: dict[str, str]

    @property
    def templates(self) -> list[Words]:
        return [msgspec.json.decode(text, type=list[str]) for text in self.commands]


def template(args: Sequence[bytes], key: str) -> tuple[Words, dict[str, str]]:
    """Return the template of a command that was sent for a lock on ``key`` (a pattern), and its scripts."""
    words = [arg.decode(errors="surrogateescape") for arg in args]
    name, scripts = words[0].lower(), {}
    at = 1 if name == "eval" else 2 if [word.lower() for word in words[:2]] == ["script", "load"] else None
    found = []
    for index, word in enumerate(words):
        if index == at:
            sha = hashlib.sha1(args[index]).hexdigest()
            scripts[sha] = word
            found.append(f"{{script {sha}}}")
        elif index == 0 or (index <= 2 and name in ("eval", "evalsha")):  # the script and the number of keys
            found.append(word)
        else:
            found.append(_placeholder(word, key))
    return found, scripts


def _placeholder(word: str, key: str) -> str:
    if word.startswith("{") or not word.isprintable():
        return "{value}"
    if _NUMBER.fullmatch(word):
        return "{number}"
    return _TOKEN.sub("{token}", re.sub(key, "{key}", word))


@cache
def recorded() -> Recorded:
    """Return the recorded commands."""
    return msgspec.json.decode(files(__package__).joinpath(FILE).read_bytes(), type=Recorded)


class Vocabulary:
    """Draws commands of the recorded templates."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        everything = recorded()
        self.scripts = everything.scripts
        self.templates = [words for words in everything.templates if words[0].lower() not in NOT_COMPARED]

    def draw(self) -> Words:
        """Return one command, for one key."""
        key = self.rng.choice(LOCK_KEYS)
        return [self._filled(word, key) for word in self.rng.choice(self.templates)]

    def loads(self) -> list[Words]:
        """Return commands that load some of the scripts, as clients do before EVALSHA."""
        return [["SCRIPT", "LOAD", body] for body in self.scripts.values() if self.rng.random() < 0.7]

    def _filled(self, word: str, key: str) -> str:
        script = _SCRIPT.fullmatch(word)
        if script is not None:
            return self.scripts[script[1]]
        choose = self.rng.choice
        for name, value in (
            ("{key}", key),
            ("{token}", choose(TOKENS)),
            ("{number}", choose(NUMBERS)),
            ("{value}", choose(CONTENTS)),
        ):
            word = word.replace(name, value)
        return word
