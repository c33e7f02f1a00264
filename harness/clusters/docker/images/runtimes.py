"""Table of the languages other than Python in which lock programs are written, with the function that builds each.

Programs are built on this machine, not in the image, since this machine's package managers are configured. Libraries
that Debian packages, such as PHP's, are installed by the image's Dockerfile instead.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from . import golang, java, maven, npm
from .tools import Releases, Tool

PROGRAM: Final = "program"
"""Folder with the built program, beside the Dockerfile in the build context."""


@dataclass(frozen=True, slots=True)
class Runtime:
    """A language.

    - ``build(source, target, releases)`` builds the sources of one folder into a new folder with the ``tool``, if it
      needs one; raises EnvironmentLacking, or UsageError for a release for which the program has no source.
    - ``libraries(source)`` returns the libraries that the build file of a folder names, with their versions; it is None
      if Debian's packages are the libraries, of which there is one release.
    - ``listed(library)`` returns the published versions of a library, in any order; raises EnvironmentLacking.
    """

    build: Callable[[Path, Path, Releases], None]
    libraries: Callable[[Path], Releases] | None = None
    listed: Callable[[str], Sequence[str]] | None = None
    tool: Tool | None = None


def _go(source: Path, target: Path, releases: Releases) -> None:
    target.mkdir()
    golang.compile_go(source, target / "locks", releases=releases)


def _php(source: Path, target: Path, _releases: Releases) -> None:
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("Dockerfile"))


RUNTIMES: Final[Mapping[str, Runtime]] = {
    "client-go": Runtime(_go, golang.libraries, golang.listed, golang.GO),
    "go": Runtime(_go, golang.libraries, golang.listed, golang.GO),
    "java": Runtime(java.package, java.libraries, java.listed, maven.MAVEN),
    "node": Runtime(npm.install, npm.libraries, npm.listed, npm.NPM),
    "php": Runtime(_php),
}
