"""Compares the simulated memcached with Debian's."""

from .pair import MemcachedComparison

__all__ = ["MemcachedComparison"]
