"""The timeline in words, for readers of the page who do not see the canvas."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from reports.columns import Column
from reports.fences import ACCEPTED, REFUSED, STALE, UNKNOWN
from reports.timeline import OUTCOMES, Data
from reports.timeline_servers import ENDS

_GONE: Final = frozenset({ENDS.index("early"), ENDS.index("removed")})
_RAN_OUT: Final = ENDS.index("ran out")
_UNRECORDED: Final = ENDS.index("not recorded")


@dataclass(slots=True)
class Activity:
    """What one client did."""

    client: str
    holds: int = 0
    longest: int = 0
    """ns"""
    outcomes: list[int] = field(default_factory=lambda: [0, 0, 0])


@dataclass(slots=True)
class Custody:
    """What one server had under the locks' keys; ``silent`` is ns in which it gave no answer."""

    server: str
    stays: int = 0
    longest: int = 0
    ran_out: int = 0
    gone: int = 0
    silent: int = 0


@dataclass(frozen=True, slots=True)
class Shown:
    """What became of the tokens: granted, then accepted, accepted though stale, refused, or nobody knows."""

    granted: int
    accepted: int
    stale: int
    refused: int
    unknown: int


def said(data: Data) -> dict[str, Any]:
    """What the template says beside the canvas, from what ``timeline.build`` made of a run."""
    clocks = bool(data["offsets"])
    known = data["known"] * 1000 if data["known"] < data["recorded"] else None
    told = {"activity": _activity(data), "servers": _custody(data), "tokens": _shown(data)}
    shared = "shared" in data["holds"]
    return {**told, "clocks": clocks, "known_until": known, "leases": _leases(data["holds"]), "shared": shared}


def _leases(holds: dict[str, Column]) -> bool:
    """Is there a lease to see: one that was not given back in time?"""
    late = (holds["took"] < 0) | (holds["lease"] < holds["took"]) | (holds["released"] == 0)
    return bool(((holds["lease"] >= 0) & late).any())


def _activity(data: Data) -> list[Activity]:
    """One line a client."""
    told = [Activity(client) for client in data["clients"]]
    holds, calls = data["holds"], data["calls"]
    for lane, took in zip(holds["lane"].tolist(), holds["took"].tolist(), strict=True):
        told[lane].holds += 1
        told[lane].longest = max(told[lane].longest, took * 1000)
    acquires = calls["f"] == _code(data, "acquire")
    for lane, client in enumerate(told):
        its = calls["outcome"][acquires & (calls["lane"] == lane)]
        client.outcomes = [int((its == outcome).sum()) for outcome in OUTCOMES.values()]
    return told


def _code(data: Data, text: str) -> int:
    """The number of a text that is there; else one that no row has."""
    return data["texts"].index(text) if text in data["texts"] else -2


def _custody(data: Data) -> list[Custody]:
    """One line a server; none where nobody looked."""
    stays, keys = data["stays"], max(len(data["keys"]), 1)
    if not len(stays["lane"]):
        return []
    took = _lengths(data)
    return [_of(server, stays, took, stays["lane"] // keys == i) for i, server in enumerate(data["servers"])]


def _lengths(data: Data) -> Column:
    """How long each stay lasted, µs; to the end of what was recorded where nothing ended it."""
    stays = data["stays"]
    took: Column = stays["took"].copy()
    start = stays["start"].cumsum()
    took[took < 0] = (data["recorded"] - start)[took < 0].clip(0)
    return took


def _of(server: str, stays: dict[str, Column], took: Column, its: Any) -> Custody:
    held, ended = its & (stays["who"] >= 0), stays["ended"]
    silent = its & (stays["who"] < 0) & (ended != _UNRECORDED)
    return Custody(
        server,
        stays=int(held.sum()),
        longest=int(took[held].max(initial=0)) * 1000,
        ran_out=int((held & (ended == _RAN_OUT)).sum()),
        gone=sum(int((its & (ended == one)).sum()) for one in _GONE),
        silent=int(took[silent].sum()) * 1000,
    )


def _shown(data: Data) -> Shown | None:
    """None if the lock hands out no tokens."""
    tokens = data["tokens"]
    if tokens is None:
        return None
    verdicts = tokens["shown"]["verdict"]
    counted = (int((verdicts == verdict).sum()) for verdict in (ACCEPTED, STALE, REFUSED, UNKNOWN))
    return Shown(len(tokens["grants"]["time"]), *counted)
