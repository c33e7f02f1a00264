"""A stranger's folder as the working directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from .stranger import Stranger


@pytest.fixture
def stranger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stranger:
    return Stranger(tmp_path, monkeypatch)
