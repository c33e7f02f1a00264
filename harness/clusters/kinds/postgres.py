"""PostgreSQL: independent servers."""

from __future__ import annotations

from typing import Final

from harness.clusters.server_options import SECONDS

from .kind import Kind

POSTGRES: Final = Kind(
    name="postgres",
    about="a PostgreSQL",
    rank=3,
    port=5432,
    sim="harness.clusters.sim.services.postgres:PostgresServers",
    docker="harness.clusters.docker.services.postgres:PostgresServers",
    options={
        "deadlock_timeout": SECONDS,
        "idle_in_transaction_session_timeout": SECONDS,
        "idle_session_timeout": SECONDS,
        "statement_timeout": SECONDS,
    },
    packages=("pg8000",),
)
