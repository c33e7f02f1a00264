"""Every page keeps the limits of ``docs/style.py``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from .scripts import script

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def style() -> ModuleType:
    return script("style")


def test_every_page_has_short_sentences() -> None:
    ran = subprocess.run([sys.executable, ROOT / "docs" / "style.py"], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout
    for page in ("docs/verdicts.md", "docs/reference/cli.md"):  # one written by hand, one made from help texts
        assert f"{page}: mean" in ran.stdout


def test_a_long_sentence_is_noticed(style: ModuleType) -> None:
    long = " ".join(["word"] * 41)
    figures = style.measure(f"Short.\n\n- An item: {long}.\n")
    assert (figures.longest, figures.good) == (43, False)


def test_a_mean_that_is_too_high_is_noticed(style: ModuleType) -> None:
    page = f"{' '.join(['word'] * 30)}. {' '.join(['Word'] * 20)}."
    assert style.measure(page) == (2, 25.0, 30, f"{' '.join(['word'] * 30)}.")
    assert not style.measure(page).good


def test_what_is_no_sentence_does_not_count(style: ModuleType) -> None:
    page = """# A title of four words

Text with `a command of six words` and a [link](to/some/place). Another one!

```sh
harness run redlock
```

| head | of |
|---|---|
| a cell | One sentence. Another one |
"""
    assert style.sentences(page) == [
        "Text with code and a link.", "Another one!", "head", "of", "a cell", "One sentence.", "Another one",
    ]  # fmt: skip
