"""Makes the pictures of the page "Ten failures in pictures" from the message viewer (needs Chromium):

``python docs/make_failures.py [NAME ...]`` runs the scenarios in the simulator, and writes ``docs/failures/NAME.png``
of each. It takes about a minute."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Final

import msgspec
from playwright.sync_api import Browser, sync_playwright

from harness.reports import run_report
from harness.run.runs import run
from harness.scenarios import catalogue

HERE: Final = Path(__file__).parent / "failures"
CHROMIUM: Final = os.environ.get("HARNESS_CHROMIUM", "/usr/bin/chromium")
FAILURES: Final = (
    "ttl-pause-write", "rl-clock-jump", "redis-async-failover", "redis-restart-empty", "lost-reply-acquire",
    "del-foreign", "redis-split-brain", "zk-pause", "fu-conn-lost", "mc-evict",
)  # fmt: skip
WHOLE: Final = """
#sequence-canvas { height: auto !important; overflow: visible !important; border-radius: 0 !important; }
"""
"""The box of the diagram is as high as the diagram."""
WIDTH: Final = 1120


def main() -> None:
    """Write the pictures of the named scenarios, or of all."""
    with tempfile.TemporaryDirectory() as store, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for name in sys.argv[1:] or FAILURES:
            draw(browser, name, Path(store))
        browser.close()


def draw(browser: Browser, name: str, store: Path) -> None:
    """Run a scenario and write the picture of its first violation."""
    plan = msgspec.structs.replace(catalogue.find(name).plan, cluster="sim")
    result = run(plan, store=store, trace="on")
    assert result.folder is not None
    assert result.valid is False, f"{name} has no violation"
    page = browser.new_page(viewport={"width": WIDTH, "height": 2400}, device_scale_factor=1.5)
    page.goto(run_report.write(result.folder).as_uri())
    page.locator("#sequence-waits").wait_for(state="hidden")
    page.add_style_tag(content=WHOLE)
    page.dispatch_event("#sequence-mode", "change")
    page.locator("#sequence-canvas").screenshot(path=HERE / f"{name}.png")
    page.close()


if __name__ == "__main__":
    main()
