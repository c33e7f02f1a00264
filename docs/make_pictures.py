"""Makes the pictures of the README from the program itself: ``python docs/make_pictures.py`` (needs Chromium)."""

from __future__ import annotations

import os
import tempfile
from dataclasses import replace
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from harness import check
from harness.nemesis import default_specs
from harness.plan import Plan
from harness.runs import run
from reports import linearization, run_report

HERE = Path(__file__).parent
CHROMIUM = os.environ.get("HARNESS_CHROMIUM", "/usr/bin/chromium")


def main() -> None:
    """Write ``report.png``, the first screen of the report of the README's first command, and ``linearization.png``,
    of a check of a run."""
    with tempfile.TemporaryDirectory() as store, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        plan = Plan(lock="redlock", faults=tuple(default_specs("clock-skew", 2.0)))
        result = run(plan, store=Path(store), command="harness run redlock --nemesis clock-skew")
        assert result.folder is not None
        _taken(browser, run_report.write(result.folder), "report.png", 1180)
        plan = Plan(lock="redis-token", seed=1, clients=4, faults=tuple(default_specs("clock-jump", 2.0)))
        result = run(plan, store=Path(store))
        assert result.folder is not None
        (picture, *_) = check(result.folder, "lease-mutex").checked.pictures
        picture = replace(picture, file="store/latest/history.jsonl")
        _taken(browser, linearization.write(picture, Path(store) / "why.html"), "linearization.png", 900)
        browser.close()


def _taken(browser: Browser, file: Path, name: str, height: int) -> None:
    page = browser.new_page(viewport={"width": 1240, "height": height}, device_scale_factor=1.5)
    page.goto(file.as_uri())
    page.wait_for_timeout(500)
    page.screenshot(path=HERE / name)


if __name__ == "__main__":
    main()
