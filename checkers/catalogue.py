"""Find checkers by name: ours (the classes of this package with a ``name`` and a ``check``) and the user's."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from harness.errors import UsageError
from harness.history import History
from harness.plugins import Folder, Registry, missing_methods

from .base import Checker, Verdict


class UnknownChecker(UsageError):
    """Raised for an unknown checker name; the message has the nearest name and all others."""


@dataclass(slots=True)
class UserChecker:
    """A user's checker, under the name that the user gave."""

    name: str
    checker: Any

    def check(self, history: History) -> Verdict:
        verdict: Verdict = self.checker.check(history)
        return verdict


def _unknown(name: str, known: Iterable[str]) -> UnknownChecker:
    near = difflib.get_close_matches(name, known := sorted(known), 1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return UnknownChecker(f"no checker is called {name!r}; {hint}there are: {', '.join(known)}")


def _users(name: str, kind: type) -> type[Checker]:
    lacks = missing_methods(kind, "check")
    if lacks:
        raise UsageError(f"{name} is no checker: it has {lacks}")
    return kind


CHECKERS: Final[Registry[type[Checker]]] = Registry(
    "checker", "checkers", Folder("harness.checkers", "check"), _users, unknown=_unknown
)


def all() -> list[Checker]:  # noqa: A001 - read as harness.checkers.catalogue.all()
    """Return an instance of each checker of ours, sorted by name."""
    return [kind() for kind in CHECKERS.own.values()]


def find(name: str) -> Checker:
    """Return the checker called ``name``, or ``package.module:Class``.

    A user's checker keeps the name that was given, so it never hides one of ours. Raises :class:`UnknownChecker`, or
    another UsageError.
    """
    kind = CHECKERS.find(name)
    if name in CHECKERS.own:
        return kind()
    try:
        return UserChecker(name, kind())
    except Exception as error:
        raise UsageError(f"the checker {name} cannot be made: {type(error).__name__}: {error}") from error


def chosen(names: Iterable[str]) -> list[Checker]:
    """Return one instance of each of our checkers, and the checkers called ``names``."""
    return [*all(), *(find(name) for name in dict.fromkeys(names) if name not in CHECKERS.own)]
