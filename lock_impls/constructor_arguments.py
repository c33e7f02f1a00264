"""Fill in the parameters of a lock class's constructor by name:

==================================================  ============================================================
``redis redis_client client conn connection``       a redis-py client
``nodes masters clients``                           a list of redis-py clients, one per server
``servers endpoints addresses``                     a list of (host, port) pairs
``connection_list``                                 a list of ``{"host": .., "port": .., "db": 0}`` (redlock-py)
``key name resource lock_name``                     the key
``ttl expire lease lease_s auto_release_time timeout``  the ttl in seconds
==================================================  ============================================================

Of each row the first name that the constructor has is filled in; every other parameter needs a default.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from .base import CountsUnanswered, Endpoints, LockLookupError

REDIS_NAMES: Final = ("redis", "redis_client", "client", "conn", "connection")
NODES_NAMES: Final = ("nodes", "masters", "clients")
ADDRESSES_NAMES: Final = ("servers", "endpoints", "addresses")
CONNECTION_LIST_NAMES: Final = ("connection_list",)
KEY_NAMES: Final = ("key", "name", "resource", "lock_name")
TTL_NAMES: Final = ("ttl", "expire", "lease", "lease_s", "auto_release_time", "timeout")
ROWS: Final = (REDIS_NAMES, NODES_NAMES, ADDRESSES_NAMES, CONNECTION_LIST_NAMES, KEY_NAMES, TTL_NAMES)


class UserLockError(LockLookupError):
    """The class cannot be used as a lock; the message says what is missing."""


@dataclass(slots=True)
class ConstructorArguments:
    """Values for a constructor's parameters; remembers the clients that it opened."""

    endpoints: Endpoints
    key: str
    ttl: float
    asynchronous: bool
    clients: list[CountsUnanswered] = field(default_factory=list)

    def client(self) -> CountsUnanswered:
        return self._opened(self.endpoints)

    def client_of_each(self) -> list[CountsUnanswered]:
        if self.endpoints.kind == "redis-sentinel":
            return [self.client()]
        kind, login = self.endpoints.kind, self.endpoints.login
        return [self._opened(Endpoints(kind, (address,), login=login)) for address in self.endpoints.addresses]

    def _opened(self, endpoints: Endpoints) -> CountsUnanswered:
        """Open a client with the library's defaults, as libraries expect. redis-py is imported here, since a lock of
        another service may run without it."""
        client: CountsUnanswered
        if self.asynchronous:
            from .redis_asyncio_client import open_client as open_asynchronously

            client = open_asynchronously(endpoints)
        else:
            from .redis_client import open_client

            client = open_client(endpoints)
        self.clients.append(client)
        return client

    def value_of(self, row: tuple[str, ...]) -> Any:
        makers: Mapping[tuple[str, ...], Callable[[], Any]] = {
            REDIS_NAMES: self.client,
            NODES_NAMES: self.client_of_each,
            ADDRESSES_NAMES: lambda: list(self.endpoints.addresses),
            CONNECTION_LIST_NAMES: lambda: [{"host": h, "port": p, "db": 0} for h, p in self.endpoints.addresses],
            KEY_NAMES: lambda: self.key,
            TTL_NAMES: lambda: self.ttl,
        }
        return makers[row]()


def fill(cls: type, setting: ConstructorArguments) -> dict[str, Any]:
    return {name: setting.value_of(row) for name, row in chosen_rows(cls).items()}


def chosen_rows(cls: type) -> dict[str, tuple[str, ...]]:
    """Map parameter names to their rows of the table. Raises if the constructor needs a parameter that is not in the
    table."""
    parameters = parameters_of(cls)
    chosen: dict[str, tuple[str, ...]] = {
        name: row for row in ROWS if (name := next((n for n in row if n in parameters), None))
    }
    unknown = [p.name for p in parameters.values() if p.default is p.empty and p.name not in chosen]
    if unknown:
        known = "; ".join(" ".join(row) for row in ROWS)
        raise UserLockError(
            f"{cls.__module__}:{cls.__qualname__} needs {', '.join(unknown)}, and only these can be filled in, "
            f"one of each group: {known}. Give the others defaults, or add a classmethod open(endpoints, key, ttl)."
        )
    return chosen


def parameters_of(cls: type) -> dict[str, inspect.Parameter]:
    by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    try:
        parameters = inspect.signature(cls).parameters
    except ValueError as error:
        raise UserLockError(f"{cls.__module__}:{cls.__qualname__} does not say its constructor's parameters") from error
    return {name: p for name, p in parameters.items() if p.kind in by_name}
