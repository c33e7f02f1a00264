"""Makes the pictures of the README from the program itself: ``python docs/make_pictures.py`` (needs Chromium)."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from harness.nemesis import default_specs
from harness.plan import Plan
from harness.runs import run
from reports import run_report

HERE = Path(__file__).parent
CHROMIUM = os.environ.get("HARNESS_CHROMIUM", "/usr/bin/chromium")


def main() -> None:
    """Write ``report.png``: the first screen of the report of the README's first command."""
    with tempfile.TemporaryDirectory() as store, sync_playwright() as playwright:
        plan = Plan(lock="redlock", faults=tuple(default_specs("clock-skew", 2.0)))
        result = run(plan, store=Path(store), command="harness run redlock --nemesis clock-skew")
        assert result.folder is not None
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1240, "height": 1180}, device_scale_factor=1.5)
        page.goto(run_report.write(result.folder).as_uri())
        page.wait_for_timeout(500)
        page.screenshot(path=HERE / "report.png")
        browser.close()


if __name__ == "__main__":
    main()
