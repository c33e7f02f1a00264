"""Probes of a real cluster's links."""

from __future__ import annotations

from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor

from .abilities.network import Links
from .client_host import ANSWER


class LinkProbes(ABC):
    """Base class of the mixins that implement :class:`harness.clusters.abilities.network.Traffic`."""

    @abstractmethod
    def reaches(self, source: str, target: str, timeout: float) -> float | None:
        """See :class:`harness.clusters.abilities.network.Network`."""

    def black_holed(self, links: Links) -> list[bool]:
        with ThreadPoolExecutor(max(1, len(links))) as pool:
            return list(pool.map(lambda link: self.reaches(link[0], link[1], ANSWER) is None, links))
