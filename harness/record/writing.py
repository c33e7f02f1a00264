"""A bounded buffer of entries, and a thread that writes them to a file or a socket.

The application only appends tuples to a deque. So a call costs some microseconds, never waits for the output, and never
raises an error of the recorder. The thread writes whole lines, 20 times a second. After ``kill -9`` the file lacks the
entries of the last moment and is complete up to there.

If the thread cannot keep up, whole calls are lost, never parts of one. The file says how many were lost and when.
docs/recording.md describes the lines.
"""

from __future__ import annotations

import atexit
import json
import os
import secrets
import socket
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from time import monotonic_ns
from typing import Any, Final

from .clocks import monotonic_and_wall_ns, monotonic_clock_name, wall_clock_error_ns

INTERVAL_S: Final = 0.05
"""Seconds between two writes."""
IDLE_S: Final = 0.25
"""Seconds between two readings of the clocks if no call is made. A reader knows from each that the file is complete up
to there."""
CLOSING_S: Final = 5.0
"""The longest that the end of the application waits for the last entries, seconds."""
BATCH: Final = 1000
"""Entries that are encoded and written at once."""
BUSY: Final = 10 * BATCH
"""Number of waiting entries that are written without a pause."""
CAPACITY: Final = 100_000
"""Default of the most calls that wait to be written."""
UNIX: Final = "unix:"
TCP: Final = "tcp:"
_FLAGS: Final = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
"""The second one is Windows's: without it line ends would change."""

Entry = tuple[int, int, str, str, str, Any, str | None, int]
"""Monotonic time (ns), process, type, function, key, value, error, and the number of the client. A value that is a str
is JSON already."""


