"""Options of servers, as plans give them: the same words, and the same mistakes, on every backend."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ..errors import UsageError, unknown_name
from ..sim.servers.redis_config import POLICIES, memory_size

PERSISTENCE: Final = {"sim": ("always", "no"), "docker": ("always", "everysec", "no")}
"""When a Redis syncs its log, by backend, the usual first; with ``no`` it keeps none."""
_OPTIONS: Final = ("persistence", "maxmemory", "maxmemory_policy", "replica_priority")


def completed(options: Mapping[str, Any], backend: str) -> dict[str, Any]:
    """The options with sizes in bytes; raises UsageError for what the servers would not start with."""
    for name in options:
        if name not in _OPTIONS:
            raise unknown_name("server_options", name, _OPTIONS)
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
