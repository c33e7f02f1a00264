"""Options of servers, as plans give them: the same words, and the same mistakes, on every backend."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from ..errors import UsageError, unknown_name
from ..sim.servers.redis.config import POLICIES, memory_size
from .kinds import KINDS

PERSISTENCE: Final = {"sim": ("always", "no"), "docker": ("always", "everysec", "no")}
"""When a Redis syncs its log, by backend, the usual first; with ``no`` it keeps none."""
_REDIS: Final = ("persistence", "maxmemory", "maxmemory_policy", "replica_priority")
SWITCH: Final = "true or false"
SECONDS: Final = "seconds, more than 0"
WHOLE: Final = "a whole number from 1"
MEGABYTES: Final = "a whole number of megabytes from 2"
MEMCACHED_MB: Final = 2
"""The least that a memcached takes, and enough for locks: a flood has less to fill."""
MEMCACHED_CHUNK: Final = 1024
"""Bytes for the smallest item, for the same reason: what a lock writes shares a class with 2000 others, not 20 000."""
_RULES: Final[dict[str, Callable[[Any], bool]]] = {
    SWITCH: lambda value: isinstance(value, bool),
    SECONDS: lambda value: isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= 1e8,
    WHOLE: lambda value: type(value) is int and 0 < value <= 1_000_000_000,
    MEGABYTES: lambda value: type(value) is int and 2 <= value <= 1_000_000,
}
OPTIONS: Final[dict[str, dict[str, str]]] = {
    "mysql": {
        "semi_sync": SWITCH, "semi_sync_timeout": SECONDS, "lock_wait_timeout": SECONDS, "wait_timeout": SECONDS,
    },
    "memcached": {"memory": MEGABYTES},
    "zookeeper": {"tick_ms": WHOLE},
    "etcd": {"heartbeat_ms": WHOLE, "election_ms": WHOLE},
    "chubby": {"lease": SECONDS, "grace": SECONDS, "lock_delay": SECONDS},
    "hazelcast": {"session_ttl": WHOLE, "session_heartbeat": WHOLE},
}  # fmt: skip
"""Of the other families: what each option must be."""


def completed(kind: str, options: Mapping[str, Any], backend: str) -> dict[str, Any]:
    """The options of a kind's servers, with sizes in bytes; raises UsageError for what they would not start with."""
    family = KINDS[kind].family
    known = [*OPTIONS.get(family, _REDIS)]
    for name in options:
        if name not in known:
            raise unknown_name("server_options", name, known)
    return _redis(options, backend) if family == "redis" else _checked(options, OPTIONS[family])


def _checked(options: Mapping[str, Any], rules: Mapping[str, str]) -> dict[str, Any]:
    for name, value in options.items():
        if not _RULES[rules[name]](value):
            raise UsageError(f"server_options: {name} must be {rules[name]}, got {value!r}")
    return dict(options)


def _redis(options: Mapping[str, Any], backend: str) -> dict[str, Any]:
    found = dict(options)
    if "maxmemory" in found:
        size = memory_size(str(found["maxmemory"]))
        if size is None:
            raise UsageError(f"server_options: maxmemory must be a size such as '3mb', got {found['maxmemory']!r}")
        found["maxmemory"] = size
    _one_of("maxmemory_policy", found, POLICIES)
    if found.get("persistence") == "everysec" and backend == "sim":
        raise UsageError("server_options: persistence 'everysec' is for real servers (--cluster docker): "
                         "the simulated ones have no disk")  # fmt: skip
    _one_of("persistence", found, PERSISTENCE[backend])
    priority = found.get("replica_priority", 0)
    if type(priority) is not int or priority < 0:
        raise UsageError(f"server_options: replica_priority must be a whole number from 0, got {priority!r}")
    return found


def _one_of(name: str, options: Mapping[str, Any], choices: tuple[str, ...] | list[str]) -> None:
    if name in options and options[name] not in choices:
        raise UsageError(f"server_options: {name} must be one of {', '.join(choices)}, got {options[name]!r}")
