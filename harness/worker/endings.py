"""Ends of a client's process: how its main thread ends, and what the interpreter then does.

Unless a signal kills the process, the interpreter waits for threads that are no daemons, and calls the functions that
are registered with ``atexit``. Only after that the process is gone.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any, Final, NoReturn

from harness.errors import Ending

ENDINGS: Final[tuple[Ending, ...]] = ("an exception", "sys.exit", "a handler of SIGTERM", "SIGTERM")


def end_process(ending: Ending) -> NoReturn:
    """End this process. To be called in its main thread, outside of all ``try`` statements."""
    if ending == "an exception":
        raise RuntimeError("the program of this client failed, as its workload wanted")
    if ending == "sys.exit":
        sys.exit(1)
    signal.signal(signal.SIGTERM, signal.SIG_DFL if ending == "SIGTERM" else _exit)
    os.kill(os.getpid(), signal.SIGTERM)
    raise AssertionError("SIGTERM did not end this process")


def _exit(*_: Any) -> NoReturn:
    sys.exit(1)
