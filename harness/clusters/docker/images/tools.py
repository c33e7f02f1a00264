"""Run a build tool of this machine (Go, Maven, npm), with one clear error if it is missing or fails."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.errors import EnvironmentLacking

TAIL: Final = 15
"""Lines shown of a failed build's output; the reason is usually at the end."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A build tool: its name, its executable, and the command that installs it."""

    name: str
    program: str
    install: str

    def run(
        self, arguments: Sequence[str], folder: Path, task: str, *, environment: Mapping[str, str] | None = None
    ) -> None:
        """Run the tool in a folder, with ``environment`` added to our own. ``task`` names the purpose, as in "fetch
        it".

        Raises:
            EnvironmentLacking: the tool is missing or fails; the message has its last lines.
        """
        try:
            done = subprocess.run(
                [self.program, *arguments],
                cwd=folder, env={**os.environ, **(environment or {})}, capture_output=True, text=True, check=False,
            )  # fmt: skip
        except FileNotFoundError as error:
            raise EnvironmentLacking(
                f"{self.name} is needed to {task}, and is not installed: {self.install}"
            ) from error
        if done.returncode:
            output = (done.stdout + done.stderr).splitlines()
            raise EnvironmentLacking(f"{self.name} could not {task}; it says:\n{last(output)}")


def last(lines: Iterable[str]) -> str:
    """Return the last :data:`TAIL` lines, for an error message."""
    return "\n".join(list(lines)[-TAIL:])
