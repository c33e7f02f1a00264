"""Hosts for tests: network namespaces on a bridge that has a namespace of its own, so the machine's network is not
changed. Each ends with its process."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

HOLD: Final = ("sleep", "600")


def run(pid: int, *command: str) -> str:
    """Run a command in the network of a process."""
    done = subprocess.run(
        ["nsenter", "-t", str(pid), "-n", *command], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout


def wait(what: str, deadline_s: float = 60.0) -> Iterator[None]:
    """Poll in a loop: yield before each poll, sleep between polls, and fail after the deadline."""
    end = time.monotonic() + deadline_s
    while True:
        assert time.monotonic() < end, f"{what}: not within {deadline_s:g} s"
        yield
        time.sleep(0.005)


def _link(pid: int | str, kind: str) -> str:
    return str(Path(f"/proc/{pid}/ns/{kind}").readlink())


@contextmanager
def process(*command: str) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(command) as child:
        try:
            yield child
        finally:
            child.kill()


@contextmanager
def namespace() -> Iterator[int]:
    assert shutil.which("unshare"), "these tests need util-linux and iproute2"
    with process("unshare", "--net", *HOLD) as child:
        for _ in wait("a network namespace"):
            if _link(child.pid, "net") != _link("self", "net"):
                break
        run(child.pid, "ip", "link", "set", "lo", "up")
        yield child.pid


@contextmanager
def network(number: int, count: int) -> Iterator[list[tuple[int, str]]]:
    """Yield hosts on one bridge, each as process id and address 10.77.``number``.x."""
    with ExitStack() as stack:
        bridge = stack.enter_context(namespace())
        run(bridge, "ip", "link", "add", "wire", "type", "bridge")
        run(bridge, "ip", "link", "set", "wire", "up")
        hosts = []
        for index in range(1, count + 1):
            pid, address = stack.enter_context(namespace()), f"10.77.{number}.{index}"
            port = f"port{index}"
            run(pid, "ip", "link", "add", "eth0", "type", "veth", "peer", "name", port, "netns", str(bridge))
            run(pid, "ip", "address", "add", f"{address}/24", "dev", "eth0")
            run(pid, "ip", "link", "set", "eth0", "up")
            run(bridge, "ip", "link", "set", port, "master", "wire", "up")
            hosts.append((pid, address))
        yield hosts


@contextmanager
def container(*command: str) -> Iterator[int]:
    """Start a PID namespace with an idle first process, as Docker does, and the command as its child. Yield the id
    of the first process on the machine."""
    script = f'"$@" & exec {" ".join(HOLD)}'
    unshare = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", script, "sh", *command)
    with process(*unshare) as child:
        first = 0
        for _ in wait("a PID namespace"):
            children = Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text().split()
            if children and Path(f"/proc/{children[0]}/comm").read_text().strip() == HOLD[0]:
                first = int(children[0])
                break
        yield first
