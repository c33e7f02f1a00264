"""The folders with the Dockerfiles and the sources of the lock programs. This module needs no Docker SDK."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from harness.errors import EnvironmentLacking

CONTEXTS: Final = Path(__file__).parent / "dockerfiles"


def has_image(name: str) -> bool:
    """Return whether there is an image of this name. A service whose program is part of this project needs none."""
    return (CONTEXTS / name).is_dir()


def context_folder(name: str) -> Path:
    """The folder of an image's Dockerfile."""
    folder = CONTEXTS / name
    if not (folder / "Dockerfile").is_file():
        raise EnvironmentLacking(
            f"{folder} has no Dockerfile: this installation of lock-harness is incomplete; install it again"
        )
    return folder
