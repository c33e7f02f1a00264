"""Assemble a Node lock program on this machine: its sources, and the libraries that npm installs for them."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from .tools import NO_RELEASES, Releases, Tool

NPM: Final = Tool("npm", "npm", "apt-get install npm")
QUIET: Final = ("--omit=dev", "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier")
"""Packages' own scripts do not run."""
CLEAN: Final = ("ci", *QUIET)
"""``ci`` installs exactly what package-lock.json pins, checking hashes."""
OTHER: Final = ("install", "--save-exact", *QUIET)
PACKAGE: Final = "package.json"
NOT_PROGRAM: Final = ("Dockerfile", "node_modules")


def install(source: Path, target: Path, releases: Releases = NO_RELEASES) -> None:
    """Put the program of the folder ``source`` into the folder ``target``, with the ``node_modules`` that its
    package-lock.json pins. The source's folder stays as it is. ``releases`` are versions of packages that take the
    place of the pinned ones.

    Raises:
        EnvironmentLacking: npm is missing, or fails; the message has its last lines.
    """
    with tempfile.TemporaryDirectory(prefix="lock-harness-npm-") as folder:
        copy = Path(folder) / "program"
        shutil.copytree(source, copy, ignore=shutil.ignore_patterns(*NOT_PROGRAM))
        wanted = [f"{library}@{version}" for library, version in releases.items()]
        NPM.run(
            [*OTHER, *wanted] if wanted else CLEAN, copy, f"install {', '.join(wanted) or f'what {source.name} needs'}"
        )
        shutil.copytree(copy, target, dirs_exist_ok=True)


def libraries(source: Path) -> dict[str, str]:
    """Return the packages that the program in a folder requires itself, with their versions."""
    return dict(json.loads((source / PACKAGE).read_text("utf-8"))["dependencies"])


def listed(library: str) -> Sequence[str]:
    """Return the published versions of a package."""
    found = NPM.output(["view", library, "versions", "--json"], f"list the versions of {library}")
    versions = json.loads(found)
    return [versions] if isinstance(versions, str) else list(versions)
