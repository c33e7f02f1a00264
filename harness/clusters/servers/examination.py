"""Examination of a user's servers before a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from harness.clusters.base import ObservedFacts
from harness.errors import UsageError

from .adapter import PREFIX, OwnServer
from .addresses import ServerAddress

CLOCK: Final = "one monotonic clock: all processes run on this machine"


def examined(servers: Mapping[str, OwnServer], addresses: Sequence[ServerAddress]) -> ObservedFacts:
    """Return facts about the servers, by their names. Raises UsageError if one of them cannot be used."""
    versions: list[str] = []
    names: dict[str, str] = {}
    for (host, server), address in zip(servers.items(), addresses, strict=True):
        versions.append(server.version())
        if refusal := server.refusal():
            raise UsageError(f"{host} ({address}): {refusal}")
        identity = server.identity()
        if identity and identity in names:
            raise UsageError(f"{host} ({address}) is the same server as {names[identity]}")
        names[identity] = host
        if found := server.foreign_keys():
            raise UsageError(
                f"{host} ({address}) has keys that begin with {PREFIX!r}, such as {', '.join(found)}: another run uses "
                f"it, or was killed together with its cleaner; wait for that run, or remove these keys"
            )
    return {
        "server": ", ".join(dict.fromkeys(versions)),
        "addresses": [str(address) for address in addresses],
        "clock": CLOCK,
    }
