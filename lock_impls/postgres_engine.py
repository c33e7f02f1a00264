"""SQLAlchemy's engine for locks on PostgreSQL that use SQLAlchemy, with pg8000 as its driver."""

from __future__ import annotations

from sqlalchemy import URL, Engine, create_engine

from .base import Endpoints
from .postgres_client import TIMEOUT_S


def postgres_engine(endpoints: Endpoints) -> Engine:
    """Return an engine for a PostgreSQL."""
    (host, port), *_ = endpoints.addresses
    where = URL.create("postgresql+pg8000", endpoints.user, endpoints.password, host, port, endpoints.database)
    return create_engine(where, connect_args={"timeout": TIMEOUT_S, "ssl_context": False, "tcp_keepalive": False})
