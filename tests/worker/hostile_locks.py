"""Locks that exclude nobody on real machines, or that end, stop or exhaust their process. None may be called valid."""

from __future__ import annotations

import asyncio
import ctypes
import fcntl
import multiprocessing
import os
import signal
import socket
import struct
import sys
import tempfile
import threading
import time
from multiprocessing import shared_memory
from pathlib import Path
from typing import Any

HELD: dict[str, str] = {}
GUARD = threading.Lock()


class _Lock:
    def __init__(self, redis: Any, key: str, ttl: float) -> None:
        self.redis, self.key, self.ttl = redis, key, ttl

    def acquire(self, timeout: float) -> bool:
        return bool(self.redis.set(self.key, "1", nx=True, px=int(self.ttl * 1000)))

    def release(self) -> None:
        self.redis.delete(self.key)


class ModuleDict(_Lock):
    """Holds a key in a dict of its module, and never talks to a server."""

    def acquire(self, timeout: float) -> bool:
        return HELD.setdefault(self.key, str(id(self))) == str(id(self))

    def release(self) -> None:
        HELD.pop(self.key, None)


class CallsHome(_Lock):
    """Its destructor connects to a port of the machine, as one does that releases a lock. It runs after the simulation:
    an object that refers to itself ends when garbage is collected."""

    def __init__(self, redis: Any, key: str, ttl: float) -> None:
        super().__init__(redis, key, ttl)
        self.me = self

    def __del__(self) -> None:
        socket.create_connection(("127.0.0.1", int(os.environ["HOSTILE_PORT"]))).close()


class GuardedByDict(ModuleDict):
    """A dict guards a SET that would always succeed."""

    def acquire(self, timeout: float) -> bool:
        return super().acquire(timeout) and bool(self.redis.set(self.key, "1"))


class HashedName(_Lock):
    """The name of the key contains ``hash()`` of a text, which differs between processes."""

    def __init__(self, redis: Any, key: str, ttl: float) -> None:
        super().__init__(redis, f"lock-{hash(('orders', key)) % 10**9}", ttl)


class ClassLock(_Lock):
    """A lock of threads, common to all instances, guards a SET that would always succeed."""

    guard = threading.Lock()

    def acquire(self, timeout: float) -> bool:
        return self.guard.acquire(timeout=timeout) and bool(self.redis.set(self.key, "1"))

    def release(self) -> None:
        self.guard.release()


class FileLock(_Lock):
    """A file excludes the clients of one machine."""

    folder = Path(tempfile.gettempdir())
    suffix = ""

    def __init__(self, redis: Any, key: str, ttl: float) -> None:
        super().__init__(redis, key, ttl)
        self.path = self.folder / f"harness-hostile-lock-{os.environ['HOSTILE']}{self.suffix}"

    def acquire(self) -> bool:  # type: ignore[override]
        self.redis.ping()
        try:
            os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except FileExistsError:
            return False
        return True

    def release(self) -> None:
        self.path.unlink()


class FolderLock(FileLock):
    def acquire(self) -> bool:  # type: ignore[override]
        self.redis.ping()
        try:
            self.path.mkdir()
        except FileExistsError:
            return False
        return True

    def release(self) -> None:
        self.path.rmdir()


class MemoryFile(FileLock):
    """A file in the machine's shared memory excludes the clients."""

    folder = Path("/dev/shm")


class CacheFile(FileLock):
    """A file that is named as a compiled module excludes the clients."""

    suffix = ".pyc"


class SharedMemoryBlock(_Lock):
    """A block of memory that the machine's processes share excludes the clients."""

    def acquire(self) -> bool:  # type: ignore[override]
        self.redis.ping()
        try:
            self.block = shared_memory.SharedMemory(f"harness-hostile-{os.environ['HOSTILE']}", create=True, size=8)
        except FileExistsError:
            return False
        return True

    def release(self) -> None:
        self.block.close()
        self.block.unlink()


class LockedFile(_Lock):
    """Locks a file that it never writes to: its own code."""

    def __init__(self, redis: Any, key: str, ttl: float) -> None:
        super().__init__(redis, key, ttl)
        self.file = Path(__file__).open(encoding="utf-8")  # noqa: SIM115 - it stays open as long as the lock exists

    def acquire(self) -> bool:  # type: ignore[override]
        self.redis.ping()
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def release(self) -> None:
        fcntl.flock(self.file, fcntl.LOCK_UN)


class ControlledFile(LockedFile):
    """Locks its own code by fcntl, as SQLite does. A process does not exclude itself."""

    def acquire(self) -> bool:  # type: ignore[override]
        self.redis.ping()
        fcntl.fcntl(self.file, fcntl.F_SETLK, struct.pack("hhqqi4x", fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0))
        return True

    def release(self) -> None:
        fcntl.fcntl(self.file, fcntl.F_SETLK, struct.pack("hhqqi4x", fcntl.F_UNLCK, os.SEEK_SET, 0, 0, 0))


class LinkedFile(FileLock):
    """A second name of its own code excludes the clients."""

    def acquire(self) -> bool:  # type: ignore[override]
        self.redis.ping()
        try:
            os.link(__file__, self.path)
        except FileExistsError:
            return False
        return True


class DatedFolder(_Lock):
    """The time at which a folder was changed excludes the clients."""

    def acquire(self) -> bool:  # type: ignore[override]
        self.redis.ping()
        folder = os.environ["HOSTILE_FOLDER"]
        if Path(folder).stat().st_mtime == 1.0:
            return False
        os.utime(folder, (1.0, 1.0))
        return True

    def release(self) -> None:
        os.utime(os.environ["HOSTILE_FOLDER"])


