"""Memory pressure on servers that evict, by family: the same on all backends."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, Protocol

from .base import Facts
from .kinds import KINDS

EVICTING: Final = ("redis", "memcached")
"""Families whose servers forget keys when memory runs out."""


class Floods(Protocol):
    """A family's module ``<family>_flood`` has a class of this name; see :class:`harness.clusters.base.Cluster`."""

    def flood(self, host: str) -> Facts: ...

    def drain(self, host: str) -> None: ...

    def flooded(self, host: str) -> bool | None: ...


def floods_of(
    kind: str,
    address: Callable[[str], tuple[str, int]],
    gate: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Floods | None:
    """Of a kind's servers, None if they do not evict. ``address`` is asked where a host's server is, and ``gate`` each
    time before it is dialled."""
    family = KINDS[kind].family
    if family not in EVICTING:
        return None
    module: Any = importlib.import_module(f".{family}_flood", __package__)
    floods: Floods = module.Floods(address, gate)
    return floods


class Flooding:
    """The part of a cluster that floods its servers; see :class:`harness.clusters.base.Cluster`."""

    _floods: Floods | None

    def flood(self, host: str) -> Facts:
        return self._able().flood(host)

    def drain(self, host: str) -> None:
        self._able().drain(host)

    def flooded(self, host: str) -> bool | None:
        return self._able().flooded(host)

    def _able(self) -> Floods:
        if self._floods is None:
            raise NotImplementedError("these servers evict nothing")
        return self._floods
