"""Compare the simulated Redis with a redis-server."""

from .pair import RedisComparison

__all__ = ["RedisComparison"]
