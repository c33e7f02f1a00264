"""Table of the languages other than Python in which lock programs are written, with the function that builds each.

Programs are built on this machine, not in the image, since this machine's package managers are configured. Libraries
that Debian packages, such as PHP's, are installed by the image's Dockerfile instead.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from . import golang, java, maven, npm
from .tools import Tool

PROGRAM: Final = "program"
"""Folder with the built program, beside the Dockerfile in the build context."""


@dataclass(frozen=True, slots=True)
class Runtime:
    """A language. ``build(source, target)`` builds the sources of one folder into a new folder with the ``tool``, if it
    needs one; raises EnvironmentLacking."""

    build: Callable[[Path, Path], None]
    tool: Tool | None = None


def _go(source: Path, target: Path) -> None:
    target.mkdir()
    golang.compile_go(source, target / "locks")


def _php(source: Path, target: Path) -> None:
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("Dockerfile"))


RUNTIMES: Final[Mapping[str, Runtime]] = {
    "go": Runtime(_go, golang.GO),
    "java": Runtime(java.package, maven.MAVEN),
    "node": Runtime(npm.install, npm.NPM),
    "php": Runtime(_php),
}
