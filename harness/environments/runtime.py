"""The distributions that a worker needs beside the lock's own, in an environment that the harness builds for a release.

A worker is the process that runs the simulator, the lock and its client library. The list is short, and each bound is
open: if it named a client library, its version would take the place of the release that the user wants to test.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import metadata
from typing import Final

RUNTIME: Final = ("greenlet>=3.1", "lupa>=2.2", "msgspec>=0.18")
OF_SERVICE: Final = {
    "etcd": ("protobuf>=3.20",),
    "mysql": ("sqlglot>=26",),
    "postgres": ("sqlglot>=26",),
}
"""Service → what its simulated servers need besides."""
OF_SEARCH: Final = ("numpy>=1.26", "sortedcontainers>=2.4", "tomli-w>=1.0")
"""What a search needs besides, since its worker draws and judges schedules."""


def search_runtime() -> tuple[str, ...]:
    """Return what a search needs besides. Another release of Hypothesis would draw other schedules from a seed."""
    return (f"hypothesis=={metadata.version('hypothesis')}", *OF_SEARCH)


def runtime(kinds: Iterable[str]) -> tuple[str, ...]:
    """Return the requirements of a worker for clusters of these kinds, such as ``mysql-single``."""
    services = dict.fromkeys(kind.partition("-")[0] for kind in kinds)
    return (*RUNTIME, *(one for service in services for one in OF_SERVICE.get(service, ())))
