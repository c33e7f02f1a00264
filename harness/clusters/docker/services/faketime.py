"""Clocks of servers in containers, set by libfaketime: for servers that pass absolute times to the kernel, or that have
several processes.

The start script of a server runs :data:`FIND`, prints :data:`ANNOUNCE` and starts the server with ``LD_PRELOAD``.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from harness.clusters.docker.kinds import RealServers

STARTED: Final = "lock-harness: started at"
"""Prefix of a log line with the wall clock in ns and the path of libfaketime, empty without it."""
FAKETIME: Final = "/faketime/now"
FIND: Final = """FAKETIME_LIBRARY=/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1
if [ -e "$FAKETIME_LIBRARY" ]; then export LD_PRELOAD=$FAKETIME_LIBRARY; fi
"""
ANNOUNCE: Final = """printf '%s %s %s\\n' "$STARTED" "$(LD_PRELOAD= date +%s%N)" "$LD_PRELOAD"
"""
ENVIRONMENT: Final = {
    "STARTED": STARTED,
    "FAKETIME_TIMESTAMP_FILE": FAKETIME,
    "FAKETIME_NO_CACHE": "1",
    "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    "NO_FAKE_STAT": "1",
}


class FaketimeServers(RealServers):
    """Servers whose clocks libfaketime sets."""

    RESTORE: ClassVar[str] = f"[ ! -e {FAKETIME} ] || echo +0 >{FAKETIME}"

    def __init__(self, kind: str, nodes: int, options: Mapping[str, Any]) -> None:
        super().__init__(kind, nodes, options)
        self._started: dict[str, int] = {}

    def on_log_line(self, host: str, line: str) -> None:
        if line.startswith(STARTED):
            at, *library = line.removeprefix(STARTED).split()
            self._started[host] = int(at) if library else 0

    def set_clock(self, host: str, offset_ns: int, rate: float, since_ns: int) -> bool:
        """Write libfaketime's settings; it applies the rate to the time since the start of the process."""
        started = self._started.get(host)
        if not started or self.helper is None:
            return False
        now = time.time_ns()
        ahead = offset_ns + rate * (time.monotonic_ns() - since_ns)
        offset = (ahead - rate * (now - started)) / 1e9
        self.helper.write(FAKETIME, {self.boxes[host]: f"{offset:+.9f} x{1 + rate:.9f}\n"})
        return True
