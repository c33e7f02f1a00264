"""Requests and replies as short texts, by service."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from harness.protocols.messages import Request

from .scripts import sha1

MOST: Final = 2_000
"""Number of characters of a text."""
NOTIFICATION: Final = "notification"
_PLAIN: Final = re.compile(r"[!-~]+")
_WORD: Final = re.compile(rb"\s*([A-Za-z_]+)")


class Texts(NamedTuple):
    """How the messages of a service are shown. ``name`` and ``request`` take a request and the names of scripts."""

    name: Callable[[Request], str]
    request: Callable[[Request, Mapping[str, str]], str]
    reply: Callable[[str, bytes], str]
    """Takes the name of the request, or :data:`NOTIFICATION`, and the reply."""


def shortened(text: str) -> str:
    return text if len(text) <= MOST else f"{text[: MOST - 3]}..."


def texts_of(service: str) -> Texts:
    """Return how messages of a service are shown."""
    return _TEXTS[service]


def _readable(data: bytes) -> str:
    return data.decode(errors="backslashreplace")


def _first_word(request: Request) -> str:
    return _readable(request.words[0])


# Redis.

_SCRIPTED: Final = frozenset({"EVAL", "EVALSHA", "EVAL_RO", "EVALSHA_RO"})


def _redis_name(request: Request) -> str:
    name = _readable(request.words[0]).upper()
    if name in ("SCRIPT", "CLIENT", "CONFIG", "SENTINEL", "CLUSTER", "COMMAND") and len(request.words) > 1:
        return f"{name} {_readable(request.words[1]).upper()}"
    return name


def _redis_request(request: Request, scripts: Mapping[str, str]) -> str:
    name, *words = _redis_name(request).split(), *request.words[1:]
    head = name[0]
    shown = [_redis_word(word) for word in words]
    if head in _SCRIPTED and words:
        sha = _readable(words[0]).lower() if head.startswith("EVALSHA") else sha1(words[0])
        shown[0] = scripts.get(sha, shown[0])
    if head == "SCRIPT" and len(words) > 1:
        shown[1:] = [scripts.get(sha1(word), _redis_word(word)) for word in words[1:]]
    return " ".join([head, *shown])


def _redis_word(word: bytes) -> str:
    text = _readable(word)
    return text if _PLAIN.fullmatch(text) else repr(text)


def _redis_reply(name: str, data: bytes) -> str:
    from harness.protocols.redis_replies import replies

    del name
    return ", ".join(replies(data)[0])


# memcached.


def _memcached_name(request: Request) -> str:
    return _readable(request.words[0]).upper()


def _lines(data: bytes) -> str:
    return " | ".join(line for line in _readable(data).split("\r\n") if line)


# MySQL and PostgreSQL.


def _sql_name(request: Request) -> str:
    kind, *texts = request.words
    word = _WORD.match(texts[0]) if kind == b"query" and texts else None
    return _readable(word[1] if word else kind).upper()


def _postgres_name(request: Request) -> str:
    """Return the keyword of the statement; ``PARSE`` if the request prepares it and does not execute it."""
    from harness.sim.servers.postgres import protocol

    name = _sql_name(request)
    prepares = request.words[0] == b"query" and not any(kind in "QE" for kind, _ in protocol.split(request.data)[0])
    return "PARSE" if prepares else name


def _mysql_request(request: Request, scripts: Mapping[str, str]) -> str:
    del scripts
    kind, *rest = request.words
    if kind == b"login":
        return f"login as {_readable(rest[0])}"
    return _readable(b" ".join(rest if kind == b"query" else request.words))


def _postgres_request(request: Request, scripts: Mapping[str, str]) -> str:
    from harness.sim.servers.postgres import protocol

    del scripts
    kind, *texts = request.words
    if kind != b"query":
        return _readable(kind)
    shown = "; ".join(dict.fromkeys(_readable(text) for text in texts)) or "sync"
    values = []
    for message, body in protocol.split(request.data)[0]:
        if message == "B":
            values += protocol.bound_values(protocol.texts(body, 2)[1])[0]
    return f"{shown} [{', '.join('NULL' if one is None else _readable(one) for one in values)}]" if values else shown


def _postgres_reply(name: str, data: bytes) -> str:
    from harness.protocols.postgres import answer

    return _readable(data) if name == "ENCRYPTION" else answer(data)


# ZooKeeper.


def _zookeeper_request(request: Request, scripts: Mapping[str, str]) -> str:
    from harness.protocols.zookeeper import shown_request

    del scripts
    return shown_request(request)


def _zookeeper_reply(name: str, data: bytes) -> str:
    from harness.protocols.zookeeper import readable_reply

    return readable_reply(name, data)


# etcd.


def _etcd_name(request: Request) -> str:
    if not request.data and len(request.words) == 3:  # the v2 API
        return _readable(request.words[0])
    return _readable(request.words[1])


def _etcd_request(request: Request, scripts: Mapping[str, str]) -> str:
    del scripts
    if not request.data and len(request.words) == 3:
        return _http_request(request, {})
    from harness.protocols.etcd import CALLS, parsed

    name = _etcd_name(request)
    shown = _flat(parsed(request)) if name in CALLS else f"({len(request.data)} bytes)"
    return f"{name} {shown}".rstrip()


def _etcd_reply(name: str, data: bytes) -> str:
    if data[:1] == b"[":  # the v2 API; else the number of a stream
        return _http_reply(name, data)
    from harness.protocols.etcd import CALLS, STATUS, response_of

    body = data[4:]
    if body[:1] == STATUS:
        return f"status {_readable(body[1:])}"
    method = "Watch" if name == NOTIFICATION else name
    return _flat(response_of(method, body)) if method in CALLS else f"({len(body)} bytes)"


def _flat(message: object) -> str:
    """Return a message of gRPC on one line, without the header of a response."""
    text = " ".join(str(message).split())
    return re.sub(r"header \{[^}]*\} ?", "", text)


# HTTP, and Chubby.


def _http_request(request: Request, scripts: Mapping[str, str]) -> str:
    del scripts
    return _readable(b" ".join(request.words)).rstrip()


def _http_reply(name: str, data: bytes) -> str:
    import json

    del name
    status, index, body = json.loads(data)
    shown = body if isinstance(body, str) else json.dumps(body, separators=(",", ":"))
    return f"{status} {shown}{f' (index {index})' if index is not None else ''}"


# NATS.


def _nats_request(request: Request, scripts: Mapping[str, str]) -> str:
    from harness.protocols.nats import shown

    del scripts
    return _readable(shown(request.words, request.data))


def _nats_reply(name: str, data: bytes) -> str:
    from harness.protocols.nats import shown, split

    del name
    return _readable(shown(*split(data)))


# Hazelcast.


def _hazelcast_request(request: Request, scripts: Mapping[str, str]) -> str:
    from harness.protocols.hazelcast import shown_request

    del scripts
    return shown_request(request)


def _hazelcast_reply(name: str, data: bytes) -> str:
    from harness.protocols.hazelcast import shown_reply

    return shown_reply(name, data)


_TEXTS: Final[dict[str, Texts]] = {
    "redis": Texts(_redis_name, _redis_request, _redis_reply),
    "memcached": Texts(_memcached_name, lambda request, _: _lines(request.data), lambda _, data: _lines(data)),
    "mysql": Texts(_sql_name, _mysql_request, lambda _, data: _readable(data)),
    "postgres": Texts(_postgres_name, _postgres_request, _postgres_reply),
    "zookeeper": Texts(_first_word, _zookeeper_request, _zookeeper_reply),
    "etcd": Texts(_etcd_name, _etcd_request, _etcd_reply),
    "consul": Texts(_first_word, _http_request, _http_reply),
    "nats": Texts(_first_word, _nats_request, _nats_reply),
    "hazelcast": Texts(_first_word, _hazelcast_request, _hazelcast_reply),
    "chubby": Texts(_first_word, lambda request, _: _readable(request.data), lambda _, data: _readable(data)),
}
