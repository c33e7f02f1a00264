"""Choose the interpreter for a lock: the present one if it has all that is required, else that of an environment."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from harness.clusters.docker.images.requirements import imported_distributions, source_file
from harness.clusters.docker.images.wheelhouse import IMAGE_PYTHON, pinned
from harness.errors import UsageError
from harness.lock_impls.catalogue import LOCKS, own_description
from harness.plugins import search_working_directory

from .programs import program_runtime, required_releases
from .requirements import InlineMetadata, inline_metadata, is_python, parse, unsatisfied
from .resolution import PATCH
from .runtime import OF_SERVICE, runtime, search_runtime
from .spelling import refuse_misspelled
from .store import Progress, environment
from .uv import find_python

OLDEST: Final = Version("3.11")
SERVICES: Final = tuple(OF_SERVICE)
"""Kinds for a class that was not loaded: it may run on any."""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python that has what a lock requires; ``python -m harness....`` runs our code in it.

    ``key`` is that of the environment, "" for the Python of this process. ``folder`` has the user's code, if that is
    not an installed distribution: the worker needs it on its path.
    """

    path: Path
    key: str = ""
    folder: Path | None = None


@dataclass(frozen=True, slots=True)
class _Needs:
    """Needs of a lock: ``required`` must be as stated, ``used`` are libraries in whatever release is installed."""

    required: tuple[Requirement, ...]
    used: tuple[str, ...]
    python: str
    kinds: tuple[str, ...]
    folder: Path | None = None


def interpreter_for(
    lock: str,
    with_: Sequence[str] = (),
    python: str = "",
    progress: Progress | None = None,
    *,
    search: bool = False,
) -> Interpreter:
    """Return the interpreter to run a lock with.

    ``with_`` are requirements, such as ``redis==5.2.1``; ``python`` is a version, a specifier or a path. What the
    catalogue says about a lock, or the file of a user's class (PEP 723), is required besides. ``progress`` is called
    with a line before an environment is built, which takes seconds. With ``search`` the interpreter also has what a
    search needs, which runs in the worker as a whole. Raises UsageError for requirements that are malformed or cannot
    be satisfied, EnvironmentLacking if an environment cannot be built for another reason.
    """
    if re.fullmatch(r"\d+\.\d+(\.\d+)?", python) and Version(python) < OLDEST:
        raise UsageError(f"--python {python}: the harness needs Python {OLDEST} or later")
    given = _python_requirements(lock, with_)
    refuse_misspelled(lock, [one.name for one in given])
    needs = _needs(lock, python)
    named = {canonicalize_name(one.name) for one in given}
    # A requirement of the user takes the place of the release that the catalogue has tested.
    required = (*given, *(one for one in needs.required if canonicalize_name(one.name) not in named))
    if is_python(needs.python) and not unsatisfied(required):
        return Interpreter(Path(sys.executable), folder=needs.folder)
    named |= {canonicalize_name(one.name) for one in required}
    used = [pinned(name) for name in needs.used if canonicalize_name(name) not in named]
    base = Path(sys.executable) if is_python(needs.python) else find_python(needs.python)
    ours = (*runtime(needs.kinds), *(search_runtime() if search else ()))
    built = environment(str(base.resolve()), [*map(str, required), *used, *ours], progress)
    return Interpreter(built.interpreter, built.key, needs.folder)


def container_requirements(lock: str, with_: Sequence[str] = (), python: str = "") -> tuple[str, ...]:
    """Return the requirements whose releases a client's container must have: none if those installed here satisfy what
    the lock requires, and the user requires nothing.

    Raises UsageError if ``python``, or the file of a user's class, requires another Python than containers have.
    """
    given = _python_requirements(lock, with_)
    refuse_misspelled(lock, [one.name for one in given])
    needs = _needs(lock, python)
    if needs.python and not _is_image_python(needs.python):
        raise UsageError(f"{lock} requires Python {needs.python}, and client containers have Python {IMAGE_PYTHON}")
    named = {canonicalize_name(one.name) for one in given}
    required = (*given, *(one for one in needs.required if canonicalize_name(one.name) not in named))
    return tuple(map(str, required)) if given or unsatisfied(required) else ()


def _python_requirements(lock: str, with_: Sequence[str]) -> tuple[Requirement, ...]:
    """Return the user's requirements: none for a lock in another language, whose program is built with them."""
    if program_runtime(lock):
        required_releases(lock, with_)  # refuses what the program does not have
        return ()
    return parse(with_, "--with")


def _is_image_python(wanted: str) -> bool:
    if re.fullmatch(r"\d+\.\d+", wanted):
        return wanted == IMAGE_PYTHON
    try:
        return SpecifierSet(wanted).contains(PATCH)
    except InvalidSpecifier:
        return wanted == PATCH


def _needs(lock: str, python: str) -> _Needs:
    own = own_description(lock)
    if own is not None:
        return _Needs(parse(own.info.requires, lock), (), python, own.info.kinds)
    spec = LOCKS.source(lock)
    search_working_directory()
    if importlib.util.find_spec(spec.partition(":")[0].partition(".")[0]) is None:  # the requirements may have it
        return _Needs((), (), python, SERVICES)
    path = source_file(spec)
    stated = InlineMetadata() if path is None else inline_metadata(path)
    if python and stated.python and _contradicts(python, stated.python):
        raise UsageError(f"--python {python}: {path} requires Python {stated.python}")
    used, folder = imported_distributions(spec)
    return _Needs(stated.requirements, () if stated.requirements else used, python or stated.python, SERVICES, folder)


def _contradicts(python: str, specifier: str) -> bool:
    """Tell whether no release of a Python version fits a specifier; unknown (a path, a specifier) counts as no."""
    if not python.replace(".", "").isdigit():
        return False
    releases = [python] if python.count(".") > 1 else [f"{python}.{patch}" for patch in range(100)]
    return not any(SpecifierSet(specifier).contains(release) for release in releases)
