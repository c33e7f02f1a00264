"""``harness show LOCK``: show what a lock promises and how it is known to fail."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from harness.errors import MissingLibrary
from harness.lock_impls import catalogue
from harness.lock_impls.base import LockInfo
from harness.lock_impls.method_coverage import method_coverage
from harness.scenarios import catalogue as scenario_catalogue
from harness.scenarios.catalogue import Scenario
from harness.wording import SAFETY

from .completion import complete_locks
from .options import QuietOption, printed, single_command


def show_command(
    lock: Annotated[str, typer.Argument(help="A name from 'harness list locks'.", autocompletion=complete_locks)],
    quiet: QuietOption = False,
) -> None:
    """Show what a lock promises, where it comes from, and how it is known to fail."""
    if quiet:
        info = catalogue.description(lock)
        printed(lambda: print(f"{info.safety}: {SAFETY[info.safety]}"))
        return
    show_lock(lock, Console(highlight=False))


def show_lock(name: str, console: Console) -> None:
    """Print a lock's catalogue entry: what it is, the five properties that the articles ask for, and how it fails."""
    info = catalogue.description(name)
    table = Table(box=None, show_header=False, pad_edge=False)
    for label, text in (*_entry(info), *_methods(name), *_properties(info)):
        table.add_row(label, escape(text))
    console.print(table)
    if info.failures:
        console.print("\nknown failures, and the command that shows each (exit status 1):")
    for failure in info.failures:
        # Outside the table, because a command that is broken over two lines cannot be copied.
        console.print(f"  {failure.id}: {failure.what}\n    {failure.command}", markup=False, soft_wrap=True)
    scenarios = _stories(name, info)
    if scenarios:
        console.print("\nscenarios in which it fails (harness scenario run NAME):")
    for scenario in scenarios:
        console.print(f"  {scenario.name}: {scenario.plan.title}", markup=False, soft_wrap=True)


def _stories(name: str, info: LockInfo) -> list[Scenario]:
    """Return documented failures of the lock; for a library's lock also those caused by how it is called."""
    failing = (one for one in scenario_catalogue.all() if one.plan.expect and one.plan.expect.safe is False)
    return [one for one in failing if one.plan.lock == name or (info.library and _is_of(one.plan.lock, info))]


def _is_of(lock: str, info: LockInfo) -> bool:
    """Tell whether a scenario's lock is another use of this one; no, if the library that it imports is missing."""
    try:
        return ":" in lock and catalogue.description(lock).name == info.name
    except MissingLibrary:
        return False


def _entry(info: LockInfo) -> list[tuple[str, str]]:
    return [
        ("name", info.name),
        ("title", info.title),
        ("algorithm", info.algorithm),
        ("source", info.source),
        *([("language", info.language), ("tested with", info.library)] if info.library else []),
        *([("its documentation", info.promises)] if info.promises else []),
        *([("requires", ", ".join(info.requires))] if info.requires else []),
        ("clusters", ", ".join(info.kinds) + _where(info)),
        *([("methods", "coroutines (asyncio)")] if info.asynchronous else []),
        ("options", ", ".join(f"{key}={value!r}" for key, value in info.options.items()) or "none"),
    ]


def _where(info: LockInfo) -> str:
    if info.simulated:
        return ""
    return " (in containers only" + (f": {info.containers_only})" if info.containers_only else ")")


def _methods(name: str) -> list[tuple[str, str]]:
    """Return which methods of the lock, and of the library's lock behind it, the harness calls and which it does not.

    They are not known without the library."""
    try:
        found = method_coverage(catalogue.resolve(name))
    except MissingLibrary:
        return []
    rows: list[tuple[str, str]] = []
    for one in found:
        rows.append(("methods called", f"{one.cls}: {', '.join(one.called) or 'none'}"))
        if one.not_called:
            rows.append(("methods not called", f"{one.cls}: {', '.join(one.not_called)}"))
    return rows


def _properties(info: LockInfo) -> list[tuple[str, str]]:
    """Return the properties that the lock claims; a run measures them."""
    return [
        ("mutual exclusion", f"{info.safety}: {SAFETY[info.safety]}"),
        ("if its holder dies", f"freed by {info.on_death}" if info.on_death else "not stated"),
        ("reentrant", "yes" if info.reentrant else "no"),
        ("first come, first served", "yes" if info.queue else "no"),
        ("if one server is lost", info.outage or "not stated"),
        ("fencing token", "yes" if info.fence else "no"),
    ]


app = single_command(show_command)
