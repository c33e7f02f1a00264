"""Assemble a Node lock program on this machine: its sources, and the libraries that npm installs for them."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Final

from .tools import Tool

NPM: Final = Tool("npm", "npm", "apt-get install npm")
CLEAN: Final = ("ci", "--omit=dev", "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier")
"""``ci`` installs exactly what package-lock.json pins, checking hashes. Packages' own scripts do not run."""
NOT_PROGRAM: Final = ("Dockerfile", "node_modules")


def install(source: Path, target: Path) -> None:
    """Put the program of the folder ``source`` into the folder ``target``, with the ``node_modules`` that its
    package-lock.json pins. The source's folder stays as it is.

    Raises:
        EnvironmentLacking: npm is missing, or fails; the message has its last lines.
    """
    with tempfile.TemporaryDirectory(prefix="lock-harness-npm-") as folder:
        copy = Path(folder) / "program"
        shutil.copytree(source, copy, ignore=shutil.ignore_patterns(*NOT_PROGRAM))
        NPM.run(CLEAN, copy, f"install what {source.name} needs")
        shutil.copytree(copy, target, dirs_exist_ok=True)
