"""Debian's MariaDB as a process of this machine, and the simulated MySQL server, with the same statements."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import pymysql
from pymysql.constants import ER

from harness.clusters.docker.services.mysql import INIT, SETTINGS
from harness.fidelity.comparison import AnswerPair, Step
from harness.fidelity.processes import LOOPBACK, Place, ServerProcess, missing_program, program_path

from . import statements
from .connections import connect_to, execute
from .real import RealPlayer
from .simulated import StepResult, simulate

PACKAGE: Final = "mariadb-server-core"
VICTIM: Final = "Victim of a deadlock of row locks"
_DATA: Final = "db"
_WAITS: Final = "waits or has no answer"
_DEADLOCK: Final = repr(("error", ER.LOCK_DEADLOCK, ""))
_LATE: Final = re.compile(r"; (connection \d+): ")


class MysqlComparison:
    """See :class:`harness.fidelity.comparison.Server`."""

    name = "mysql"

    def missing(self) -> str:
        return missing_program("mariadbd", PACKAGE) or missing_program("mariadb-install-db", PACKAGE)

    @contextmanager
    def start(self, *settings: str) -> Iterator[MysqlPair]:
        """Start the server with further ``settings``, which are arguments of its command line."""
        with tempfile.TemporaryDirectory(prefix="harness-mysql-") as folder:
            first = Path(folder) / _DATA
            _install(first)
            process = ServerProcess(
                self.name,
                partial(_command, settings),
                ready=_answers,
                prepare=lambda place: _prepare(first, place.folder),
            )
            with process:
                yield MysqlPair(process)


def _as_root() -> list[str]:
    return ["--user=root"] if os.geteuid() == 0 else []


def _install(data: Path) -> None:
    """Create the data of a first start. Copying it later is faster than creating it."""
    command = [program_path("mariadb-install-db"), "--no-defaults", *_as_root(), f"--datadir={data}"]
    own = ["--innodb-log-file-size=8M", "--skip-test-db", "--auth-root-authentication-method=normal"]
    subprocess.run([*command, *own], check=True, capture_output=True)


def _prepare(first: Path, folder: Path) -> None:
    shutil.copytree(first, folder / _DATA)
    (folder / "init.sql").write_text(INIT, encoding="utf-8")


def _command(settings: Sequence[str], place: Place) -> list[str]:
    folder, (port, *_) = place.folder, place.ports
    return [
        program_path("mariadbd"), "--no-defaults", *_as_root(), f"--datadir={folder / _DATA}",
        f"--init-file={folder / 'init.sql'}", f"--socket={folder / 's'}", f"--pid-file={folder / 'pid'}",
        f"--tmpdir={folder}",  # in a shared folder, a server that starts deletes the temporary tables of the others
        f"--bind-address={LOOPBACK}", f"--port={port}", *SETTINGS, *settings,
    ]  # fmt: skip


def _answers(place: Place) -> bool:
    try:
        with closing(connect_to(*place.address)) as connection:
            return bool(execute(connection, "SELECT 1")[0] == "rows")
    except (pymysql.MySQLError, OSError):
        return False


class MysqlPair:
    """See :class:`harness.fidelity.comparison.ServerPair`."""

    def __init__(self, process: ServerProcess) -> None:
        self._process = process
        with closing(connect_to(*process.place.address)) as connection:
            self.version = f"mariadb {execute(connection, 'SELECT VERSION()')[1][0][0]}"

    @property
    def address(self) -> tuple[str, int]:
        """Address of the real server."""
        return self._process.place.address

    def steps(self, seed: int) -> Sequence[Step]:
        return statements.steps(seed)

    def run(self, steps: Sequence[Step]) -> Iterator[AnswerPair]:
        simulated = simulate(statements.SETUP, steps)
        with closing(RealPlayer(self._process, statements.SETUP)) as real:
            for step, result in zip(steps, simulated, strict=True):
                yield AnswerPair(_text(real.run(step, result)), _text(result))

    def known(self, step: Step, answers: AnswerPair) -> str:
        named = "GET_LOCK" in repr(step)  # the victim of a deadlock of named locks is compared
        return VICTIM if is_other_victim(answers) and not named else ""


def is_other_victim(answers: AnswerPair) -> bool:
    """Return True if both servers roll back one of the same two statements, but not the same one.

    The other statement must have gone on: its own answer may depend on which transaction was rolled back.
    """
    real, simulated = (_by_connection(text) for text in answers)
    if len(real) != 2 or real.keys() != simulated.keys():
        return False
    victims = [{name for name, text in each.items() if text == _DEADLOCK} for each in (real, simulated)]
    goes_on = all(text != _WAITS for each in (real, simulated) for text in each.values())
    return goes_on and all(len(each) == 1 for each in victims) and victims[0] != victims[1]


def _by_connection(text: str) -> dict[str, str]:
    """Return the parts of a text from ``_text``: connection → outcome. The connection of the step is ""."""
    own, *late = _LATE.split(text)
    return {"": own, **dict(zip(late[::2], late[1::2], strict=True))}


def _text(result: StepResult) -> str:
    late = [f"connection {number}: {outcome!r}" for number, outcome in sorted(result.ended.items())]
    return "; ".join([_WAITS if result.outcome is None else repr(result.outcome), *late])
