"""What simulated clients must not do in a worker, noticed by an audit hook: start processes, send signals, share files.

On a real cluster each client is alone on its machine. A process that a client starts would not be simulated, and a file
that two clients use would be a lock of its own. When the simulation is over, destructors of a client's objects still
run, and some release a lock: they must not reach the real network, and how they fail concerns nobody.
"""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from typing import Any, Final

from greenlet import getcurrent

from harness.sim import kernel

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

REFUSED: Final = frozenset(
    {"os.fork", "os.forkpty", "os.posix_spawn", "os.exec", "os.system", "os.kill", "os.killpg", "subprocess.Popen"}
)
"""Audit events of calls that no simulated process can make."""
_CHANGES: Final = {
    "os.mkdir": (0,), "os.rename": (0, 1), "os.link": (0, 1), "os.symlink": (1,), "os.remove": (0,), "os.rmdir": (0,),
    "os.truncate": (0,), "os.chmod": (0,), "os.chown": (0,), "os.utime": (0,), "os.setxattr": (0,),
    "os.removexattr": (0,), "sqlite3.connect": (0,), "shutil.copyfile": (1,), "dbm.open": (0,),
}  # fmt: skip
"""Audit events that change a file → the positions of the paths among their arguments."""
_DESCRIPTORS: Final = frozenset({"fcntl.flock", "fcntl.lockf", "os.lockf", "msvcrt.locking", "fcntl.fcntl"})
"""Audit events that lock the file of the descriptor that is their first argument; ``fcntl.fcntl`` does so with some
commands only."""
_LOCKING: Final = frozenset(
    getattr(fcntl, name) for name in ("F_SETLK", "F_SETLKW", "F_OFD_SETLK", "F_OFD_SETLKW") if hasattr(fcntl, name)
)
"""Commands of ``fcntl.fcntl`` that lock a file."""
_NETWORK: Final = frozenset({"socket.getaddrinfo", "socket.gethostbyname", "socket.connect", "socket.sendto"})
_NOTICED: Final = frozenset({"open", *_CHANGES, *_DESCRIPTORS, *REFUSED, *_NETWORK})
_ELSEWHERE: Final = ("/dev/", "/proc/", "/sys/")
_MEMORY: Final = ("/dev/shm/", "/dev/mqueue/")
"""Folders below /dev whose files are common to the processes of a machine."""
_IMPORTER: Final = "<frozen importlib"
"""Beginning of the file name of the code that imports modules, and that writes their .pyc files."""


class SharedFiles:
    """The files that simulated hosts opened, changed or locked. ``hosts`` has the hosts of each path; ``changed`` the
    paths that a host wrote to or locked."""

    def __init__(self) -> None:
        self.hosts: dict[str, set[str]] = {}
        self.changed: set[str] = set()

    def note(self, host: str, path: Any, *, writes: bool, imports: bool = False) -> None:
        """Note that a host uses a file; ``imports``: to import a module."""
        if not isinstance(path, str | bytes | os.PathLike):
            return  # a descriptor
        name = os.path.realpath(os.fsdecode(path))
        if name.startswith(_ELSEWHERE) and not name.startswith(_MEMORY):
            return
        if (imports or not writes) and (name.endswith(".pyc") or "__pycache__" in name):
            return
        self.hosts.setdefault(name, set()).add(host)
        if writes:
            self.changed.add(name)

    def shared(self) -> list[tuple[str, list[str]]]:
        """Return the paths that several hosts used and at least one changed, with the hosts."""
        return [
            (path, sorted(hosts)) for path, hosts in sorted(self.hosts.items())
            if len(hosts) > 1 and path in self.changed
        ]  # fmt: skip

    def clear(self) -> None:
        self.hosts.clear()
        self.changed.clear()


files = SharedFiles()
"""The files of the present run. There is one run in a process at a time."""
installed = False
"""True in a worker, the only process that executes code under test."""
_looking = False


def install() -> None:
    """Install the audit hook. It stays until the process ends."""
    global installed  # noqa: PLW0603 - as is the hook
    installed = True
    sys.addaudithook(_on_event)


def silence_destructors() -> None:
    """Let this process, and those forked from it, print nothing about destructors that fail after the simulation."""
    sys.unraisablehook = _on_unraisable


def _on_unraisable(failure: sys.UnraisableHookArgs) -> None:
    if not kernel.ended:
        sys.__unraisablehook__(failure)


def _on_event(event: str, args: tuple[Any, ...]) -> None:
    global _looking  # noqa: PLW0603 - an audit hook is for the whole process
    if event not in _NOTICED:  # some events occur a hundred thousand times in a run
        return
    task = getcurrent()
    if event in _NETWORK:
        if type(task) is not kernel.Task and kernel.ended:
            raise OSError(errno.ENETDOWN, "the simulation has ended")
        return
    if type(task) is not kernel.Task or _looking:
        return
    if event in REFUSED:
        task.kernel.unsupported.setdefault(event, task.host.name)
        raise kernel.Unsupported(errno.ENOSYS, f"{event} is not simulated")
    _looking = True
    imports = sys._getframe(1).f_code.co_filename.startswith(_IMPORTER)
    try:
        if event == "open":
            files.note(task.host.name, args[0], writes=_writes(args[1], args[2]), imports=imports)
        elif event in _DESCRIPTORS:
            if event != "fcntl.fcntl" or args[1] in _LOCKING:
                _note_lock(task, event, args[0])
        else:
            for position in _CHANGES[event]:
                files.note(task.host.name, args[position], writes=True, imports=imports)
    finally:
        _looking = False


def _note_lock(task: kernel.Task, event: str, descriptor: int) -> None:
    """Note that a client locks an open file. Without /proc the file has no name, so the lock itself makes the run
    unknown."""
    try:
        path = str(Path(f"/proc/self/fd/{descriptor}").readlink())
    except OSError:
        task.kernel.unsupported.setdefault(event, task.host.name)
        return
    if path.startswith("/"):
        files.note(task.host.name, path, writes=True)


def _writes(mode: Any, flags: Any) -> bool:
    if isinstance(mode, str):
        return any(letter in mode for letter in "wax+")
    return isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
