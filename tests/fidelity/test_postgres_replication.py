"""A simulated primary with its standby, and Debian's PostgreSQL, behave alike: what is replicated, what a standby
refuses, what a promotion keeps, and what a synchronous commit waits for."""

from __future__ import annotations

import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol

import pytest

from harness.clusters.docker.services.postgres_replicated import SETTINGS
from harness.clusters.kinds import ACCOUNT
from harness.clusters.sim.cluster import SimCluster
from harness.fidelity.postgres.pair import PostgresComparison, answers, copy_data, install, server_command
from harness.fidelity.postgres.wire import query, startup
from harness.fidelity.processes import Place, ServerProcess
from harness.protocols.postgres_answers import AnswerReader
from tests.clusters.bench import make

LONG_S: Final = 60.0
"""Time limit for an answer that must come."""
WAITS_S: Final = 0.5
"""A statement without an answer for so long waits."""
SYNCHRONOUS: Final = "*"


class Servers(Protocol):
    """A primary n1 and its standby n2, real or simulated."""

    def address(self, host: str) -> tuple[str, int]: ...

    def kill(self, host: str) -> None: ...

    def start(self, host: str) -> None: ...

    def promote_after(self, host: str) -> None:
        """Promote n2, whose primary has been killed."""


class Session:
    """One connection, by the bytes of the protocol."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._socket = socket.create_connection(address, LONG_S)
        self._reader = AnswerReader()
        self._socket.sendall(startup())
        self.answer()

    @property
    def pid(self) -> int:
        return self._reader.pid

    def ask(self, statement: str) -> str:
        """Execute a statement and return its answer."""
        self.begin(statement)
        return self.answer()

    def begin(self, statement: str) -> None:
        """Send a statement."""
        self._socket.sendall(query(statement))

    def answer(self, limit_s: float = LONG_S) -> str:
        """Return the next answer, "waits" if none comes in time."""
        self._socket.settimeout(limit_s)
        while (found := self._reader.take()) is None:
            try:
                data = self._socket.recv(1 << 16)
            except TimeoutError:
                return "waits"
            if not data:
                return self._reader.rest()
            self._reader.add(data)
        return found

    def until(self, statement: str, expected: str) -> str:
        """Execute a statement until it has this answer."""
        deadline = time.monotonic() + LONG_S
        while (found := self.ask(statement)) != expected and time.monotonic() < deadline:
            time.sleep(0.02)
        return found


Story = Callable[[Servers], list[str]]
ROWS: Final = "SELECT k FROM t ORDER BY k"
ROW_1: Final = "(k:23); ['1']; SELECT 1; I"
RECOVERY: Final = "SELECT pg_is_in_recovery()"


def recovery(is_standby: str) -> str:
    return f"(pg_is_in_recovery:16); ['{is_standby}']; SELECT 1; I"


def with_row_1(servers: Servers) -> tuple[Session, Session]:
    """Return a session on each server, both of which have the table with row 1."""
    one, two = Session(servers.address("n1")), Session(servers.address("n2"))
    assert one.ask("CREATE TABLE t (k INT PRIMARY KEY)") == "CREATE TABLE; I"
    assert one.ask("INSERT INTO t VALUES (1)") == "INSERT 0 1; I"
    assert two.until(ROWS, ROW_1) == ROW_1
    return one, two


def standby_refuses_writes(two: Session) -> list[str]:
    statements = (
        RECOVERY, "SHOW in_hot_standby", "SET in_hot_standby = off", "INSERT INTO t VALUES (2)",
        "UPDATE t SET k = 3", "DELETE FROM t", "SELECT k FROM t FOR UPDATE", "CREATE TABLE u (k INT)",
        "DROP TABLE t", "TRUNCATE t", "BEGIN", "SELECT k FROM t", "INSERT INTO t VALUES (2)", "ROLLBACK", ROWS,
    )  # fmt: skip
    return [two.ask(statement) for statement in statements]


def rows_outlive_a_promotion_and_locks_do_not(servers: Servers) -> list[str]:
    """A standby refuses writes and grants advisory locks of its own. After the promotion, open transactions of the old
    primary are gone, and one that began on the standby is still read-only."""
    one, two = with_row_1(servers)
    found = standby_refuses_writes(two)
    other, late = Session(servers.address("n1")), Session(servers.address("n2"))
    advisory, insert = "SELECT pg_try_advisory_lock(7)", "INSERT INTO t VALUES ({})"
    found += [one.ask(advisory), two.ask(advisory), two.ask("SELECT pg_advisory_unlock(7)"), one.ask("BEGIN")]
    found += [one.ask(insert.format(2)), other.ask("BEGIN"), other.ask("SELECT k FROM t FOR UPDATE")]
    found += [two.ask(ROWS), late.ask("BEGIN"), late.ask(ROWS)]
    servers.kill("n1")
    servers.promote_after("n1")
    found.append(two.until(RECOVERY, recovery("f")))
    statements = ("SHOW in_hot_standby", ROWS, advisory, "SELECT k FROM t FOR UPDATE NOWAIT", insert.format(2))
    found += [two.ask(statement) for statement in statements]
    return found + [late.ask(statement) for statement in (insert.format(3), "ROLLBACK", insert.format(3))]


def synchronous_commit_waits(servers: Servers) -> list[str]:
    one, _ = with_row_1(servers)
    other, third = Session(servers.address("n1")), Session(servers.address("n1"))
    servers.kill("n2")
    one.ask("SET statement_timeout = '100ms'")
    one.begin("INSERT INTO t VALUES (2)")
    found = [one.answer(WAITS_S), other.ask(ROWS), other.ask("SET lock_timeout = '100ms'")]
    found.append(other.ask("INSERT INTO t VALUES (2) ON CONFLICT DO NOTHING"))  # waits for the row's transaction
    found.append(other.ask("INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING"))  # changes nothing, so it does not wait
    third.ask("BEGIN")
    third.ask("SELECT k FROM t WHERE k = 1 FOR UPDATE")
    third.begin("COMMIT")
    found.append(third.answer(WAITS_S))
    found += [other.ask("SET synchronous_commit = local"), other.ask("INSERT INTO t VALUES (3)")]
    found += [other.ask(f"SELECT pg_cancel_backend({one.pid})"), one.answer(), other.ask(ROWS)]
    servers.start("n2")
    two = Session(servers.address("n2"))
    return [*found, third.answer(), two.until("SELECT k FROM t WHERE k = 3", "(k:23); ['3']; SELECT 1; I")]


def killed_primary_has_the_commit_that_waited(servers: Servers) -> list[str]:
    one, _ = with_row_1(servers)
    servers.kill("n2")
    one.begin("INSERT INTO t VALUES (2)")
    found = [one.answer(WAITS_S)]
    servers.kill("n1")
    servers.start("n1")
    return [*found, Session(servers.address("n1")).ask(ROWS)]


def terminated_commit_gets_no_answer(servers: Servers) -> list[str]:
    one, _ = with_row_1(servers)
    other = Session(servers.address("n1"))
    servers.kill("n2")
    one.begin("INSERT INTO t VALUES (2)")
    found = [one.answer(WAITS_S), other.ask(f"SELECT pg_terminate_backend({one.pid})"), one.answer()]
    return [*found, other.ask(ROWS)]


class SimulatedServers:
    """A simulated cluster, as its client c0 sees it."""

    def __init__(self, cluster: SimCluster) -> None:
        self._cluster = cluster

    def address(self, host: str) -> tuple[str, int]:
        return host, 5432

    def kill(self, host: str) -> None:
        self._cluster.kill(host)

    def start(self, host: str) -> None:
        self._cluster.start(host, wiped=False)
        time.sleep(0.1)

    def promote_after(self, host: str) -> None:
        """The manager does it."""


def simulated(story: Story, synchronous: str) -> list[str]:
    cluster = make("postgres-replicated", synchronous_standby_names=synchronous)
    found: list[str] = []

    def control() -> None:
        assert cluster.spawn("c0", lambda checkpoint: found.extend(story(SimulatedServers(cluster))))(200)

    cluster.run(control)
    return found


class RealServers:
    """Processes on the loopback interface."""

    def __init__(self, processes: dict[str, ServerProcess]) -> None:
        self._processes = processes

    def address(self, host: str) -> tuple[str, int]:
        return self._processes[host].place.address

    def kill(self, host: str) -> None:
        self._processes[host].kill()

    def start(self, host: str) -> None:
        self._processes[host].start()

    def promote_after(self, host: str) -> None:
        assert Session(self.address("n2")).ask("SELECT pg_promote()") == "(pg_promote:16); ['t']; SELECT 1; I"


@contextmanager
def real_servers(first: Path, synchronous: str) -> Iterator[RealServers]:
    def command(place: Place) -> list[str]:
        return server_command(place, **SETTINGS, synchronous_standby_names=synchronous)

    def prepare_standby(place: Place) -> None:
        copy_data(first, place.folder)
        host, port = primary.place.address
        with (place.folder / "db" / "postgresql.auto.conf").open("a") as file:
            file.write(f"primary_conninfo = 'host={host} port={port} user={ACCOUNT}'\n")
        (place.folder / "db" / "standby.signal").touch()

    primary = ServerProcess("postgres", command, ready=answers, prepare=lambda place: copy_data(first, place.folder))
    with primary, ServerProcess("postgres", command, ready=answers, prepare=prepare_standby) as standby:
        yield RealServers({"n1": primary, "n2": standby})


@pytest.fixture(scope="module")
def first_data() -> Iterator[Path]:
    """Data of a first start."""
    assert not PostgresComparison().missing(), ".ci/setup installs it"
    with tempfile.TemporaryDirectory(prefix="harness-postgres-") as folder:
        install(Path(folder) / "db")
        yield Path(folder) / "db"


@pytest.mark.few(1)
@pytest.mark.real
@pytest.mark.parametrize(
    ("story", "synchronous"),
    [
        (rows_outlive_a_promotion_and_locks_do_not, ""),
        (killed_primary_has_the_commit_that_waited, SYNCHRONOUS),
        (synchronous_commit_waits, SYNCHRONOUS),
        (terminated_commit_gets_no_answer, SYNCHRONOUS),
    ],
)
def test_the_simulated_servers_answer_as_the_real_ones(story: Story, synchronous: str, first_data: Path) -> None:
    with real_servers(first_data, synchronous) as servers:
        expected = story(servers)
    assert simulated(story, synchronous) == expected
