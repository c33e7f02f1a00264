"""Programs in Java, built on this machine by Maven: containers have no network, and need no compiler."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Final

from ..errors import EnvironmentLacking
from . import maven

PACKAGE: Final = ("package",)
BUILT: Final = "target"
"""Where the project's pom.xml has all jars put, its own and those it needs."""
AS_IT_IS: Final = "run"
"""Folder of what goes beside the jars: how the program is started."""


def package(source: Path, target: Path) -> None:
    """Build the Maven project in a folder, and put its jars, and what is to go beside them, into a new folder.

    Raises:
        EnvironmentLacking: Maven is missing or refuses; the message has its last lines.
    """
    with tempfile.TemporaryDirectory(prefix="lock-harness-java-") as folder:
        copy = Path(folder) / "project"  # Maven writes into it, and the checkout is not ours to change
        shutil.copytree(source, copy, ignore=shutil.ignore_patterns(BUILT))
        maven.run(PACKAGE, copy, f"build the project {source.name}")
        jars = sorted((copy / BUILT).glob("*.jar"))
        if not jars:
            raise EnvironmentLacking(f"Maven built the project {source.name}, and there is no jar in {BUILT}/")
        shutil.copytree(copy / AS_IT_IS, target)
        for jar in jars:
            shutil.copy2(jar, target)
