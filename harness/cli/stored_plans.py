"""Find the plan in the folder of a stored run."""

from __future__ import annotations

from pathlib import Path

from harness.documents.hunt import COUNTEREXAMPLE
from harness.errors import UsageError
from harness.run.store import PLAN


def plan_file(given: Path, of: str = "a run") -> Path:
    """Return the file with the plan of a folder, or ``given`` itself if it is no folder.

    The plan of the run goes first, since the folder's history is of that one. Raises UsageError, which says that the
    folder ``of`` something was expected, if it has no plan."""
    if not given.is_dir():
        return given
    for name in (PLAN, COUNTEREXAMPLE):
        if (given / name).is_file():
            return given / name
    raise UsageError(f"{given}: expected the folder of {of}, but it has no {PLAN} and no {COUNTEREXAMPLE}")
