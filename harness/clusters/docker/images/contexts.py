"""The folders with the Dockerfiles and the sources of the lock programs. This module needs no Docker SDK."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from harness.errors import EnvironmentLacking

CONTEXTS: Final = Path(__file__).parent / "dockerfiles"


def context_folder(name: str) -> Path:
    """The folder of an image's Dockerfile."""
    folder = CONTEXTS / name
    if not (folder / "Dockerfile").is_file():
        raise EnvironmentLacking(
            f"{folder} has no Dockerfile: this installation of lock-harness is incomplete; install it again"
        )
    return folder
