"""Read the mutants' tables: one for each wrong lock, in the ``.toml`` file beside the module with its class.

A table has the keys of a plan, over those of the file's ``defaults``. ``broken`` names the checkers that must find the
mistake, ``untested`` those that must find that the run does not test their property. The class's docstring says what is
wrong; it is the title of the scenario.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from harness.errors import UsageError
from harness.plan import Plan
from harness.plan.toml import decode

FOLDER: Final = Path(__file__).parent
DEFAULTS: Final = "defaults"
PACKAGE: Final = "harness.scenarios.mutants"


def plans() -> Iterator[tuple[str, Path, Plan]]:
    """Yield name, file and plan of each mutant, in the order of the files."""
    for path in sorted(FOLDER.glob("*.toml")):
        yield from ((name, path, plan) for name, plan in _in_file(path))


def _in_file(path: Path) -> Iterator[tuple[str, Plan]]:
    tables = tomllib.loads(path.read_text("utf-8"))
    shared = tables.pop(DEFAULTS, {})
    mistakes = _docstrings(path.with_suffix(".py"))
    for cls, table in tables.items():
        words = re.sub("(?<=[a-z0-9])(?=[A-Z])", "-", cls).lower()
        try:
            plan = decode({**shared, **_plan(f"{PACKAGE}.{path.stem}:{cls}", mistakes[cls], table)})
        except UsageError as error:
            raise UsageError(f"{path}: {cls}: {error}") from error
        yield f"{path.stem.partition('_')[0]}-{words}", plan


def _plan(lock: str, mistake: str, table: dict[str, Any]) -> dict[str, Any]:
    rest = {key: value for key, value in table.items() if key not in ("broken", "untested")}
    expect = {"safe": False, "invalid": table.get("broken", []), "untested": table.get("untested", [])}
    return {**rest, "lock": lock, "title": _first_sentence(mistake), "source": PACKAGE, "expect": expect}


def _first_sentence(docstring: str) -> str:
    return " ".join(docstring.partition("\n\n")[0].split()).removesuffix(".")


def _docstrings(module: Path) -> dict[str, str]:
    """Return the docstrings of a module's classes, without importing it, which needs the client library."""
    tree = ast.parse(module.read_text("utf-8"))
    return {node.name: ast.get_docstring(node) or "" for node in tree.body if isinstance(node, ast.ClassDef)}
