"""Compares the simulated PostgreSQL server with Debian's PostgreSQL."""

from .pair import PostgresComparison

__all__ = ["PostgresComparison"]
