"""Mounts in containers' mount namespaces: ext4 file systems in image files, on loop devices.

Constants are those of <linux/loop.h> and <linux/mount.h>; the system calls have the same numbers on all architectures.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import stat
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from .libc import libc, succeeded

LOOP_CTL_GET_FREE: Final = 0x4C82
LOOP_CONFIGURE: Final = 0x4C0A
LOOP_CONFIG: Final = struct.Struct("=II 5Q 4I 64s 64s 32s 2Q 8Q")
LO_FLAGS_AUTOCLEAR: Final = 4
LOOP_MAJOR: Final = 7
CONTROL: Final = (10, 237)
FSOPEN, FSCONFIG, FSMOUNT, MOVE_MOUNT = 430, 431, 432, 429
SET_STRING, CMD_CREATE = 1, 6
CLOEXEC: Final = 1
MOVE_MOUNT_F_EMPTY_PATH: Final = 4
AT_FDCWD: Final = -100
COMMIT: Final = b"3600"
"""Seconds between periodic commits of the journal; ext4's default is 5."""
CLONE_FS, CLONE_NEWNS = 0x200, 0x20000
ATTEMPTS: Final = 20
PATIENCE: Final = 2.0
"""Seconds within which a file system can be unmounted after its users have ended."""


def _call(number: int, what: str, *arguments: int | bytes | None) -> int:
    # Pass every argument at register width: ctypes would pass an int as 32 bits.
    wide = [ctypes.c_long(each) if isinstance(each, int) else ctypes.c_char_p(each) for each in arguments]
    return succeeded(libc().syscall(ctypes.c_long(number), *wide), what)


def _node(path: Path, kind: int, major: int, minor: int) -> Path:
    """Create a device node, since a container's /dev has no loop devices."""
    with suppress(FileExistsError):
        os.mknod(path, kind | 0o600, os.makedev(major, minor))
    return path


def attach(image: Path) -> tuple[int, Path]:
    """Attach an image to a loop device. Return the open file, which keeps the device attached, and the device's path.

    It may take several attempts, since other programs take loop devices too.
    """
    control = os.open(_node(Path("/dev/loop-control"), stat.S_IFCHR, *CONTROL), os.O_RDWR | os.O_CLOEXEC)
    file = os.open(image, os.O_RDWR | os.O_CLOEXEC)
    try:
        for _ in range(ATTEMPTS):
            number = fcntl.ioctl(control, LOOP_CTL_GET_FREE)
            path = _node(Path(f"/dev/loop{number}"), stat.S_IFBLK, LOOP_MAJOR, number)
            device = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.ioctl(device, LOOP_CONFIGURE, _config(file, image.name))
            except OSError as error:
                os.close(device)
                if error.errno != errno.EBUSY:
                    raise
            else:
                return device, path
        raise OSError(errno.EBUSY, f"no loop device was free in {ATTEMPTS} attempts")
    finally:
        os.close(file)
        os.close(control)


def _config(file: int, name: str) -> bytes:
    """Return a ``struct loop_config``; the kernel chooses the device number and the block size."""
    info = (0, 0, 0, 0, 0, 0, 0, 0, LO_FLAGS_AUTOCLEAR, name.encode(), b"", b"", 0, 0)
    return LOOP_CONFIG.pack(file, 0, *info, *([0] * 8))


def _filesystem(device: Path) -> int:
    """Return a detached mount of the file system. Mounting replays the journal."""
    context = _call(FSOPEN, "fsopen", b"ext4", CLOEXEC)
    try:
        _call(FSCONFIG, "fsconfig", context, SET_STRING, b"source", str(device).encode(), 0)
        # A timed commit would write a log's new length before its data: a tail of zeros, which Redis refuses.
        _call(FSCONFIG, "fsconfig", context, SET_STRING, b"commit", COMMIT, 0)
        _call(FSCONFIG, f"mounting {device}", context, CMD_CREATE, None, None, 0)
        return _call(FSMOUNT, "fsmount", context, CLOEXEC, 0)
    finally:
        os.close(context)


def _within(pid: int, what: Callable[[], None]) -> None:
    """Call a function in the mount namespace of a process, in a new thread, since a thread cannot leave it again."""
    failed: list[OSError] = []

    def enter() -> None:
        try:
            space = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
            try:
                succeeded(libc().unshare(CLONE_FS), "unshare")  # setns(2): not while it shares root and cwd
                succeeded(libc().setns(space, CLONE_NEWNS), "setns")
            finally:
                os.close(space)
            what()
        except OSError as error:
            failed.append(error)

    thread = threading.Thread(target=enter, name=f"mntns-{pid}")
    thread.start()
    thread.join()
    if failed:
        raise failed[0]


def mount(pid: int, device: Path, place: str) -> None:
    """Mount the device's file system at a path in the mount namespace of a process."""
    mounted = _filesystem(device)

    def move() -> None:
        where = (AT_FDCWD, place.encode(), MOVE_MOUNT_F_EMPTY_PATH)
        _call(MOVE_MOUNT, f"mounting on {place}", mounted, b"", *where)

    try:
        _within(pid, move)
    finally:
        os.close(mounted)


def unmount(pid: int, place: str) -> None:
    """Unmount, not lazily: if the file system were still in use, a new mount of it would still have no power."""

    def detach() -> None:
        deadline = time.monotonic() + PATIENCE
        while libc().umount2(place.encode(), 0):
            number = ctypes.get_errno()
            if number != errno.EBUSY or time.monotonic() >= deadline:
                raise OSError(number, f"unmounting {place}: {os.strerror(number)}")
            time.sleep(0.002)

    _within(pid, detach)


def sync_file_system(file: int) -> None:
    """Write everything of a file's file system to its disk (``syncfs``)."""
    succeeded(libc().syncfs(file), "syncfs")
