"""Listen on a socket to the recorders of running applications, and store the lines of each connection in a file.

The files are recordings like those that a recorder writes itself, so they are followed and checked in the same way.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import socket
import stat
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from harness.errors import EnvironmentLacking, UsageError
from harness.files import cannot_write

UNIX: Final = "unix:"
TCP: Final = "tcp:"
PART: Final = 1 << 16
"""Bytes that are received at once."""
LONGEST_LINE: Final = 1 << 20
"""Bytes after which a line without an end is refused: it is not from a recorder."""
LARGEST_PORT: Final = 65535


def is_address(path: Path) -> bool:
    """Return whether ``path`` is ``unix:PATH`` or ``tcp:HOST:PORT``."""
    return str(path).startswith((UNIX, TCP))


class Listener:
    """Accepts connections at ``address`` and writes what each sends to a new file of ``folder``.

    Raises UsageError for a malformed address, EnvironmentLacking if it cannot be listened on.
    """

    def __init__(self, address: str, folder: Path) -> None:
        self.address = address
        self.problem = ""
        """Why something that was received cannot be used; empty as long as there is no such thing."""
        self._folder = folder
        self._closed: set[Path] = set()
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._socket = _listening(address)
        self._number = 0
        self._ending = False
        self._accepting = threading.Thread(target=self._accept, name="listener", daemon=True)
        self._accepting.start()

    def idle(self) -> bool:
        """Return whether each program that has connected has its file."""
        with self._lock:
            return not select.select([self._socket], [], [], 0)[0]

    def closed(self) -> set[Path]:
        """Return the files whose connection has ended: they get no further line."""
        with self._lock:
            return set(self._closed)

    def close(self) -> None:
        """Accept no more connections, and end those that are open."""
        self._ending = True
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # which ends the thread that accepts
        self._accepting.join()
        self._socket.close()
        with self._lock:
            for connection in self._open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        if self.address.startswith(UNIX):
            Path(self.address.removeprefix(UNIX)).unlink(missing_ok=True)

    def _accept(self) -> None:
        while True:
            select.select([self._socket], [], [])
            with self._lock:  # so that a connection is either waiting or has its file
                try:
                    connection, _ = self._socket.accept()
                except OSError as error:
                    if not self._ending:
                        self.problem = f"cannot accept a connection at {self.address}: {error.strerror or error}"
                    return
                self._number += 1
                # The process id distinguishes the files of several commands with the same folder.
                path = self._folder / f"connection-{os.getpid()}-{self._number}.jsonl"
                try:
                    path.touch(exist_ok=False)
                except OSError as error:
                    self.problem = str(cannot_write(path, error))
                    connection.close()
                    return
                self._open.add(connection)
            threading.Thread(target=self._store, args=(connection, path), name=path.stem, daemon=True).start()

    def _store(self, connection: socket.socket, path: Path) -> None:
        try:
            with connection, path.open("ab", buffering=0) as file:
                unended = 0
                while part := _received(connection):
                    file.write(part)
                    unended = unended + len(part) if b"\n" not in part else len(part) - part.rfind(b"\n") - 1
                    if unended > LONGEST_LINE:
                        self.problem = f"a connection sent a line of more than {LONGEST_LINE:,} bytes"
                        break
        except OSError as error:
            self.problem = str(cannot_write(path, error))
        with self._lock:
            self._closed.add(path)
            self._open.discard(connection)


def _received(connection: socket.socket) -> bytes:
    """Return what comes next, b"" at the end, also at that of a process that was killed."""
    try:
        return connection.recv(PART)
    except OSError:
        return b""


def _listening(address: str) -> socket.socket:
    try:
        if address.startswith(UNIX):
            if not hasattr(socket, "AF_UNIX"):
                raise UsageError(f"{address}: this system has no {UNIX} sockets; use {TCP}HOST:PORT")
            return _unix(address.removeprefix(UNIX))
        host, _, port = address.removeprefix(TCP).rpartition(":")
        if not (host and port.isdigit() and int(port) <= LARGEST_PORT):
            raise UsageError(f"expected {UNIX}PATH or {TCP}HOST:PORT, got {address!r}")
        return socket.create_server((host.strip("[]"), int(port)), family=_family(host))
    except (OSError, OverflowError) as error:
        raise EnvironmentLacking(f"cannot listen on {address}: {getattr(error, 'strerror', None) or error}") from error


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def _unix(path: str) -> socket.socket:
    """Listen on a path. A socket that a killed process left there is replaced.

    It gets its name when it is listened on: whoever finds it can connect."""
    if os.path.lexists(path) and not _left_behind(path):
        raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    unnamed = f"{path}~"
    try:
        if _left_behind(unnamed):
            Path(unnamed).unlink()
        listening.bind(unnamed)
        listening.listen()
        Path(unnamed).rename(path)
    except BaseException:
        listening.close()
        raise
    return listening


def _left_behind(path: str) -> bool:
    try:
        if not stat.S_ISSOCK(Path(path).stat().st_mode):
            return False
    except OSError:
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        return asking.connect_ex(path) != 0


@contextlib.contextmanager
def listening(paths: Sequence[Path], store: Path | None) -> Iterator[tuple[list[Path], list[Listener]]]:
    """Listen on those ``paths`` that are addresses. Yield the paths to follow, with the folder of the connections in
    place of the addresses, and the listeners.

    The folder is ``store``, or without it a temporary one that is removed afterwards.
    """
    addresses = [str(path) for path in paths if is_address(path)]
    if not addresses:
        yield list(paths), []
        return
    with contextlib.ExitStack() as closing:
        if store is None:
            folder = Path(closing.enter_context(tempfile.TemporaryDirectory(prefix="harness-follow-")))
        else:
            folder = store
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise cannot_write(folder, error) from error
        listeners: list[Listener] = []
        for address in dict.fromkeys(addresses):
            listeners.append(Listener(address, folder))
            closing.callback(listeners[-1].close)
        yield [folder, *(path for path in paths if not is_address(path))], listeners
