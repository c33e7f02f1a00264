"""Makes the pictures of the README and the docs from the program itself (needs Chromium):

``python docs/make_pictures.py [--only NAME]... [--comparison DIR] [--real DIR] [--store DIR]``

``--only`` makes one picture, such as ``published``; ``matrix`` and ``comparison`` are made together. ``--comparison``
is the folder of a comparison; without one, all locks are compared on the simulator, which takes long. ``--real`` is one
on containers, of which ``costs.png`` is made; without it that picture stays as it is. ``--store`` is a store with a
nightly run, of which ``published.png`` is made; without one, every scenario is run on the simulator."""

from __future__ import annotations

import argparse
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
from harness.studies.publication import publish
from harness.studies.results_db import RESULTS_DB

HERE: Final = Path(__file__).parent
CHROMIUM: Final = os.environ.get("HARNESS_CHROMIUM", "/usr/bin/chromium")
PICTURES: Final = ("report", "linearization", "serve", "comparison", "matrix", "published")
SHOWN: Final = (
    ("redlock", "clock-skew"), ("redlock", "none"), ("redis-token", "client-pause"), ("redis-fenced", "client-pause"),
    ("redis-setnx", "client-crash"), ("zookeeper-sequential", "client-pause"), ("etcd-mutex", "leader-loss"),
    ("mysql-for-update", "connection-reset"), ("memcached-token", "eviction"), ("redlock", "kill-amnesia"),
)  # fmt: skip
"""The runs of the store that ``serve.png`` shows."""


def main() -> None:
    """Write ``report.png`` (the first screen of the report of the README's first command), ``linearization.png`` (of a
    check of a run), ``comparison.png``, ``matrix.png``, ``published.png`` and ``serve.png``."""
    given = _arguments()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        store = Path(folder) / "store"
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        if _wanted(given, "report"):
            _report(browser, store)
        if _wanted(given, "linearization"):
            _linearization(browser, store)
        if _wanted(given, "serve"):
            _serve(browser, store)
        compared = given.comparison
        if _wanted(given, "comparison", "matrix"):
            compared = compared or _compared(store)
            _comparison(browser, store, compared)
        if _wanted(given, "published"):
            _published(browser, Path(folder), compared, given.store)
        browser.close()
    if given.real is not None:
        shutil.copy(given.real / "costs.png", HERE)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Make the pictures of the docs.")
    parser.add_argument("--only", action="append", default=[], choices=PICTURES)
    for name in ("comparison", "real", "store"):
        parser.add_argument(f"--{name}", type=Path)
    return parser.parse_args()


def _wanted(given: argparse.Namespace, *names: str) -> bool:
    return not given.only or any(name in given.only for name in names)


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


def _compared(store: Path) -> Path:
    """Compare all locks on the simulator, and return the folder of the comparison."""
    harness = [sys.executable, "-m", "harness", "compare", "--cluster", "sim", "--out", str(store)]
    subprocess.run(harness, check=False)
    (folder,) = (store / "comparisons").iterdir()
    return folder


def _comparison(browser: Browser, store: Path, compared: Path) -> None:
    """Work on a copy of the comparison, so that the original stays as it is."""
    copy = store / "compared"
    copy.mkdir(parents=True)
    shutil.copy(compared / DOCUMENT, copy)
    page = comparison.write(copy).as_uri()
    _taken(browser, page, "comparison.png", 1340)
    _taken(browser, page, "matrix.png", 3000, ".matrix")  # its header sticks to the window


def _published(browser: Browser, folder: Path, compared: Path | None, given: Path | None) -> None:
    """Publish a copy of a nightly run, and of the comparison if there is one, and take a picture of the index."""
    store = folder / "nights"
    store.mkdir()
    if compared is not None:
        place = store / "comparisons" / compared.name
        place.mkdir(parents=True)
        shutil.copy(compared / DOCUMENT, place)
    if given is None:
        subprocess.run([sys.executable, "-m", "harness", "nightly", "--out", str(store)], check=False)
    else:
        shutil.copy(given / RESULTS_DB, store)
    publish(folder / "site", store=store)
    _taken(browser, (folder / "site" / "index.html").as_uri(), "published.png", 1500, order="kept")


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


def _taken(browser: Browser, address: str, name: str, height: int, part: str = "", order: str = "") -> None:
    page = browser.new_page(viewport={"width": 1240, "height": height}, device_scale_factor=1.5)
    page.goto(address)
    if order:
        page.select_option("#filter-order", order)
    page.wait_for_timeout(500)
    if part:
        page.locator(part).first.screenshot(path=HERE / name)
    else:
        page.screenshot(path=HERE / name)


if __name__ == "__main__":
    main()
