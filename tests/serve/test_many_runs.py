"""The pages of a store with 10,000 runs are as large as those of one with 300, and open as few files.

These are counts, so they are the same on a slow machine; ``benchmarks.serve`` measures times.
"""

from __future__ import annotations

import json
import sqlite3
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from harness.serve import index, status_page
from harness.serve.app import application
from harness.serve.guard import Guard
from tests.reports import nights
from tests.serve import stores
from tests.serve.asking import Answer, request

pytestmark = pytest.mark.slow
FEW: Final = 300
MANY: Final = 10_000
NIGHTS: Final = status_page.NIGHTS + 20
MOST_STATEMENTS: Final = status_page.NIGHTS + 30
"""One query for each nightly run that is read, one for their list, and the statements that open the file."""
LISTS: Final = ("/", "/?page=3", "/?lock=redlock&verdict=invalid", "/?text=number+7&sort=-operations", "/?sort=summary")


class Access:
    """Counts of files that requests open and of folders that they list, and their SQL statements."""

    def __init__(self) -> None:
        self.watching = False
        self.events: Counter[str] = Counter()
        self.statements: list[str] = []
        sys.addaudithook(self._note)

    def _note(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.watching and event in ("open", "os.scandir", "os.listdir", "sqlite3.connect"):
            own = event != "open" or not str(arguments[0]).endswith((".py", ".pyc", ".html", ".css", ".js"))
            self.events[event] += own

    @contextmanager
    def watched(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        connect = sqlite3.connect

        def traced(*arguments: Any, **named: Any) -> sqlite3.Connection:
            connection: sqlite3.Connection = connect(*arguments, **named)
            connection.set_trace_callback(self.statements.append)
            return connection

        self.events.clear()
        self.statements.clear()
        self.watching = True
        with monkeypatch.context() as patched:
            patched.setattr(sqlite3, "connect", traced)
            yield
        self.watching = False


@pytest.fixture(scope="module")
def access() -> Access:
    return Access()


def make(store: Path, count: int) -> Guard:
    """Return the application of a store with ``count`` runs of an hour ago, and nightly runs."""
    for number in range(count):
        document = stores.results(number)
        folder = store / document["lock"] / stores.name(number)
        folder.mkdir(parents=True)
        (folder / "results.json").write_text(json.dumps(document))
    pairs = [(lock, fault) for lock in stores.LOCKS for fault in stores.FAULTS]
    outcomes = [nights.outcome(f"{lock}-{fault}", lock=lock, faults=[fault]) for lock, fault in pairs]
    for number in range(NIGHTS):
        began = f"{stores.began(number * 200):%Y-%m-%dT%H:%M:%SZ}"
        nights.add(store / "results.db", {**nights.explored(), "started_at": began, "outcomes": outcomes})
    return application(store)


@pytest.fixture(scope="module")
def apps(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Guard]:
    found = {count: make(tmp_path_factory.mktemp("store"), count) for count in (FEW, MANY)}
    for app in found.values():
        assert request(app, "/").status == 200
    return found


def body(answer: Answer) -> str:
    assert answer.status == 200
    return answer.text


@pytest.mark.parametrize("target", LISTS)
def test_the_list_of_runs_has_a_bounded_size(apps: dict[int, Guard], target: str) -> None:
    few, many = (body(request(apps[count], target)) for count in (FEW, MANY))
    assert f"{MANY:,} runs: " in many
    assert many.count("<tr") <= 101
    assert len(many) < 150_000
    if few.count("<tr") == many.count("<tr"):
        assert len(many) < 1.1 * len(few)


@pytest.mark.parametrize("target", [*LISTS, "/status", "/status?state=broken&text=redlock"])
def test_a_later_request_reads_no_run_again(
    apps: dict[int, Guard], access: Access, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "FRESH_S", 0.0)
    monkeypatch.setattr(index, "SETTLED_NS", 0)
    seen = {}
    for count, app in apps.items():
        request(app, target)
        with access.watched(monkeypatch):
            body(request(app, target))
        seen[count] = dict(access.events)
        assert access.events["open"] == 0
        assert access.events["os.scandir"] == len(stores.LOCKS) + 1, "the store is looked at again"
        assert access.statements == []
    assert seen[FEW] == seen[MANY]


def test_the_first_status_reads_a_bounded_number_of_nightly_runs(
    tmp_path: Path, apps: dict[int, Guard], access: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = make(tmp_path, 10)
    request(app, "/")
    with access.watched(monkeypatch):
        few = body(request(app, "/status"))
    assert sum("FROM outcomes" in one for one in access.statements) == status_page.NIGHTS
    assert len(access.statements) <= MOST_STATEMENTS
    assert access.events["sqlite3.connect"] <= 4
    many = body(request(apps[MANY], "/status"))
    assert len(many) < 1.1 * len(few)


def test_one_changed_run_is_the_only_one_that_is_read(
    apps: dict[int, Guard], access: Access, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "FRESH_S", 0.0)
    app = make(tmp_path, FEW)
    request(app, "/")
    stores.add(tmp_path, FEW + 1)
    with access.watched(monkeypatch):
        assert f"{FEW + 1} runs: " in body(request(app, "/"))
    assert access.events["open"] <= 3
