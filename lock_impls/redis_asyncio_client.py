"""redis-py's asyncio client, as locks whose methods are coroutines get it."""

from __future__ import annotations

from typing import Any

import redis
from redis.asyncio import Redis
from redis.asyncio.sentinel import Sentinel

from harness.errors import UsageError

from .base import Endpoints
from .redis_answers import is_an_answer
from .redis_client import TIMEOUTS, sentinel_options


class AsyncRedisClient(Redis):
    """redis-py's asyncio client, which also counts the requests that were sent and never answered, for the reason that
    :class:`harness.lock_impls.redis_client.RedisClient` states."""

    unanswered = 0

    def __repr__(self) -> str:
        # Histories store errors, and an error may contain this text. So it is the same wherever this class lies.
        return f"<lock_impls.redis_asyncio_client.Client({self.connection_pool!r})>"

    async def parse_response(self, connection: Any, command_name: Any, **options: Any) -> Any:
        try:
            return await super().parse_response(connection, command_name, **options)
        except (redis.ConnectionError, redis.TimeoutError) as error:
            self.unanswered += not is_an_answer(error)
            raise


def open_client(endpoints: Endpoints, **options: Any) -> AsyncRedisClient:
    """Open a client of the one Redis, or of the primary that the sentinels name; ``options`` are redis-py's. UsageError
    for a Redis Cluster."""
    if endpoints.kind == "redis-cluster":
        raise UsageError("locks with redis-py's asyncio client cannot run on redis-cluster")
    options = {**TIMEOUTS, **options}
    login = endpoints.redis_login
    if endpoints.kind == "redis-sentinel":
        sentinel = Sentinel(list(endpoints.addresses), **sentinel_options(endpoints, options), **options)  # type: ignore[no-untyped-call]
        primary: AsyncRedisClient = sentinel.master_for(endpoints.service, redis_class=AsyncRedisClient, **login)
        return primary
    host, port = endpoints.addresses[0]
    return AsyncRedisClient(host=host, port=port, **options, **login)
