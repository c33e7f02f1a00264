"""Pages use one word for each concept: those of the glossary, and not the words that it replaced.

Words that also have another meaning, such as *kept*, *turn* and *cut off* (from the network), are not looked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
CODE: Final = re.compile(r"^(```|~~~).*?^\1[ \t]*$|`[^`]*`", re.DOTALL | re.MULTILINE)
TERMS: Final = {
    "request, options": r"what is asked for|asks for (?:it|what|the lock|a lock)\b",
    "result, outcome": r"what (?:came|became|comes|becomes) of",
    "cause": r"to blame\b|whose case",
    "critical section": r"\bin (?:a|the|its|their) sections?\b|\b(?:whose|its|his|her|their) turn\b",
    "holder, waiter, contender": r"\bwho (?:has|wants|waits for|asks for) (?:it|the lock)\b",
    "available, unavailable": r"to be had\b",
    "unknown outcome": r"nobody (?:knows|can tell)",
    "take effect, confirmed": r"\bseen to (?:be|have)\b",
    "heal, undo": r"\bmend(?:s|ed|ing)?\b|\bput(?:s|ting)? right\b|\bt(?:ake|akes|aken|ook) away\b",
    "near miss, distance to violation": r"\bcloseness\b|came closest",
    "shrink, minimise": r"\bmak(?:e|es|ing) (?:it|them|schedules|the schedule) small\b|\bmade small\b",
    "schedule, trial, execution": r"\bplay(?:s|ed|ing)?\b",
    "nightly run": r"\bnights?\b",
    "worker": r"\blanes?\b",
    "cut short, truncated, interrupted": r"\bended before\b",
    "the clock of n4 is correct": r"\b[nc]\d (?:is |was )?true\b",
    "cause: server clocks jumped, so leases expired early": r"kept its word",
    "3 overlaps, all caused by clocks": r"\b(?:holds|service|clock|client) \d+, (?:service|clock|client) \d",
}
"""The term to use, and a pattern of those that it replaces."""
ALLOWED: Final = ("every night", "takes away what Windows lacks", "package sources taken away")
"""Texts in which such a word has its ordinary meaning."""


def words(page: str) -> str:
    """Return the text of a page in one line, without code."""
    return re.sub(r"\s+", " ", CODE.sub("code", page))


def forbidden(page: str) -> Iterator[str]:
    """Yield each forbidden term of a page, with the term to use."""
    plain = re.sub("|".join(map(re.escape, ALLOWED)), "...", words(page), flags=re.IGNORECASE)
    for term, pattern in TERMS.items():
        for found in re.finditer(pattern, plain, re.IGNORECASE):
            yield f"{plain[max(0, found.start() - 30) : found.end() + 10]!r}: instead of {found[0]!r} say {term!r}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_uses_the_words_of_the_glossary(page: Path) -> None:
    assert list(forbidden(page.read_text(encoding="utf-8"))) == []


def test_each_allowed_text_is_on_a_page() -> None:
    pages = [words(page.read_text(encoding="utf-8")).lower() for page in PAGES]
    assert [text for text in ALLOWED if not any(text.lower() in page for page in pages)] == []


@pytest.mark.parametrize(
    ("text", "term"),
    [
        ("The clock is to\nblame.", "cause"),
        ("The night says so.", "nightly run"),
        ("Nobody knows the answer.", "unknown outcome"),
        ("A client asks for it.", "request, options"),
        ("holds 230, service 0, clock 3", "3 overlaps, all caused by clocks"),
    ],
)
def test_a_forbidden_term_is_found(text: str, term: str) -> None:
    (found,) = forbidden(text)
    assert found.endswith(f"say {term!r}")


@pytest.mark.parametrize("text", ["It runs every night.", "`--html night`", "```\nthe night\n```\n", "It is cut off."])
def test_code_and_other_meanings_are_accepted(text: str) -> None:
    assert list(forbidden(text)) == []
