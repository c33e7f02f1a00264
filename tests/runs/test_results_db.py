"""The results database: it stores each nightly run wholly or not at all, also from several processes, and reports bad
files."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from harness.documents.nightly import ScenarioOutcome
from harness.errors import UsageError
from harness.studies import results_db
from harness.studies.results_db import nights, outcomes
from tests.reports.nights import IMPOSSIBLE_REPLY, add, mixed, night, outcome, plain

ADDS = """
import sys
from pathlib import Path
from tests.reports.nights import IMPOSSIBLE_REPLY, add, night, plain

print("ready", flush=True)
sys.stdin.readline()
for day in range(1, 31):
    add(Path(sys.argv[1]), night(day, plain(), suite=sys.argv[2]))
"""


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "store" / results_db.RESULTS_DB


def test_a_stored_nightly_run_is_read_back_unchanged(db: Path) -> None:
    document = night(21, [outcome(f"row-{state}", state=state) for state in ("as-expected", "not-run", "error")])
    document["outcomes"][0]["traces"] = [IMPOSSIBLE_REPLY]
    stored = add(db, document)
    (told,) = nights(db)
    assert (told.id, told.started_at, told.suite, told.seconds) == (stored, "2026-11-21T02:00:00Z", "smoke", 93.1)
    assert (told.clusters, told.versions, told.status) == (("sim",), document["versions"], 3)
    assert msgspec.json.decode(msgspec.json.encode(outcomes(db, [stored])[stored])) == document["outcomes"]


def test_the_three_verdicts_are_stored_distinctly(db: Path) -> None:
    stored = add(db, night(21, [outcome("a", valid=valid, faults=[]) for valid in (True, False, None)]))
    found = outcomes(db, [stored])[stored]
    assert [one.valid for one in found] == [True, False, None]
    assert found[0].faults == ()


def test_invalid_characters_are_replaced_when_stored(db: Path) -> None:
    stored = add(db, mixed())
    assert any("\x00\x1b[31m ?" in one.why for one in outcomes(db, [stored])[stored])


def test_nightly_runs_are_ordered_by_start_in_utc(db: Path) -> None:
    for started_at in ("2026-11-21T02:00:00Z", "2026-11-20T23:30:00-04:00", "2026-11-20T02:00:00.5Z"):
        add(db, night(1, [], started_at=started_at))
    told = [one.started_at for one in nights(db)]
    assert told == ["2026-11-20T02:00:00Z", "2026-11-21T02:00:00Z", "2026-11-21T03:30:00Z"]


def test_columns_can_be_queried(db: Path) -> None:
    add(db, mixed())
    with closing(sqlite3.connect(db)) as connection:
        query = "SELECT lock, faults, count(*) FROM outcomes WHERE state = 'violated' GROUP BY lock, faults"
        assert connection.execute(query).fetchall() == [("redlock-fenced", "clock-jump", 1)]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"schema": 2}, "schema: expected 1, got 2"),
        ({"started_at": "yesterday"}, "started_at: expected a time"),
        (
            {"outcomes": [outcome("a"), outcome("b", state="perhaps")]},
            r'outcomes\[1\].state: expected one .*, got "perhaps"',
        ),
    ],
)
def test_an_invalid_document_is_not_stored(db: Path, change: dict[str, object], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        add(db, night(21, plain()) | change)
    assert not db.exists()


def test_a_partly_stored_nightly_run_is_rolled_back(db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add(db, night(20, plain()))
    whole, left = results_db._columns, iter(range(3))

    def fails(one: ScenarioOutcome) -> object:
        next(left)
        return whole(one)

    monkeypatch.setattr(results_db, "_columns", fails)
    with pytest.raises(RuntimeError, match="StopIteration"):
        add(db, night(21, plain()))
    monkeypatch.undo()
    assert len(nights(db)) == 1
    with closing(sqlite3.connect(db)) as connection:
        assert connection.execute("SELECT count(*) FROM outcomes").fetchone() == (len(plain()),)


def test_two_concurrent_processes_lose_no_nightly_run(db: Path) -> None:
    command = [sys.executable, "-c", ADDS, str(db)]
    root = Path(__file__).parents[2]
    both = [
        subprocess.Popen([*command, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root)
        for name in ("smoke", "full")
    ]
    for process in both:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in both:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in both:
        process.communicate(timeout=300)
        assert process.returncode == 0
    told = nights(db)
    assert sorted(one.suite for one in told) == ["full"] * 30 + ["smoke"] * 30
    found = outcomes(db, [one.id for one in told])
    assert {len(of) for of in found.values()} == {len(plain())}
    with closing(sqlite3.connect(db)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_locked_database_is_reported_after_the_wait(db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add(db, night(20, []))
    monkeypatch.setattr(results_db, "PATIENCE_S", 0.05)
    with closing(sqlite3.connect(db, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(UsageError, match=r"results\.db: cannot use this database of results: database is locked"):
            add(db, night(21, []))


def _foreign(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE nights (id)")


def _newer(path: Path) -> None:
    add(path, night(20, []))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"PRAGMA user_version = {len(results_db.MIGRATIONS) + 1}")


def _cut(path: Path) -> None:
    add(path, night(20, plain() * 20))
    path.write_bytes(path.read_bytes()[:9000])


def _odd(path: Path) -> None:
    add(path, night(20, plain()))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE nights SET versions = '{'")


BAD: dict[str, tuple[Callable[[Path], object], str]] = {
    "text": (lambda path: path.write_text("no database " * 100), "not a database of results, or a damaged one"),
    "cut off": (_cut, "not a database of results, or a damaged one"),
    "not JSON": (_odd, "not a database of results, or a damaged one"),
    "foreign": (_foreign, "an SQLite file of something else"),
    "newer": (_newer, r"written by a newer harness \(version 9 of the file, this one knows 8\)"),
    "a folder": (lambda path: path.mkdir(), "cannot use this database of results"),
}


@pytest.mark.parametrize("kind", list(BAD))
def test_a_bad_file_is_reported_and_left_unchanged(db: Path, kind: str) -> None:
    make, told = BAD[kind]
    db.parent.mkdir()
    make(db)
    before = db.read_bytes() if db.is_file() else b""
    with pytest.raises(UsageError, match=told):
        nights(db)
    if kind != "not JSON":
        with pytest.raises(UsageError, match=told):
            add(db, night(21, plain()))
    assert (db.read_bytes() if db.is_file() else b"") == before


def test_a_missing_file_names_the_command_that_creates_it(db: Path) -> None:
    with pytest.raises(UsageError, match="contains no nightly run: 'harness nightly' runs one"):
        nights(db)
    assert not db.parent.exists()


def test_an_empty_file_has_no_nightly_runs(db: Path) -> None:
    db.parent.mkdir()
    db.touch()
    assert nights(db) == []


def test_an_older_file_is_migrated(db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add(db, night(20, plain()))
    newer = (*results_db.MIGRATIONS, ("ALTER TABLE nights ADD COLUMN host TEXT", "UPDATE nights SET host = 'here'"))
    monkeypatch.setattr(results_db, "MIGRATIONS", newer)
    before = db.read_bytes()
    assert [one.started_at for one in nights(db)] == ["2026-11-20T02:00:00Z"]
    assert db.read_bytes() == before, "who only reads changes nothing"
    add(db, night(21, plain()))
    assert [one.started_at for one in nights(db)] == ["2026-11-20T02:00:00Z", "2026-11-21T02:00:00Z"]
    with closing(sqlite3.connect(db)) as connection:
        assert connection.execute("SELECT host FROM nights").fetchall() == [("here",), (None,)]
        assert connection.execute("PRAGMA user_version").fetchone() == (len(newer),)
    monkeypatch.undo()
    with pytest.raises(UsageError, match="newer harness"):
        add(db, night(21, plain()))


CUT_OFF = """
import os, sqlite3, sys

connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA cache_size = 1")
connection.execute("BEGIN IMMEDIATE")
for number in range(2000):
    connection.execute("INSERT INTO nights VALUES (NULL, ?, 's', '[]', 1, 0, '{}', NULL, NULL, NULL)", ("x" * 500,))
os._exit(0)
"""


def test_an_interrupted_write_is_rolled_back_by_the_next_one(db: Path) -> None:
    add(db, night(20, plain()))
    subprocess.run([sys.executable, "-c", CUT_OFF, str(db)], check=True)
    with pytest.raises(
        UsageError, match="a nightly run was interrupted while it was stored; the next 'harness nightly' removes it"
    ):
        nights(db)
    add(db, night(21, plain()))
    assert len(nights(db)) == 2


def test_a_failed_migration_leaves_the_file_unchanged(db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add(db, night(20, plain()))
    broken = (*results_db.MIGRATIONS, ("ALTER TABLE nights ADD COLUMN host TEXT", "UPDATE mornings SET host = 1"))
    monkeypatch.setattr(results_db, "MIGRATIONS", broken)
    with pytest.raises(UsageError, match="no such table: mornings"):
        nights(db)
    monkeypatch.undo()
    assert len(nights(db)) == 1
