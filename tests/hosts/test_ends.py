"""The end of a run on machines, also of one that is killed: nothing is left on them."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from harness.errors import UNKNOWN
from harness.plan import FaultSpec, Plan, dump

from .bench import PATIENCE_S
from .machines import Machines

SLACK_S: Final = 12.0
"""Time for the end of a run on a busy machine: the last entries, the clocks, the programs of five machines."""
pytestmark = [pytest.mark.docker]
CODE = """
import sys
from pathlib import Path
from harness.plan import load
from harness.run.runs import run
result = run(load(Path(sys.argv[1])), store=Path(sys.argv[2]))
print(result.reason)
sys.exit(result.exit_status)
"""
HELPER = "^python3 -c import sys,base64"
"""The command of a helper, for pkill."""


def entries(store: Path) -> list[dict[str, Any]]:
    """Return the entries of the only run's history up to now."""
    found = []
    for path in store.glob("*/*/history.jsonl"):
        for line in path.read_text().splitlines():
            try:
                found.append(json.loads(line))
            except ValueError:
                break  # it is being written
    return found


def effective_faults(store: Path) -> set[str]:
    return {op["value"]["fault"] for op in entries(store) if op["f"] == "inject" and op["type"] == "ok"}


@contextmanager
def faulted_run(hosts: Machines, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A harness whose run has paused servers, cut links and a moved clock, as it says itself."""
    faults = ("server-pause", "partition-node", "clock-jump")
    plan = Plan(
        lock="redlock", cluster="ssh", hosts=tuple(hosts.names), ssh_config=str(hosts.config), clients=3,
        time_limit=600.0, faults=tuple(FaultSpec(fault=name, at=0.5 + number) for number, name in enumerate(faults)),
    )  # fmt: skip
    (folder / "plan.toml").write_text(dump(plan))
    command = [sys.executable, "-c", CODE, str(folder / "plan.toml"), str(folder / "store")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as harness:
        try:
            deadline = time.monotonic() + 4 * PATIENCE_S
            while effective_faults(folder / "store") != set(faults):
                assert harness.poll() is None, "the run has ended by itself"
                assert time.monotonic() < deadline, entries(folder / "store")[-3:]
                time.sleep(0.3)
            yield harness
        finally:
            harness.kill()


def ssh_processes() -> set[int]:
    """Return the processes of this machine that are masters of a connection of a run."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0] == b"ssh" and any(word.startswith(b"ControlPath=") and b"/lh-" in word for word in words):
            found.add(int(path.parent.name))
    return found


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_harness_that_ends_leaves_nothing_on_the_machines(
    hosts: Machines, tmp_path: Path, number: signal.Signals
) -> None:
    before, folders = ssh_processes(), set(Path(tempfile.gettempdir()).glob("lh-*"))
    with faulted_run(hosts, tmp_path) as harness:
        found = [hosts.remains(name) for name in hosts.names]
        assert all("redis-server" in one and "/var/tmp/lock-harness-" in one for one in found)
        assert any("lock_harness" in one for one in found)
        assert any("T" in hosts.sh(name, "ps -o stat= -C redis-server") for name in hosts.names)
        os.kill(harness.pid, number)
        harness.wait(PATIENCE_S)
    deadline = time.monotonic() + PATIENCE_S
    while (left := {name: hosts.remains(name) for name in hosts.names}) != dict.fromkeys(hosts.names, ""):
        assert time.monotonic() < deadline, left
        time.sleep(0.5)
    while ssh_processes() - before:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert set(Path(tempfile.gettempdir()).glob("lh-*")) <= folders


@pytest.mark.parametrize(
    ("number", "loss", "within_s"),
    [("KILL", "its connection or helper has ended", 5.0), ("STOP", "its helper has not answered for 15 s", 18.0)],
)
def test_a_run_that_loses_a_host_ends_at_once_and_names_it(
    hosts: Machines, tmp_path: Path, number: str, loss: str, within_s: float
) -> None:
    """The kernel ends the programs of a killed helper and removes its rules; only its folder of files stays."""
    with faulted_run(hosts, tmp_path) as harness:
        began = time.monotonic()
        hosts.sh("h1", f"pkill -{number} -f '{HELPER}'")
        output, _ = harness.communicate(timeout=PATIENCE_S)
        took = time.monotonic() - began
    print(f"{took:.1f} s: {output.decode()}")
    assert harness.returncode == UNKNOWN
    said = re.search(rf"the host h1 was lost (\d+\.\d) s after the start of the run: {loss}", output.decode())
    assert said, output
    start, *_, stop = entries(tmp_path / "store")
    assert (stop["time"] - start["time"]) / 1e9 == pytest.approx(float(said[1]), abs=2.0)
    assert took < within_s + SLACK_S
    (document,) = (tmp_path / "store").glob("*/*/results.json")
    assert json.loads(document.read_text())["valid"] is None
    hosts.sh("h1", f"pkill -CONT -f '{HELPER}'", check=False)
    deadline = time.monotonic() + PATIENCE_S
    remaining_folders = 1 if number == "KILL" else 0
    while left := [line for name in hosts.names for line in hosts.remains(name).splitlines()]:
        if len(left) == remaining_folders and left[0].startswith("/var/tmp/lock-harness-"):
            break
        assert time.monotonic() < deadline, left
        time.sleep(0.5)
    hosts.sh("h1", "rm -rf /var/tmp/lock-harness-*")
