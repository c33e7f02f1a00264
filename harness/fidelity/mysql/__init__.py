"""Compares the simulated MySQL server with Debian's MariaDB."""

from .pair import MysqlComparison

__all__ = ["MysqlComparison"]
