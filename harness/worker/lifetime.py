"""The end of a process with the process that started it."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from typing import Final

_PR_SET_PDEATHSIG: Final = 1
_LIBC: Final = ctypes.CDLL(None) if sys.platform == "linux" else None


def end_with_parent(parent: int, by: signal.Signals | None = None) -> None:
    """Have the kernel send ``by`` (SIGKILL) to this process when the thread that started it ends, in whatever way.

    ``parent`` is the process of that thread. If it has ended already, this process is killed. Only Linux can do this
    (see prctl(2)); elsewhere nothing happens.
    """
    if _LIBC is None:
        return
    _LIBC.prctl(_PR_SET_PDEATHSIG, int(by or signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:  # it ended before the request
        os.kill(os.getpid(), signal.SIGKILL)
