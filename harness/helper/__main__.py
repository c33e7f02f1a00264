"""``python3 -m harness.helper``: requests on standard input, answers on standard output; see ``server``. It ends with
its input or on SIGTERM, and lets all packets pass first."""

from __future__ import annotations

import signal
import sys
from types import FrameType

from .server import Operations, Server


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
        Server(operations, _write).serve(sys.stdin.buffer)
    finally:
        # Asked again while it ends, it would leave rules behind.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        for wrong in operations.close():
            print(wrong, file=sys.stderr)


if __name__ == "__main__":
    main()
