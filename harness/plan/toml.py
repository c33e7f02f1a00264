"""Read and write plans as TOML, as in ``plan.toml`` in a run's folder.

Durations in TOML are numbers of seconds, or texts with a unit: ``"2s"``, ``"150ms"``.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any, Final

import msgspec

from harness.errors import UsageError, unknown_name
from harness.files import read_regular

from .hooks import Hook
from .mechanism import Mechanism
from .model import Delay, Expect, FaultSpec, Plan, check_choices

_UNITS: Final = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
LARGEST_FILE: Final = 4 * 1024 * 1024
"""Bytes of the largest file that is read as a plan."""
_DURATION: Final = re.compile(r"^\s*([-+]?\d+(?:\.\d+)?)\s*(ns|us|ms|s|m|h)?\s*$")


def seconds(text: str | float) -> float:
    """Convert a duration (``"2s"``, ``"150ms"``, ``"-1.5"``, ``2``) to seconds. Raises ValueError."""
    if isinstance(text, int | float):
        return float(text)
    match = _DURATION.match(text) if isinstance(text, str) else None  # TOML also has dates
    if match is None:
        raise ValueError(f"expected a duration such as 2, '2s' or '150ms', got {str(text)!r}")
    return float(match[1]) * _UNITS[match[2] or "s"]


_DURATIONS: Final = frozenset(
    {
        "ttl",
        "hold",
        "rest",
        "wait",
        "time_limit",
        "settle",
        "slack",
        "stagger",
        "at",
        "every",
        "delay",
        "for",
        "seconds",
        "jitter",
        "within",
        "by",
        "command_within",
        "observe_within",
        "heal_within",
    }
)
"""Keys whose values are durations."""


def _with_seconds(value: Any, where: str, key: str = "") -> Any:
    """Return the same data with every duration as a float; ``where`` is the path of ``value`` for error messages."""
    if isinstance(value, dict):
        of_holds = key == "holds"  # its keys are clients' names
        return {
            name: _with_seconds(item, f"{where}.{name}" if where else name, "hold" if of_holds else name)
            for name, item in value.items()
        }
    if isinstance(value, list):
        return [_with_seconds(item, f"{where}[{index}]") for index, item in enumerate(value)]
    if key in _DURATIONS and not isinstance(value, bool):
        try:
            return seconds(value)
        except (ValueError, TypeError) as error:
            raise UsageError(f"{where}: {error}") from error
    return value


def _refuse_unknown_keys(data: dict[str, Any]) -> None:
    """Raise UsageError that suggests the nearest key; msgspec's own message names the unknown key only."""
    expect = data.get("expect")
    mechanism = expect.get("mechanism") if isinstance(expect, dict) else None
    tables: list[tuple[str, Any, type[msgspec.Struct]]] = [
        ("", data, Plan),
        ("expect.", expect, Expect),
        ("expect.mechanism.", mechanism, Mechanism),
    ]
    lists: tuple[tuple[str, type[msgspec.Struct]], ...] = (("faults", FaultSpec), ("delays", Delay))
    for name, struct in lists:
        items = data.get(name)
        for number, item in enumerate(items if isinstance(items, list | tuple) else ()):
            tables.append((f"{name}[{number}].", item, struct))
    for where, table, kind in tables:
        known = kind.__struct_encode_fields__
        for key in table if isinstance(table, dict) else ():
            if key not in known:
                raise unknown_name("key", f"{where}{key}", [f"{where}{name}" for name in known])


def decode(data: dict[str, Any]) -> Plan:
    """Make a plan from parsed TOML or JSON. UsageError names the key at fault and what was expected."""
    _refuse_unknown_keys(data)
    check_choices(data)
    decode_hooks(data.get("hooks", {}), "hooks")
    if "lock" not in data:
        raise UsageError('a plan needs a lock, as in: lock = "redis-token"')
    try:
        return msgspec.convert(_with_seconds(data, ""), Plan).check()
    except msgspec.ValidationError as error:
        raise UsageError(validation_message(error)) from error


def decode_hooks(data: Any, place: str) -> dict[str, Hook]:
    """Make hooks from the parsed table called ``place``. Raises UsageError."""
    if not isinstance(data, dict):
        raise UsageError(f"{place}: expected a table of hooks, got {data!r}")
    return {fault: _hook(table, f"{place}.{fault}", fault) for fault, table in data.items()}


def _hook(table: Any, place: str, fault: str) -> Hook:
    known = Hook.__struct_encode_fields__
    for key in table if isinstance(table, dict) else ():
        if key not in known:
            raise unknown_name(f"key in {place}", key, known)
    try:
        hook = msgspec.convert(_with_seconds(table, place), Hook)
    except msgspec.ValidationError as error:
        raise UsageError(f"{place}: {validation_message(error)}") from error
    hook.check(fault)
    return hook


def validation_message(error: msgspec.ValidationError) -> str:
    """Return msgspec's message with the key first and without backquotes."""
    problem, _, where = str(error).replace("`", "").partition(" - at $")
    where = where.lstrip(".")
    return f"{where}: {problem[0].lower()}{problem[1:]}" if where else problem


def load(path: Path) -> Plan:
    """Read a plan from a TOML file; UsageError names the file."""
    try:
        data = tomllib.loads(read_regular(path, LARGEST_FILE).decode("utf-8-sig"))
    except OSError as error:
        raise UsageError(f"cannot read the plan {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not a text file (byte {error.start} is not UTF-8): expected TOML") from error
    except ValueError as error:  # also for an integer with more digits than Python converts
        raise UsageError(f"{path} is not valid TOML: {error}") from error
    except RecursionError as error:
        raise UsageError(f"{path} is not a plan: its values are nested too deeply") from error
    try:
        return decode(data)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error
    except RecursionError as error:
        raise UsageError(f"{path} is not a plan: its values are nested too deeply") from error


def dump(plan: Plan) -> str:
    """Return the plan as TOML, without fields that have their defaults."""
    import tomli_w  # imported here: clients in containers import this module and do not have tomli_w

    return tomli_w.dumps(_plain(plan))


def _plain(value: Any) -> Any:
    """Return a plan as plain data without the fields that have their defaults' values.

    ``omit_defaults`` leaves out a field only if its value is the default object itself. A plan that was pickled for a
    worker has equal copies instead, so the same plan would be written differently.
    """
    if isinstance(value, msgspec.Struct):
        fields = ((field, getattr(value, field.name)) for field in msgspec.structs.fields(value))
        return {field.encode_name: _plain(given) for field, given in fields if given != _default(field)}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return msgspec.to_builtins(value)


def _default(field: msgspec.structs.FieldInfo) -> Any:
    return field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
