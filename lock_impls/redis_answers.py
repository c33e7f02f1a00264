"""Which errors of redis-py are answers of a server."""

from __future__ import annotations

from redis.exceptions import BusyLoadingError, ReadOnlyError


def is_an_answer(error: Exception) -> bool:
    """True for connection errors that stand for a server's refusal: the request was certainly not executed."""
    return isinstance(error, BusyLoadingError) or isinstance(error.__context__, ReadOnlyError)
