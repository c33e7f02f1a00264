"""Summaries of the timeline as text, for readers who cannot see its canvas."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from .columns import Column
from .fences import ACCEPTED, REFUSED, STALE, UNKNOWN
from .timeline import OUTCOMES, Data
from .timeline_servers import ENDS

_GONE: Final = frozenset({ENDS.index("early"), ENDS.index("removed")})
_EXPIRED: Final = ENDS.index("expired")
_UNRECORDED: Final = ENDS.index("not recorded")


@dataclass(slots=True)
class ClientSummary:
    """Holds and acquires of one client."""

    client: str
    holds: int = 0
    longest: int = 0
    """Duration in ns."""
    outcomes: list[int] = field(default_factory=lambda: [0, 0, 0])


@dataclass(slots=True)
class ServerSummary:
    """Values of the locks' keys on one server; ``silent`` is the time (ns) in which it did not answer."""

    server: str
    stays: int = 0
    longest: int = 0
    expired: int = 0
    gone: int = 0
    silent: int = 0


@dataclass(frozen=True, slots=True)
class TokenSummary:
    """Numbers of tokens granted, accepted, accepted although stale, refused, and with a lost answer."""

    granted: int
    accepted: int
    stale: int
    refused: int
    unknown: int


def canvas_text(data: Data) -> dict[str, Any]:
    """Return the text that the template shows beside the canvas, from the data of ``timeline.build``."""
    clocks = bool(data["offsets"])
    known = data["known"] * 1000 if data["known"] < data["recorded"] else None
    tables = {"activity": _activity(data), "servers": _custody(data), "tokens": _token_summary(data)}
    shared = "shared" in data["holds"]
    return {**tables, "clocks": clocks, "known_until": known, "leases": _leases(data["holds"]), "shared": shared}


def _leases(holds: dict[str, Column]) -> bool:
    """Return whether there is a lease to show: one that was not released in time."""
    late = (holds["took"] < 0) | (holds["lease"] < holds["took"]) | (holds["released"] == 0)
    return bool(((holds["lease"] >= 0) & late).any())


def _activity(data: Data) -> list[ClientSummary]:
    """Return one summary for each client."""
    clients = [ClientSummary(client) for client in data["clients"]]
    holds, calls = data["holds"], data["calls"]
    for lane, took in zip(holds["lane"].tolist(), holds["took"].tolist(), strict=True):
        clients[lane].holds += 1
        clients[lane].longest = max(clients[lane].longest, took * 1000)
    acquires = calls["f"] == _code(data, "acquire")
    for lane, client in enumerate(clients):
        its = calls["outcome"][acquires & (calls["lane"] == lane)]
        client.outcomes = [int((its == outcome).sum()) for outcome in OUTCOMES.values()]
    return clients


def _code(data: Data, text: str) -> int:
    """Return the number of a text; for an unknown text, a number that no row has."""
    return data["texts"].index(text) if text in data["texts"] else -2


def _custody(data: Data) -> list[ServerSummary]:
    """Return one summary for each server; none if the servers were not observed."""
    stays, keys = data["stays"], max(len(data["keys"]), 1)
    if not len(stays["lane"]):
        return []
    took = _lengths(data)
    return [
        _server_summary(server, stays, took, stays["lane"] // keys == i) for i, server in enumerate(data["servers"])
    ]


def _lengths(data: Data) -> Column:
    """Return the length of each stay, µs; a stay without an end lasts to the end of the recorded time."""
    stays = data["stays"]
    took: Column = stays["took"].copy()
    start = stays["start"].cumsum()
    took[took < 0] = (data["recorded"] - start)[took < 0].clip(0)
    return took


def _server_summary(server: str, stays: dict[str, Column], took: Column, its: Any) -> ServerSummary:
    held, ended = its & (stays["who"] >= 0), stays["ended"]
    silent = its & (stays["who"] < 0) & (ended != _UNRECORDED)
    return ServerSummary(
        server,
        stays=int(held.sum()),
        longest=int(took[held].max(initial=0)) * 1000,
        expired=int((held & (ended == _EXPIRED)).sum()),
        gone=sum(int((its & (ended == one)).sum()) for one in _GONE),
        silent=int(took[silent].sum()) * 1000,
    )


def _token_summary(data: Data) -> TokenSummary | None:
    """Return the token summary, None if the lock grants no tokens."""
    tokens = data["tokens"]
    if tokens is None:
        return None
    verdicts = tokens["shown"]["verdict"]
    counted = (int((verdicts == verdict).sum()) for verdict in (ACCEPTED, STALE, REFUSED, UNKNOWN))
    return TokenSummary(len(tokens["grants"]["time"]), *counted)
