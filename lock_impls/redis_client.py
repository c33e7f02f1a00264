"""What all Redis locks share: opening a client, waiting for a busy lock, and telling "no" from "nobody knows".

A lock on one key derives from :class:`RedisLock` and writes its two halves, ``try_lock`` and ``unlock``, in redis-py.
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, Final, Self

import redis
from redis.client import Pipeline
from redis.exceptions import BusyLoadingError, ReadOnlyError
from redis.sentinel import Sentinel

from lock_impls.base import Endpoints, Grant, Indeterminate, LockError, LockInfo
from lock_impls.polling import poll

SINGLE_KEY_KINDS: Final = ("redis-single", "redis-sentinel")

OPTIONS: Final[Mapping[str, Any]] = {"decode_responses": True, "socket_timeout": 1.0, "socket_connect_timeout": 1.0}
"""What a user would set (redis-py's own time-outs are 5 s). Its retries are left as they are."""


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


class Client(redis.Redis):
    """redis-py's client, that also counts the requests that left and were never answered.

    redis-py sends a request again when its answer is lost (10 times by default since 8.0), and then returns the answer
    to the *second* one: "busy" may mean "busy with the key that my first request set". The retries stay on, because
    users have them on; the count says that an answer must not be taken for the whole truth.
    """

    unanswered = 0

    def parse_response(self, connection: Any, command_name: Any, **options: Any) -> Any:
        try:
            return super().parse_response(connection, command_name, **options)  # type: ignore[no-untyped-call]
        except (redis.ConnectionError, redis.TimeoutError) as error:
            self.unanswered += not _is_an_answer(error)
            raise

    def pipeline(self, transaction: Any = True, shard_hint: Any = None) -> Pipeline:
        pipeline = _CountedPipeline(self.connection_pool, self.response_callbacks, transaction, shard_hint)
        pipeline.counts_for = self
        return pipeline


class _CountedPipeline(Pipeline):
    """redis-py's pipeline reads its answers itself; it is sent again as a whole, as single commands are."""

    counts_for: Client

    def parse_response(self, connection: Any, command_name: Any, **options: Any) -> Any:
        try:
            return super().parse_response(connection, command_name, **options)  # type: ignore[no-untyped-call]
        except (redis.ConnectionError, redis.TimeoutError) as error:
            self.counts_for.unanswered += not _is_an_answer(error)
            raise


def _is_an_answer(error: Exception) -> bool:
    """True for connection errors that redis-py makes of a server's refusal: the request was surely not executed."""
    return isinstance(error, BusyLoadingError) or isinstance(error.__context__, ReadOnlyError)


def open_client(endpoints: Endpoints, **options: Any) -> Client:
    """A client of the one Redis, or of the primary that the sentinels name; ``options`` are redis-py's."""
    if endpoints.kind == "redis-sentinel":
        sentinel = Sentinel(list(endpoints.addresses), **options)  # type: ignore[no-untyped-call]
        primary: Client = sentinel.master_for(endpoints.service, redis_class=Client)  # type: ignore[no-untyped-call]
        return primary
    host, port = endpoints.addresses[0]
    return Client(host=host, port=port, **options)


def open_client_of_each(endpoints: Endpoints, **options: Any) -> tuple[Client, ...]:
    """A client of each server; ``options`` are redis-py's."""
    return tuple(open_client(Endpoints(endpoints.kind, (address,)), **options) for address in endpoints.addresses)


@contextmanager
def known_outcome(*clients: Client, refusals: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Turns redis-py's errors into the seam's: nothing left or the server refused → LockError, else Indeterminate.

    ``refusals`` are the errors by which another library says the same. A LockError raised inside becomes Indeterminate
    as well when a request went unanswered: the refusal may be the answer to a request that redis-py had sent for the
    second time.
    """
    before = unanswered(clients)
    refused: tuple[type[Exception], ...] = (redis.RedisError, LockError, *refusals)
    try:
        yield
    except refused as error:
        if unanswered(clients) > before:
            raise Indeterminate(f"a request was not answered; at last: {_text(error)}") from error
        if isinstance(error, LockError):
            raise
        raise LockError(_text(error)) from error


def known_grant(
    attempt: Callable[[], Grant | None], *clients: Client, refusals: tuple[type[Exception], ...] = ()
) -> Grant | None:
    """What ``attempt`` gives, with its errors as in :func:`known_outcome`; "not acquired" after a lost answer is
    Indeterminate too."""
    before = unanswered(clients)
    with known_outcome(*clients, refusals=refusals):
        grant = attempt()
    if grant is None and unanswered(clients) > before:
        raise Indeterminate("not acquired, but an earlier answer was lost: it may be held by this very client")
    return grant


def unanswered(clients: tuple[Client, ...]) -> int:
    return sum(client.unanswered for client in clients)


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


class RedisLock(ABC):
    """A lock that is one key of one Redis. ``try_lock`` and ``unlock`` are the lock; the rest is the seam."""

    info: ClassVar[LockInfo]

    def __init__(self, client: Client, key: str, ttl: float) -> None:
        self.client = client
        self.key = key
        self.ttl = ttl

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float, **options: Any) -> Self:
        return cls(open_client(endpoints, **OPTIONS), key, ttl, **options)

    @abstractmethod
    def try_lock(self) -> Grant | None:
        """One try; None when somebody else holds the lock."""

    @abstractmethod
    def unlock(self) -> bool:
        """Gives the lock back; False when the server (or the lock itself) says that it was not held."""

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
        """For the commands that take whole seconds; rounded up, so that the lease is never shorter than asked for."""
        return max(1, math.ceil(self.ttl))

    def remaining(self, began: float) -> float:
        """What is left of a lease that was asked for at ``began``, by the client's monotonic clock."""
        return max(0.0, began + self.ttl - time.monotonic())
