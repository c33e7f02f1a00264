"""Files that the client programs need on a host: this project, the libraries of locks, and the user's own modules.

Without a Python that the user names, a host's own ``python3`` runs the clients, with the libraries that are sent: the
wheels of the client image, which are for one version of Python. With one, only this project is sent, and the libraries
must be there.
"""

from __future__ import annotations

import os
import shlex
import tempfile
import threading
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from harness.clusters.client_host import AGENT
from harness.clusters.docker.images.wheelhouse import IMAGE_PYTHON, libraries, sources
from harness.errors import EnvironmentLacking, UsageError

from .connection import HostConnection

MACHINE: Final = "x86_64"
"""The processor for which wheels are sent."""
LARGEST: Final = 50_000_000
"""Most bytes of the user's modules."""
CHECK: Final = (
    "import sys; from harness.worker import client_agent, client_program; client_program.find_lock(sys.argv[1])"
)
UNPACK_S: Final = 120.0
_LEFT_OUT: Final = ("__pycache__", "node_modules")
_PLACE: Final = "client"
Report = Callable[[str], None]


class ClientFiles:
    """Files of the client programs of a run, packed once.

    ``requirements`` are distributions as :func:`harness.clusters.docker.images.wheelhouse.libraries` takes them,
    ``source`` is the folder with the user's modules, ``python`` is the Python on the hosts that has the libraries (""
    to send them).
    """

    def __init__(self, requirements: Sequence[str], source: Path | None, python: str, report: Report) -> None:
        self._requirements = tuple(requirements)
        self._source = source
        self._python = python
        self._report = report
        self._packing = threading.Lock()
        self._archive: bytes | None = None

    # Before the run.

    def copy_to(self, host: HostConnection, lock: str) -> None:
        """Copy the files to a host, and find out whether a client can load the lock there. Raises
        EnvironmentLacking."""
        if not self._python:
            _refuse_other_python(host)
        with tempfile.NamedTemporaryFile(suffix=".zip") as file:
            file.write(self._packed())
            file.flush()
            archive = f"{host.facts['folder']}/client.zip"
            host.copy(Path(file.name), archive)
        self._run(host, ["-m", "zipfile", "-e", archive, self._folder(host)], "its client files cannot be unpacked")
        self._run(host, ["-c", CHECK, lock], "the client program cannot load the lock")

    def _run(self, host: HostConnection, arguments: Sequence[str], problem: str) -> None:
        words = [*self._interpreter, *arguments]
        environment = " ".join(f"{name}={shlex.quote(value)}" for name, value in self._environment(host).items())
        command = f"{environment} {' '.join(map(shlex.quote, words))}"
        status, lines = host.ask("run", command=command, timeout=UNPACK_S, patience=UNPACK_S + 5)
        if status:
            hint = (
                f"{self._python} must have the libraries (msgspec, and those of the lock)"
                if self._python
                else "name a Python that has the libraries with --client-python"
            )
            raise EnvironmentLacking(f"the host {host.destination}: {problem}: {' | '.join(lines[-2:])}; {hint}")

    def _packed(self) -> bytes:
        with self._packing:
            if self._archive is None:
                with tempfile.TemporaryFile() as file:
                    self._pack(file)
                    file.seek(0)
                    self._archive = file.read()
            return self._archive

    def _pack(self, file: Any) -> None:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            for name, data in sources().items():
                archive.writestr(f"harness/{name}", data)
            for path, name in _modules(self._source):
                archive.write(path, f"user/{name}")
            if self._python:
                return
            for wheel in sorted((libraries(self._requirements, self._report) / "libraries").glob("*.whl")):
                with zipfile.ZipFile(wheel) as packed:
                    for name in packed.namelist():
                        archive.writestr(f"libraries/{name}", packed.read(name))

    # Programs.

    def _folder(self, host: HostConnection) -> str:
        return f"{host.facts['folder']}/{_PLACE}"

    @property
    def _interpreter(self) -> list[str]:
        return [self._python or "python3", "-P"]

    def _environment(self, host: HostConnection) -> dict[str, str]:
        folder = self._folder(host)
        return {"PYTHONPATH": os.pathsep.join(f"{folder}/{part}" for part in ("harness", "libraries", "user"))}

    def program(self, host: HostConnection, module: str, *arguments: str) -> tuple[list[str], Mapping[str, str]]:
        """Return (command, environment) of a module of this project on a host."""
        return [*self._interpreter, "-m", module, *arguments], self._environment(host)

    def agent(self, host: HostConnection) -> tuple[list[str], Mapping[str, str]]:
        """Return (command, environment) of the client program on a host, which ends with the helper."""
        return self.program(host, AGENT, str(host.facts["pid"]))


def _refuse_other_python(host: HostConnection) -> None:
    version, machine = str(host.facts["python"]), str(host.facts["machine"])
    if not version.startswith(f"{IMAGE_PYTHON}.") or machine != MACHINE:
        raise EnvironmentLacking(
            f"the host {host.destination} has Python {version} on {machine}, and the libraries that can be sent are "
            f"for Python {IMAGE_PYTHON} on {MACHINE}: install them there, and name that Python with --client-python"
        )


def _modules(source: Path | None) -> list[tuple[Path, str]]:
    """Return the user's files to send, each with its name in ``source``. Raises UsageError if they are too large."""
    if source is None:
        return []
    found = []
    for folder, folders, files in os.walk(source):
        folders[:] = [name for name in folders if not name.startswith(".") and name not in _LEFT_OUT]
        found += [Path(folder, name) for name in files if not name.startswith(".")]
    size = sum(path.stat().st_size for path in found)
    if size > LARGEST:
        raise UsageError(
            f"{source} has the lock's module and {size / 1e6:,.0f} MB of files, which would all be sent to the hosts; "
            f"put the module into a folder with at most {LARGEST / 1e6:.0f} MB"
        )
    return [(path, path.relative_to(source).as_posix()) for path in found]
