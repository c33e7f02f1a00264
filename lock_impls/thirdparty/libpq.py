"""Shared parts of the locks whose client library is psycopg, which calls libpq."""

from __future__ import annotations

from typing import Final

CONTAINERS_ONLY: Final = "psycopg's sockets are in libpq, a C library"
TIMEOUTS: Final = {"connect_timeout": 2, "keepalives_idle": 1, "keepalives_interval": 1, "keepalives_count": 3}
"""Times (s) after which a connection counts as lost. libpq waits for at least 2 s for a new connection."""
