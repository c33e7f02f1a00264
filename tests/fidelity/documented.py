"""Sections of known differences in ``docs/fidelity/``."""

from __future__ import annotations

from pathlib import Path
from typing import Final

PAGES: Final = Path(__file__).parents[2] / "docs" / "fidelity"


def documented(page: str) -> set[str]:
    """Return the titles of the sections of ``docs/fidelity/<page>.md``."""
    lines = (PAGES / f"{page}.md").read_text(encoding="utf-8").splitlines()
    return {line.removeprefix("### ") for line in lines if line.startswith("### ")}
