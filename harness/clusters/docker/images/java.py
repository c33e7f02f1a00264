"""Build the project's Java programs on this machine with Maven, so that images need neither a network nor a
compiler."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Final

from harness.errors import EnvironmentLacking

from . import maven

PACKAGE: Final = ("package",)
BUILT: Final = "target"
"""Folder in which Maven puts the project's jar and those of its dependencies."""
COPIED_FOLDER: Final = "run"
"""Folder whose files (the start script) are copied beside the jars."""


def package(source: Path, target: Path) -> None:
    """Build the Maven project in a folder, and copy its jars and the files beside them into a new folder.

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
        shutil.copytree(copy / COPIED_FOLDER, target)
        for jar in jars:
            shutil.copy2(jar, target)
