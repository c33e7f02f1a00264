"""Database of nightly results: ``<store>/results.db``, an SQLite file with a row for each nightly run and each outcome.

The file keeps SQLite's rollback journal, not a write-ahead log: between two commands the one file is the whole
database, so that a CI system can cache or copy it. A writer takes the write lock before it reads (``BEGIN IMMEDIATE``)
and waits for other writers. ``user_version`` counts the :data:`MIGRATIONS` that a file has had, and ``application_id``
identifies the file as ours (both: sqlite.org, pragma.html).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from harness.documents import NightlyDocument
from harness.documents.exploration import Exploration, Explored, ExploredFailure, Pair, PairVisit
from harness.documents.fidelity import FidelityFigure
from harness.documents.nightly import ScenarioOutcome
from harness.errors import EnvironmentLacking, UsageError
from harness.files import cannot_write

RESULTS_DB: Final = "results.db"
APPLICATION: Final = 0x6C6F636B
"""``lock`` in ASCII."""
PATIENCE_S: Final = 30.0
NO_SPACE: Final = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY})
"""Primary error codes of a disk that is full or read-only."""
MIGRATIONS: Final[tuple[tuple[str, ...], ...]] = (
    (
        """CREATE TABLE nights (
          id INTEGER PRIMARY KEY, started_at TEXT NOT NULL, suite TEXT NOT NULL, clusters TEXT NOT NULL,
          seconds REAL NOT NULL, status INTEGER NOT NULL, versions TEXT NOT NULL)""",
        """CREATE TABLE outcomes (
          night INTEGER NOT NULL REFERENCES nights (id) ON DELETE CASCADE, row TEXT NOT NULL, scenario TEXT NOT NULL,
          title TEXT NOT NULL, safe INTEGER NOT NULL, lock TEXT NOT NULL, kind TEXT NOT NULL, faults TEXT NOT NULL,
          workload TEXT NOT NULL, cluster TEXT NOT NULL, seed INTEGER NOT NULL, state TEXT NOT NULL, why TEXT NOT NULL,
          valid INTEGER, found_s REAL, time_limit REAL NOT NULL, real_seconds REAL NOT NULL, acquires INTEGER NOT NULL,
          folder TEXT, expected TEXT NOT NULL, checkers TEXT NOT NULL)""",
        "CREATE INDEX outcomes_of_a_night ON outcomes (night)",
        "CREATE INDEX outcomes_of_a_scenario ON outcomes (scenario, cluster)",
    ),
    (
        "ALTER TABLE outcomes ADD COLUMN states TEXT NOT NULL DEFAULT '{}'",
        "ALTER TABLE outcomes ADD COLUMN reason TEXT NOT NULL DEFAULT ''",
    ),
    ("ALTER TABLE outcomes ADD COLUMN origin TEXT NOT NULL DEFAULT 'null'",),
    (
        "ALTER TABLE nights ADD COLUMN seed INTEGER",
        "ALTER TABLE nights ADD COLUMN explored REAL",
        "ALTER TABLE nights ADD COLUMN bound REAL",
        """CREATE TABLE visits (
          night INTEGER NOT NULL REFERENCES nights (id) ON DELETE CASCADE, lock TEXT NOT NULL, fault TEXT NOT NULL,
          "release" TEXT NOT NULL, seed INTEGER NOT NULL, round INTEGER NOT NULL, schedules INTEGER NOT NULL,
          judged INTEGER NOT NULL, seconds REAL NOT NULL, limits TEXT NOT NULL, failures TEXT NOT NULL,
          error TEXT NOT NULL)""",
        'CREATE INDEX visits_of_a_pair ON visits (lock, fault, "release")',
        "CREATE TABLE failures (name TEXT PRIMARY KEY, lock TEXT NOT NULL, failure TEXT NOT NULL)",
    ),
    (
        """CREATE TABLE fidelity (
          id INTEGER PRIMARY KEY, started_at TEXT NOT NULL, server TEXT NOT NULL, version TEXT NOT NULL,
          steps INTEGER NOT NULL, differing INTEGER NOT NULL, undocumented INTEGER NOT NULL,
          documented INTEGER NOT NULL)""",
    ),
    ("ALTER TABLE outcomes ADD COLUMN traces TEXT NOT NULL DEFAULT '[]'",),
    ("ALTER TABLE outcomes ADD COLUMN detection TEXT NOT NULL DEFAULT 'null'",),
    ("ALTER TABLE outcomes ADD COLUMN unknown_runs INTEGER NOT NULL DEFAULT 0",),
)
"""Statements that bring a file from version i to version i + 1. Released statements are never changed."""


class Night(msgspec.Struct, frozen=True, kw_only=True):
    """One stored nightly run. ``started_at`` is in UTC, in whole seconds; ``clusters`` are sorted."""

    id: int
    started_at: str
    suite: str
    clusters: tuple[str, ...]
    seconds: float
    status: int
    versions: dict[str, Any]
    seed: int | None = None
    """First of its fresh seeds; None without."""
    explored: float | None = None
    """Share of the pairs of lock and fault that nights had explored after it, 0 to 1; None if it did not explore."""
    bound: float | None = None
    """Median of the bounds of the explored pairs."""


_JSON: Final = frozenset({"clusters", "versions", "expected", "checkers", "states", "origin", "traces", "detection"})
_OUTCOME: Final = tuple(name for name in ScenarioOutcome.__struct_fields__ if name not in ("image", "server"))
"""A nightly run on several images is not stored."""
_VISIT: Final = tuple(PairVisit.__struct_fields__)
_VISIT_LISTS: Final = ("limits", "failures")
_FIGURE: Final = tuple(FidelityFigure.__struct_fields__)


def _make_folder(path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(f"to the store {path.parent}", error) from error


def add(path: Path, document: NightlyDocument) -> int:
    """Store a nightly run in one transaction and return its id. Creates the file if it is missing. Raises
    UsageError."""
    _make_folder(path)
    columns = ", ".join(("night", *_OUTCOME))
    places = ", ".join("?" * (len(_OUTCOME) + 1))
    found = document.exploration
    with _opened(path, "rwc") as connection, _transaction(connection, "IMMEDIATE"):
        cursor = connection.execute(
            "INSERT INTO nights (started_at, suite, clusters, seconds, status, versions, seed, explored, bound) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                _utc(document.started_at), document.suite,
                _json(sorted(document.clusters)), document.seconds, document.status, _json(document.versions),
                document.seed, found and found.share, found and found.bound,
            ),
        )  # fmt: skip
        night = cursor.lastrowid
        assert night is not None
        connection.executemany(
            f"INSERT INTO outcomes ({columns}) VALUES ({places})",
            ((night, *_columns(outcome)) for outcome in document.outcomes),
        )
        if found is not None:
            _add_exploration(connection, night, found)
    return night


def _add_exploration(connection: sqlite3.Connection, night: int, exploration: Exploration) -> None:
    columns = ", ".join(f'"{name}"' for name in ("night", *_VISIT))
    places = ", ".join("?" * (len(_VISIT) + 1))
    connection.executemany(
        f"INSERT INTO visits ({columns}) VALUES ({places})",
        ((night, *_visit_columns(visit)) for visit in exploration.visits),
    )
    connection.executemany(
        "INSERT OR REPLACE INTO failures (name, lock, failure) VALUES (?, ?, ?)",
        ((failure.name, failure.lock, _json(failure)) for failure in exploration.failures),
    )


def nights(path: Path) -> list[Night]:
    """Return all nightly runs, the oldest first. Raises UsageError if the file is missing or is not ours."""
    with _read(path) as connection:
        rows = connection.execute("SELECT * FROM nights ORDER BY started_at, id").fetchall()
        return [msgspec.convert(_values(row), Night) for row in rows]


def outcomes(path: Path, of: Iterable[int]) -> dict[int, list[ScenarioOutcome]]:
    """Return the outcomes of nightly runs by their ids, each in the order of its document. Raises UsageError as
    :func:`nights`."""
    with _read(path) as connection:
        query = "SELECT * FROM outcomes WHERE night = ? ORDER BY rowid"
        return {night: [_outcome(row) for row in connection.execute(query, (night,))] for night in of}


def scenarios(path: Path, night: int) -> list[tuple[str, str]]:
    """Return the scenarios of a nightly run, each with the clusters that it has outcomes on. Raises UsageError as
    :func:`nights`."""
    with _read(path) as connection:
        rows = connection.execute("SELECT DISTINCT scenario, cluster FROM outcomes WHERE night = ?", (night,))
        return [(row["scenario"], row["cluster"]) for row in rows]


def outcomes_of(path: Path, night: int, wanted: Iterable[tuple[str, str]]) -> list[ScenarioOutcome]:
    """Return the outcomes of a nightly run that are of ``wanted`` scenarios and clusters, in the order of its document.
    Raises UsageError as :func:`nights`."""
    chosen = set(wanted)
    with _read(path) as connection:
        rows = connection.execute("SELECT * FROM outcomes WHERE night = ? ORDER BY rowid", (night,))
        return [_outcome(row) for row in rows if (row["scenario"], row["cluster"]) in chosen]


def run_folders(path: Path) -> list[str]:
    """Return the folders of runs that nightly runs name. Raises UsageError as :func:`nights`."""
    with _read(path) as connection:
        rows = connection.execute("SELECT DISTINCT folder FROM outcomes WHERE folder IS NOT NULL ORDER BY folder")
        return [row["folder"] for row in rows]


def visits(path: Path) -> list[tuple[int, PairVisit]]:
    """Return the visits of all explorations, each with the number of its nightly run, the oldest first. Raises
    UsageError as :func:`nights`."""
    with _read(path) as connection:
        rows = connection.execute("SELECT * FROM visits ORDER BY night, rowid").fetchall()
        return [(row["night"], _visit(row)) for row in rows]


def failures_on_containers(path: Path, last: int) -> list[ScenarioOutcome]:
    """Return the outcomes of known failures on containers in the ``last`` nightly runs that had any, the oldest first.
    Raises UsageError as :func:`nights`."""
    with _read(path) as connection:
        rows = connection.execute(
            "SELECT * FROM outcomes WHERE cluster = 'docker' AND safe = 0 AND night IN (SELECT DISTINCT night FROM "
            "outcomes WHERE cluster = 'docker' ORDER BY night DESC LIMIT ?) ORDER BY rowid",
            (last,),
        )
        return [_outcome(row) for row in rows]


def explored(path: Path) -> dict[Pair, Explored]:
    """Return what all nights have explored of each pair. Raises UsageError as :func:`nights`."""
    with _read(path) as connection:
        rows = connection.execute(
            'SELECT lock, fault, "release", sum(schedules > 0), sum(schedules), sum(judged) FROM visits '
            'GROUP BY lock, fault, "release"'
        )
        return {Pair(*row[:3]): Explored(*row[3:]) for row in map(tuple, rows)}


def explored_failures(path: Path) -> list[ExploredFailure]:
    """Return the failures that exploration has found in all nights, by name. Raises UsageError as :func:`nights`."""
    with _read(path) as connection:
        rows = connection.execute("SELECT failure FROM failures ORDER BY name").fetchall()
        return [msgspec.json.decode(row["failure"], type=ExploredFailure) for row in rows]


def _visit(row: sqlite3.Row) -> PairVisit:
    values = {name: row[name] for name in _VISIT}
    return msgspec.convert(values | {name: msgspec.json.decode(row[name]) for name in _VISIT_LISTS}, PairVisit)


def _visit_columns(visit: PairVisit) -> Iterator[Any]:
    for name in _VISIT:
        value = getattr(visit, name)
        yield _json(value) if isinstance(value, tuple) else value


def add_fidelity(path: Path, figures: Iterable[FidelityFigure]) -> None:
    """Store the figures of a comparison of servers. Creates the file if it is missing. Raises UsageError."""
    _make_folder(path)
    places = ", ".join("?" * len(_FIGURE))
    with _opened(path, "rwc") as connection, _transaction(connection, "IMMEDIATE"):
        connection.executemany(
            f"INSERT INTO fidelity ({', '.join(_FIGURE)}) VALUES ({places})",
            ((_utc(one.started_at), *msgspec.structs.astuple(one)[1:]) for one in figures),
        )


def fidelity(path: Path) -> list[FidelityFigure]:
    """Return the figures of all comparisons of servers, the oldest first; none if there is no file. Raises
    UsageError."""
    if not path.exists():
        return []
    with _opened(path, "ro") as connection:
        rows = connection.execute(f"SELECT {', '.join(_FIGURE)} FROM fidelity ORDER BY started_at, id").fetchall()
        return [msgspec.convert(dict(row), FidelityFigure) for row in rows]


def _columns(outcome: ScenarioOutcome) -> Iterator[Any]:
    for name in _OUTCOME:
        value = getattr(outcome, name)
        value = _json(value) if name in _JSON else ",".join(value) if name == "faults" else value
        # A server's message may contain lone surrogates, which SQLite's UTF-8 cannot store.
        yield value.encode(errors="replace").decode() if isinstance(value, str) else value


def _outcome(row: sqlite3.Row) -> ScenarioOutcome:
    values = _values(row)
    values["faults"] = [name for name in values["faults"].split(",") if name]
    for name in ("safe", "valid"):
        values[name] = None if values[name] is None else bool(values[name])
    return msgspec.convert(values, ScenarioOutcome)


def _values(row: sqlite3.Row) -> dict[str, Any]:
    return {name: msgspec.json.decode(row[name]) if name in _JSON else row[name] for name in row.keys()}  # noqa: SIM118 - a Row iterates over values


def _utc(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


@contextmanager
def _read(path: Path) -> Iterator[sqlite3.Connection]:
    if not path.exists():
        raise UsageError(f"{path}: contains no nightly run: 'harness nightly' runs one and stores it")
    with _opened(path, "ro") as connection:
        yield connection


@contextmanager
def _opened(path: Path, mode: Literal["ro", "rwc"]) -> Iterator[sqlite3.Connection]:
    """Open a file and bring it to the newest version; raises UsageError if anything is wrong with it.

    A reader changes nothing: it migrates an older file in memory.
    """
    address = f"{path.absolute().as_uri()}?mode={mode}"
    try:
        with closing(sqlite3.connect(address, uri=True, timeout=PATIENCE_S, isolation_level=None)) as connection:
            connection.execute("PRAGMA foreign_keys = ON")
            if mode == "ro" and _is_older(connection, path):
                with closing(sqlite3.connect(":memory:", isolation_level=None)) as copy:
                    connection.backup(copy)
                    yield _newest(copy, path)
            else:
                yield _newest(connection, path)
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_READONLY_ROLLBACK:
            raise UsageError(
                f"{path}: a nightly run was interrupted while it was stored; the next 'harness nightly' removes it"
            ) from error
        # The file may be intact, but locked, read-only, or on a full disk. A folder is an I/O error, too.
        full = error.sqlite_errorcode & 0xFF in NO_SPACE and not path.is_dir()
        kind = EnvironmentLacking if full else UsageError
        raise kind(f"{path}: cannot use this database of results: {error}") from error
    except (sqlite3.Error, msgspec.MsgspecError) as error:
        raise UsageError(
            f"{path}: not a database of results, or a damaged one: {error}; move it away, and 'harness nightly' makes "
            "a new one"
        ) from error


def _newest(connection: sqlite3.Connection, path: Path) -> sqlite3.Connection:
    connection.row_factory = sqlite3.Row
    if _is_older(connection, path):
        _migrate(connection, path)
    return connection


def _is_older(connection: sqlite3.Connection, path: Path) -> bool:
    with _transaction(connection, "DEFERRED"):
        return _version(connection, path) < len(MIGRATIONS)


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    with _transaction(connection, "IMMEDIATE"):
        for statements in MIGRATIONS[_version(connection, path) :]:  # read again: another process may have migrated it
            for statement in statements:
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION}")
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")


def _version(connection: sqlite3.Connection, path: Path) -> int:
    """Return the number of migrations that the file has had. Call it in a transaction: its three reads must agree."""
    questions = ("PRAGMA application_id", "PRAGMA user_version", "SELECT count(*) FROM sqlite_master")
    application, version, things = (int(connection.execute(question).fetchone()[0]) for question in questions)
    if application != APPLICATION and (application or version or things):
        raise UsageError(f"{path}: an SQLite file of something else, not a database of results; it is left as it is")
    if version > len(MIGRATIONS):
        raise UsageError(
            f"{path}: written by a newer harness (version {version} of the file, this one knows {len(MIGRATIONS)}); "
            "update the harness"
        )
    return version


@contextmanager
def _transaction(connection: sqlite3.Connection, kind: Literal["DEFERRED", "IMMEDIATE"]) -> Iterator[None]:
    connection.execute(f"BEGIN {kind}")
    try:
        yield
    except BaseException:
        if connection.in_transaction:  # SQLite ends it by itself on some errors
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")
