"""Hooks: the user's own commands that do faults of servers which the harness does not run, as data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from harness.errors import UsageError

LONGEST_S: Final = 600.0
"""Upper limit of a time limit of a hook."""
COMMANDS: Final = ("command", "observe", "heal")
"""The fields of a hook that are shell commands."""
EXAMPLE: Final = (
    'a [hooks.{fault}] in a plan, or [tool.harness.hooks.{fault}] in pyproject.toml, with command = "...", '
    'observe = "..." and, where the fault does not end by itself, heal = "..."'
)
"""How to write a hook, in messages."""


class Hook(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """Shell commands that inject, observe and heal one fault of servers.

    ``command`` must exit with 0. ``observe`` shows the state that the fault changes: its output or its exit status
    after ``command`` must differ from those before. ``heal`` must exit with 0; without it there is nothing to heal. The
    other fields are their time limits in seconds; ``observe_within`` begins when ``command`` has ended.
    """

    command: str
    observe: str
    heal: str = ""
    command_within: float = 30.0
    observe_within: float = 10.0
    heal_within: float = 30.0

    def check(self, fault: str) -> None:
        """Raise UsageError for a command that is empty or a time limit out of range."""
        for name in ("command", "observe"):
            if not getattr(self, name).strip():
                raise UsageError(f"hooks.{fault}.{name} must be a shell command, got {getattr(self, name)!r}")
        for name in COMMANDS:
            if "\0" in getattr(self, name):
                raise UsageError(f"hooks.{fault}.{name} must be a shell command, and has a zero byte")
            limit = getattr(self, f"{name}_within")
            if not 0 < limit <= LONGEST_S:
                raise UsageError(
                    f"hooks.{fault}.{name}_within must be more than 0 and at most {LONGEST_S:g} seconds, got {limit:g}"
                )


def hook_commands(hooks: Mapping[str, Hook]) -> Iterator[str]:
    """Yield the shell commands of hooks."""
    for hook in hooks.values():
        yield from (command for name in COMMANDS if (command := getattr(hook, name)))


def hooks_of(hooks: Mapping[str, Hook], faults: Iterable[Any]) -> dict[str, Hook]:
    """Return the hooks of the faults in these specs."""
    names = dict.fromkeys(spec.fault for spec in faults)
    return {name: hooks[name] for name in names if name in hooks}
