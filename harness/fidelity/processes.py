"""A real server as a process of this machine: on the loopback interface, in a temporary folder, without privileges.

It can be paused, killed and restarted, with its data or without. It ends with the process that started it.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from harness.errors import EnvironmentLacking
from harness.worker.lifetime import end_with_parent

LOOPBACK: Final = "127.0.0.1"
PORTS: Final = range(20_000, 32_000)
"""Below the ports that Linux gives to outgoing connections, so that none takes the port of a killed server."""
PATIENCE_S: Final = 120.0
"""Seconds to wait for a server that starts, answers or ends. A slow machine must not miss it."""
_POLL_S: Final = 0.01
_LOG_END: Final = 2000


class Place(NamedTuple):
    """Resources of a server: a folder for its data, which exists, and ports of the loopback interface."""

    folder: Path
    ports: tuple[int, ...]

    @property
    def address(self) -> tuple[str, int]:
        """Address for clients: the first port."""
        return LOOPBACK, self.ports[0]


def accepts_connections(place: Place) -> bool:
    """Return True if the first port accepts a connection."""
    with contextlib.suppress(OSError), socket.create_connection(place.address, timeout=PATIENCE_S):
        return True
    return False


def missing_program(program: str, package: str) -> str:
    """Return how to install a program that this machine lacks, "" if it has it."""
    if shutil.which(program, path=_path()) is not None:
        return ""
    return f"{program} is not installed: apt-get install {package}"


def program_path(program: str) -> str:
    """Return the path of an installed program, also of one in a folder for administrators such as /usr/sbin."""
    found = shutil.which(program, path=_path())
    if found is None:
        raise EnvironmentLacking(f"{program} is not installed on this machine")
    return found


def _path() -> str:
    return os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin", "/sbin"])


def await_true(test: Callable[[], bool], what: str) -> None:
    """Wait until ``test`` returns True."""
    deadline = time.monotonic() + PATIENCE_S
    while not test():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {PATIENCE_S:.0f} s for {what}")
        time.sleep(0.001)


def free_ports(number: int) -> tuple[int, ...]:
    """Return ports of the loopback interface that nobody uses now."""
    found: list[int] = []
    for port in random.SystemRandom().sample(PORTS, len(PORTS)):
        with contextlib.suppress(OSError), socket.create_server((LOOPBACK, port)):
            found.append(port)
        if len(found) == number:
            return tuple(found)
    raise EnvironmentLacking(f"no {number} free ports between {PORTS.start} and {PORTS.stop} on {LOOPBACK}")


class ServerProcess:
    """One real server. As a context manager it starts on entry; on exit it is killed and its folder removed.

    ``command`` returns the arguments that start it in the foreground; ``prepare`` fills an empty folder before the
    first start and after each loss of the data; ``ready`` returns True as soon as the server answers; ``tidy`` removes
    what a killed server with this process id leaves outside of its folder.
    """

    def __init__(
        self,
        name: str,
        command: Callable[[Place], Sequence[str]],
        *,
        ready: Callable[[Place], bool] = accepts_connections,
        prepare: Callable[[Place], object] | None = None,
        tidy: Callable[[int], object] | None = None,
        ports: int = 1,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self._command = command
        self._ready = ready
        self._prepare = prepare
        self._tidy = tidy
        self._number_of_ports = ports
        self._environment = {**os.environ, **(environment or {})}
        self._process: subprocess.Popen[bytes] | None = None
        self._paused = False

    def __enter__(self) -> ServerProcess:
        self._home = Path(tempfile.mkdtemp(prefix=f"harness-{self.name}-"))
        self.place = Place(self._home / "data", free_ports(self._number_of_ports))
        try:
            self.lose_data()
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: Any) -> None:
        self.kill()
        shutil.rmtree(self._home, ignore_errors=True)

    @property
    def pid(self) -> int | None:
        """Process id, None if the server does not run."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Start the server on its data and wait until it is ready."""
        if self._process is not None:
            raise RuntimeError(f"{self.name} runs already")
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                self._command(self.place),
                cwd=self.place.folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C in the terminal must not end the server first
                preexec_fn=partial(end_with_parent, os.getpid()),  # noqa: PLW1509 - it only calls prctl
            )
        self._wait_until_ready(self._process)

    def pause(self) -> None:
        """Stop the execution of the server. It keeps its connections, and what is sent to it waits."""
        self._signal(signal.SIGSTOP)
        self._paused = True

    def resume(self) -> None:
        """Continue after a pause."""
        self._signal(signal.SIGCONT)
        self._paused = False

    def kill(self) -> None:
        """End the server at once. What it has not written to its folder is lost. Does nothing if it does not run."""
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)  # with the processes that it started
        self._process.wait()
        if self._tidy is not None:
            self._tidy(self._process.pid)
        self._process, self._paused = None, False

    def stop(self) -> None:
        """Let the server end in order (SIGTERM). Kill it if it has not ended within ``PATIENCE_S``."""
        if self._process is None:
            return
        if self._paused:
            self.resume()
        self._signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(PATIENCE_S)
        self.kill()

    def lose_data(self) -> None:
        """Empty the folder of a server that does not run, as a machine with a new disk."""
        if self._process is not None:
            raise RuntimeError(f"{self.name} still uses its folder")
        shutil.rmtree(self.place.folder, ignore_errors=True)
        self.place.folder.mkdir(parents=True)
        if self._prepare is not None:
            self._prepare(self.place)

    def restart(self, *, with_data: bool) -> None:
        """Kill the server and start it again."""
        self.kill()
        if not with_data:
            self.lose_data()
        self.start()

    def log_end(self) -> str:
        """Return the last lines that the server printed."""
        if not self.log_path.exists():
            return ""
        return self.log_path.read_bytes()[-_LOG_END:].decode(errors="replace").strip()

    @property
    def log_path(self) -> Path:
        """File with what the server has printed since its first start."""
        return self._home / "log"

    def _signal(self, number: signal.Signals) -> None:
        if self._process is None:
            raise RuntimeError(f"{self.name} does not run")
        os.kill(self._process.pid, number)

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            if process.poll() is not None:
                self._process = None
                raise EnvironmentLacking(
                    f"{self.name} ended with status {process.returncode} before it was ready: {self.log_end()}"
                )
            if self._ready(self.place):
                return
            if time.monotonic() > deadline:
                self.kill()
                raise EnvironmentLacking(f"{self.name} was not ready within {PATIENCE_S:.0f} s: {self.log_end()}")
            time.sleep(_POLL_S)
