"""Compile the project's Go programs on this machine, so that images need neither a network nor a compiler."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Final

from .tools import Tool

GO: Final = Tool("Go", "go", "apt-get install golang-go")
BUILD: Final = ("build", "-trimpath", "-o")
STATIC: Final = {"CGO_ENABLED": "0", "GOOS": "linux", "GOARCH": "amd64"}
"""An image from scratch has no C library, and its architecture is the engine's, not this machine's."""


def compile_go(module: Path, program: Path, package: str = ".", linker_flags: str = "") -> None:
    """Compile the Go module in a folder to one static program; or ``package``, which that module requires.

    ``linker_flags`` is the value of ``-ldflags``.

    Raises:
        EnvironmentLacking: Go is missing or refuses; the message names the program and has Go's last lines.
    """
    with tempfile.TemporaryDirectory(prefix="lock-harness-go-") as folder:
        copy = Path(folder) / "module"  # Go may write go.sum, and the checkout is not ours to change
        shutil.copytree(module, copy)
        flags = ["-ldflags", linker_flags] if linker_flags else []
        GO.run([*BUILD, str(program), *flags, package], copy, f"compile {program.name}", environment=STATIC)
