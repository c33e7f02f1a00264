"""Each test of a command works in an empty folder with a module of locks."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from .commands import MYLOCK


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    (tmp_path / "mylock_cli.py").write_text(MYLOCK)
    yield tmp_path
    sys.modules.pop("mylock_cli", None)
