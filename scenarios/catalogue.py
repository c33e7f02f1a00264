"""Finds scenarios: every ``.toml`` of this folder, or a file of the user's own. Nothing lists them.

A file is named after its row in the project's table of anomalies: ``ROW.toml`` is the failure, ``ROW.safe.toml`` its
cure (the corrected lock, or a resource that checks fences) under the same fault. What stands between two dots is
another service, or another shape of the same story: ``ttl-pause-write.etcd.safe.toml``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.errors import UsageError, unknown_name
from harness.plan import Plan, load

FOLDER: Final = Path(__file__).parent
SUFFIX: Final = ".toml"


@dataclass(frozen=True, slots=True)
class Scenario:
    name: str
    path: Path
    plan: Plan

    @property
    def row(self) -> str:
        """The id in the table of anomalies."""
        return self.name.partition(".")[0]


def names() -> list[str]:
    return sorted(path.name.removesuffix(SUFFIX) for path in FOLDER.glob(f"*{SUFFIX}"))


def all() -> Iterator[Scenario]:  # noqa: A001 - read as scenarios.catalogue.all()
    """In the order of their names."""
    return (find(name) for name in names())


def find(given: str) -> Scenario:
    """The scenario of that name, or in that file; UsageError names the file, the key and what was expected."""
    known = FOLDER / f"{given}{SUFFIX}"
    if "/" not in given and known.exists():
        return _checked(Scenario(given, known, load(known)))
    path = Path(given)
    if path.suffix == SUFFIX or path.exists():
        plan = load(path)
        return Scenario(path.name.removesuffix(SUFFIX), path, plan)
    raise unknown_name("scenario", given, names())


def _checked(scenario: Scenario) -> Scenario:
    """One of ours says everything that a reader of the list wants to know."""
    plan = scenario.plan
    missing = [key for key in ("title", "source", "expect") if not getattr(plan, key)]
    if missing:
        raise UsageError(f"{scenario.path}: a scenario needs {', '.join(missing)}")
    return scenario
