"""Run folders for the tests of reports, made once a session: see ``sample.py``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from harness.plan import FaultSpec, Plan
from harness.reports import run_report
from harness.run.runs import run
from tests.reports import sample
from tests.reports.watched import watched

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from tests.reports.opened import Open, Reported


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "browser: needs a Chromium (HARNESS_CHROMIUM or /usr/bin/chromium)")


@pytest.fixture(scope="session")
def reported(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return a function: ``reported(kind)`` is the report.html of a sample run of that kind."""

    @cache
    def make(kind: str) -> Path:
        return run_report.write(sample.write(tmp_path_factory.mktemp(kind), kind))

    return make


@pytest.fixture(scope="session")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run in which clocks jump, so that two clients hold the lock, with its messages and its report."""
    plan = Plan(lock="redlock", time_limit=20.0, faults=(FaultSpec("clock-jump", every=5.0),))
    result = run(plan, store=tmp_path_factory.mktemp("store"))
    assert result.folder is not None
    assert result.valid is not None
    run_report.write(result.folder)
    return result.folder


@pytest.fixture
def traced_page(browser: Browser, traced: Path) -> Iterator[Page]:
    """The report of the traced run in a page that must log no complaint."""
    from tests.reports.opened import messages_shown

    page = browser.new_page(viewport={"width": 1280, "height": 900})
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.goto((traced / "report.html").as_uri())
    messages_shown(page)
    yield page
    page.close()
    assert complaints == []


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a run folder with a violation, which the test may damage."""
    return sample.write(tmp_path, "violation")


@pytest.fixture
def opened(browser: Browser, reported: Reported) -> Iterator[Open]:
    """Return a function: ``opened(kind, width=...)`` is a report in a page that must send no request and log no
    complaint."""
    from tests.reports.opened import wait_until

    with watched(browser) as (open_page, requests):
        count = 0

        def open_report(kind: str, width: int = 1280, scheme: str = "light") -> Page:
            nonlocal count
            count += 1
            page = open_page(reported(kind).as_uri(), width, scheme)
            wait_until(page, "performance.getEntriesByName('timeline-painted').length > 0")
            return page

        yield open_report
    assert all(url.startswith("file://") for url in requests)
    assert len(requests) == count
