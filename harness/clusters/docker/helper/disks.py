"""Disks for containers that can stall and lose power: an ext4 file system in a sparse file on a loop device.

The helper mounts a disk in the container's mount namespace (:mod:`.mounts`), so the container needs neither the device
nor privileges. The loop device is released with its last user (LO_FLAGS_AUTOCLEAR), so none is left when the helper and
the container have ended, even if they were killed. Constants are those of <linux/fs.h> and of fs/ext4/ext4.h.
"""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import struct
import subprocess
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from . import cgroups, mounts, processes

IMAGES: Final = Path("/disks")
"""A tmpfs, so that the speed of the machine's own disk does not matter."""
MOUNT_POINT: Final = "/data"
PROBE: Final = ".lock-harness-probe"
FILL: Final = ".lock-harness-fill"
TIMED: Final = ".lock-harness-timed"
FIFREEZE, FITHAW = 0xC0045877, 0xC0045878
EXT4_IOC_SHUTDOWN: Final = 0x8004587D
NOLOGFLUSH: Final = 2
"""Drop everything that has not reached the disk, the journal's last transactions too."""
PATIENCE: Final = 2.0
"""Seconds within which an attempt to write ends after the disk has thawed."""


class DiskError(Exception):
    """An operation on a disk failed; the message names the container and the reason."""


