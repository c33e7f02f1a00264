"""Programs of this machine that make what goes into images: containers have no network, and need no compiler."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..errors import EnvironmentLacking

TAIL: Final = 15
"""Lines of a failed build's output that are worth showing: programs say why at the end."""


@dataclass(frozen=True, slots=True)
class Tool:
    """What people call it, what its program is called, and the command that installs it."""

    name: str
    program: str
    install: str

    def run(
        self, arguments: Sequence[str], folder: Path, task: str, *, environment: Mapping[str, str] | None = None
    ) -> None:
        """Run it in a folder, with ``environment`` added to our own; ``task`` says what for, as in "fetch it".

        Raises:
            EnvironmentLacking: it is missing or fails; the message has its last lines.
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
            said = (done.stdout + done.stderr).splitlines()
            raise EnvironmentLacking(f"{self.name} could not {task}; it says:\n{last(said)}")


def last(lines: Iterable[str]) -> str:
    """The end of an output, as it goes into a message."""
    return "\n".join(list(lines)[-TAIL:])
