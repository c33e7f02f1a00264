"""The tutorial, executed in an empty folder by the installed wheel, as a reader would."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.scripts import DOCS, script

pytestmark = pytest.mark.installed


def test_every_output_of_the_tutorial_is_the_programs(environment: Path, tmp_path: Path) -> None:
    """``python docs/run_page.py docs/tutorial.md --write`` replaces the outputs on the page."""
    run_page = script("run_page")
    programs, folder = tmp_path / "programs", tmp_path / "folder"
    programs.mkdir()
    folder.mkdir()
    variables = run_page.environment_with(programs, str(environment / "python"), code="")
    page = run_page.Page((DOCS / "tutorial.md").read_text(encoding="utf-8"), folder, variables)
    page.execute()
    assert [tuple(one) for one in page.differences] == []
    assert page.executed >= 6
