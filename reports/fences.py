"""Fencing tokens as the timeline shows them: what the resource made of those that it was shown."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

from harness.history import Call
from reports.columns import NONE, Names
from reports.document import plain

ACCEPTED: Final = 0
STALE: Final = 1
"""Accepted, though another client's higher token had been accepted before."""
REFUSED: Final = 2
UNKNOWN: Final = 3
"""The answer was lost."""
REFUSALS: Final = ("stale fence", "not the last token")
SHOWN_TO: Final = frozenset({"read", "write", "take", "mark"})


@dataclass(frozen=True, slots=True)
class Access:
    """A client showed ``token`` to the resource ``key``; ``time`` (ns) is when it was answered or, never answered,
    when it was asked. ``highest`` is the highest token of another client that had been accepted by then; of a
    ``shared`` one, of those that were not."""

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
    """What to make of tokens as numbers: whole numbers are themselves; others, if there is one other, have no order
    and are numbered as they first appear."""

    names: Names | None

    def place(self, token: Any) -> int:
        text = _text(token)
        return int(text) if self.names is None else self.names.code(text)

    def text(self, place: int) -> str:
        return str(place) if self.names is None else self.names.texts[place]


def scale(tokens: Iterable[Any]) -> Scale:
    ordered = all(_is_number(text) for text in {_text(token) for token in tokens})
    return Scale(None if ordered else Names())


def _is_number(text: str) -> bool:
    """A whole number that a page's script can tell from the next."""
    return text.removeprefix("-").isdecimal() and abs(int(text)) < 2**53


def _text(token: Any) -> str:
    return str(token) if isinstance(token, str | int) else plain(token)


def accesses(calls: Iterable[Call], on: Scale) -> list[Access]:
    """What the resource was shown, in the order of the answers."""
    by_key: defaultdict[str, list[tuple[int, Access]]] = defaultdict(list)
    for call in calls:
        if call.invoke.f in SHOWN_TO and (token := shown(call)) is not None and (found := _judged(call)) is not None:
            by_key[call.invoke.key or ""].append((_arrival(call), _access(call, on.place(token), found)))
    told = [one for key in by_key.values() for one in _compared(key, on.names is None)]
    return sorted(told, key=lambda access: access.time)


def shown(call: Call) -> Any:
    """The token that came with a call."""
    return call.invoke.value.get("fence") if isinstance(call.invoke.value, dict) else None


def _judged(call: Call) -> int | None:
    """None for what was refused for another reason than its token."""
    if call.outcome == "fail":
        return REFUSED if call.done is not None and call.done.error in REFUSALS else None
    return ACCEPTED if call.outcome == "ok" else UNKNOWN


def _arrival(call: Call) -> int:
    value = None if call.done is None else call.done.value
    return int(value["arrival"]) if isinstance(value, dict) and "arrival" in value else NONE


def _access(call: Call, token: int, verdict: int) -> Access:
    begun = call.invoke
    time = begun.time if call.done is None else call.done.time
    client = begun.node or f"process {begun.process}"
    shared = isinstance(begun.value, dict) and bool(begun.value.get("shared"))
    return Access(time, begun.key or "", client, begun.f, token, verdict, shared=shared)


def _compared(shown_to: list[tuple[int, Access]], ordered: bool) -> list[Access]:
    """Each with the highest token accepted before it: by the resource's own order, or for refused ones by time."""
    accepted = sorted((one for one in shown_to if one[1].verdict == ACCEPTED), key=lambda one: one[0])
    others = sorted((one for _, one in shown_to if one.verdict != ACCEPTED), key=lambda one: one.time)
    highest: dict[tuple[str, bool], int] = {}  # by client, and whether it was shared
    told: list[Access] = []
    waiting = 0
    for _, access in accepted:
        while waiting < len(others) and others[waiting].time <= access.time:
            told.append(_beside(others[waiting], highest, ordered))
            waiting += 1
        told.append(_beside(access, highest, ordered))
        own = access.client, access.shared
        highest[own] = max(access.token, highest.get(own, access.token))
    return told + [_beside(other, highest, ordered) for other in others[waiting:]]


def _beside(access: Access, highest: dict[tuple[str, bool], int], ordered: bool) -> Access:
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
