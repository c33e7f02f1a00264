"""MySQL: one MariaDB, a primary with a replica and a manager that promotes it, or a Galera cluster."""

from __future__ import annotations

from typing import Any, Final

from harness.clusters.server_options import SECONDS, SWITCH

from .kind import Kind
from .releases import release_option

STRANGERS_LOGIN: Final = b"\x3c\0\0\1" + b"\0\x82\0\0" + b"\0" * 28 + b"k" * 26 + b"\0\0"
"""A login of an unknown user, 64 bytes: a server sends a greeting, and then refuses the login."""
_FAMILY: Final[dict[str, Any]] = {
    "family": "mysql",
    "rank": 2,
    "port": 3306,
    "options": {
        "release": release_option("mysql"),
        "semi_sync": SWITCH,
        "semi_sync_timeout": SECONDS,
        "lock_wait_timeout": SECONDS,
        "wait_timeout": SECONDS,
    },
    "packages": ("PyMySQL",),
}
SINGLE: Final = Kind(
    name="mysql-single",
    about="a MariaDB",
    sim="harness.clusters.sim.services.mysql:MysqlServers",
    docker="harness.clusters.docker.services.mysql:MysqlServers",
    servers="harness.clusters.servers.services.mysql:MysqlServer",
    **_FAMILY,
)
REPLICATED: Final = Kind(
    name="mysql-replicated",
    about="a MariaDB, its replica, and a manager that promotes it",
    nodes=2,
    sentinels=1,
    sim="harness.clusters.sim.services.mysql:ReplicatedMysqlServers",
    docker="harness.clusters.docker.services.mysql:ReplicatedMysqlServers",
    **_FAMILY,
)
GALERA: Final = Kind(
    name="mysql-galera",
    about="MariaDB nodes with Galera, each of them writable",
    nodes=3,
    docker="harness.clusters.docker.services.galera:GaleraServers",
    own_image=True,
    **{**_FAMILY, "options": {name: _FAMILY["options"][name] for name in ("lock_wait_timeout", "wait_timeout")}},
)