class Writer:
    """Writes calls to ``target``: a folder, in which each process has a file of its own, or a stream socket on which
    another program listens, ``unix:PATH`` or ``tcp:HOST:PORT``.

    ``host`` names this machine in the history. ``capacity`` is the number of calls that may wait to be written. An
    error of the target ends the recording and not the application.
    """

    def __init__(self, target: str | Path, *, host: str | None = None, capacity: int = CAPACITY) -> None:
        self.error = ""
        """Why nothing is recorded any more; empty as long as the target works."""
        self._target, self._host, self._capacity = str(target), host or socket.gethostname(), capacity
        self._processes = self._clients = 0
        self._begin()
        if hasattr(os, "register_at_fork"):  # Windows cannot fork
            os.register_at_fork(after_in_child=self._begin)
        atexit.register(self.close)

    def _begin(self) -> None:
        """Begin the recording of this process. A child process after ``fork`` has a recording of its own.

        It keeps the two counters, so that locks that were wrapped before the fork stay distinct from later ones.
        """
        self.error = ""
        self.lost = 0
        """The number of calls that were not recorded."""
        self._lost_since_ns = 0
        self._room = 0
        """The most entries that may wait; 0 before the thread runs and after it has ended."""
        self._entries: deque[Entry] = deque()
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def new_client(self) -> int:
        """Return the number of a new client, which this process and no other has."""
        with self._lock:
            self._clients += 1
            return self._clients

    def new_process(self) -> int:
        """Return a new process number. A client uses it for one call at a time, and not after an unknown outcome."""
        with self._lock:
            self._processes += 1
            return self._processes

    def invoke(self, process: int, f: str, key: str, value: Any, client: int) -> bool:
        """Record that a call begins. Return False if the call is lost; its end must then not be recorded."""
        if len(self._entries) >= self._room and not self._has_room():
            self._lose()
            return False
        self._entries.append((monotonic_ns(), process, "invoke", f, key, value, None, client))
        return True

    def complete(
        self, process: int, kind: str, f: str, key: str, value: Any, client: int, error: str | None = None
    ) -> None:
        """Record how a call ended: ``kind`` is ok, fail or info."""
        self._entries.append((monotonic_ns(), process, kind, f, key, value, error, client))

    def close(self) -> None:
        """Write the entries that wait, and end the recording. Later calls are not recorded."""
        with self._lock:
            self._room = 0
        if self._thread is not None:
            self._closed.set()
            self._thread.join(timeout=CLOSING_S)
        self._stop("the recorder is closed")

    def _lose(self) -> None:
        with self._lock:
            if not self._lost_since_ns:
                self._lost_since_ns = monotonic_ns()
            self.lost += 1

    def _has_room(self) -> bool:
        """Start the thread if it never ran; return whether another call may wait."""
        with self._lock:
            if self._thread is None and not self.error:
                thread = threading.Thread(target=self._write, name="lock recorder", daemon=True)
                try:
                    thread.start()
                    self._thread, self._room = thread, 2 * self._capacity
                except RuntimeError as error:  # the interpreter ends, or there are too many threads
                    self.error = str(error)
            return len(self._entries) < self._room

    def _stop(self, why: str) -> None:
        """Let later calls be lost, for the first reason given."""
        with self._lock:
            self.error = self.error or why
            self._room = 0

    def _write(self) -> None:
        recording = secrets.token_hex(8)
        try:
            write, end = _opened(self._target, f"{self._host}-{os.getpid()}-{recording}.jsonl".replace("/", "_"))
            try:
                self._write_to(write, recording)
            finally:
                end()
        except OSError as error:
            self._stop(f"{self._target}: {error.strerror or error}")
        except Exception as error:  # noqa: BLE001 - the application must not see it, not even on stderr
            self._stop(f"the recorder failed: {type(error).__name__}: {error}")
        self._entries.clear()

    def _write_to(self, write: Callable[[bytes], None], recording: str) -> None:
        about = {"recording": recording, "host": self._host, "pid": os.getpid(), "boot": monotonic_clock_name()}
        write(_own_line("start", {**about, "error_ns": wall_clock_error_ns()}, monotonic_and_wall_ns()))
        # A file system or container that is started again may have the same host name and process id.
        texts = _Texts(f"{self._host}/{os.getpid()}-{recording[:4]}")
        told, due_ns = 0, 0
        closing = False
        while not closing:
            closing = self._closed.wait(INTERVAL_S if len(self._entries) < BUSY else 0)
            # Entries that were appended before this moment are written before the line that says so.
            now = now_ns, wall_ns = monotonic_and_wall_ns()
            if self._entries or now_ns >= due_ns or closing:
                due_ns = now_ns + int(IDLE_S * 1e9)
            else:
                continue
            left, texts.wall_offset_ns = len(self._entries), wall_ns - now_ns
            for count in (*[BATCH] * (left // BATCH), left % BATCH):
                write("".join([texts.line(self._entries.popleft()) for _ in range(count)]).encode())
            if self.lost > told:
                with self._lock:
                    calls, since_ns, told = self.lost - told, self._lost_since_ns, self.lost
                    self._lost_since_ns = 0
                write(_own_line("lost", {"calls": calls, "from_ns": since_ns}, monotonic_and_wall_ns()))
            write(_own_line("clock", {"error_ns": wall_clock_error_ns()}, now))
        write(_own_line("stop", {"reason": "done"}, now))


def _opened(target: str, name: str) -> tuple[Callable[[bytes], None], Callable[[], None]]:
    """Return functions that write bytes to the target and close it. ``name`` is for the file in a folder."""
    if target.startswith((UNIX, TCP)):
        connection = _connected(target)
        return connection.sendall, connection.close
    Path(target).mkdir(parents=True, exist_ok=True)
    output = _WholeLines(Path(target) / name)
    return output.write, output.close


def _connected(target: str) -> socket.socket:
    if target.startswith(UNIX):
        if not hasattr(socket, "AF_UNIX"):
            raise OSError(f"this system has no {UNIX} sockets; use {TCP}HOST:PORT")
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.connect(target.removeprefix(UNIX))
        except OSError:
            connection.close()
            raise
        return connection
    host, _, port = target.removeprefix(TCP).rpartition(":")
    if not port.isdigit():
        raise OSError(f"expected {TCP}HOST:PORT")
    return socket.create_connection((host, int(port)), timeout=CLOSING_S)


class _WholeLines:
    """A new file that has whole lines at any time, also after the disk was full."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS, 0o644)
        self._size = 0

    def write(self, lines: bytes) -> None:
        written = 0
        try:
            while written < len(lines):
                written += os.write(self._file, memoryview(lines)[written:])
        except OSError:
            os.ftruncate(self._file, self._size + lines.rfind(b"\n", 0, written) + 1)
            raise
        self._size += written

    def close(self) -> None:
        os.close(self._file)


def _own_line(f: str, value: Any, now: tuple[int, int]) -> bytes:
    """Return an entry of the recorder itself, with a reading of both clocks. ``process`` comes first, so that a reader
    finds these lines quickly."""
    entry = {"process": -1, "time": now[0], "wall": now[1], "type": "info", "f": f, "value": value}
    return json.dumps(entry, separators=(",", ":")).encode() + b"\n"


class _Texts:
    """Encodes entries. It remembers the texts of keys and clients, since few of them occur.

    The wall time of an entry is its monotonic time plus ``wall_offset_ns``: reading one clock a call is cheaper.
    """

    def __init__(self, process_name: str) -> None:
        self.wall_offset_ns = 0
        self._process_name = process_name
        self._keys: dict[str, str] = {}
        self._clients: dict[int, str] = {}

    def line(self, entry: Entry) -> str:
        time_ns, process, kind, f, key, value, error, client = entry
        more = "" if value is None else f',"value":{value if type(value) is str else json_text(value)}'
        if error is not None:
            more += f',"error":{json_text(error)}'
        key_text = self._keys.get(key) or self._remember(self._keys, key, key)
        node = self._clients.get(client) or self._remember(self._clients, client, f"{self._process_name}/{client}")
        wall_ns = time_ns + self.wall_offset_ns
        return (
            f'{{"time":{time_ns},"wall":{wall_ns},"process":{process},"type":"{kind}","f":"{f}","key":{key_text},'
            f'"node":{node}{more}}}\n'
        )

    @staticmethod
    def _remember(texts: dict[Any, str], name: Any, text: str) -> str:
        if len(texts) >= BATCH:  # an application may have a lock object for each request
            texts.clear()
        return texts.setdefault(name, json_text(text))


json_text = json.JSONEncoder(separators=(",", ":"), default=str).encode
