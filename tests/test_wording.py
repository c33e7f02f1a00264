"""Phrases that messages share."""

from __future__ import annotations

import pytest

from harness.wording import counted


@pytest.mark.parametrize(
    ("number", "noun", "text"),
    [(1, "fault", "1 fault"), (2000, "fault", "2,000 faults"), (0, "entry", "0 entries"), (2, "key", "2 keys")],
)
def test_a_number_stands_with_its_noun(number: int, noun: str, text: str) -> None:
    assert counted(number, noun) == text
