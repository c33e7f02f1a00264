"""Redis' configuration parameters, as CONFIG GET and CONFIG SET show and change them.

Source: https://redis.io/docs/latest/operate/oss_and_stack/management/config/. It has only the parameters that the
simulator or a client reads. Replication parameters have the values of the project's real clusters (repl-timeout 5,
repl-ping-replica-period 1, no diskless delay), not Redis' defaults of 60, 10 and 5.
"""

from __future__ import annotations

from .protocol import ErrorReply
from .values import glob, to_integer

POLICIES = ["volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl"]
POLICIES += ["allkeys-lru", "allkeys-lfu", "allkeys-random", "noeviction"]

_DEFAULTS = {
    "maxmemory": "0",
    "maxmemory-policy": "noeviction",
    "maxmemory-samples": "5",
    "min-replicas-to-write": "0",
    "min-replicas-max-lag": "10",
    "repl-timeout": "5",
    "repl-ping-replica-period": "1",
    "replica-priority": "100",
    "replica-read-only": "yes",
    "replica-serve-stale-data": "yes",
    "appendonly": "yes",
    "appendfsync": "always",
    "save": "",
    "databases": "16",
    "timeout": "0",
    "hz": "10",
    "port": "6379",
    "bind": "* -::*",
    "maxclients": "10000",
    "notify-keyspace-events": "",
    "proto-max-bulk-len": "536870912",
    "lua-time-limit": "5000",
}
_CHOICES = {
    "maxmemory-policy": POLICIES,
    "replica-read-only": ["yes", "no"],
    "replica-serve-stale-data": ["yes", "no"],
    "appendonly": ["yes", "no"],
    "appendfsync": ["everysec", "always", "no"],
}
_ALIASES = {
    "min-slaves-to-write": "min-replicas-to-write",
    "min-slaves-max-lag": "min-replicas-max-lag",
    "slave-priority": "replica-priority",
    "slave-read-only": "replica-read-only",
    "slave-serve-stale-data": "replica-serve-stale-data",
    "repl-ping-slave-period": "repl-ping-replica-period",
}
_IMMUTABLE = {"databases"}
_TEXTS = {"save", "bind", "notify-keyspace-events"}
_UNITS = {"": 1, "b": 1, "k": 1000, "kb": 1024, "m": 10**6, "mb": 1 << 20, "g": 10**9, "gb": 1 << 30}


def memory_size(text: str) -> int | None:
    """Parse a size such as ``100mb`` to bytes. Return None if it is malformed."""
    digits = text.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    unit = _UNITS.get(text[len(digits) :].lower())
    return int(digits) * unit if unit and digits.isdigit() else None


class NotSimulated(Exception):
    """The simulator lacks a parameter, or a value of one. The argument is the error reply."""


class Config:
    """Values of all parameters as text."""

    def __init__(self, **given: object) -> None:
        self._values = dict(_DEFAULTS)
        for name, value in given.items():
            self._values[name.replace("_", "-")] = str(value)
        self._numbers: dict[str, int] = {}

    def __getitem__(self, name: str) -> str:
        return self._values[name]

    def number(self, name: str) -> int:
        if name not in self._numbers:
            self._numbers[name] = int(self._values[name])
        return self._numbers[name]

    def copy(self) -> Config:
        return Config(**self._values)

    def matching(self, patterns: list[bytes]) -> dict[str, str]:
        """Return the parameters that match one of the patterns, as CONFIG GET does. Old names match too."""
        known = {**self._values, **{old: self._values[new] for old, new in _ALIASES.items()}}
        shown = {}
        for pattern in patterns:
            for name, value in known.items():
                if glob(pattern.lower()).fullmatch(name.encode()):
                    shown[name] = value
        return shown

    def assign(self, pairs: list[tuple[bytes, bytes]]) -> None:
        """Set all parameters or none, as CONFIG SET does. Raises ErrorReply and NotSimulated."""
        checked: dict[str, str] = {}
        for raw_name, raw_value in pairs:
            given_name = raw_name.decode(errors="replace").lower()
            name = _ALIASES.get(given_name, given_name)
            if name not in self._values:
                raise NotSimulated(
                    ErrorReply(b"ERR Unknown option or number of arguments for CONFIG SET - '%b'" % raw_name)
                )
            if name in checked:
                raise _refusal(given_name, "duplicate parameter")
            checked[name] = _check_value(given_name, name, raw_value)
        self._values.update(checked)
        self._numbers.clear()


def _refusal(name: str, why: str) -> ErrorReply:
    return ErrorReply(f"ERR CONFIG SET failed (possibly related to argument '{name}') - {why}".encode())


def _check_value(given_name: str, name: str, raw: bytes) -> str:
    text = raw.decode(errors="replace")
    if name in _IMMUTABLE:
        raise _refusal(given_name, "can't set immutable config")
    if name == "maxmemory":
        size = memory_size(text)
        if size is None:
            raise _refusal(given_name, "argument must be a memory value")
        return str(size)
    if (name, text.lower()) == ("replica-serve-stale-data", "no") or (name == "notify-keyspace-events" and text):
        raise NotSimulated(_refusal(given_name, "not available in the simulator"))
    if name in _CHOICES:
        return _choice(given_name, _CHOICES[name], text.lower())
    if name in _TEXTS:
        return text
    try:
        return str(to_integer(raw))
    except ErrorReply:
        raise _refusal(given_name, "argument couldn't be parsed into an integer") from None


def _choice(given_name: str, choices: list[str], text: str) -> str:
    if text in choices:
        return text
    if choices == ["yes", "no"]:
        raise _refusal(given_name, "argument must be 'yes' or 'no'")
    raise _refusal(given_name, "argument(s) must be one of the following: " + ", ".join(choices))
