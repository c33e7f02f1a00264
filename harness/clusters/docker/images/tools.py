"""Run a build tool of this machine (Go, Maven, npm), with one clear error if it is missing or fails."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from harness.errors import EnvironmentLacking

TAIL: Final = 15
"""Lines shown of a failed build's output; the reason is usually at the end."""


Releases = Mapping[str, str]
"""Library as a program's build file names it → version that takes the place of the one stated there."""
NO_RELEASES: Final[Releases] = MappingProxyType({})


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
        self._done(arguments, folder, task, environment or {})

    def output(self, arguments: Sequence[str], task: str) -> str:
        """Run the tool in an empty folder and return what it prints; raises as :meth:`run`."""
        with tempfile.TemporaryDirectory(prefix="lock-harness-") as folder:
            return self._done(arguments, Path(folder), task, {})

    def _done(self, arguments: Sequence[str], folder: Path, task: str, environment: Mapping[str, str]) -> str:
        try:
            done = subprocess.run(
                [self.program, *arguments],
                cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, check=False,
            )  # fmt: skip
        except FileNotFoundError as error:
            raise EnvironmentLacking(
                f"{self.name} is needed to {task}, and is not installed: {self.install}"
            ) from error
        if done.returncode:
            output = (done.stdout + done.stderr).splitlines()
            raise EnvironmentLacking(f"{self.name} could not {task}; it says:\n{last(output)}")
        return done.stdout


def last(lines: Iterable[str]) -> str:
    """Return the last :data:`TAIL` lines, for an error message."""
    return "\n".join(list(lines)[-TAIL:])
