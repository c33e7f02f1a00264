"""The commands of the pages: what a reader can type, the files that a page defines, and the results that it states."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Final

from .command_lines import complete, in_markdown
from .scripts import script

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")])
CHANGELOG: Final = ROOT / "CHANGELOG.md"
"""It names commands of earlier versions, which nobody is asked to type."""
RUN_PAGE: Final = script("run_page")
TUTORIAL: Final = ROOT / "docs" / "tutorial.md"
"""``docs/run_page.py`` runs it as a whole, with each output: see ``tests/installed/test_tutorial.py``."""
VERDICTS: Final = {"VALID": 0, "VIOLATION": 1, "FAILURE FOUND": 1, "KNOWN LIMIT FOUND": 1}
"""First words of an output, with the exit status of a run, a hunt or a check that prints them."""
FINDINGS: Final = "docs/findings/"
"""Pages on which a run or a hunt shows a failure, unless the page states another result."""


@cache
def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


@cache
def commands() -> dict[str, tuple[Path, ...]]:
    """Return each distinct complete command, with its pages. Those of the tutorial and the changelog are not among
    them."""
    found: dict[str, tuple[Path, ...]] = {}
    for page in PAGES:
        for line in in_markdown(text_of(page)) if page not in (CHANGELOG, TUTORIAL) else ():
            command = complete(line)
            if command:
                found[command] = tuple(dict.fromkeys((*found.get(command, ()), page)))
    return found


def run_by_the_tutorial() -> list[str]:
    """Return the commands that ``docs/run_page.py`` runs."""
    blocks = RUN_PAGE.BLOCK.findall(text_of(TUTORIAL))
    return [line for language, _, block in blocks if language == "console" for line, _ in RUN_PAGE.commands(block)]


def files_of(page: Path) -> dict[str, str]:
    """Return the files that the blocks of a page define: the first one of each name."""
    found: dict[str, str] = {}
    for _, name, contents in RUN_PAGE.BLOCK.findall(text_of(page)):
        if name:
            found.setdefault(name, contents)
    return found


def stated_output(command: str) -> list[str]:
    """Return the lines that a page shows as the output of a command, if they begin with a verdict."""
    verdict = "|".join(VERDICTS)
    between = r"(?:`[^\n]*\n\n|\n```\n\n|\n)(?:```\w*\n)?"
    shown = re.compile(rf"{re.escape(command)}{between}((?:{verdict})\b.*?)(?=^```$|^\$ )", re.DOTALL | re.MULTILINE)
    outputs = [found for page in commands()[command] for found in shown.findall(text_of(page))]
    return outputs[0].splitlines() if outputs else []


def stated_status(command: str) -> int:
    """Return the exit status that follows from the page: from the output, or from what the page is about.

    ``harness scenario run`` says whether its verdict is the expected one, so that it ends with 0 on each page."""
    if re.match("harness (run|hunt|check|replay) ", command):
        for line in stated_output(command)[:1]:
            return next(status for verdict, status in VERDICTS.items() if line.startswith(verdict))
        if any(str(page.relative_to(ROOT)).startswith(FINDINGS) for page in commands()[command]):
            return 1
    return 0
