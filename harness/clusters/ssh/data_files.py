"""Files of servers on hosts: find the newest one, describe it, and damage it while the server is stopped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from harness.clusters.abilities.servers import FileFacts

from .hosts import HostServer


class DataFiles:
    """Files of a cluster's servers; implements :class:`harness.clusters.abilities.servers.DataFiles`.

    ``server`` returns a server by name; ``patterns`` are those of the files with the newest data, in its data folder.
    """

    def __init__(self, server: Callable[[str], HostServer], patterns: Sequence[str]) -> None:
        self._server = server
        self._patterns = list(patterns)

    def starts(self, host: str) -> int:
        """See :meth:`harness.clusters.abilities.servers.DataFiles.starts`."""
        return self._server(host).starts

    def newest_file(self, host: str) -> FileFacts | None:
        """See :meth:`harness.clusters.abilities.servers.DataFiles.newest_file`."""
        found: FileFacts | None = self._ask("newest_file", host)
        return found

    def damage_file(self, host: str, how: Literal["truncate", "flip"], size: int, seed: int) -> None:
        """See :meth:`harness.clusters.abilities.servers.DataFiles.damage_file`."""
        self._ask("damage_file", host, flip=how == "flip", size=size, seed=seed)

    def _ask(self, op: str, host: str, **fields: Any) -> Any:
        return self._server(host).host.ask(op, path=host, patterns=self._patterns, **fields)
