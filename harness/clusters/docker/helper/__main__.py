"""Entry point of the helper container: ``python3 -m harness.clusters.docker.helper``.

Reads requests from stdin and writes answers to stdout; see ``server``. Ends with its input or on SIGTERM, after it has
removed all delays and thawed all disks.
"""

from __future__ import annotations

import signal
import sys
from types import FrameType

from .operations import Operations
from .server import RequestServer


def _end(_signal: int, _frame: FrameType | None) -> None:
    raise SystemExit(0)


def _write(line: str) -> None:
    sys.stdout.write(line)
    sys.stdout.flush()


def main() -> None:
    signal.signal(signal.SIGTERM, _end)
    signal.signal(signal.SIGINT, _end)
    operations = Operations()
    try:
        RequestServer(operations, _write).serve(sys.stdin.buffer)
    finally:
        # A second signal while it ends would leave rules behind.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        for wrong in operations.close():
            print(wrong, file=sys.stderr)


if __name__ == "__main__":
    main()
