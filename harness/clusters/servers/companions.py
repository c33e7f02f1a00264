"""Programs of this machine that a run on a user's servers needs beside its clients: the protected resource, and the
cleaner."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Sequence
from typing import Final

from harness.clusters.client_host import PREPARED
from harness.clusters.programs import LocalProgram, own_program
from harness.errors import EnvironmentLacking

CLEANING_S: Final = 15.0
"""Seconds within which the run's keys are removed."""


class Cleaner:
    """The program that removes a run's keys, also if this process is killed (:mod:`.cleaner`). ``servers`` are texts as
    the user wrote them."""

    def __init__(self, kind: str, run_name: str, servers: Sequence[str]) -> None:
        self._ready_or_ended = threading.Event()
        self._lines: list[bytes] = []
        command = own_program("harness.clusters.servers.cleaner", kind, run_name, *servers)
        self._program = LocalProgram(command, self._take, self._ready_or_ended.set)

    def _take(self, line: bytes) -> None:
        self._lines.append(line)
        self._ready_or_ended.set()

    def await_start(self) -> None:
        """Wait until it can remove the keys. Raises EnvironmentLacking if it does not start."""
        if not self._ready_or_ended.wait(PREPARED) or not self._lines:
            self._program.close()  # its last errors may not have been read
            said = " | ".join(self._program.errors[-3:]) or "no answer"
            raise EnvironmentLacking(f"the program that removes the run's keys does not start: {said}")

    def clean(self) -> tuple[int, list[str]]:
        """Let it remove the keys, and wait for its end. Return how many there were, and what could not be done."""
        with contextlib.suppress(OSError):
            self._program.send(b"end")
        self._program.close(CLEANING_S)
        if len(self._lines) < 2:
            return 0, self._program.errors[-1:] or ["no answer"]
        found = json.loads(self._lines[1])
        return found["removed"], found["failures"]


class ResourceProgram:
    """The protected resource. ``config`` is that of :mod:`harness.worker.resource_server`."""

    def __init__(self, config: str) -> None:
        self._lines: list[bytes] = []
        self._ready = threading.Event()
        command = [*own_program("harness.worker.resource_server", config), "--local"]
        self._program = LocalProgram(command, self._take, self._ready.set)

    def _take(self, line: bytes) -> None:
        self._lines.append(line)
        self._ready.set()

    def port(self) -> int:
        """Wait until it listens, and return its port. Raises EnvironmentLacking if it does not start."""
        if not self._ready.wait(PREPARED) or not self._lines:
            raise EnvironmentLacking(f"the resource does not start: {' | '.join(self._program.errors[-3:])}")
        return int(self._lines[0].split()[1])

    def end(self) -> None:
        self._program.kill()
