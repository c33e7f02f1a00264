"""Client programs for tests of clusters: a lock whose "acquire" is a Redis command, and workloads that call it.
Clients in containers load this file by its name, like a user's file."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from harness.lock_impls.base import Endpoints, Grant
from harness.worker.client import Client


class Commands:
    """A lock whose ``key`` is a command such as ``"n1 SET lock x"``. The fence of its grant is the server's reply."""

    def __init__(self, address: tuple[str, int], command: list[str], timeout: float) -> None:
        self._command = command
        self._client = redis.Redis(
            host=address[0],
            port=address[1],
            socket_timeout=timeout,
            socket_connect_timeout=timeout,
            retry=Retry(NoBackoff(), 0),
            decode_responses=True,
        )

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float, *, hosts: dict[str, Any], commands: Any = ()) -> Self:
        host, *command = key.split()
        return cls(tuple(hosts[host]), command, ttl)

    def acquire(self, timeout: float) -> Grant:
        answer: Any = self._client.execute_command(*self._command)  # type: ignore[no-untyped-call]
        return Grant(fence=str(answer))

    def release(self) -> None: ...


class Once:
    """Sends the plan's commands once, one after the other."""

    name: ClassVar = "once"

    @staticmethod
    def stock(settings: Any, duration: float) -> dict[str, int]:
        return {}

    @staticmethod
    def run(client: Client) -> None:
        settings: Any = client.settings
        for command in settings.lock_options["commands"]:
            client.acquire(command)


class Chatter:
    """Sets a key of its own on each server, ten times a second, until the end of the run."""

    name: ClassVar = "chatter"

    @staticmethod
    def stock(settings: Any, duration: float) -> dict[str, int]:
        return {}

    @staticmethod
    def run(client: Client) -> None:
        settings: Any = client.settings
        while not client.over():
            for command in settings.lock_options["commands"]:
                client.acquire(command.replace("NODE", client.node))
            client.sleep(0.1)
