"""The parser of each service's protocol, and those of protocols that only the simulator speaks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Final

import msgspec

from harness.protocols.consul import ConsulParser
from harness.protocols.messages import Parser, Reply, Request

_PARSERS: Final = {
    "consul": "consul:ConsulParser",
    "hazelcast": "hazelcast:HazelcastParser",
    "memcached": "memcached:MemcachedParser",
    "mysql": "mysql:MysqlParser",
    "nats": "nats:NatsParser",
    "postgres": "postgres:PostgresParser",
    "redis": "redis:RedisParser",
    "zookeeper": "zookeeper:ZooKeeperParser",
}
"""Parsers in :mod:`harness.protocols`, by service."""
_HTTP: Final = (b"GET ", b"PUT ", b"POST ", b"DELETE ", b"HEAD ")
DECODED: Final = frozenset({*_PARSERS, "chubby", "etcd"})
"""Services whose protocol can be decoded."""


def new_parser(service: str, first: bytes, *, simulated: bool) -> Parser:
    """Return a parser for a connection whose client begins with ``first``. Raises ImportError if the service's client
    library is missing, which defines the messages of etcd."""
    if service == "chubby":
        return ChubbyParser()
    if service != "etcd":
        module, _, name = _PARSERS[service].partition(":")
        found: type[Parser] = getattr(import_module(f"harness.protocols.{module}"), name)
        return found()
    if first.startswith(_HTTP):
        return ConsulParser()  # the v2 API: JSON over HTTP, as Consul's
    from .grpc import SimulatedEtcdParser, WholeEtcdParser  # here, since they need the extra etcd

    return SimulatedEtcdParser() if simulated else WholeEtcdParser()


class ChubbyParser:
    """The lines of JSON of a Chubby cell."""

    def __init__(self) -> None:
        self._in = self._out = b""
        self._waiting: dict[int, Request] = {}

    def requests(self, time_ns: int, data: bytes) -> Sequence[Request]:
        return list(self._requests(time_ns, data))

    def _requests(self, time_ns: int, data: bytes) -> Iterator[Request]:
        *lines, self._in = (self._in + data).split(b"\n")
        for line in lines:
            body = msgspec.json.decode(line, type=dict[str, object])
            request = Request(time_ns, (str(body.get("op", "")).encode(),), line)
            self._waiting[_number(body)] = request
            yield request

    def replies(self, time_ns: int, data: bytes) -> Sequence[Reply]:
        *lines, self._out = (self._out + data).split(b"\n")
        found = []
        for line in lines:
            request = self._waiting.pop(_number(msgspec.json.decode(line, type=dict[str, object])), None)
            if request is not None:
                request.replied_ns = time_ns
            found.append(Reply(time_ns, line, time_ns, request))
        return found


def _number(body: dict[str, object]) -> int:
    number = body.get("n")
    return number if isinstance(number, int) else 0
