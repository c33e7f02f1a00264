"""Releases of the libraries of lock programs: what a requirement such as ``redsync==4.8.0`` means for a program.

Go, npm and Maven name a library by a path. A requirement names it by the last parts of that path, joined with "-":
``redsync``, ``go-redsync-redsync`` and ``github.com-go-redsync-redsync`` are the module github.com/go-redsync/redsync.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from harness.errors import UsageError, unknown_name

from .contexts import context_folder
from .runtimes import RUNTIMES
from .tools import Releases

_SEPARATOR: Final = re.compile(r"[/:]")
_MAJOR: Final = re.compile(r"/v\d+$")
_EXACT: Final = ("==", "===")


def libraries(runtime: str) -> Releases:
    """Return the libraries of a runtime's lock program with the versions that it is built with by default; raises
    UsageError if there is one release only."""
    read = RUNTIMES[runtime].libraries
    if read is None:
        raise UsageError(
            f"the libraries of the lock programs in {runtime} are Debian's packages: no release can be named"
        )
    return read(context_folder(runtime))


def library_named(runtime: str, name: str) -> str:
    """Return the library that a requirement's name means; raises UsageError if there is none, or more than one.

    A library whose whole path has this name comes before those that end with it."""
    known = libraries(runtime)
    found = [library for library in known if canonicalize_name(name) in _names(library)]
    found = [library for library in found if [*_names(library)][-1] == canonicalize_name(name)] or found
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(f"{name!r} may be {' or '.join(found)}: write more of its path, joined with '-'")
    raise unknown_name(f"library of the lock programs in {runtime}", name, [next(_names(one)) for one in known])


def program_releases(runtime: str, requirements: Sequence[Requirement]) -> Mapping[str, str]:
    """Return the releases that requirements choose for a runtime's lock program; raises UsageError for one that names
    no library of the program, or no single version."""
    found: dict[str, str] = {}
    for one in requirements:
        library, specifiers = library_named(runtime, one.name), list(one.specifier)
        if len(specifiers) != 1 or specifiers[0].operator not in _EXACT or "*" in specifiers[0].version:
            raise UsageError(f"expected one version, such as {one.name}=={libraries(runtime)[library]}, got '{one}'")
        found[library] = specifiers[0].version
    return found


def _names(library: str) -> Iterator[str]:
    """Yield the names of a library in requirements, the shortest first."""
    parts = _SEPARATOR.split(_MAJOR.sub("", library).lstrip("@"))
    for begin in reversed(range(len(parts))):
        yield canonicalize_name("-".join(parts[begin:]))
