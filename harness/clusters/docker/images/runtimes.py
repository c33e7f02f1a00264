"""Table of the languages other than Python in which lock programs are written, with the function that builds each.

Programs are built on this machine, not in the image, since this machine's package managers are configured.
"""

from __future__ import annotations

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
    """A language. ``build(source, target)`` builds the sources of one folder into a new folder with the ``tool``;
    raises EnvironmentLacking."""

    build: Callable[[Path, Path], None]
    tool: Tool


def _go(source: Path, target: Path) -> None:
    target.mkdir()
    golang.compile_go(source, target / "locks")


RUNTIMES: Final[Mapping[str, Runtime]] = {
    "client-go": Runtime(_go, golang.GO),
    "go": Runtime(_go, golang.GO),
    "java": Runtime(java.package, maven.MAVEN),
    "node": Runtime(npm.install, npm.NPM),
}
