"""Fencing tokens on the timeline: which tokens reached the resource, and whether it accepted or refused them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

from harness.history import Call

from .columns import NONE, TextNumbers
from .document import plain

ACCEPTED: Final = 0
STALE: Final = 1
"""The access was accepted, though another client's higher token had been accepted before."""
REFUSED: Final = 2
UNKNOWN: Final = 3
"""The answer to the access was lost."""
REFUSALS: Final = ("stale fence", "not the last token")
SHOWN_TO: Final = frozenset({"read", "write", "take", "mark"})


@dataclass(frozen=True, slots=True)
class TokenAccess:
    """An access of a client that sent ``token`` to the resource ``key``.

    ``time`` (ns) is the time of the answer or, without an answer, of the request. ``highest`` is the highest token of
    another client that had been accepted by then; for a ``shared`` access, only tokens of accesses that were not shared
    count.
    """

    time: int
    key: str
    client: str
    f: str
    token: int
    verdict: int
    highest: int = NONE
    shared: bool = False


@dataclass(slots=True)
class Scale:
    """Converts tokens to numbers. Whole numbers stay as they are; if any token is something else, all are numbered in
    the order of their first appearance."""

    names: TextNumbers | None

    def place(self, token: Any) -> int:
        text = _text(token)
        return int(text) if self.names is None else self.names.code(text)

    def text(self, place: int) -> str:
        return str(place) if self.names is None else self.names.texts[place]


def scale(tokens: Iterable[Any]) -> Scale:
    ordered = all(_is_number(text) for text in {_text(token) for token in tokens})
    return Scale(None if ordered else TextNumbers())


def _is_number(text: str) -> bool:
    """Return whether the text is a whole number that JavaScript can represent exactly."""
    return text.removeprefix("-").isdecimal() and abs(int(text)) < 2**53


def _text(token: Any) -> str:
    return str(token) if isinstance(token, str | int) else plain(token)


def accesses(calls: Iterable[Call], on: Scale) -> list[TokenAccess]:
    """Return the accesses with tokens, in the order of the answers."""
    by_key: defaultdict[str, list[tuple[int, TokenAccess]]] = defaultdict(list)
    for call in calls:
        if call.invoke.f in SHOWN_TO and (token := shown(call)) is not None and (found := _judged(call)) is not None:
            by_key[call.invoke.key or ""].append((_arrival(call), _access(call, on.place(token), found)))
    accesses = [one for key in by_key.values() for one in _compared(key, on.names is None)]
    return sorted(accesses, key=lambda access: access.time)


def shown(call: Call) -> Any:
    """Return the token of a call."""
    return call.invoke.value.get("fence") if isinstance(call.invoke.value, dict) else None


def _judged(call: Call) -> int | None:
    """Return the judgement of a call; None if it was refused for another reason than its token."""
    if call.outcome == "fail":
        return REFUSED if call.done is not None and call.done.error in REFUSALS else None
    return ACCEPTED if call.outcome == "ok" else UNKNOWN


def _arrival(call: Call) -> int:
    value = None if call.done is None else call.done.value
    return int(value["arrival"]) if isinstance(value, dict) and "arrival" in value else NONE


def _access(call: Call, token: int, verdict: int) -> TokenAccess:
    begun = call.invoke
    time = begun.time if call.done is None else call.done.time
    client = begun.node or f"process {begun.process}"
    shared = isinstance(begun.value, dict) and bool(begun.value.get("shared"))
    return TokenAccess(time, begun.key or "", client, begun.f, token, verdict, shared=shared)


def _compared(shown_to: list[tuple[int, TokenAccess]], ordered: bool) -> list[TokenAccess]:
    """Set the highest token accepted before each access: by the resource's own order, or for refused accesses by
    time."""
    accepted = sorted((one for one in shown_to if one[1].verdict == ACCEPTED), key=lambda one: one[0])
    others = sorted((one for _, one in shown_to if one.verdict != ACCEPTED), key=lambda one: one.time)
    highest: dict[tuple[str, bool], int] = {}  # by client, and whether the access was shared
    accesses: list[TokenAccess] = []
    waiting = 0
    for _, access in accepted:
        while waiting < len(others) and others[waiting].time <= access.time:
            accesses.append(_beside(others[waiting], highest, ordered))
            waiting += 1
        accesses.append(_beside(access, highest, ordered))
        own = access.client, access.shared
        highest[own] = max(access.token, highest.get(own, access.token))
    return accesses + [_beside(other, highest, ordered) for other in others[waiting:]]


def _beside(access: TokenAccess, highest: dict[tuple[str, bool], int], ordered: bool) -> TokenAccess:
    if not ordered:
        return access
    others = (
        token
        for (client, shared), token in highest.items()
        if client != access.client and not (shared and access.shared)
    )
    newer = max(others, default=NONE)
    stale = access.verdict == ACCEPTED and access.token < newer
    verdict = STALE if stale else access.verdict
    return replace(access, verdict=verdict, highest=newer)
