"""The Python that loads a lock: this one, or that of an environment with what the plan or the lock requires.

Simulated runs happen in it. For a run on containers it only says what the lock is.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final

from harness.clusters.docker.images.requirements import source_file
from harness.errors import EnvironmentLacking, MissingExtra
from harness.lock_impls.catalogue import LOCKS, installation, own_description
from harness.plan import SSH, Plan
from harness.plugins import search_working_directory

_BLOCK: Final = b"# /// script"
"""Beginning of the inline metadata of a file (PEP 723)."""
_known: dict[tuple[object, ...], str] = {}


def interpreter_of(plan: Plan, progress: Callable[[str], None] | None = None, *, search: bool = False) -> str:
    """Return the path of the Python for a plan, "" for this one.

    ``progress`` is called with a line before an environment is built, which takes seconds. A ``search`` needs more of
    ours in it than a run. Raises UsageError for requirements that cannot be satisfied, EnvironmentLacking if an
    environment cannot be built for another reason.
    """
    key = plan.lock, plan.requires, plan.python, search_working_directory(), search, plan.cluster
    if key not in _known or not Path(_known[key]).exists():  # an environment may be removed at any time
        needed = plan.requires or plan.python or _lock_requires(plan.lock)
        _known[key] = _found(plan, progress, search=search) if needed else ""
    return _known[key]


def _found(plan: Plan, progress: Callable[[str], None] | None, *, search: bool) -> str:
    from harness.environments.interpreters import container_requirements, interpreter_for  # late: most need neither

    if plan.cluster in ("docker", SSH):
        container_requirements(plan.lock, plan.requires, plan.python)  # refuses what containers cannot have
    try:
        found = str(interpreter_for(plan.lock, plan.requires, plan.python, progress, search=search).path)
    except EnvironmentLacking as error:
        own = own_description(plan.lock)
        if own is None or plan.requires or plan.python:
            raise
        raise MissingExtra(f"{plan.lock}: {error}; or install what it needs: {installation(own.info)}") from error
    return "" if found == sys.executable else found


def _lock_requires(lock: str) -> bool:
    """Return whether a lock requires what may not be installed: ours by its description, a user's in its file."""
    own = own_description(lock)
    if own is not None:
        return not own.info.runtime and not _installed(own.info.requires)
    spec = LOCKS.source(lock)
    if ":" not in spec:
        return False
    path = source_file(spec)
    return path is not None and _BLOCK in path.read_bytes()


@cache
def _installed(requirements: tuple[str, ...]) -> bool:
    from harness.environments.requirements import parse, unsatisfied

    return not unsatisfied(parse(requirements, "requires"))
