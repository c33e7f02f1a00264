"""The document of a check for linearizability, which ``harness check --json`` prints."""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from .run import Evidence

SCHEMA: Final = 1


class CheckSeconds(msgspec.Struct, frozen=True, kw_only=True):
    """Real time that the parts of a check took."""

    reading: float
    """Reading of the file, seconds."""
    checking: float
    """Check and explanation, seconds."""


class CheckDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict of ``harness check`` on one history."""

    schema: Literal[1]
    """Version of this document."""
    file: str
    """The history's file; "" if it was not read from one."""
    model: str
    """Name of the model."""
    valid: bool | None
    """True: an order of the calls fits the model. False: none does. Null: unknown."""
    explanation: str
    """Why, in a sentence."""
    evidence: tuple[Evidence, ...]
    """The first violations, 20 at most; ``stats.violations`` counts the keys that are not linearizable."""
    stats: dict[str, Any]
    """Figures of the check: ``calls``, ``keys``, ``unknown_outcomes``, ``failed_calls`` (left out), ``refused_calls``
    (failed ones that count as evidence), ``configurations``."""
    algorithm: Literal["quick", "search"]
    """``quick`` if a fast algorithm for exactly this model decided, else ``search``."""
    keys_searched: int
    """Keys that needed a search."""
    ignored_calls: dict[str, int] = {}
    """Calls of functions that the model does not describe, by function; they do not count."""
    seconds: CheckSeconds
    """Real time that the parts of the check took, seconds."""
