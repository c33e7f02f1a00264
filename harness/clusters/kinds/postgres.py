"""PostgreSQL: independent servers, which clients reach directly or through PgBouncer, or a primary with standbys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from harness.clusters.server_options import SECONDS, SWITCH, WHOLE, ServerOption, one_of, option

from .kind import Kind
from .releases import release_option

_OPTIONS: Final[dict[str, ServerOption]] = {
    "deadlock_timeout": SECONDS,
    "idle_in_transaction_session_timeout": SECONDS,
    "idle_session_timeout": SECONDS,
    "lock_timeout": SECONDS,
    "statement_timeout": SECONDS,
}
POOL_MODE: Final = "transaction"
"""``pool_mode`` without a server option. PgBouncer's own default is ``session``."""
_FAMILY: Final[dict[str, Any]] = {"family": "postgres", "rank": 3, "packages": ("pg8000",)}
POSTGRES: Final = Kind(
    name="postgres",
    about="a PostgreSQL",
    port=5432,
    sim="harness.clusters.sim.services.postgres:PostgresServers",
    docker="harness.clusters.docker.services.postgres:PostgresServers",
    servers="harness.clusters.servers.services.postgres:PostgresServer",
    options={**_OPTIONS, "release": release_option("postgres")},
    **_FAMILY,
)
POOLED: Final = Kind(
    name="postgres-pgbouncer",
    about="a PostgreSQL behind PgBouncer",
    port=6432,
    sim="harness.clusters.sim.services.postgres:PgBouncerServers",
    docker="harness.clusters.docker.services.pgbouncer:PgBouncerServers",
    own_image=True,
    options={
        **_OPTIONS,
        "pool_mode": one_of("transaction", "session"),
        "default_pool_size": WHOLE,
        "min_pool_size": WHOLE,
        "server_round_robin": SWITCH,
        "server_reset_query_always": SWITCH,
    },
    **_FAMILY,
)
SYNCHRONOUS: Final = "synchronous_standby_names"
"""Parameter whose value ``*`` makes a commit wait until a standby has it; it is empty without a server option."""
REPLICATED: Final = Kind(
    name="postgres-replicated",
    about="a PostgreSQL, its hot standby, and a manager that promotes it",
    port=5432,
    nodes=2,
    sentinels=1,
    sim="harness.clusters.sim.services.postgres:ReplicatedPostgresServers",
    docker="harness.clusters.docker.services.postgres_replicated:ReplicatedPostgresServers",
    options={**_OPTIONS, SYNCHRONOUS: option("'*' or empty", lambda value: value in ("", "*"))},
    **_FAMILY,
)


def run_time_parameters(options: Mapping[str, Any]) -> dict[str, str]:
    """Return the run-time parameters of PostgreSQL that the server options of a plan set."""
    durations = {name: f"{round(seconds * 1000)}ms" for name, seconds in options.items() if name in _OPTIONS}
    return {**durations, **{name: value for name, value in options.items() if name == SYNCHRONOUS}}