@dataclass(slots=True)
class _Disk:
    """State of one disk.

    ``stopper`` is the open directory while the disk is frozen. ``stalled`` is True if the disk should be frozen.
    While it has no power it is not frozen, even if it is ``stalled``. ``full`` is True if no space should be left.
    ``attempts`` are the attempts to write that have not ended.
    """

    pid: int
    device: int
    path: Path
    stopper: int | None = None
    stalled: bool = False
    powered: bool = True
    full: bool = False
    attempts: list[threading.Event] = field(default_factory=list)
    lock: threading.RLock = field(default_factory=threading.RLock)

    def open(self) -> int:
        return os.open(f"/proc/{self.pid}/root{MOUNT_POINT}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def mount(self) -> None:
        mounts.mount(self.pid, self.path, MOUNT_POINT)

    def freeze(self) -> None:
        if self.stopper is None and self.powered:
            directory = self.open()
            try:
                fcntl.ioctl(directory, FIFREEZE, 0)
            except OSError:
                os.close(directory)
                raise
            self.stopper = directory

    def thaw(self) -> None:
        if self.stopper is not None:
            fcntl.ioctl(self.stopper, FITHAW, 0)
            os.close(self.stopper)
            self.stopper = None
            for attempt in list(self.attempts):  # one that ends later would give its space back to a full disk
                attempt.wait(PATIENCE)
            self.apply_fill()

    def apply_fill(self) -> None:
        """Take all space, or give it back. A frozen disk is filled when it thaws, one without power when it has it."""
        if self.stopper is not None or not self.powered:
            return
        path = Path(f"/proc/{self.pid}/root{MOUNT_POINT}/{FILL}")
        if not self.full:
            path.unlink(missing_ok=True)
            return
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            _take_space(file)
        finally:
            os.close(file)


def _take_space(file: int) -> None:
    """Allocate blocks for a file until none is left. They are not written, and need no memory."""
    about = os.fstatvfs(file)
    piece = about.f_frsize * (1 << max(0, about.f_bavail.bit_length() - 1))
    while piece >= about.f_frsize:
        try:
            os.posix_fallocate(file, os.fstat(file).st_size, piece)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            piece //= 2


class ContainerDisks:
    """Disks of all containers, identified by the containers' first processes.

    All methods raise DiskError for a container without a disk, and if the kernel refuses.
    """

    def __init__(self) -> None:
        self._disks: dict[int, _Disk] = {}

    def make(self, pid: int, size: int) -> None:
        """Mount a new disk of ``size`` bytes on /data; all users may write to it."""
        image = IMAGES / f"lock-harness-{pid}"
        try:
            with image.open("wb") as file:
                file.truncate(size)
            command = ["mkfs.ext4", "-q", "-F", "-m", "0", "-E", "lazy_itable_init=0,nodiscard", str(image)]
            made = subprocess.run(command, capture_output=True, text=True, check=False)
            if made.returncode:
                raise DiskError(f"container of process {pid}: mkfs.ext4: {made.stderr.strip()}")
            disk = _Disk(pid, *mounts.attach(image))
            image.unlink()  # the loop device has it open
            self._disks[pid] = disk
            disk.mount()
            directory = disk.open()
            try:
                os.fchmod(directory, 0o777)
            finally:
                os.close(directory)
            self.sync(pid)
        except OSError as error:
            raise DiskError(f"container of process {pid}: no disk: {error}") from error

    def sync(self, pid: int) -> None:
        """Write everything to the disk."""
        with self._locked(pid) as disk:
            directory = disk.open()
            try:
                mounts.sync_file_system(directory)
            finally:
                os.close(directory)

    def freeze(self, pid: int) -> None:
        """Block all writers. Earlier writes are on the disk when this returns."""
        with self._locked(pid) as disk:
            disk.stalled = True
            disk.freeze()

    def thaw(self, pid: int) -> None:
        """Unblock writers."""
        with self._locked(pid) as disk:
            disk.stalled = False
            disk.thaw()

    def cut_power(self, pid: int) -> None:
        """Make the disk fail for its users, and lose all data that was not synced."""
        with self._locked(pid) as disk:
            if disk.powered:
                directory = disk.open()
                try:
                    fcntl.ioctl(directory, EXT4_IOC_SHUTDOWN, struct.pack("=I", NOLOGFLUSH))
                finally:
                    os.close(directory)
                disk.powered = False

    def restore_power(self, pid: int) -> None:
        """Mount the disk again; its users must have ended. No effect on a disk that has power."""
        with self._locked(pid) as disk:
            if not disk.powered:
                mounts.unmount(pid, MOUNT_POINT)
                disk.mount()
                disk.powered = True
                disk.apply_fill()
                if disk.stalled:
                    disk.freeze()

    def fill(self, pid: int, *, full: bool) -> None:
        """Take all free space of the disk, or give it back."""
        with self._locked(pid) as disk:
            disk.full = full
            disk.apply_fill()

    def slow(self, pid: int, per_second: int) -> None:
        """Let the container write to its disk ``per_second`` times a second at most; 0 ends that."""
        with self._locked(pid) as disk:
            cgroups.limit_writes(pid, int(disk.path.name.removeprefix("loop")), per_second)

    def timed_sync(self, pid: int, timeout: float) -> float | None:
        """See :func:`.cgroups.timed_sync`."""
        return cgroups.timed_sync(pid, Path(f"/proc/{self._of(pid).pid}/root{MOUNT_POINT}/{TIMED}"), timeout)

    def attempt(self, pid: int, timeout: float) -> str:
        """Write and sync a few bytes; return ``works``, ``full``, ``fails``, or ``hangs`` (after ``timeout`` seconds).

        The whole disk is synced: an fsync would commit other files' lengths without their data.
        """
        disk = self._of(pid)
        path = Path(f"/proc/{disk.pid}/root{MOUNT_POINT}/{PROBE}")
        found = ["hangs"]
        done = threading.Event()
        disk.attempts.append(done)

        def write() -> None:
            try:
                with path.open("wb") as file:
                    file.write(b"probe")
                    file.flush()
                    mounts.sync_file_system(file.fileno())
                path.unlink(missing_ok=True)  # an attempt that hung may have removed it earlier
                found[0] = "works"
            except OSError as error:
                found[0] = "full" if error.errno == errno.ENOSPC else "fails"
            done.set()
            disk.attempts.remove(done)

        threading.Thread(target=write, name="probe", daemon=True).start()
        done.wait(timeout)
        return found[0]

    def kill(self, pid: int) -> list[int]:
        """As :func:`.processes.kill`, also for processes blocked by a frozen disk. The signal is sent before the disk
        is thawed, so a blocked write is carried out and its process never learns of it."""
        disk = self._disks.get(pid)
        if disk is None:
            return processes.kill(pid)
        with disk.lock:
            if disk.stopper is None:
                return processes.kill(pid)
            for member in processes.members(pid):
                with suppress(ProcessLookupError):
                    os.kill(member, signal.SIGKILL)
            disk.thaw()
            try:
                return processes.kill(pid)
            finally:
                disk.freeze()

    def thaw_all(self) -> list[str]:
        """Thaw all disks and return errors. Neither blocked processes nor containers with a frozen disk can be
        removed."""
        wrong = []
        for disk in self._disks.values():
            try:
                with disk.lock:
                    disk.stalled = False
                    disk.thaw()
            except OSError as error:
                wrong.append(f"disk of process {disk.pid}: {error}")
        return wrong

    def _of(self, pid: int) -> _Disk:
        if pid not in self._disks:
            raise DiskError(f"container of process {pid} has no disk of its own")
        return self._disks[pid]

    def _locked(self, pid: int) -> _LockedDisk:
        return _LockedDisk(self._of(pid))


class _LockedDisk:
    """Context with exclusive use of a disk, which raises system errors as DiskError naming the container."""

    def __init__(self, disk: _Disk) -> None:
        self._disk = disk

    def __enter__(self) -> _Disk:
        self._disk.lock.acquire()
        return self._disk

    def __exit__(self, _type: object, error: BaseException | None, _trace: object) -> None:
        self._disk.lock.release()
        if isinstance(error, OSError):
            raise DiskError(f"container of process {self._disk.pid}, its disk: {error}") from error
