"""What the containers of clients have: Python distributions, and the folder with the user's modules."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from packaging.utils import canonicalize_name

from harness.clusters.docker.images.requirements import requirements_of
from harness.environments.interpreters import container_requirements
from harness.environments.programs import required_releases
from harness.environments.resolution import resolved
from harness.errors import UsageError
from harness.lock_impls.catalogue import LOCKS
from harness.plan import Plan
from harness.worker.client_program import WORKLOADS

Contents = tuple[tuple[str, ...], Path | None]
"""Distributions, and a folder of modules. The distributions are names, with the releases that are installed here; or
they are pinned, and complete."""


def client_contents(plan: Plan) -> Contents:
    """Return the contents of a client's container. Raises UsageError if it cannot have what the plan requires,
    EnvironmentLacking if that cannot be found out."""
    stated = container_requirements(plan.lock, plan.requires, plan.python)
    found = [_contents_for(LOCKS.source(plan.lock), stated), requirements_of(WORKLOADS.source(plan.workload))]
    folders = {folder for _, folder in found if folder is not None}
    if len(folders) > 1:
        raise UsageError(f"lock and workload must come from one folder, got {' and '.join(sorted(map(str, folders)))}")
    names = tuple(sorted({name for names, _ in found for name in names}))
    return resolved(stated, names) if stated else names, next(iter(folders), None)


def _contents_for(lock: str, stated: tuple[str, ...]) -> Contents:
    top = lock.partition(":")[0].partition(".")[0]
    if stated and ":" in lock and importlib.util.find_spec(top) is None:  # one of the stated distributions has it
        return (), None
    return requirements_of(lock)


def client_versions(plan: Plan, packages: tuple[str, ...]) -> dict[str, str]:
    """Return the releases of those packages in client containers that are not the ones installed here, and of the
    libraries with which the lock's program was built in the place of its own."""
    pinned = dict(one.split("==") for one in client_contents(plan)[0] if "==" in one)
    releases = {canonicalize_name(name): version for name, version in pinned.items()}
    found = {name: releases[canonicalize_name(name)] for name in packages if canonicalize_name(name) in releases}
    return {**found, **required_releases(plan.lock, plan.requires)}
