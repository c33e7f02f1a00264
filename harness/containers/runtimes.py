"""Locks in other languages: what this machine builds of each folder of ``docker/`` that has some. Here, and not in the
image, since this machine's clients know where packages come from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from . import golang, java, maven, npm
from .tools import Tool

PROGRAM: Final = "program"
"""Folder beside the Dockerfile, in the context of its build, where what was built is."""


@dataclass(frozen=True, slots=True)
class Runtime:
    """``build`` goes from the folder with the sources to one that it makes, and raises EnvironmentLacking. It needs
    the ``tool``."""

    build: Callable[[Path, Path], None]
    tool: Tool


def _go(source: Path, target: Path) -> None:
    target.mkdir()
    golang.compile_go(source, target / "locks")


RUNTIMES: Final[Mapping[str, Runtime]] = {
    "go": Runtime(_go, golang.GO),
    "java": Runtime(java.package, maven.MAVEN),
    "node": Runtime(npm.install, npm.NPM),
}
