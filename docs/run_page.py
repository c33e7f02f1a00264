"""Run the commands of a page in order in an empty folder, and compare the outputs with those on the page.

``python docs/run_page.py PAGE`` compares; with ``--write`` the outputs on the page are replaced.

A block ```` ```python title="FILE" ```` is written to that file. In a block ```` ```console ```` a line with ``$`` is a
command, and what follows is its standard output. A line ``...`` stands for any number of lines.
"""

from __future__ import annotations

import difflib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[1]
BLOCK: Final = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.DOTALL | re.MULTILINE)
VARIABLE: Final = (
    (re.compile(r"\d{8}T\d{6}Z"), "20260101T000000Z"),
    (re.compile(r"\([\d.]+ s real\)"), "(1 s real)"),
    (re.compile(r"^\d+ passed in [\d.]+s(?: \([\d:]+\))?$", re.MULTILINE), "passed"),
    (re.compile(r"[\d,]+ schedules,"), "50 schedules,"),
    (re.compile(r"found in schedule \d+ of round \d+, and shrunk in [\d,]+ more"), "found, and shrunk"),
)
"""Parts of an output that differ from one execution to the next, and what replaces them before the comparison."""


class Difference(NamedTuple):
    """An output that is not the one on the page."""

    command: str
    lines: list[str]


def stable(output: str) -> str:
    """Return an output without what differs each time."""
    for pattern, replacement in VARIABLE:
        output = pattern.sub(replacement, output)
    return output.rstrip() + "\n"


def matches(expected: str, actual: str) -> bool:
    """Say whether an output is the expected one, in which a line ``...`` stands for any lines."""
    parts = [re.escape(line) if line != "..." else None for line in stable(expected).splitlines()]
    pattern = "".join("(?:.*\n)*?" if part is None else f"{part}\n" for part in parts)
    return re.fullmatch(pattern, stable(actual)) is not None


def commands(block: str) -> Iterator[tuple[str, str]]:
    """Yield each command of a block with its output."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        yield command, output


class Page:
    """A page that is executed once, from its first block to its last."""

    def __init__(self, text: str, folder: Path, environment: dict[str, str]) -> None:
        self.text, self.folder, self.environment = text, folder, environment
        self.status = 0
        self.differences: list[Difference] = []
        self.executed = 0

    def execute(self) -> str:
        """Execute all blocks, and return the page with the actual outputs."""
        return BLOCK.sub(self._block, self.text)

    def _block(self, found: re.Match[str]) -> str:
        language, title, contents = found.groups()
        if title:
            path = self.folder / title
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(contents, encoding="utf-8")
        if language != "console":
            return found[0]
        return f"```console\n{''.join(self._run(*one) for one in commands(contents))}```"

    def _run(self, command: str, expected: str) -> str:
        ran = subprocess.run(
            ["bash", "-c", f"(exit {self.status}); {command}"], cwd=self.folder, env=self.environment,
            stdout=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
        self.status = ran.returncode
        self.executed += 1
        if matches(expected, ran.stdout):
            return f"$ {command}\n{expected}"
        lines = [*difflib.unified_diff(stable(expected).splitlines(), stable(ran.stdout).splitlines(), lineterm="")]
        self.differences.append(Difference(command, lines))
        return f"$ {command}\n{ran.stdout.rstrip()}\n"


def environment_with(programs: Path, python: str = sys.executable, code: str = str(ROOT)) -> dict[str, str]:
    """Return variables in which ``harness``, ``python`` and ``pytest`` are those of a Python, by scripts in
    ``programs``, and no option of the user counts. ``code`` is the folder with the package, empty if it is installed.
    """
    for name, command in (("harness", "-m harness"), ("pytest", "-m pytest"), ("python", "")):
        (programs / name).write_text(f'#!/bin/sh\nexec "{python}" {command} "$@"\n')
        (programs / name).chmod(0o755)
    left_out = ("PYTEST_ADDOPTS", "GITHUB_ACTIONS", "COLUMNS")
    variables = {name: value for name, value in os.environ.items() if name not in left_out}
    variables |= {"PATH": f"{programs}{os.pathsep}{variables['PATH']}", "NO_COLOR": "1", "CI": "true"}
    paths = [code, variables.get("PYTHONPATH", "")] if code else []
    return variables | {"PYTHONPATH": os.pathsep.join(path for path in paths if path)}


def main(arguments: list[str]) -> int:
    """Run a page, and return 1 if an output differs."""
    path = Path(arguments[0])
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as programs:
        page = Page(path.read_text(encoding="utf-8"), Path(folder), environment_with(Path(programs)))
        text = page.execute()
    for difference in page.differences:
        print(f"$ {difference.command}", *difference.lines, sep="\n")
    if "--write" in arguments:
        path.write_text(text, encoding="utf-8")
        return 0
    return int(bool(page.differences))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
