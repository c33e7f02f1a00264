"""Find out by trying whether this host can filter packets and move the clocks of processes."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from typing import Final

from harness.clusters.docker.helper import vdso
from harness.clusters.docker.helper.network import FilterError

from .links import PacketRules

JUMP_NS: Final = 3_600_000_000_000
_CHILD: Final = "import time\nfor _ in range(2): input(); print(time.time_ns(), flush=True)"


def facts() -> dict[str, object]:
    """Return facts about this host for the control side."""
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "system": platform.system(),
        "root": os.geteuid() == 0,
        "address": os.environ.get("SSH_CONNECTION", "").split(" ")[2:3],
    }


def lacking(rules: PacketRules, script: str, gid: int | None) -> dict[str, str]:
    """Return the reasons why this host cannot do things, by ability: ``cut`` and ``clock``. ``script`` is one of packet
    rules that match nothing."""
    tried: Mapping[str, str] = {"cut": _cut(rules, script), "clock": _clock(gid)}
    return {name: reason for name, reason in tried.items() if reason}


def _cut(rules: PacketRules, script: str) -> str:
    if os.geteuid() != 0:
        return "packet rules need root, and the SSH user is not root"
    try:
        rules.apply(script)
    except FilterError as error:
        return f"nftables refuses rules: {error}"
    return ""


def _clock(gid: int | None) -> str:
    """Move the clock of a process that is started for this."""
    with subprocess.Popen(
        [sys.executable, "-c", _CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, group=gid
    ) as child:
        asks, answers = child.stdin, child.stdout
        assert asks is not None
        assert answers is not None

        def clock() -> int:
            print(file=asks, flush=True)
            return int(answers.readline() or 0)

        try:
            before = clock()
            vdso.move(child.pid, JUMP_NS)
            after = clock()
        except (vdso.ClockError, OSError) as error:
            return str(error)
        finally:
            child.kill()
    if not JUMP_NS <= after - before < 2 * JUMP_NS:
        return "the clock of a process was moved, and it does not see that"
    return ""
