"""Releases of the libraries of locks in other languages, which a plan requires in the same way as Python's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from packaging.version import InvalidVersion, Version

from harness.clusters.docker.images.program_releases import library_named, program_releases
from harness.clusters.docker.images.runtimes import RUNTIMES
from harness.lock_impls.catalogue import own_description

from .releases import Release
from .requirements import parse


def program_runtime(lock: str) -> str:
    """Return the runtime of one of our locks that is a program in another language; "" for any other lock."""
    own = own_description(lock)
    return own.info.runtime if own is not None and own.info.runtime in RUNTIMES else ""


def required_releases(lock: str, with_: Sequence[str]) -> Mapping[str, str]:
    """Return the releases of libraries with which the program of a lock must be built, none for a lock in Python.

    Raises UsageError for a requirement that is malformed, names no library of the program, or no single version.
    """
    runtime = program_runtime(lock)
    return program_releases(runtime, parse(with_, "--with")) if runtime else {}


def published_releases(lock: str, package: str) -> tuple[Release, ...]:
    """Return the releases of a library of a lock's program, in the order of their versions, as
    :func:`.releases.releases` does for one of Python. Raises UsageError for an unknown library, EnvironmentLacking if
    the tool that builds the program cannot list them."""
    runtime = program_runtime(lock)
    library, listed = library_named(runtime, package), RUNTIMES[runtime].listed
    assert listed is not None, "a runtime whose libraries can be named can list them"
    found: dict[Version, Release] = {}
    for text in listed(library):
        try:
            version = Version(text)
        except InvalidVersion:  # it cannot be required either
            continue
        found.setdefault(version, Release(version, spelling=text))
    return tuple(found[version] for version in sorted(found))
