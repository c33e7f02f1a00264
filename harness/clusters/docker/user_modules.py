"""The folder with a user's modules in the clients' containers: mounted if the engine has the same files, else copied.

An engine on another machine, or one that serves a harness in a container, has other files at the same path, or none.
"""

from __future__ import annotations

import io
import tarfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from docker.errors import APIError
from docker.types import Mount

from harness.clusters.docker.containers.engine import Box
from harness.clusters.user_files import user_files
from harness.errors import UsageError

PLACE: Final = "/user"
NO_SUCH_PATH: Final = "bind source path does not exist"
"""Part of the engine's message."""
MOST_BYTES: Final = 256 << 20
"""Size of a folder that is still copied."""
MakeBox = Callable[..., Box]
"""Starts a container with additional options of the SDK."""


class UserModules:
    """Starts containers with a copy or a mount of ``folder`` at :data:`PLACE`. ``drop`` removes the container that was
    started last by the same function. Raises UsageError if the folder must be copied and is too large."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._packed = b""
        self._shared: bool | None = None
        self._lock = threading.Lock()

    def start(self, make: MakeBox, drop: Callable[[], object]) -> Box:
        """Start a container with the folder by ``make``."""
        with self._lock:
            if self._shared is None:
                box = self._mounted(make)
                self._shared = box is not None and self._is_mounted(box)
                if box is not None and self._shared:
                    return box
                self._packed = pack(self._folder)
                if box is not None:
                    drop()
        if self._shared:
            return make(mounts=self._mounts())
        box = make()
        box.client.api.put_archive(box.id, "/", self._packed)
        return box

    def _mounts(self) -> list[Any]:
        return [Mount(PLACE, str(self._folder), type="bind", read_only=True)]

    def _mounted(self, make: MakeBox) -> Box | None:
        try:
            return make(mounts=self._mounts())
        except APIError as error:
            if NO_SUCH_PATH not in str(error.explanation):
                raise
            return None

    def _is_mounted(self, box: Box) -> bool:
        """Return whether what is mounted is the folder that this process sees."""
        here = self._folder.stat()
        there = box.output(["stat", "--format", "%d %i", PLACE])
        return there.split() == f"{here.st_dev} {here.st_ino}".encode().split()


def pack(folder: Path) -> bytes:
    """Return a tar archive of a folder as :data:`PLACE`, without what a lock's code does not need."""
    packed = io.BytesIO()
    size = 0
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for path in user_files(folder):
            size += path.stat().st_size
            if size > MOST_BYTES:
                raise UsageError(
                    f"{folder}: the engine does not see this folder, and it has more than {MOST_BYTES >> 20} MB, which "
                    "is too much to copy to the clients: put the lock's module into a folder of its own"
                )
            archive.add(path, f"{PLACE}/{path.relative_to(folder)}", filter=_of_root)
    return packed.getvalue()


def _of_root(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member
