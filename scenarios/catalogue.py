"""Catalogue of scenarios: every ``.toml`` file of this folder. A user's own file can be loaded by its path.

A file is named after its row in the project's table of anomalies. ``ROW.toml`` is the failure; ``ROW.safe.toml`` is its
cure under the same fault: the corrected lock, or a resource that checks fencing tokens. A word between two dots names
another lock service or another variant of the failure: ``ttl-pause-write.etcd.safe.toml``.

The folder ``mutants`` has locks that are wrong in one way each, for a suite of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from harness.errors import UsageError, unknown_name
from harness.plan import Plan, load

from .mutants import tables

FOLDER: Final = Path(__file__).parent
SUFFIX: Final = ".toml"
MUTANTS: Final = "mutants/"
"""The names of mutants begin with this."""


@dataclass(frozen=True, slots=True)
class Scenario:
    name: str
    path: Path
    plan: Plan

    @property
    def row(self) -> str:
        """Id of the failure in the table of anomalies."""
        return self.name.partition(".")[0]

    @property
    def catalogued(self) -> bool:
        """True if the file is in this folder, so that the code that it names is trusted."""
        return FOLDER.resolve() in self.path.resolve().parents


def names() -> list[str]:
    """Return the names of all scenarios, sorted."""
    return sorted(path.name.removesuffix(SUFFIX) for path in FOLDER.glob(f"*{SUFFIX}"))


def all() -> Iterator[Scenario]:  # noqa: A001 - read as harness.scenarios.catalogue.all()
    """Load all scenarios, ordered by name."""
    return (find(name) for name in names())


def mutants() -> Iterator[Scenario]:
    """Load all mutants, grouped by service."""
    return (Scenario(f"{MUTANTS}{name}", path, plan) for name, path, plan in tables.plans())


def find(name_or_path: str) -> Scenario:
    """Load a scenario or a mutant of this folder by its name, or a plan from a path.

    Raises UsageError for an unknown name or an invalid file, and names the file, the key and the expected value.
    """
    catalogued = FOLDER / f"{name_or_path}{SUFFIX}"
    if "/" not in name_or_path and catalogued.exists():
        return _catalogued(name_or_path, catalogued)
    if name_or_path.startswith(MUTANTS):
        by_name = {mutant.name: mutant for mutant in mutants()}
        if name_or_path in by_name:
            return by_name[name_or_path]
        raise unknown_name("mutant", name_or_path, by_name)
    path = Path(name_or_path)
    if path.suffix == SUFFIX or path.exists():
        plan = load(path)
        return Scenario(path.name.removesuffix(SUFFIX), path, plan)
    raise unknown_name("scenario", name_or_path, names())


@cache
def _catalogued(name: str, path: Path) -> Scenario:
    """Load a scenario of this folder. Raises UsageError for one without title, source or expectation, which a user's
    own file may leave out.

    Each is read once: ablations and tests look up a scenario and its cure several times. Reading all takes 0.1 s."""
    scenario = Scenario(name, path, load(path))
    plan = scenario.plan
    missing = [key for key in ("title", "source", "expect") if not getattr(plan, key)]
    if missing:
        raise UsageError(f"{scenario.path}: a scenario needs {', '.join(missing)}")
    return scenario
