"""What ``harness list`` and ``harness show`` print."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from rich.console import Console
from rich.markup import escape
from rich.table import Table

import checkers.catalogue
import scenarios.catalogue
from checkers.models import MODELS
from lock_impls import catalogue
from lock_impls.base import LockInfo, LockLookupError
from scenarios.catalogue import Scenario

from .client_program import WORKLOADS
from .clusters import kinds
from .discovery import classes
from .errors import UsageError, unknown_name
from .nemesis import FAULTS
from .terminal import WIDE, print_document

Row = dict[str, str]
"""What a list says of one thing: ``name``, ``about``, and for locks ``language`` and ``library``."""
SAFETY = {
    "E": "saves double work; two holders are possible and nothing notices",
    "F": "safe, if the protected resource checks its fencing token",
    "F?": "would be safe with fencing, but issues no usable token",
    "X": "broken without any fault",
}


def _first_line(thing: object) -> str:
    """The first sentence of what it says about itself, without marks."""
    paragraph = " ".join((thing.__doc__ or "").strip().partition("\n\n")[0].split())
    return re.split(r"\. (?=[A-Z])", paragraph.replace("``", ""))[0].removesuffix(".")


def _locks() -> list[Row]:
    return [_lock(info) for info in catalogue.infos()]


def _lock(info: LockInfo) -> Row:
    about = f"[{info.safety}] {info.title}"
    return {"name": info.name, "language": info.language, "library": info.library, "about": about}


def _named(rows: Iterable[tuple[str, str]]) -> list[Row]:
    return [{"name": name, "about": about} for name, about in rows]


def _faults() -> list[Row]:
    return _named((name, fault.summary) for name, fault in classes(FAULTS, "inject").items())


def _workloads() -> list[Row]:
    return _named((name, _first_line(workload)) for name, workload in classes(WORKLOADS, "run").items())


def _checkers() -> list[Row]:
    return _named((checker.name, _first_line(checker)) for checker in checkers.catalogue.all())


def _models() -> list[Row]:
    return _named((name, _first_line(model)) for name, model in MODELS.items())


def _kinds() -> list[Row]:
    return _named(
        (name, f"{kind.about}; {kind.nodes} unless told otherwise") for name, kind in sorted(kinds.KINDS.items())
    )


LISTS: dict[str, Callable[[], list[Row]]] = {
    "locks": _locks,
    "nemeses": _faults,
    "workloads": _workloads,
    "checkers": _checkers,
    "models": _models,
    "kinds": _kinds,
}


def listing(what: str, console: Console, *, json: bool = False) -> None:
    """Print a table of what there is, or a list of objects; UsageError for a list nobody keeps."""
    if what not in LISTS:
        raise unknown_name("list", what, LISTS)
    if json:
        print_document(LISTS[what]())
        return
    if not console.is_terminal:
        console.width = WIDE
    table = Table(box=None, show_header=False, pad_edge=False)
    for row in LISTS[what]():
        table.add_row(*(value.replace("[", r"\[") for value in row.values()))
    console.print(table)
    if what == "locks":
        console.print(*("", *(f"[{letter}] {meaning}" for letter, meaning in SAFETY.items())), sep="\n", markup=False)


def show_lock(name: str, console: Console) -> None:
    """Print a lock's catalogue entry: what it is, the five properties that the articles ask for, and how it fails."""
    try:
        info = catalogue.resolve(name).info
    except LockLookupError as error:
        raise UsageError(str(error)) from error
    table = Table(box=None, show_header=False, pad_edge=False)
    for label, text in (*_entry(info), *_properties(info)):
        table.add_row(label, escape(text))
    console.print(table)
    if info.failures:
        console.print("\nknown failures, and the command that shows each (exit status 1):")
    for failure in info.failures:
        # Not in the table: a command broken over two lines cannot be copied.
        console.print(f"  {failure.id}: {failure.what}\n    {failure.command}", markup=False, soft_wrap=True)
    told = _stories(name, info)
    if told:
        console.print("\nscenarios in which it fails (harness scenario run NAME):")
    for scenario in told:
        console.print(f"  {scenario.name}: {scenario.plan.title}", markup=False, soft_wrap=True)


def _stories(name: str, info: LockInfo) -> list[Scenario]:
    """Documented failures of the lock; of a library's lock also those that come of how it is called."""
    failing = (one for one in scenarios.catalogue.all() if one.plan.expect and one.plan.expect.safe is False)
    return [one for one in failing if one.plan.lock == name or (info.library and _is_of(one.plan.lock, info))]


def _is_of(lock: str, info: LockInfo) -> bool:
    return ":" in lock and catalogue.resolve(lock).info.name == info.name


def _entry(info: LockInfo) -> list[tuple[str, str]]:
    return [
        ("name", info.name),
        ("title", info.title),
        ("algorithm", info.algorithm),
        ("source", info.source),
        *([("language", info.language), ("tested with", info.library)] if info.library else []),
        *([("its documentation", info.promises)] if info.promises else []),
        ("clusters", ", ".join(info.kinds) + ("" if info.simulated else " (in containers only)")),
        ("options", ", ".join(f"{key}={value!r}" for key, value in info.options.items()) or "none"),
    ]


def _properties(info: LockInfo) -> list[tuple[str, str]]:
    """As the lock claims them; a run measures them."""
    return [
        ("mutual exclusion", f"{info.safety}: {SAFETY[info.safety]}"),
        ("if its holder dies", f"freed by {info.on_death}" if info.on_death else "not said"),
        ("reentrant", "yes" if info.reentrant else "no"),
        ("serves in the order asked", "yes" if info.queue else "no"),
        ("if one server is lost", info.outage or "not said"),
        ("fencing token", "yes" if info.fence else "no"),
    ]
