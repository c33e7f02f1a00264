"""Connection to one host: the helper program there, reached by the system's ``ssh``.

One SSH session carries the helper's requests and answers, and the input and output of all programs that it runs. It is
the master of a control socket, by which files are copied and ports forwarded. When it ends, in whatever way, the helper
undoes everything; so a killed harness leaves nothing.
"""

from __future__ import annotations

import base64
import contextlib
import io
import json
import shlex
import socket
import subprocess
import threading
import time
import zipfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from itertools import count
from pathlib import Path
from typing import Any, Final

import harness.clusters.docker.helper
import harness.clusters.ssh.helper
import harness.record.clocks
import harness.record.processor_waits
from harness.clusters.conversation import Conversation, Refused, Unanswered
from harness.clusters.programs import LocalProgram
from harness.errors import EnvironmentLacking

CONNECT_S: Final = 10
"""Time limit of the connection, seconds."""
READY_S: Final = 30.0
"""Seconds within which the helper answers."""
ANSWER_S: Final = 30.0
"""Time limit of an answer of the helper, seconds."""
BEAT_S: Final = 3.0
"""Time between two signs of life for the helper, which ends without them (``SILENCE_S`` there)."""
SILENCE_S: Final = 15.0
"""Seconds without an answer to a sign of life after which the host counts as lost."""
COPY_S: Final = 120.0
PYTHON: Final = (3, 11)
"""The oldest Python of a host."""
_SENT: Final = (
    harness.clusters.docker.helper, harness.clusters.ssh.helper, harness.record.processor_waits,
    harness.record.clocks,
)  # fmt: skip
"""Packages and modules that the helper consists of."""
_BOOT: Final = (
    "import sys,base64,tempfile,pathlib\n"
    f"sys.version_info>=({PYTHON[0]},{PYTHON[1]}) or sys.exit('Python '+sys.version.split()[0]+' is too old')\n"
    "folder=pathlib.Path(tempfile.mkdtemp(prefix='lock-harness-',dir='/var/tmp')).resolve()\n"
    "(folder/'helper.zip').write_bytes(base64.b64decode(sys.stdin.buffer.readline()))\n"
    "sys.path.insert(0,str(folder/'helper.zip'))\n"
    "from harness.clusters.ssh.helper.operations import main\n"
    "main(folder)\n"
)
"""The Python program that a host is given: it stores the helper's modules, the first line of its input, and runs it."""


class HostLost(Unanswered):
    """The connection to a host has ended, or its helper does not answer."""