class OwnFiles(FileLock):
    """Each client has a file of its own, and is refused while another client has one."""

    def acquire(self) -> bool:  # type: ignore[override]
        self.redis.ping()
        files = [self.path.with_suffix(f".c{number}") for number in range(5)]
        if any(file.exists() for file in files):
            return False
        files[int(socket.gethostname()[1:])].touch()
        return True

    def release(self) -> None:
        self.path.with_suffix(f".{socket.gethostname()}").unlink()


class _Flag(_Lock):
    """Sends a command with each call, and excludes the clients by a flag of the process."""

    def acquire(self) -> bool:  # type: ignore[override]
        self.redis.ping()
        if self.flag():
            return False
        self.set_flag(on=True)
        return True

    def release(self) -> None:
        self.redis.ping()
        self.set_flag(on=False)

    def flag(self) -> bool:
        raise NotImplementedError

    def set_flag(self, *, on: bool) -> None:
        raise NotImplementedError


class ModuleAttribute(_Flag):
    """The flag is an attribute of a module of the standard library."""

    def flag(self) -> bool:
        return getattr(tempfile, "tempdir", None) == "held"

    def set_flag(self, *, on: bool) -> None:
        tempfile.tempdir = "held" if on else None


class Variable(_Flag):
    """The flag is a variable of the environment."""

    def flag(self) -> bool:
        return "HOSTILE_HELD" in os.environ

    def set_flag(self, *, on: bool) -> None:
        if on:
            os.environ["HOSTILE_HELD"] = "1"
        else:
            del os.environ["HOSTILE_HELD"]


class SocketTimeout(_Flag):
    """The flag is the standard library's default of timeouts."""

    def flag(self) -> bool:
        return socket.getdefaulttimeout() == 77.0

    def set_flag(self, *, on: bool) -> None:
        socket.setdefaulttimeout(77.0 if on else None)


class WorkingDirectory(_Flag):
    """The flag is the working directory of the process."""

    def flag(self) -> bool:
        return Path.cwd() == Path("/")

    def set_flag(self, *, on: bool) -> None:
        os.chdir("/" if on else os.environ["HOSTILE_FOLDER"])


class ExitsWith0(_Lock):
    def acquire(self, timeout: float) -> bool:
        os._exit(0)


class ExitsWith1InRelease(_Lock):
    def release(self) -> None:
        os._exit(1)


class Cancelled(_Lock):
    def acquire(self, timeout: float) -> bool:
        raise asyncio.CancelledError


class RaisesSystemExit(_Lock):
    def acquire(self, timeout: float) -> bool:
        raise SystemExit(0)


class Interrupts(_Lock):
    def release(self) -> None:
        raise KeyboardInterrupt


class Alarm(_Lock):
    def acquire(self, timeout: float) -> bool:
        signal.alarm(1)
        return super().acquire(timeout)


class Timer(_Lock):
    """Limits its acquire by a timer of real time."""

    def acquire(self, timeout: float) -> bool:
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        signal.setitimer(signal.ITIMER_REAL, 60)
        try:
            return super().acquire(timeout)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)


class Kills(_Lock):
    """Sends a signal to its process, whose number is not the simulated one."""

    def acquire(self, timeout: float) -> bool:
        ctypes.CDLL(None)["raise"](int(signal.SIGKILL))
        return True


class Segfault(_Lock):
    def acquire(self, timeout: float) -> bool:
        ctypes.string_at(0)
        return True


class Allocates(_Lock):
    def acquire(self, timeout: float) -> bool:
        taken = []
        while True:
            taken.append(bytes(1 << 30))


class Loops(_Lock):
    def acquire(self, timeout: float) -> bool:
        while True:
            pass


class LoopsInC(_Lock):
    """Holds the interpreter's lock for ever."""

    def acquire(self, timeout: float) -> bool:
        return sum(iter(int, 1)) == 0


class SleepsZero(_Lock):
    def acquire(self, timeout: float) -> bool:
        while True:
            time.sleep(0)


class Forks(_Lock):
    def acquire(self, timeout: float) -> bool:
        child = multiprocessing.get_context("fork").Process(target=print)
        child.start()
        child.join()
        return super().acquire(timeout)


class ForksQuietly(_Lock):
    def acquire(self, timeout: float) -> bool:
        try:
            if os.fork() == 0:
                os._exit(0)
        except OSError:
            pass
        return super().acquire(timeout)


class NoHook(_Lock):
    """Sets the hook for uncaught exceptions to what is no function."""

    def release(self) -> None:
        super().release()
        sys.excepthook = None  # type: ignore[assignment]


class NoHookOfThreads(_Lock):
    """Sets the hook for uncaught exceptions of threads to what is no function."""

    def release(self) -> None:
        super().release()
        threading.excepthook = 5  # type: ignore[assignment]


class Sound(_Lock):
    """The control: a lock that is all right in runs without faults."""

    def __init__(self, redis: Any, key: str, ttl: float) -> None:
        super().__init__(redis, key, ttl)
        self.token = os.urandom(8).hex()

    def acquire(self) -> bool:  # type: ignore[override]
        return bool(self.redis.set(self.key, self.token, nx=True, px=int(self.ttl * 1000)))

    def release(self) -> None:
        if self.redis.get(self.key) == self.token.encode():
            self.redis.delete(self.key)
