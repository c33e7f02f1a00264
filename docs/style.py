"""Measure the sentences of every page: ``python docs/style.py`` prints both figures, and fails if one is too high.

No sentence may have more than 40 words, and the mean of a page may be at most 20.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[1]
LONGEST: Final = 40
MEAN: Final = 20.0

_ABBREVIATION: Final = re.compile(r"\b(e\.g|i\.e|etc|vs|cf|no|p|pp)\.(?=\s)", re.IGNORECASE)
_END: Final = re.compile(r"(?<=[.!?])[\"')\]*_]*\s+")
_WORD: Final = re.compile(r"\w")


class Figures(NamedTuple):
    """Length of the sentences of a page, in words. A colon or a semicolon does not end a sentence."""

    sentences: int
    mean: float
    longest: int
    text: str
    """The longest sentence."""

    @property
    def good(self) -> bool:
        return self.longest <= LONGEST and self.mean <= MEAN


def pages() -> list[Path]:
    """Return the Markdown files of the project for readers."""
    found = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*/README.md")]
    return sorted(found)


def sentences(markdown: str) -> list[str]:
    """Return the sentences of a page. A heading, an item of a list and a cell of a table end one."""
    text = re.sub(r"^(```|~~~).*?^\1[ \t]*$", "\n\n", markdown, flags=re.DOTALL | re.MULTILINE)  # blocks of code
    text = re.sub(r"\A---\n.*?\n---\n|<!--.*?-->", "\n\n", text, flags=re.DOTALL)
    text = re.sub(r"!\[[^\]]*\]\([^)]*\)", " ", text)  # pictures
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)  # links
    text = re.sub(r"`[^`]*`", "code", text)  # a command is one word
    text = re.sub(r"^(#+ .*|\|?[-:| ]+\|[-:| ]*)$", "\n\n", text, flags=re.MULTILINE)
    text = re.sub(r"^(\s*)([-*]|\d+\.)\s", r"\n\n\1", text, flags=re.MULTILINE)
    text = re.sub(r"^\|(.*)\|\s*$", lambda row: "\n\n" + row[1].replace("|", "\n\n") + "\n\n", text, flags=re.MULTILINE)
    text = re.sub(r"^(:::|!!!|\?\?\?).*$", "\n\n", text, flags=re.MULTILINE)
    found = []
    for paragraph in re.split(r"\n\s*\n", text):
        whole = _ABBREVIATION.sub(r"\1", " ".join(paragraph.split()))
        found += [one for one in _END.split(whole) if _WORD.search(one)]
    return found


def measure(markdown: str) -> Figures:
    """Return the figures of a page. A page without sentences has only zeros."""
    lengths = [(sum(bool(_WORD.search(word)) for word in one.split()), one) for one in sentences(markdown)]
    whole = [(length, one) for length, one in lengths if re.search(r"[.!?][\"')\]*_]*$", one)]  # cells have fragments
    if not lengths:
        return Figures(0, 0.0, 0, "")
    longest, text = max(lengths)
    mean = sum(length for length, _ in whole) / len(whole) if whole else 0.0
    return Figures(len(lengths), mean, longest, text)


def main() -> int:
    """Print the figures of each page, and return 1 if one of them is too high."""
    bad = 0
    for path in pages():
        name = str(path.relative_to(ROOT))
        figures = measure(path.read_text(encoding="utf-8"))
        mark = "ok" if figures.good else "TOO LONG"
        print(f"{mark:8} {name}: mean {figures.mean:.1f}, longest {figures.longest}")
        if not figures.good:
            bad += 1
            print(f"         {figures.text}")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
