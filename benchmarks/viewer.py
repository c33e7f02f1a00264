"""Measure the report of a long run in Chromium: ``python -m benchmarks.viewer [FOLDER]``.

FOLDER is the folder of a stored run with a trace; without one, a simulated run with 100,000 calls is made first, which
takes a minute or two. Prints the size of the page, when it was painted, and how long steps and frames take. On a busy
machine the times grow with its load, and the processor times of the page's process do not.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path
from typing import Final

from playwright.sync_api import Page, sync_playwright

from harness.faults.catalogue import default_specs
from harness.plan import Plan
from harness.reports import run_report
from harness.run.runs import run

CHROMIUM: Final = os.environ.get("HARNESS_CHROMIUM", "/usr/bin/chromium")
SECONDS: Final = 700.0
"""Virtual time in which five clients that hold a lock for 4 ms make 100,000 calls."""
STEPS: Final = 100
STEP: Final = """(count) => {
  const canvas = document.getElementById("sequence-canvas"), took = [];
  for (let i = 0; i < count; i++) {
    const begun = performance.now();
    canvas.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowDown", cancelable: true }));
    canvas.getBoundingClientRect();
    document.getElementById("sequence-hosts").getBoundingClientRect();
    took.push(performance.now() - begun);
  }
  return took.sort((a, b) => a - b);
}"""
"""Steps as the arrow key makes them, each with the layout of the changed page."""
SCROLL: Final = """(count) => new Promise((done) => {
  const canvas = document.getElementById("sequence-canvas"), frames = [], by = canvas.scrollHeight / count;
  let last = 0;
  canvas.scrollTop = 0;
  const next = (now) => {
    if (last) frames.push(now - last);
    last = now;
    if (frames.length === count) return done(frames.sort((a, b) => a - b));
    canvas.scrollTop += by;
    requestAnimationFrame(next);
  };
  requestAnimationFrame(next);
})"""
"""Frames while the diagram scrolls from its beginning to its end."""


def made(store: Path) -> Path:
    """Return the folder of a run with 100,000 calls and all its messages."""
    faults = tuple(default_specs("client-pause", 2.0))
    plan = Plan(lock="redis-token", clients=5, seed=1, time_limit=SECONDS, hold=0.004, ttl=2.0, faults=faults)
    result = run(plan, store=store, trace="on")
    assert result.folder is not None
    return result.folder


def painted(page: Page) -> dict[str, float]:
    """Return when the page had painted its parts, ms after the navigation began."""
    page.wait_for_timeout(200)
    names = ("first-contentful-paint", "timeline-painted", "sequence-painted")
    return {name: page.evaluate(f"performance.getEntriesByName('{name}')[0].startTime") for name in names}


class Processor:
    """The processor time of a page's process."""

    def __init__(self, page: Page) -> None:
        self._session = page.context.new_cdp_session(page)
        self._session.send("Performance.enable")
        self._before = self._total()

    def _total(self) -> float:
        metrics = self._session.send("Performance.getMetrics")["metrics"]
        return 1000 * next(float(one["value"]) for one in metrics if one["name"] == "ProcessTime")

    def since(self) -> float:
        """Return the time since the last call, ms."""
        before, self._before = self._before, self._total()
        return self._before - before


def measure(page: Page, uri: str) -> None:
    """Print the figures of a report."""
    processor = Processor(page)
    page.goto(uri)
    page.locator("#sequence-waits").wait_for(state="hidden", timeout=60_000)
    print(f"processor time until the messages are drawn: {processor.since():.0f} ms")
    calls = page.evaluate("shownRun.run.calls.start.length")
    print(f"{calls:,} calls; " + ", ".join(f"{name} after {ms:.0f} ms" for name, ms in painted(page).items()))
    for mode in ("decisive", "clients", "all"):
        begun = page.evaluate("performance.now()")
        page.select_option("#sequence-mode", mode)
        changed = page.evaluate("performance.now()") - begun
        count = page.inner_text("#sequence-title").split()[3].rstrip(":")
        processor.since()
        took = page.evaluate(STEP, STEPS)
        mean = f"{processor.since() / STEPS:.1f} ms of the processor"
        print(f"{mode}: {count} steps, shown after {changed:.0f} ms; {_spread('a step', took)}, {mean}")
    print(_spread("a frame while scrolling over all messages", page.evaluate(SCROLL, STEPS)))


def _spread(what: str, took: list[float]) -> str:
    return f"{what}: median {took[len(took) // 2]:.1f} ms, longest {took[-1]:.1f} ms"


def main() -> None:
    """Make a run if none is given, write its report, and measure it."""
    parser = argparse.ArgumentParser(description="How quick the report of a long run is.")
    parser.add_argument("folder", nargs="?", type=Path, help="a stored run with a trace; else one is made")
    given: Path | None = parser.parse_args().folder
    with tempfile.TemporaryDirectory() as store, sync_playwright() as playwright:
        folder = given or made(Path(store))
        begun = time.process_time()
        path = run_report.write(folder)
        print(f"report: {path.stat().st_size / 1e6:.1f} MB, written in {time.process_time() - begun:.1f} s")
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for _ in range(2):  # the first page also starts processes of the browser
            measure(browser.new_page(viewport={"width": 1280, "height": 900}), path.as_uri())
        browser.close()


if __name__ == "__main__":
    main()
