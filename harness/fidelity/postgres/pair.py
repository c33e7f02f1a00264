"""Debian's PostgreSQL as a process of this machine, and the simulated server, with the same statements."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from pg8000.exceptions import DatabaseError, InterfaceError
from pg8000.native import Connection

from harness.clusters.docker.services.postgres import SETTINGS, setting_options
from harness.clusters.kinds import ACCOUNT
from harness.errors import EnvironmentLacking
from harness.fidelity.comparison import AnswerPair, Step
from harness.fidelity.processes import LOOPBACK, Place, ServerProcess

from . import statements
from .real import RealPlayer
from .results import DEADLOCK_TIMEOUT
from .simulated import OrderSearch

PACKAGE: Final = "postgresql"
USER: Final = "postgres"
"""PostgreSQL refuses to run as root; root starts it as this user of Debian's package."""
_PROGRAMS: Final = Path("/usr/lib/postgresql")


class PostgresComparison:
    """See :class:`harness.fidelity.comparison.Server`."""

    name = "postgres"

    def missing(self) -> str:
        return "" if _program("postgres") else f"postgres is not installed: apt-get install {PACKAGE}"

    @contextmanager
    def start(self) -> Iterator[PostgresPair]:
        with tempfile.TemporaryDirectory(prefix="harness-postgres-") as folder:
            first = Path(folder) / "db"
            install(first)
            process = ServerProcess(
                self.name, server_command, ready=answers, prepare=lambda place: copy_data(first, place.folder)
            )
            with process:
                yield PostgresPair(process)


def _program(name: str) -> str:
    """Return the path of a program of the newest installed version, "" if there is none."""
    found = sorted(_PROGRAMS.glob(f"*/bin/{name}"), key=lambda path: int(path.parts[-3]))
    return str(found[-1]) if found else ""


def _required(name: str) -> list[str]:
    path = _program(name)
    if not path:
        raise EnvironmentLacking(f"{name} is not installed: apt-get install {PACKAGE}")
    change_user = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups"]
    return [*(change_user if os.geteuid() == 0 else ()), path]


def _give_away(*folders: Path) -> None:
    """Let the server's user have folders of root."""
    if os.geteuid() == 0:
        import pwd  # Unix only

        user = pwd.getpwnam(USER)
        for folder in folders:
            os.chown(folder, user.pw_uid, user.pw_gid)


def install(data: Path) -> None:
    """Create the data of a first start. Copying it later is faster than creating it."""
    data.mkdir()
    data.parent.chmod(0o711)
    _give_away(data)
    options = ["-U", ACCOUNT, "--auth=trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync"]
    subprocess.run([*_required("initdb"), "-D", str(data), *options], check=True, capture_output=True)
    subprocess.run(
        [*_required("postgres"), "--single", "-D", str(data), "postgres"],
        input=f"CREATE DATABASE {ACCOUNT}\n".encode(), check=True, capture_output=True,
    )  # fmt: skip


def copy_data(first: Path, folder: Path) -> None:
    """Copy the data of a first start into the folder of a server."""
    folder.parent.chmod(0o711)
    data = folder / "db"
    shutil.copytree(first, data)
    _give_away(folder, data, *data.rglob("*"))


def server_command(place: Place, **own: str) -> list[str]:
    """Return the command of a server; ``own`` are further run-time parameters."""
    settings = {
        **SETTINGS, "listen_addresses": LOOPBACK, "port": str(place.address[1]), "fsync": "off",
        "dynamic_shared_memory_type": "mmap",  # in its own folder, so that nothing of a killed server stays in /dev/shm
        "deadlock_timeout": DEADLOCK_TIMEOUT, "log_lock_waits": "on", "log_min_messages": "log", "lc_messages": "C",
        **own,
    }  # fmt: skip
    return [*_required("postgres"), "-D", str(place.folder / "db"), *setting_options(settings)]


def _connect(place: Place) -> Connection:
    host, port = place.address
    return Connection(ACCOUNT, host=host, port=port, database=ACCOUNT, ssl_context=False)


def answers(place: Place) -> bool:
    """Return whether a server answers."""
    try:
        with closing(_connect(place)) as connection:
            return bool(connection.run("SELECT 1") == [[1]])
    except (DatabaseError, InterfaceError, OSError):
        return False


class PostgresPair:
    """See :class:`harness.fidelity.comparison.ServerPair`."""

    def __init__(self, process: ServerProcess) -> None:
        self._process = process
        with closing(_connect(process.place)) as connection:
            self.version = f"postgresql {connection.run('SHOW server_version')[0][0].split()[0]}"

    @property
    def address(self) -> tuple[str, int]:
        """Address of the real server."""
        return self._process.place.address

    def steps(self, seed: int) -> Sequence[Step]:
        return statements.steps(seed)

    def run(self, steps: Sequence[Step]) -> Iterator[AnswerPair]:
        search = OrderSearch(statements.SETUP, steps)
        with closing(RealPlayer(self._process, statements.SETUP)) as player:
            for at, step in enumerate(steps):
                real = player.run(step, search.results[at]).text()
                yield AnswerPair(real, search.match(real))

    def known(self, step: Step, answers: AnswerPair) -> str:  # noqa: ARG002
        return ""
