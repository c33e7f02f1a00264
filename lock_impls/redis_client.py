"""Shared parts of all Redis locks: opening a client, waiting for a busy lock, and telling refusals from unknown
outcomes.

A lock on one key derives from :class:`RedisLock` and implements ``try_lock`` and ``unlock`` with redis-py.
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self, cast

import redis
import redis.client
import redis.exceptions
from redis.sentinel import Sentinel

from .base import CountsUnanswered, Endpoints, Grant, Indeterminate, LockError, LockInfo
from .polling import poll
from .redis_answers import is_an_answer

if TYPE_CHECKING:
    from redis.client import Pipeline
else:  # before redis-py 3, classes without "Strict" have the arguments of redis-py 1 in another order
    Pipeline = getattr(redis.client, "StrictPipeline", None) or redis.client.Pipeline

REQUIRES: Final = ("redis>=4.1",)
"""The releases of redis-py that have ``redis.backoff`` and ``redis.retry``."""

OPTIONS: Final[Mapping[str, Any]] = {"decode_responses": True, "socket_timeout": 1.0, "socket_connect_timeout": 1.0}
"""Options that a typical user sets. redis-py's own time-outs are 5 s. Its retries keep their defaults."""


# The documented way to delete only one's own key (Redis documentation, "SET", "Distributed locks").
COMPARE_AND_DELETE: Final = """
if redis.call("get", KEYS[1]) == ARGV[1] then
    return redis.call("del", KEYS[1])
end
return 0
"""

COMPARE_AND_EXPIRE: Final = """
if redis.call("get", KEYS[1]) == ARGV[1] then
    return redis.call("pexpire", KEYS[1], ARGV[2])
end
return 0
"""


class RedisClient(redis.StrictRedis):
    """redis-py's client, which also counts the requests that were sent and never answered.

    redis-py repeats a request when its answer is lost (10 times by default since 8.0), and returns the answer to the
    *second* request: "busy" may mean "busy with the key that my first request set". The retries stay on, because users
    have them on. The count tells when an answer may be about an earlier request.
    """

    unanswered = 0

    def __repr__(self) -> str:
        # Errors of pottery contain this text, and histories store errors. So it is the same wherever this class lies.
        return f"<lock_impls.redis_client.Client({self.connection_pool!r})>"

    def parse_response(self, connection: Any, command_name: Any, **options: Any) -> Any:
        try:
            return super().parse_response(connection, command_name, **options)  # type: ignore[no-untyped-call]
        except (redis.ConnectionError, redis.TimeoutError) as error:
            self.unanswered += not is_an_answer(error)
            raise

    def acknowledged(self, key: str, replicas: int, milliseconds: int) -> int:  # noqa: ARG002 - a cluster needs the key
        """Send WAIT after a write of ``key``, and return how many replicas have acknowledged it.

        WAIT counts acknowledgements of the writes of its own connection. If redis-py repeats it on a new connection,
        which has written nothing, the answer is just the number of replicas.
        """
        number: int = self.wait(replicas, milliseconds)
        return number

    def pipeline(self, transaction: Any = True, shard_hint: Any = None) -> Pipeline:
        pipeline = _CountedPipeline(self.connection_pool, self.response_callbacks, transaction, shard_hint)
        pipeline.counts_for = self
        return pipeline


class _CountedPipeline(Pipeline):
    """redis-py's pipeline with the same count. It reads its answers itself, and is repeated as a whole."""

    counts_for: RedisClient

    def parse_response(self, connection: Any, command_name: Any, **options: Any) -> Any:
        try:
            return super().parse_response(connection, command_name, **options)  # type: ignore[no-untyped-call]
        except (redis.ConnectionError, redis.TimeoutError) as error:
            self.counts_for.unanswered += not is_an_answer(error)
            raise


ANSWER_TIMEOUT: Final = 5.0
TIMEOUTS: Final = {"socket_timeout": ANSWER_TIMEOUT, "socket_connect_timeout": ANSWER_TIMEOUT}
"""Limits (s) of redis-py 8. Releases before that have none, so that a lost answer would block its client for ever."""


CLUSTER_ERRORS: Final[tuple[type[Exception], ...]] = tuple(
    vars(redis.exceptions)[name] for name in ("RedisClusterException",) if hasattr(redis.exceptions, name)
)
"""Errors of redis-py's cluster client that are no RedisError: no node answers, or a slot has no owner. Releases before
4.1 have no cluster client."""


