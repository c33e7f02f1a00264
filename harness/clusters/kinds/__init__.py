"""The kinds of cluster by name, and the host names of a cluster of each kind.

Everything here holds for simulated and for real clusters; each backend's own ``kinds`` module builds the servers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from harness.errors import UsageError
from harness.plugins import Objects, Registry

from .kind import ACCOUNT, Kind, flaw_of

__all__ = [
    "ACCOUNT", "KINDS", "Kind", "can_run", "clients", "default_nodes", "family_of", "host_names", "kinds", "own_kinds",
    "sentinels", "servers",
]  # fmt: skip


def _users(name: str, kind: Kind) -> Kind:
    """Return the user's kind; UsageError if one of its fields is wrong."""
    flaw = flaw_of(kind)
    if flaw:
        raise UsageError(f"the cluster kind {name}: {flaw}")
    return kind


def _unknown(name: str, known: Iterable[str]) -> UsageError:
    return UsageError(f"there is no cluster of kind {name!r}; there are {', '.join(sorted(known))}")


KINDS: Final[Registry[Kind]] = Registry("cluster kind", "kinds", Objects(__name__, Kind), _users, Kind, _unknown)


def own_kinds() -> list[Kind]:
    """Return our own kinds in the order of lists."""
    return sorted(KINDS.own.values(), key=lambda kind: (kind.rank, kind.name))


def kinds(backend: str | None = None) -> list[str]:
    """Names of our own kinds, or of those that one backend can build, sorted."""
    return sorted(kind.name for kind in own_kinds() if backend is None or backend in kind.backends)


def can_run(kind: str, backend: str) -> bool:
    """Return whether a backend can build this kind; UsageError if there is no such kind."""
    return backend in KINDS.find(kind).backends


def family_of(kind: str) -> list[str]:
    """Names of our own kinds with the same servers, in the order of names."""
    service = KINDS.find(kind).service
    return [other for other in kinds() if KINDS.own[other].service == service]


def default_nodes(kind: str) -> int:
    return KINDS.find(kind).nodes


def servers(nodes: int) -> list[str]:
    return [f"n{number + 1}" for number in range(nodes)]


def sentinels(kind: str) -> list[str]:
    """Names of the hosts that monitor the servers; empty for a kind without them."""
    return [f"s{number + 1}" for number in range(KINDS.find(kind).sentinels)]


def clients(count: int) -> list[str]:
    return [f"c{number}" for number in range(count)]


def host_names(kind: str, nodes: int, count: int) -> list[str]:
    """Names of all hosts of a cluster of this kind with ``count`` clients; the cluster need not exist."""
    return [*servers(nodes), *sentinels(kind), *clients(count)]
