"""Rules for the ``server_options`` of a plan: what a kind's servers can be configured with, and which values they take.

The names and the error messages are the same on every backend.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from harness.errors import UsageError, unknown_name

ServerOption = Callable[[str, Any, str], Any]
"""Called with (name, value, backend); returns the value for the servers. UsageError if they would not start with it."""


def option(expected: str, accept: Callable[[Any], bool]) -> ServerOption:
    """Return the rule of an option whose value ``accept`` accepts; ``expected`` says which it does."""

    def checked(name: str, value: Any, backend: str) -> Any:
        del backend
        if not accept(value):
            raise wrong_value(name, expected, value)
        return value

    return checked


def one_of(*choices: str) -> ServerOption:
    """Return the rule of an option with these values."""
    return option(f"one of {', '.join(choices)}", lambda value: value in choices)


def wrong_value(name: str, expected: str, value: Any) -> UsageError:
    return UsageError(f"server_options: {name} must be {expected}, got {value!r}")


SWITCH: Final = option("true or false", lambda value: isinstance(value, bool))
SECONDS: Final = option(
    "seconds, more than 0",
    lambda value: isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= 1e8,
)
WHOLE: Final = option("a whole number from 1", lambda value: type(value) is int and 0 < value <= 1_000_000_000)


def completed(options: Mapping[str, ServerOption], given: Mapping[str, Any], backend: str) -> dict[str, Any]:
    """Return the ``given`` options of a kind with these rules, with sizes converted to bytes.

    Raises UsageError for an unknown option or a value that the servers would not start with.
    """
    for name in given:
        if name not in options:
            raise unknown_name("server_options", name, [*options])
    return {name: options[name](name, value, backend) for name, value in given.items()}
