"""``harness list``: list locks, nemeses, workloads, checkers, models or kinds of clusters, one line each."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from harness.checkers.catalogue import CHECKERS
from harness.checkers.model_catalogue import MODELS
from harness.clusters import kinds
from harness.errors import UsageError, unknown_name
from harness.faults.base import Fault
from harness.faults.catalogue import FAULTS
from harness.lock_impls import catalogue
from harness.lock_impls.base import LockClass, LockInfo
from harness.plugins import Plugin, Registry
from harness.wording import SAFETY, counted
from harness.worker.client_program import WORKLOADS

from .completion import complete_words
from .options import ListJsonOption, QuietOption, printed, single_command
from .terminal import WIDE, print_document

Row = dict[str, str]
"""One row of a list: ``name``, ``about``, and for locks ``language``, ``library`` and (in JSON only) ``requires``."""


def _first_line(thing: object) -> str:
    """Return the first sentence of the object's docstring, without markup."""
    paragraph = " ".join((thing.__doc__ or "").strip().partition("\n\n")[0].split())
    return re.split(r"\. (?=[A-Z])", paragraph.replace("``", ""))[0].removesuffix(".")


def _locks() -> list[Row]:
    rows = [_lock(info) for info in catalogue.infos()]
    empty = {"language": "", "library": "", "requires": ""}
    return rows + [{"name": row["name"], **empty, "about": row["about"]} for row in _installed(catalogue.LOCKS, _title)]


def _lock(info: LockInfo) -> Row:
    about = f"[{info.safety}] {info.title}"
    requires = ", ".join(info.requires)
    return {
        "name": info.name, "language": info.language, "library": info.library, "requires": requires, "about": about,
    }  # fmt: skip


def _title(lock: LockClass) -> str:
    return f"[{lock.info.safety}] {lock.info.title}"


def _summary(fault: type[Fault]) -> str:
    return fault.summary


def _plugins(registry: Registry[Plugin], about: Callable[[Plugin], str] = _first_line) -> list[Row]:
    """Return rows for our plug-ins, followed by those of entry points."""
    rows = [{"name": name, "about": about(plugin)} for name, plugin in registry.own.items()]
    return rows + _installed(registry, about)


def _installed(registry: Registry[Plugin], about: Callable[[Plugin], str]) -> list[Row]:
    return [{"name": name, "about": _describe_plugin(registry, name, about)} for name in registry.installed()]


def _describe_plugin(registry: Registry[Plugin], name: str, about: Callable[[Plugin], str]) -> str:
    """Return a plug-in's description, or the error if it cannot be loaded. It must not hide the others."""
    try:
        return about(registry.find(name))
    except UsageError as error:
        return f"cannot be used: {error}"


def _kinds() -> list[Row]:
    return _plugins(kinds.KINDS, lambda kind: f"{kind.about}; default: {counted(kind.nodes, 'server')}")


LISTS: dict[str, Callable[[], list[Row]]] = {
    "locks": _locks,
    "nemeses": lambda: _plugins(FAULTS, _summary),
    "workloads": lambda: _plugins(WORKLOADS),
    "checkers": lambda: _plugins(CHECKERS),
    "models": lambda: _plugins(MODELS),
    "kinds": _kinds,
}


def listing(what: str, console: Console, *, json: bool = False, quiet: bool = False) -> None:
    """Print a table; with ``json`` a list of objects, with ``quiet`` names. Raises UsageError for an unknown list."""
    if what not in LISTS:
        raise unknown_name("list", what, LISTS)
    if json:
        print_document(LISTS[what]())
        return
    if quiet:
        print("\n".join(row["name"] for row in LISTS[what]()))
        return
    if not console.is_terminal:
        console.width = WIDE
    table = Table(box=None, show_header=False, pad_edge=False)
    for row in LISTS[what]():
        table.add_row(*(value.replace("[", r"\[") for name, value in row.items() if name != "requires"))
    console.print(table)
    if what == "locks":
        console.print(*("", *(f"[{letter}] {meaning}" for letter, meaning in SAFETY.items())), sep="\n", markup=False)


def list_command(
    what: Annotated[
        str,
        typer.Argument(
            help="locks, nemeses, workloads, checkers, models or kinds.", autocompletion=complete_words(*LISTS)
        ),
    ] = "locks",
    json: ListJsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """List all locks, nemeses, workloads, checkers, models or kinds, one line each."""
    printed(lambda: listing(what, Console(highlight=False), json=json, quiet=quiet))


app = single_command(list_command)
