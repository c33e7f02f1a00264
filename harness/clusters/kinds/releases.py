"""Releases of servers, other than the one that Debian packages, that the harness can build an image of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from harness.clusters.server_options import ServerOption, one_of
from harness.errors import UsageError

RELEASES: Final[Mapping[str, tuple[str, ...]]] = {
    "redis": ("redis-6.2.14", "redis-8.0.2", "valkey-8.1.8", "valkey-9.1.2"),
    "etcd": ("etcd-3.5.35", "etcd-3.6.16"),
    "mysql": ("mariadb-11.8", "mysql-9.7"),
    "postgres": ("postgres-14.24", "postgres-16.15", "postgres-18.6"),
    "zookeeper": ("zookeeper-3.9.5",),
}
"""Values of the server option ``release``, by service."""
ALL_RELEASES: Final = tuple(release for releases in RELEASES.values() for release in releases)
NEEDS_OWN_IMAGE: Final = frozenset(
    {"redis-8.0.2", "mariadb-11.8", "mysql-9.7", *RELEASES["postgres"], "zookeeper-3.9.5"}
)
"""Releases whose programs do not run in another image, beside another release."""


def release_option(service: str) -> ServerOption:
    """Return the rule of a service's option ``release``."""
    known = one_of(*RELEASES[service])

    def checked(name: str, value: Any, backend: str) -> Any:
        if backend == "sim":
            raise UsageError(
                "server_options: release needs real servers (--cluster docker): a simulated one is no release"
            )
        if backend == "ssh":
            raise UsageError("server_options: release is for containers; on hosts the installed server is started")
        return known(name, value, backend)

    return checked
