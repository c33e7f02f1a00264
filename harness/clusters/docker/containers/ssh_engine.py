"""An engine at ``ssh://[user@]host[:port][/path/of/its/socket]``: the system's ssh forwards a local socket to it.

So the user's configuration, keys and agent of ssh apply, and the SDK sees a plain socket.
"""

from __future__ import annotations

import atexit
import contextlib
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from harness.errors import EnvironmentLacking, UsageError

SCHEME: Final = "ssh://"
EXPECTED: Final = "ssh://[user@]host[:port][/path/of/its/socket]"
SOCKET: Final = "/var/run/docker.sock"
READY: Final = b"ready\n"
REMOTE: Final = "echo ready; exec cat"
"""Command on the other machine, which ends with its stdin. So ssh ends with this process, also if it is killed."""
OPTIONS: Final = (
    "BatchMode=yes", "ConnectTimeout=10", "ControlPath=none", "ExitOnForwardFailure=yes", "ServerAliveInterval=10",
)  # fmt: skip
END_S: Final = 5.0


def ssh_command(url: str, local: Path) -> list[str]:
    """Return the command that forwards the socket ``local`` to the engine of ``url``. Raises UsageError."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise UsageError(f"DOCKER_HOST: got {url!r}, expected {EXPECTED} ({error})") from error
    if not parts.hostname or parts.hostname.startswith("-"):
        raise UsageError(f"DOCKER_HOST: got {url!r}, expected {EXPECTED}")
    there = parts.path if parts.path.strip("/") else SOCKET
    command = ["ssh", "-T", *(word for option in OPTIONS for word in ("-o", option)), "-L", f"{local}:{there}"]
    if parts.username:
        command += ["-l", parts.username]
    if port:
        command += ["-p", str(port)]
    return [*command, "--", parts.hostname, REMOTE]


@cache
def local_socket(url: str) -> str:
    """Return the ``unix://`` address that stands for the engine at ``url`` while this process lives. Raises
    EnvironmentLacking if ssh does not connect."""
    if shutil.which("ssh") is None:
        raise EnvironmentLacking(f"DOCKER_HOST is {url}, and there is no ssh: apt-get install openssh-client")
    folder = tempfile.TemporaryDirectory(prefix="lock-harness-ssh-")
    local = Path(folder.name) / "engine"
    with (Path(folder.name) / "errors").open("w+b") as errors:
        process = subprocess.Popen(
            ssh_command(url, local), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
            start_new_session=True,  # Ctrl-C is for this process, which still removes containers through it
        )  # fmt: skip
        assert process.stdout is not None
        if process.stdout.readline() != READY:
            process.wait()
            errors.seek(0)
            said = errors.read().decode(errors="replace").strip() or f"it ended with {process.returncode}"
            folder.cleanup()
            raise EnvironmentLacking(f"ssh does not connect to {url}: {said.splitlines()[-1]}")
    atexit.register(_end, process, folder)
    return f"unix://{local}"


def _end(process: subprocess.Popen[bytes], folder: tempfile.TemporaryDirectory[str]) -> None:
    assert process.stdin is not None
    with contextlib.suppress(OSError):
        process.stdin.close()
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    folder.cleanup()