def helper_archive() -> bytes:
    """Return the modules of the helper program as a zip file."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        parents: set[str] = set()
        for module in _SENT:
            path, names = Path(str(module.__file__)), module.__name__.split(".")
            parts = sorted(path.parent.glob("*.py")) if path.name == "__init__.py" else [path]
            place = "/".join(names if len(parts) > 1 else names[:-1])
            for part in parts:
                archive.writestr(f"{place}/{part.name}", part.read_bytes())
            parents.update("/".join(names[:depth]) for depth in range(1, len(names)))
        for parent in sorted(parents):
            archive.writestr(f"{parent}/__init__.py", "")
    return buffer.getvalue()


class HostConnection:
    """Connection to the host that ``destination`` names for ssh. ``folder`` is for its control socket; ``config`` is an
    ssh_config(5) file, "" for the user's own.

    Raises EnvironmentLacking if the host is not reached, or cannot run the helper.
    """

    def __init__(self, destination: str, folder: Path, number: int, config: str = "") -> None:
        self.destination = destination
        self._options = ["-F", config] if config else []
        self._socket = str(folder / f"m{number}")
        self._listeners: dict[str, Callable[[dict[str, Any]], None]] = {}
        self._ready = threading.Event()
        self._over = threading.Event()
        self._names = count(1)
        self._on_lost: Callable[[], None] = lambda: None
        self._loss = ""
        self._patience = COPY_S
        self._conversation = Conversation(self._begin, self._on_event)
        threading.Thread(target=self._beat, name="beat", daemon=True).start()
        try:
            self.facts: dict[str, Any] = self._await_helper()
        except BaseException:
            self.close()
            raise

    def _begin(self, on_line: Callable[[bytes], None], on_end: Callable[[], None]) -> LocalProgram:
        settings = {
            "BatchMode": "yes", "ConnectTimeout": CONNECT_S, "ServerAliveInterval": 5, "ServerAliveCountMax": 3,
            "ControlMaster": "yes", "ControlPath": self._socket, "ControlPersist": "no", "LogLevel": "ERROR",
        }  # fmt: skip
        options = [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
        command = ["ssh", *self._options, *options, "-T", "--", self.destination, f"python3 -c {shlex.quote(_BOOT)}"]
        try:
            self._program = LocalProgram(command, on_line, on_end)
        except FileNotFoundError as error:
            raise EnvironmentLacking("--cluster ssh needs the program ssh (Debian: openssh-client)") from error
        with contextlib.suppress(OSError):  # its end says why
            self._program.send(base64.b64encode(helper_archive()))
        return self._program

    def _await_helper(self) -> dict[str, Any]:
        if not self._ready.wait(READY_S) or self._conversation.ended.is_set():
            said = " | ".join(self._program.errors[-3:]) or f"no answer within {READY_S:g} s"
            raise EnvironmentLacking(f"the host {self.destination}: {said}")
        found: dict[str, Any] = self.ask("facts")
        return found

    def watch(self, on_lost: Callable[[], None]) -> None:
        """Call ``on_lost`` when the connection ends, or the helper is silent for ``SILENCE_S``, until :meth:`close`.

        Before this a silence is longer: files that are copied delay the answers on a slow connection."""
        self._on_lost = on_lost
        self._patience = SILENCE_S
        if self._conversation.ended.is_set():
            on_lost()

    def _beat(self) -> None:
        sent, answer = 0.0, None
        while not self._over.wait(BEAT_S) and not self._conversation.ended.is_set():
            if answer is None or answer.done():
                sent, answer = time.monotonic(), self._conversation.request("beat")
            elif time.monotonic() - sent < self._patience:
                with contextlib.suppress(Unanswered):
                    self.tell("beat")
            else:
                self._loss = f"its helper has not answered for {self._patience:g} s"
                self._program.kill()  # ends all requests, which would wait for their own time limits

    def _on_event(self, event: dict[str, Any]) -> None:
        if event.get("ready") or ("ended" in event and "program" not in event):
            self._ready.set()
        if "program" in event:
            if (listener := self._listeners.get(event["program"])) is not None:
                listener(event)
        elif "ended" in event and not self._over.is_set():
            self._on_lost()
            for listener in list(self._listeners.values()):
                listener(event)

    def loss(self) -> str:
        """Return how the connection has ended."""
        said = "".join(f": {line}" for line in self._program.errors[-1:])
        return self._loss or f"its connection or helper has ended{said}"

    # Requests.

    def ask(self, op: str, *, patience: float = ANSWER_S, **fields: Any) -> Any:
        """Send a request to the helper and return its answer; raises Unanswered or Refused."""
        try:
            return self._conversation.ask(op, patience=patience, **fields)
        except Unanswered as error:
            raise HostLost(f"the host {self.destination}: {error}") from error
        except Refused as error:
            raise Refused(f"the host {self.destination}: {error}") from error

    def request(self, op: str, **fields: Any) -> Future[Any]:
        """Send a request to the helper and return the future of its answer."""
        return self._conversation.request(op, **fields)

    def start(
        self,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str],
        gid: int,
        on_event: Callable[[dict[str, Any]], None],
    ) -> RemoteProgram:
        """Start a program of the run; ``on_event`` is called with the events of :class:`.RemoteProgram`."""
        return RemoteProgram(self, f"{name}#{next(self._names)}", command, environment, gid, on_event)

    def listen(self, name: str, listener: Callable[[dict[str, Any]], None]) -> None:
        """Call ``listener`` with each event of the program ``name``."""
        self._listeners[name] = listener

    def tell(self, op: str, **fields: Any) -> None:
        """Send a request whose answer is not awaited; raises Unanswered if the connection has ended."""
        self._conversation.tell(op, **fields)

    # Beside the helper.

    def _control(self, *words: str) -> list[str]:
        return ["ssh", *self._options, "-o", f"ControlPath={self._socket}", *words]

    def copy(self, path: Path, target: str) -> None:
        """Copy a file to a path on the host. Raises EnvironmentLacking."""
        command = self._control("-T", "--", self.destination, f"cat > {shlex.quote(target)}")
        with path.open("rb") as source:
            done = subprocess.run(command, stdin=source, capture_output=True, check=False, timeout=COPY_S)
        if done.returncode:
            raise EnvironmentLacking(
                f"the host {self.destination}: {path.name} cannot be copied: {done.stderr.decode(errors='replace')}"
            )

    def forward(self, port: int) -> int:
        """Forward a port of the loopback interface here to one of the host's; return the port here. Raises
        EnvironmentLacking if the host's SSH server does not allow that."""
        with socket.socket() as trial:
            trial.bind(("127.0.0.1", 0))
            here = int(trial.getsockname()[1])
        spec = f"127.0.0.1:{here}:127.0.0.1:{port}"
        command = self._control("-O", "forward", "-L", spec, "--", self.destination)
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=COPY_S)
        if done.returncode:
            raise EnvironmentLacking(f"the host {self.destination}: port {port} cannot be forwarded: {done.stderr}")
        return here

    def close(self) -> None:
        """End the helper, which undoes everything, and the connection."""
        self._over.set()
        self._program.close(ANSWER_S)


class RemoteProgram:
    """A program on a host; implements :class:`harness.clusters.conversation.LineChannel`.

    Its events are ``{"out": line}``, ``{"err": line}`` and ``{"ended": exit status}``, each with ``program`` and
    ``pid``.
    """

    def __init__(
        self,
        host: HostConnection,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str],
        gid: int,
        on_event: Callable[[dict[str, Any]], None],
    ) -> None:
        self.errors: list[str] = []
        """Last 20 lines of its stderr."""
        self._host = host
        self._name = name
        self._on_event = on_event
        host.listen(name, self._hear)
        program = json.dumps({"command": list(command), "environment": dict(environment)})
        self.pid: int = host.ask("start", name=name, program=program, gid=gid)

    def _hear(self, event: dict[str, Any]) -> None:
        if "err" in event:
            self.errors = [*self.errors[-19:], event["err"]]
        self._on_event(event)

    def send(self, line: bytes) -> None:
        """Write a line to the program's stdin; raise OSError if the host is lost."""
        try:
            self._host.tell("send", name=self._name, line=line.decode())
        except Unanswered as error:
            raise BrokenPipeError(str(error)) from error

    def close(self) -> None:
        """Kill the program with all processes of its session."""
        with contextlib.suppress(Unanswered, Refused):
            self._host.ask("end", name=self._name)