def open_client(endpoints: Endpoints, **options: Any) -> RedisClient:
    """Open a client of the one Redis, of the primary that the sentinels name, or of the cluster; ``options`` are
    redis-py's.

    The client of a cluster has the same methods for requests about one key, and is no subclass. It connects at once:
    LockError if no node answers.
    """
    options = {**TIMEOUTS, **options}
    if endpoints.kind == "redis-cluster":
        from .redis_cluster_client import open_cluster  # late: releases of redis-py before 4.1 lack it

        with known_outcome():
            return cast(RedisClient, open_cluster(endpoints, **options))
    login = endpoints.redis_login
    if endpoints.kind == "redis-sentinel":
        sentinel = Sentinel(list(endpoints.addresses), **sentinel_options(endpoints, options), **options)  # type: ignore[no-untyped-call]
        primary: RedisClient = sentinel.master_for(endpoints.service, redis_class=RedisClient, **login)  # type: ignore[no-untyped-call]
        return primary
    host, port = endpoints.addresses[0]
    return RedisClient(host=host, port=port, **options, **login)


def sentinel_options(endpoints: Endpoints, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the additional options of redis-py's ``Sentinel`` if the sentinels have a login.

    Without ``sentinel_kwargs`` redis-py connects to the sentinels with those of ``options`` that are for sockets.
    """
    login = endpoints.sentinel_login
    sockets = {name: value for name, value in options.items() if name.startswith("socket_")}
    return {"sentinel_kwargs": {**sockets, **login}} if login else {}


def open_client_of_each(endpoints: Endpoints, **options: Any) -> tuple[RedisClient, ...]:
    """Open a client of each server; ``options`` are redis-py's."""
    return tuple(
        open_client(Endpoints(endpoints.kind, (address,), login=endpoints.login), **options)
        for address in endpoints.addresses
    )


@contextmanager
def known_outcome(*clients: CountsUnanswered, refusals: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Turn redis-py's errors into LockError (nothing was sent, or the server refused) or Indeterminate (anything else).

    ``refusals`` are the errors by which another library reports a refusal. A LockError raised inside becomes
    Indeterminate too if a request went unanswered: the refusal may be the answer to a request that redis-py had sent
    for the second time.
    """
    before = unanswered(clients)
    refused: tuple[type[Exception], ...] = (redis.RedisError, LockError, *CLUSTER_ERRORS, *refusals)
    try:
        yield
    except refused as error:
        if unanswered(clients) > before:
            raise Indeterminate(f"a request was not answered; at last: {_text(error)}") from error
        if isinstance(error, LockError):
            raise
        raise LockError(_text(error)) from error


def known_grant(
    attempt: Callable[[], Grant | None], *clients: CountsUnanswered, refusals: tuple[type[Exception], ...] = ()
) -> Grant | None:
    """Return the result of ``attempt``, with its errors turned as in :func:`known_outcome`.

    "Not acquired" after a lost answer is Indeterminate too.
    """
    before = unanswered(clients)
    with known_outcome(*clients, refusals=refusals):
        grant = attempt()
    if grant is None and unanswered(clients) > before:
        raise Indeterminate("not acquired, but an earlier answer was lost: it may be held by this very client")
    return grant


def unanswered(clients: tuple[CountsUnanswered, ...]) -> int:
    """Number of requests that these clients sent and that were never answered."""
    return sum(client.unanswered for client in clients)


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


class RedisLock(ABC):
    """A lock that is one key of one Redis. Subclasses implement ``try_lock`` and ``unlock``."""

    info: ClassVar[LockInfo]

    def __init__(self, client: RedisClient, key: str, ttl: float) -> None:
        self.client = client
        self.key = key
        self.ttl = ttl

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float, **options: Any) -> Self:
        return cls(open_client(endpoints, **OPTIONS), key, ttl, **options)

    @abstractmethod
    def try_lock(self) -> Grant | None:
        """Try once; None if another client holds the lock."""

    @abstractmethod
    def unlock(self) -> bool:
        """Give the lock back; False if the server (or the lock itself) says that it was not held."""

    def acquire(self, timeout: float) -> Grant | None:
        return known_grant(lambda: poll(self.try_lock, timeout), self.client)

    def release(self) -> None:
        with known_outcome(self.client):
            if not self.unlock():
                raise LockError(f"{self.key} is not held by this client")

    @property
    def ttl_ms(self) -> int:
        return max(1, round(self.ttl * 1000))

    @property
    def ttl_whole_s(self) -> int:
        """The ttl for commands that take whole seconds, rounded up so that the lease is never shorter than
        requested."""
        return max(1, math.ceil(self.ttl))

    def remaining(self, began: float) -> float:
        """Seconds left of a lease that was requested at ``began``, by the client's monotonic clock."""
        return max(0.0, began + self.ttl - time.monotonic())
