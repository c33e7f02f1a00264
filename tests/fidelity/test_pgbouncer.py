"""The simulated PgBouncer and Debian's assign the same server sessions to the same statements."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from harness.clusters.docker.services.pgbouncer import configuration
from harness.fidelity.comparison import Step
from harness.fidelity.postgres import PostgresComparison
from harness.fidelity.postgres.pair import PostgresPair
from harness.fidelity.postgres.wire import query, startup
from harness.fidelity.processes import LOOPBACK, Place, ServerProcess, program_path
from harness.fidelity.simulated import SteppedConnection, SteppedHost
from harness.protocols.postgres_answers import AnswerReader
from harness.sim.servers.postgres.pgbouncer import PgBouncer
from harness.sim.servers.postgres.server import PostgresServer
from tests.fidelity.real import started

CLOSE_S: Final = 0.1
"""Time in which PgBouncer notices that a client has left, and PostgreSQL that a session has."""
RESET_S: Final = 0.02
"""Time in which PgBouncer resets a session, and takes it back into the pool."""
STATEMENTS: Final = (
    "BEGIN", "COMMIT", "ROLLBACK", "SELECT pg_backend_pid()", "SELECT pg_backend_pid()",
    "SELECT pg_try_advisory_lock({key})", "SELECT pg_advisory_unlock({key})",
    "SELECT pg_try_advisory_xact_lock({key})", "SELECT no_such_column",
)  # fmt: skip
MODES: Final[dict[str, dict[str, Any]]] = {
    "transaction": {},
    "round-robin": {"server_round_robin": True},
    "reset": {"server_reset_query_always": True},
    "session": {"pool_mode": "session"},
}
SIMULATED: Final[dict[str, dict[str, Any]]] = {
    "transaction": {},
    "round-robin": {"round_robin": True},
    "reset": {"reset_always": True},
    "session": {"transaction_mode": False},
}


@pytest.fixture(scope="module")
def pair() -> Iterator[PostgresPair]:
    with started(PostgresComparison()) as found:
        yield found


def steps(seed: int, key: int) -> list[Step]:
    """Return random statements of four clients, some of which disconnect and come back."""
    random = Random(seed)
    return [
        ("close", random.randrange(4))
        if random.random() < 0.05
        else ("sql", random.randrange(4), random.choice(STATEMENTS).format(key=key))
        for _ in range(200)
    ]


def pooler(database_port: int, options: dict[str, Any]) -> ServerProcess:
    def write(place: Place) -> None:
        place.folder.parent.chmod(0o711)
        port = place.address[1]
        ini = configuration(port, options, address=LOOPBACK, database_port=database_port)
        (place.folder / "pgbouncer.ini").write_text(ini)

    def command(place: Place) -> Sequence[str]:
        user = [program_path("setpriv"), "--reuid=postgres", "--regid=postgres", "--clear-groups"]
        program = [program_path("pgbouncer"), "-q", str(place.folder / "pgbouncer.ini")]
        return [*(user if Path("/proc/self").stat().st_uid == 0 else ()), *program]

    return ServerProcess("pgbouncer", command, prepare=write)


class RealClient:
    def __init__(self, address: tuple[str, int], pause_s: float) -> None:
        self._pause_s = pause_s
        self._socket = socket.create_connection(address, timeout=10)
        self._reader = AnswerReader()
        self.ask(startup())

    def ask(self, data: bytes) -> str:
        self._socket.sendall(data)
        while (answer := self._reader.take()) is None:
            received = self._socket.recv(1 << 16)
            assert received, "PgBouncer closed the connection"
            self._reader.add(received)
        time.sleep(self._pause_s)
        return answer

    def close(self) -> None:
        self._socket.close()
        time.sleep(CLOSE_S)


class SimulatedClient:
    def __init__(self, host: SteppedHost) -> None:
        self._connection = SteppedConnection(host, "c1")
        self._reader = AnswerReader()
        self.ask(startup())

    def ask(self, data: bytes) -> str:
        self._connection.ask(data)
        self._reader.add(self._connection.take())
        answer = self._reader.take()
        assert answer is not None
        return answer

    def close(self) -> None:
        self._connection.hang_up()


def run_script(connect: Any, script: Sequence[Step]) -> list[str]:
    """Return the answers. Server processes are numbered in the order in which they appear."""
    clients: dict[int, Any] = {}
    numbers: dict[str, str] = {}
    answers = []
    with ExitStack() as closing:
        for kind, number, *text in script:
            if kind == "close":
                if number in clients:
                    clients.pop(number).close()
                answers.append("closed")
                continue
            if number not in clients:
                clients[number] = connect()
            answer = clients[number].ask(query(text[0]))
            if "pid" in text[0]:
                answer = re.sub(r"'(\d+)'", lambda found: numbers.setdefault(found[1], f"#{len(numbers)}"), answer)
            answers.append(answer)
        for client in clients.values():
            closing.callback(client.close)
    return answers


@pytest.mark.slow
@pytest.mark.real
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seed", range(10))
def test_random_statements_get_the_answers_of_a_real_pooler(mode: str, seed: int, pair: PostgresPair) -> None:
    script = steps(seed, key=1 + seed * len(MODES) + [*MODES].index(mode))
    host = SteppedHost(PgBouncer(PostgresServer(), **SIMULATED[mode]), 1_700_000_000_000_000_000)
    simulated = run_script(lambda: SimulatedClient(host), script)
    with pooler(pair.address[1], MODES[mode]) as process:
        real = run_script(lambda: RealClient(process.place.address, RESET_S if mode == "reset" else 0), script)
    for number, (step, found, expected) in enumerate(zip(script, simulated, real, strict=True)):
        assert found == expected, f"step {number}: {step} after {script[:number]}"
    assert len({answer for answer in real if "#" in answer}) > 2
