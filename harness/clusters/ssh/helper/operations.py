"""Requests to the helper program of a host, and the life of the program; requests are those of the helper container's
protocol (:mod:`harness.clusters.docker.helper.server`).

Requests that take no time are executed in their order; all others have a thread each. Events have no id: lines of
programs, and their ends.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Final

from harness.clusters.docker.helper import files, vdso
from harness.clusters.docker.helper.arguments import Arguments
from harness.clusters.docker.helper.operations import OperationError
from harness.clusters.docker.helper.server import RequestServer
from harness.record.processor_waits import ProcessorWaits, Waits, descendants

from . import abilities, cache, links, ports, processes

SILENCE_S: Final = 30.0
"""Seconds without a request after which the control side counts as lost. It sends one every few seconds."""
IN_ORDER: Final = ("send", "end_input", "time", "beat")
"""Requests that take no time. Those about the clock must not wait for a thread."""


class HostOperations:
    """Operations that can be requested; ``table`` maps their names to methods. ``folder`` is the run's own."""

    def __init__(self, folder: Path, emit: Callable[[Mapping[str, object]], None]) -> None:
        self._folder = folder
        self._programs = processes.Programs(emit)
        self._rules = links.PacketRules()
        self._ports = ports.PortReservations()
        self._cache = cache.ClientCache(cache.home())
        self._waits: ProcessorWaits | None = None
        self.table: Final[Mapping[str, Callable[[Arguments], object]]] = {
            "facts": lambda _: {**abilities.facts(), "folder": str(folder), "pid": os.getpid()},
            "lacking": lambda given: abilities.lacking(self._rules, given.text("script"), _gid(given)),
            "beat": lambda _: None,
            "time": lambda _: [time.monotonic_ns(), time.time_ns()],
            "take_ports": lambda given: self._ports.take(given.whole("first"), given.whole("count")),
            "start": self._start,
            "send": lambda given: self._programs.send(given.text("name"), given.text("line")),
            "end_input": lambda given: self._programs.end_input(given.text("name")),
            "end": lambda given: self._programs.kill_session(given.text("name")),
            "members": lambda given: processes.members(given.pid("group")),
            "states": lambda given: processes.states(given.pid("group")),
            "stop": lambda given: processes.stop(given.pid("group")),
            "resume": lambda given: processes.resume(given.pid("group")),
            "kill": lambda given: processes.kill(given.pid("group")),
            "filter": lambda given: self._rules.apply(given.text("script")),
            "answer_probes": lambda given: links.answer_probes(given.address(), _gid(given)),
            "probe": self._probe,
            "converse": self._converse,
            "clock": self._clock,
            "offset": self._offset,
            "write": self._write,
            "empty": self._empty,
            "newest_file": lambda given: files.newest(self._path(given), given.words("patterns")),
            "damage_file": self._damage_file,
            "cached": lambda given: _text(self._cache.find(given.text("name"))),
            "unpack": self._unpack,
            "run": self._run,
            "watch_processors": lambda _: self._watch_processors(),
            "processor_waits": lambda _: self._end_waits(),
        }

    def close(self) -> list[str]:
        """Kill all programs and remove the run's folder; return error messages. The kernel removes the packet rules
        with this process."""
        self._end_waits()
        failures = self._programs.close()
        self._ports.close()
        shutil.rmtree(self._folder, ignore_errors=True)
        if self._folder.exists():
            failures.append(f"{self._folder} could not be removed")
        return failures

    def _watch_processors(self) -> None:
        """Note from now on how long the programs of the run wait for a processor."""
        self._end_waits()
        self._waits = ProcessorWaits(partial(descendants, os.getpid()))

    def _end_waits(self) -> Waits:
        waits, self._waits = self._waits, None
        return [] if waits is None else waits.stop()

    def _start(self, given: Arguments) -> int:
        values = json.loads(given.text("program"))
        return self._programs.start(given.text("name"), values["command"], values["environment"], _gid(given))

    def _probe(self, given: Arguments) -> float | None:
        return links.probe(_gid(given), given.address(), given.whole("port"), given.seconds("timeout"))

    def _converse(self, given: Arguments) -> dict[str, object] | None:
        """Return a server's answer in hexadecimal with the wall clock (ns) before and after, None if there is none."""
        request = given.data_or("request", b"")
        try:
            answer, before, after = links.converse(
                given.whole("port"), request, given.yes("ends"), given.seconds("timeout")
            )
        except OSError:
            return None
        return {"answer": answer.hex(), "before_ns": before, "after_ns": after}

    def _clock(self, given: Arguments) -> None:
        """Set the clocks of all processes of a group."""
        offset_ns, rate, since_ns = given.whole("offset_ns"), given.number("rate"), given.whole("since_ns")
        failed = []
        for member in processes.members(given.pid("group")):
            try:
                vdso.move(member, offset_ns + round(rate * (time.monotonic_ns() - since_ns)), rate)
            except vdso.ClockError as error:
                if member in processes.members(given.pid("group")):
                    failed.append(f"process {member}: {error}")
        if failed:
            raise OperationError("; ".join(failed))

    def _offset(self, given: Arguments) -> int:
        """Return how far the clock of a group's youngest process is ahead, in ns."""
        members = processes.members(given.pid("group"))
        if not members:
            raise OperationError(f"process group {given.pid('group')}: no process, so no clock to read")
        return vdso.offset(members[-1])

    def _path(self, given: Arguments) -> Path:
        """Return a path in the run's folder."""
        path = (self._folder / given.text("path")).resolve()
        if not path.is_relative_to(self._folder) or path == self._folder:
            raise OperationError(f"path: got {given.text('path')!r}, expected one in the run's folder")
        return path

    def _write(self, given: Arguments) -> str:
        """Write a file in the run's folder, and return its path."""
        path = self._path(given)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(given.text("text"))
        return str(path)

    def _empty(self, given: Arguments) -> str:
        """Make an empty folder in the run's folder in the place of one that there may be, and return its path."""
        path = self._path(given)
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        return str(path)

    def _damage_file(self, given: Arguments) -> None:
        patterns, size, seed = given.words("patterns"), given.whole("size"), given.whole("seed")
        files.damage(self._path(given), patterns, flip=given.yes("flip"), size=size, seed=seed)

    def _unpack(self, given: Arguments) -> str:
        """Unpack a zip file of the run's folder, into the cache with ``keep`` if that can be written to; return the
        folder. The file is removed."""
        archive, name = self._path(given), given.text("name")
        folder = self._cache.add(name, archive) if given.yes("keep") else None
        if folder is None:
            folder = self._folder / "client" / name
            with zipfile.ZipFile(archive) as packed:
                packed.extractall(folder)
        archive.unlink()
        return str(folder)

    def _run(self, given: Arguments) -> list[Any]:
        """Run a shell command to its end within ``timeout`` seconds; return its status and its last lines."""
        try:
            done = subprocess.run(
                ["sh", "-c", given.text("command")],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=given.seconds("timeout"),
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise OperationError(f"{given.text('command')}: not over after {error.timeout:g} s") from error
        return [done.returncode, done.stdout.splitlines()[-20:]]


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


def _gid(given: Arguments) -> int | None:
    number = given.whole_or("gid", -1)
    return None if number < 0 else number


class HostRequestServer(RequestServer):
    """Answers requests, those :data:`IN_ORDER` one after the other."""

    def serve(self, requests: Iterable[bytes]) -> None:
        self._send({"ready": True})
        for line in requests:
            if json.loads(line).get("op") in IN_ORDER:
                self._handle(line)
            else:
                threading.Thread(target=self._handle, args=(line,), daemon=True).start()

    def emit(self, event: Mapping[str, object]) -> None:
        """Send an event."""
        self._send(event)


def _requests(heard: list[float]) -> Iterable[bytes]:
    for line in sys.stdin.buffer:
        heard[0] = time.monotonic()
        yield line


def _end_when_silent(heard: list[float]) -> None:
    while time.monotonic() - heard[0] < SILENCE_S:
        time.sleep(1)
    os.kill(os.getpid(), signal.SIGTERM)


def _end(_signal: int, _frame: FrameType | None) -> None:
    raise SystemExit(0)


def main(folder: Path) -> None:
    """Serve the control side until its connection ends, or is silent for too long; then undo everything and exit."""
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    for number in numbers:
        signal.signal(number, _end)
    server: list[HostRequestServer] = []
    operations = HostOperations(folder, lambda event: server[0].emit(event))  # noqa: PLW0108 - it is made later
    server.append(HostRequestServer(operations, _write))
    heard = [time.monotonic()]
    threading.Thread(target=_end_when_silent, args=(heard,), daemon=True).start()
    try:
        server[0].serve(_requests(heard))
    finally:
        for number in numbers:  # a second signal while it ends would leave programs behind
            signal.signal(number, signal.SIG_IGN)
        for wrong in operations.close():
            print(wrong, file=sys.stderr)
        os._exit(0)


def _write(line: str) -> None:
    sys.stdout.write(line)
    sys.stdout.flush()
