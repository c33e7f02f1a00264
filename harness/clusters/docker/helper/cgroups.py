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
LOOP_MAJOR: Final = 7
"""Major number of loop devices."""
SYNC: Final = """
import os, sys, time
with open(sys.argv[1], "w") as group:
    group.write(str(os.getpid()))
file = os.open(sys.argv[2], os.O_RDWR | os.O_CREAT, 0o666)
began = time.monotonic()
os.pwrite(file, b"x" * 4096, 0)
os.fdatasync(file)
print(time.monotonic() - began)
"""
"""A Python program that moves into a control group, and measures a write with its sync there."""


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


def limit_writes(pid: int, minor: int, per_second: int) -> None:
    """Let the container of ``pid`` write to the loop device with this number ``per_second`` times a second at most; 0
    ends that. A write waits before it reaches the device, and with it the sync that it belongs to."""
    directory, version = group(pid, "blkio")
    if version == 1:
        write(directory / "blkio.throttle.write_iops_device", f"{LOOP_MAJOR}:{minor} {per_second}")
    else:
        write(directory / "io.max", f"{LOOP_MAJOR}:{minor} wiops={per_second or 'max'}")


def timed_sync(pid: int, path: Path, timeout: float) -> float | None:
    """Return how long a process in the control group of ``pid`` needs to write a block to a file and to sync it, in
    seconds; None if that takes longer than ``timeout``.

    The file is overwritten in place, so that the sync commits no other file's length.
    """
    directory, _ = group(pid, "blkio")
    command = ["python3", "-ISc", SYNC, str(directory / "cgroup.procs"), str(path)]
    program = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        output, errors = program.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        program.kill()  # it ends when the disk lets it, which nobody waits for
        return None
    if program.returncode:
        raise CgroupError(f"process {pid}: a timed write to {path} failed: {errors.strip().splitlines()[-1]}")
    return float(output)


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
