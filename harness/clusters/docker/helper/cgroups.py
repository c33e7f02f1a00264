"""Control groups of other containers: processes that compete for their processor time, and limits of their disks.

The machine's cgroup file systems are mounted on :data:`ROOT` if a fault needs this. Both versions of cgroups are known:
version 1 has a hierarchy for each controller, version 2 a single one (cgroups(7)).
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Final

ROOT: Final = Path("/cgroup")
BUSY: Final = "while kill -0 $1 2>/dev/null; do :; done"
"""A shell command that computes until the helper has ended, also by a SIGKILL."""


class CgroupError(Exception):
    """A control group that cannot be changed."""


def group(pid: int, controller: str) -> tuple[Path, int]:
    """Return the directory of the control group in which a process is, and the version of cgroups (1 or 2).

    :raises CgroupError: there is no such process, or the machine's cgroups are not mounted here.
    """
    try:
        lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    except OSError as error:
        raise CgroupError(f"process {pid}: no control group: {error.strerror}") from error
    unified = ""
    for line in lines:
        _, names, path = line.split(":", 2)
        if controller in names.split(","):
            return _existing(pid, ROOT / names / path.lstrip("/")), 1
        unified = unified if names else path
    return _existing(pid, ROOT / unified.lstrip("/")), 2


def _existing(pid: int, directory: Path) -> Path:
    if not (directory / "cgroup.procs").exists():
        raise CgroupError(f"process {pid}: its control group {directory} is not mounted in the helper container")
    return directory


def write(path: Path, text: str) -> None:
    """Write to a file of a control group; raise CgroupError with the kernel's reason if it refuses."""
    try:
        path.write_text(text)
    except OSError as error:
        raise CgroupError(f"writing {text!r} to {path}: {error.strerror}") from error


class Loads:
    """Busy processes in the control groups of containers, which use up the containers' processor time.

    They are the helper's own processes: no container sees them among its processes.
    """

    def __init__(self) -> None:
        self._running: dict[int, list[subprocess.Popen[bytes]]] = {}

    def start(self, pid: int, count: int) -> None:
        """Add ``count`` busy processes to the container of ``pid``."""
        directory, _ = group(pid, "cpu")
        for _ in range(count):
            load = subprocess.Popen(["sh", "-c", BUSY, "load", str(os.getpid())], stdin=subprocess.DEVNULL)
            self._running.setdefault(pid, []).append(load)
            write(directory / "cgroup.procs", str(load.pid))

    def stop(self, pid: int) -> None:
        """End all busy processes in the container of ``pid``."""
        loads = self._running.pop(pid, [])
        for load in loads:
            load.kill()
        for load in loads:
            load.wait()

    def stop_all(self) -> None:
        for pid in list(self._running):
            self.stop(pid)
