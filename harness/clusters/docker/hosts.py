"""Hosts of a container cluster: start, stop and listen to the server or client program inside a running container.

The container itself idles and stays; only the program in it is killed and restarted.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Final, Literal

from docker.errors import APIError

from harness.clusters.base import Role
from harness.clusters.client_host import AGENT, REVIVAL, ClientHost, Entries
from harness.clusters.conversation import Refused
from harness.clusters.docker.containers.channel import Channel
from harness.clusters.docker.containers.engine import Box, ContainerError
from harness.clusters.docker.containers.server_tools import SHELL

STANDBY: Final = """restore=$1; shift
read -r how release || exit
[ -z "$release" ] || PATH=/releases/$release:$PATH
case $how in
wiped) rm -rf /data/* ;;
new) rm -rf /data/* /data/.[!.]* /tmp/* /tmp/.[!.]*; eval "$restore" ;;
esac
exec "$@"
"""
How = Literal["kept", "wiped", "new"]
"""State in which a server's program starts: with its data, with ``/data`` emptied, or as before the first start."""
AGENT_COMMAND: Final = ["python3", "-m", AGENT]
Spare = Callable[[Box, list[int]], None]
"""Tells the helper which processes of a box are neither listed nor killed; see
:meth:`harness.clusters.docker.containers.helper_client.Helper.spare`."""


class ServerHost:
    """Host with a server or a sentinel; ``lines`` are the program's output and errors, each with its time of arrival.

    A restart must be quick, or clients never notice data that it lost. So a shell stands by in the container and
    ``exec``s the program when told to. ``restore`` holds the shell commands of a first start, beside emptying /data.
    """

    def __init__(
        self,
        name: str,
        role: Role,
        box: Box,
        program: tuple[list[str], dict[str, str]],
        restore: str = "",
        on_line: Callable[[str], None] = lambda line: None,  # noqa: ARG005
    ) -> None:
        self.name = name
        self.role = role
        self.box = box
        self.address = box.ip
        self.lines: list[tuple[int, str]] = []
        self._command, self._environment = program
        self._standby = [*SHELL, "-c", STANDBY, "standby", restore, *self._command]
        self._on_line = on_line
        self._running: Channel | None = None
        self._next: Channel | None = None
        self._closed = False
        self.release = ""
        """Name of the release that the next start runs, below ``/releases`` in the container; empty for the one that
        the image's ``PATH`` has."""
        self.starts = 0
        """How often the program was started."""
        self._lock = threading.Lock()
        self.standing_by = threading.Event()
        """Set when the next program stands by and the helper spares it; a kill before that would kill it as well."""

    def await_start(self) -> None:
        """Wait until no program is being started."""
        self.standing_by.wait(REVIVAL)

    def stand_by(self, spare: Spare) -> None:
        """Start a standby for the next program. ``spare`` gets its process, which is not the host's own yet."""
        with self._lock:
            if self._closed:
                return
            self._next = self.box.start(self._standby, self._hear, on_error=self._note, environment=self._environment)
            spare(self.box, [self._next.pid()])
            self.standing_by.set()

    def start(self, how: How, spare: Spare) -> None:
        """Run the program."""
        if not self.standing_by.wait(REVIVAL):
            raise ContainerError(f"nothing stands by on {self.name}")
        with self._lock:
            assert self._next is not None
            self.standing_by.clear()
            spare(self.box, [])
            self._next.send(f"{how} {self.release}".encode())
            self._running = self._next
            self.starts += 1
        threading.Thread(target=self._stand_by_again, args=(spare,), daemon=True).start()

    def _stand_by_again(self, spare: Spare) -> None:
        """Retry until it works: the engine starts nothing in a container that is paused or being removed."""
        while not self._closed:
            try:
                self.stand_by(spare)
            except (APIError, OSError, ContainerError, Refused):
                time.sleep(0.05)
            else:
                return

    def run_detached(self) -> None:
        """Run the program so that it outlives this process; its output is discarded."""
        self.box.run_detached(self._command, self._environment)

    def _hear(self, line: bytes) -> None:
        self._on_line(self._note(line))

    def _note(self, line: bytes) -> str:
        text = line.decode(errors="replace").rstrip("\r")
        self.lines.append((time.monotonic_ns(), text))
        return text

    def close(self) -> None:
        self._closed = True
        with self._lock:  # no program is started from here on
            channels = self._running, self._next
        for channel in channels:
            if channel is not None:
                channel.close()


class ContainerClient(ClientHost):
    """Host with the client program, in a container."""

    def __init__(self, name: str, box: Box, entries: Entries, environment: Mapping[str, str]) -> None:
        super().__init__(name, box.ip, entries)
        self.box = box
        self._environment = dict(environment)
        self._relay: Channel | None = None

    def start(self, spare: Spare) -> None:
        """Start the client program, which then waits for its job. ``spare`` gets its relay process, which must
        survive a kill of the program."""
        self._start_program()
        assert self._relay is not None
        spare(self.box, [self._relay.pid()])

    def _begin(self, on_line: Callable[[bytes], None], on_end: Callable[[], None]) -> Channel:
        self._relay = self.box.start(AGENT_COMMAND, on_line, on_end=on_end, environment=self._environment)
        return self._relay
