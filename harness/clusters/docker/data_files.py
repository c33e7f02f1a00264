"""Files of container servers: find the newest one, describe it, and damage it while the server is stopped."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from harness.clusters.abilities.servers import FileFacts
from harness.clusters.docker.containers.engine import Box
from harness.clusters.docker.containers.helper_client import Helper


class DataFiles:
    """Files of a cluster's servers; implements :class:`harness.clusters.abilities.servers.DataFiles`.

    ``patterns`` are those of the files with the newest data, below ``/data``; ``starts`` counts a host's starts.
    """

    def __init__(
        self, helper: Helper, boxes: Mapping[str, Box], patterns: Sequence[str], starts: Callable[[str], int]
    ) -> None:
        self._helper = helper
        self._boxes = boxes
        self._patterns = list(patterns)
        self._starts = starts

    def starts(self, host: str) -> int:
        """See :meth:`harness.clusters.abilities.servers.DataFiles.starts`."""
        return self._starts(host)

    def newest_file(self, host: str) -> FileFacts | None:
        """See :meth:`harness.clusters.abilities.servers.DataFiles.newest_file`."""
        found: FileFacts | None = self._helper.disk("newest_file", self._boxes[host], patterns=self._patterns)
        return found

    def damage_file(self, host: str, how: Literal["truncate", "flip"], size: int, seed: int) -> None:
        """See :meth:`harness.clusters.abilities.servers.DataFiles.damage_file`."""
        self._helper.disk(
            "damage_file", self._boxes[host], patterns=self._patterns, flip=how == "flip", size=size, seed=seed
        )
