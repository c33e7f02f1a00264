"""Run folders for the report's tests, made once a session: see ``sample.py``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from reports import run_report
from tests.reports import sample


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "browser: needs a Chromium (HARNESS_CHROMIUM or /usr/bin/chromium)")


@pytest.fixture(scope="session")
def reported(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """``reported(kind)`` is the report.html of a sample run of that kind."""

    @cache
    def make(kind: str) -> Path:
        return run_report.write(sample.write(tmp_path_factory.mktemp(kind), kind))

    return make


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run folder with a violation, to be damaged."""
    return sample.write(tmp_path, "violation")
