"""Annotations in GitHub Actions: a failure is shown beside the line of the lock or of the scenario that failed.

Nothing is printed elsewhere. The format is that of GitHub's workflow commands, which a runner reads from stderr, too:
https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands
"""

from __future__ import annotations

import ast
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.wording import first_sentence

if TYPE_CHECKING:
    from harness.run.verdicts.judging import Result

ACTIONS: Final = "GITHUB_ACTIONS"
WORKSPACE: Final = "GITHUB_WORKSPACE"
LEVELS: Final = {False: "error", None: "warning"}
"""Level of an annotation for a verdict; a valid one has none."""
LARGEST_SOURCE: Final = 1024 * 1024
"""Bytes of the largest file in which the line of a class is looked up."""
Place = tuple[Path, int]
"""A file and a line in it, counted from 1."""


def annotate(
    valid: bool | None, title: str, sentence: str, report: Path | None = None, place: Place | None = None
) -> None:
    """Print an annotation with a sentence and the path of the report, if GitHub Actions runs this and ``valid`` is not
    True. A ``place`` outside the checked-out repository is left out, because GitHub could not show it."""
    if valid is not True:
        _annotate(LEVELS[valid], title, sentence, report, place)


def annotate_conclusion(title: str, sentence: str, report: Path | None = None, place: Place | None = None) -> None:
    """Print the conclusion of a study as a notice, if GitHub Actions runs this."""
    _annotate("notice", title, sentence, report, place)


def _annotate(level: str, title: str, sentence: str, report: Path | None, place: Place | None) -> None:
    if os.environ.get(ACTIONS) != "true":
        return
    file, line = _in_workspace(place)
    properties = {**({"file": file, "line": str(line)} if file else {}), "title": title}
    listed = ",".join(f"{name}={_escape_property(value)}" for name, value in properties.items())
    where = f" Report: {report}" if report is not None else ""
    print(f"::{level} {listed}::{_escape_data(sentence + where)}", file=sys.stderr, flush=True)


def annotate_result(result: Result, place: Place | None = None) -> None:
    """Annotate the result of one run, by default at the class of the lock."""
    from harness.run.store import REPORT

    report = None if result.folder is None else result.folder / REPORT
    sentence = first_sentence(result.results.summary)
    annotate(result.valid, result.plan.lock, sentence, report, place or lock_place(result.plan.lock))


def lock_place(lock: str) -> Place | None:
    """Return the file and the line of a lock ``package.module:Class``; None if they are not found.

    The file is read and not imported: the code under test must not run in this process."""
    module, colon, name = lock.partition(":")
    if not colon:
        return None
    relative = Path(*module.split("."))
    for folder in ("", *sys.path):
        for path in (Path(folder, relative).with_suffix(".py"), Path(folder, relative, "__init__.py")):
            if path.is_file() and path.stat().st_size <= LARGEST_SOURCE:
                return path, _line_of(path, name.partition(".")[0])
    return None


def _line_of(path: Path, name: str) -> int:
    """Return the line in which a file defines ``name``; 1 if it does not."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError, RecursionError):
        return 1
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name:
            return node.lineno
    return 1


def _in_workspace(place: Place | None) -> tuple[str, int]:
    """Return the path of a place relative to the repository, and its line; ``("", 0)`` for a file outside of it."""
    if place is None:
        return "", 0
    workspace = Path(os.environ.get(WORKSPACE) or ".").resolve()
    path = place[0].resolve()
    return (path.relative_to(workspace).as_posix(), place[1]) if path.is_relative_to(workspace) else ("", 0)


def _escape_data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_property(text: str) -> str:
    return _escape_data(text).replace(":", "%3A").replace(",", "%2C")
