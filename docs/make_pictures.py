"""Makes the pictures of the README and the docs from the program itself (needs Chromium):

``python docs/make_pictures.py [COMPARISON [REAL]]``, where COMPARISON is the folder of a comparison; without one, all
locks are compared on the simulator, which takes some minutes. REAL is one on containers, of which ``costs.png`` is
made; without it that picture stays as it is."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from playwright.sync_api import Browser, sync_playwright

from harness import check
from harness.faults.catalogue import default_specs
from harness.plan import Plan
from harness.reports import comparison, linearization, run_report
from harness.run.runs import run
from harness.studies.compare import DOCUMENT

HERE: Final = Path(__file__).parent
CHROMIUM: Final = os.environ.get("HARNESS_CHROMIUM", "/usr/bin/chromium")
SHOWN: Final = (
    ("redlock", "clock-skew"), ("redlock", "none"), ("redis-token", "client-pause"), ("redis-fenced", "client-pause"),
    ("redis-setnx", "client-crash"), ("zookeeper-sequential", "client-pause"), ("etcd-mutex", "leader-loss"),
    ("mysql-for-update", "connection-reset"), ("memcached-token", "eviction"), ("redlock", "kill-amnesia"),
)  # fmt: skip
"""The runs of the store that ``serve.png`` shows."""


def main() -> None:
    """Write ``report.png`` (the first screen of the report of the README's first command), ``linearization.png`` (of a
    check of a run), ``comparison.png``, ``matrix.png`` and ``serve.png``."""
    given, real = (*map(Path, sys.argv[1:3]), None, None)[:2]
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        store = Path(folder) / "store"
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        _report(browser, store)
        _linearization(browser, store)
        _serve(browser, store)
        _comparison(browser, store, given)
        browser.close()
    if real is not None:
        shutil.copy(real / "costs.png", HERE)


def _report(browser: Browser, store: Path) -> None:
    plan = Plan(lock="redlock", faults=tuple(default_specs("clock-skew", 2.0)))
    result = run(plan, store=store, command="harness run redlock --nemesis clock-skew")
    assert result.folder is not None
    _taken(browser, run_report.write(result.folder).as_uri(), "report.png", 1120)


def _linearization(browser: Browser, store: Path) -> None:
    plan = Plan(lock="redis-token", seed=1, clients=4, faults=tuple(default_specs("clock-jump", 2.0)))
    result = run(plan, store=store)
    assert result.folder is not None
    (picture, *_) = check(result.folder, "lease-mutex").checked.pictures
    picture = replace(picture, file="store/latest/history.jsonl")
    _taken(browser, linearization.write(picture, store / "why.html").as_uri(), "linearization.png", 900)


def _serve(browser: Browser, store: Path) -> None:
    for lock, nemesis in SHOWN:
        plan = Plan(lock=lock, fencing="on" if lock == "redis-fenced" else "off")
        run(Plan(lock=lock, fencing=plan.fencing, faults=tuple(default_specs(nemesis, plan.ttl))), store=store)
    with _served(store) as address:
        _taken(browser, address, "serve.png", 900)


def _comparison(browser: Browser, store: Path, given: Path | None) -> None:
    """Work on a copy of the store, so that the original stays as it is."""
    if given is None:
        harness = [sys.executable, "-m", "harness", "compare", "--cluster", "sim", "--out", str(store)]
        subprocess.run(harness, check=False)
        (given,) = (store / "comparisons").iterdir()
    copy = store / "compared"
    copy.mkdir()
    shutil.copy(given / DOCUMENT, copy)
    page = comparison.write(copy).as_uri()
    _taken(browser, page, "comparison.png", 1340)
    _taken(browser, page, "matrix.png", 3000, ".matrix")  # its header sticks to the window


@contextlib.contextmanager
def _served(store: Path) -> Iterator[str]:
    """``harness serve`` on this store, and its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "harness", "serve", "--store", str(store), "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            _await(port)
            yield f"http://127.0.0.1:{port}/"
        finally:
            server.terminate()


def _await(port: int) -> None:
    until = time.monotonic() + 20
    while time.monotonic() < until:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.1)
    raise TimeoutError(f"harness serve does not answer on port {port}")


def _taken(browser: Browser, address: str, name: str, height: int, part: str = "") -> None:
    page = browser.new_page(viewport={"width": 1240, "height": height}, device_scale_factor=1.5)
    page.goto(address)
    page.wait_for_timeout(500)
    if part:
        page.locator(part).first.screenshot(path=HERE / name)
    else:
        page.screenshot(path=HERE / name)


if __name__ == "__main__":
    main()
