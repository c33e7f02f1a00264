"""Files that the client programs need on a host: this project, the libraries of locks, and the user's own modules.

Without a Python that the user names, a host's own ``python3`` runs the clients, with the libraries that are sent: the
wheels of the client image, which are for one version of Python. With one, only this project is sent, and the libraries
must be there. A host keeps what was sent in a cache (:mod:`.helper.cache`), except for the user's modules, which are
removed after the run.
"""

from __future__ import annotations

import hashlib
import io
import shlex
import tempfile
import threading
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from harness.clusters.client_host import AGENT
from harness.clusters.conversation import Refused
from harness.clusters.docker.images.wheelhouse import IMAGE_PYTHON, libraries, sources
from harness.clusters.user_files import user_files
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
Report = Callable[[str], None]


class FileSet:
    """Files of one ``kind``, packed as a zip file at most once. With a ``digest`` of their contents hosts keep them for
    later runs, under :attr:`name`."""

    def __init__(self, kind: str, files: Callable[[], Iterable[tuple[str, bytes]]], digest: str = "") -> None:
        self.name = f"{kind}-{digest}" if digest else kind
        self.kept = bool(digest)
        self._files = files
        self._packing = threading.Lock()
        self._archive: bytes | None = None

    def archive(self) -> bytes:
        with self._packing:
            if self._archive is None:
                buffer = io.BytesIO()
                with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
                    for name, data in self._files():
                        archive.writestr(name, data)
                self._archive = buffer.getvalue()
            return self._archive


class ClientFiles:
    """Files of the client programs of a run. Hosts keep this project and the libraries for later runs, not the user's
    modules.

    ``requirements`` are distributions as :func:`harness.clusters.docker.images.wheelhouse.libraries` takes them,
    ``source`` is the folder with the user's modules, ``python`` is the Python on the hosts that has the libraries (""
    to send them).
    """

    def __init__(self, requirements: Sequence[str], source: Path | None, python: str, report: Report) -> None:
        self._requirements = tuple(requirements)
        self._source = source
        self._python = python
        self._report = report
        self._finding = threading.Lock()
        self._sets: list[FileSet] = []
        self._folders: dict[str, list[str]] = {}
        """Folders with the files, by host."""

    # Before the run.

    def copy_to(self, host: HostConnection, lock: str) -> None:
        """Copy the files that a host lacks, and find out whether a client can load the lock there. Raises
        EnvironmentLacking."""
        if not self._python:
            _refuse_other_python(host)
        with self._finding:
            self._sets = self._sets or self._find()
        self._folders[host.destination] = [_provide(host, files) for files in self._sets]
        self._check(host, lock)

    def _check(self, host: HostConnection, lock: str) -> None:
        environment = " ".join(f"{name}={shlex.quote(value)}" for name, value in self._environment(host).items())
        command = f"{environment} {shlex.join([*self._interpreter, '-c', CHECK, lock])}"
        status, lines = host.ask("run", command=command, timeout=UNPACK_S, patience=UNPACK_S + 5)
        if status:
            hint = (
                f"{self._python} must have the libraries (msgspec, and those of the lock)"
                if self._python
                else "name a Python that has the libraries with --client-python"
            )
            raise EnvironmentLacking(
                f"the host {host.destination}: the client program cannot load the lock: {' | '.join(lines[-2:])}; "
                f"{hint}"
            )

    def _find(self) -> list[FileSet]:
        """Return what the clients need, in the order in which they look for modules."""
        project = sources()
        found = [FileSet("harness", project.items, _digest(project.items()))]
        if not self._python:
            wheels = sorted((libraries(self._requirements, self._report) / "libraries").glob("*.whl"))
            digest = _digest((wheel.name, wheel.read_bytes()) for wheel in wheels)
            found.append(FileSet("libraries", lambda: _unpacked(wheels), digest))
        if modules := _modules(self._source):
            found.append(FileSet("user", lambda: ((name, path.read_bytes()) for path, name in modules)))
        return found

    # Programs.

    @property
    def _interpreter(self) -> list[str]:
        return [self._python or "python3", "-P"]

    def _environment(self, host: HostConnection) -> dict[str, str]:
        return {"PYTHONPATH": ":".join(self._folders[host.destination])}

    def program(self, host: HostConnection, module: str, *arguments: str) -> tuple[list[str], Mapping[str, str]]:
        """Return (command, environment) of a module of this project on a host."""
        return [*self._interpreter, "-m", module, *arguments], self._environment(host)

    def agent(self, host: HostConnection) -> tuple[list[str], Mapping[str, str]]:
        """Return (command, environment) of the client program on a host, which ends with the helper."""
        return self.program(host, AGENT, str(host.facts["pid"]))


def _provide(host: HostConnection, files: FileSet) -> str:
    """Copy files to a host unless its cache has them; return their folder there."""
    if files.kept and (cached := host.ask("cached", name=files.name)) is not None:
        return str(cached)
    with tempfile.NamedTemporaryFile(suffix=".zip") as file:
        file.write(files.archive())
        file.flush()
        host.copy(Path(file.name), f"{host.facts['folder']}/{files.name}.zip")
    fields = {"path": f"{files.name}.zip", "name": files.name, "keep": files.kept}
    try:
        return str(host.ask("unpack", patience=UNPACK_S, **fields))
    except Refused as error:
        raise EnvironmentLacking(f"{error}; the client's files could not be unpacked") from error


def _digest(files: Iterable[tuple[str, bytes]]) -> str:
    """Return the hash of files with their names, in this order."""
    found = hashlib.sha256()
    for name, data in files:
        found.update(f"{len(name)} {name} {len(data)} ".encode() + data)
    return found.hexdigest()[:32]


def _unpacked(wheels: Sequence[Path]) -> Iterator[tuple[str, bytes]]:
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as packed:
            for name in packed.namelist():
                yield name, packed.read(name)


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
    found = [path for path in user_files(source) if not path.name.startswith(".")]  # such files may hold passwords
    size = sum(path.stat().st_size for path in found)
    if size > LARGEST:
        raise UsageError(
            f"{source} has the lock's module and {size / 1e6:,.0f} MB of files, which would all be sent to the hosts; "
            f"put the module into a folder with at most {LARGEST / 1e6:.0f} MB"
        )
    return [(path, path.relative_to(source).as_posix()) for path in found]
