"""Code of a worker process: the functions that the pool has it call, and its end.

A worker holds the reading end of a pipe, the lifeline, whose other end only the process that started it has. The pipe
breaks when that process closes it, and when it is killed in whatever way; either ends the worker. The kernel ends it
too when its parent dies (``PR_SET_PDEATHSIG``), also if code of a lock never lets the thread run that watches the pipe.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import traceback
from multiprocessing import util
from multiprocessing.connection import Connection
from typing import Any

from harness.errors import HarnessError
from harness.worker.lifetime import end_with_parent

from .kept import close_kept


def begin(lifeline: Connection, tidy: bool) -> None:
    """Prepare this worker for jobs. Called once in each worker process, with SIGINT blocked.

    When the lifeline breaks, the worker is killed. A ``tidy`` worker may have started containers: it gets SIGTERM
    instead, which ends a run early (see :mod:`harness.run.recording`) and is ignored between runs; then it removes
    them.
    """
    sys.stdout = sys.stderr  # what a lock prints must not get between the lines of a result document
    if tidy:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        util.Finalize(None, close_kept, exitpriority=0)
    if not hasattr(signal, "pthread_sigmask"):  # Windows: the pool could not block it
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    ends_by = signal.SIGTERM if tidy else getattr(signal, "SIGKILL", signal.SIGTERM)
    parent = multiprocessing.parent_process()
    if parent is not None and parent.pid is not None:
        end_with_parent(parent.pid, ends_by)  # the thread that started this process lives as long as the pool
    threading.Thread(target=_watch, args=(lifeline, ends_by), name="lifeline", daemon=True).start()


def _watch(lifeline: Connection, ends_by: signal.Signals) -> None:
    with contextlib.suppress(EOFError, OSError):
        lifeline.recv_bytes()
    os.kill(os.getpid(), ends_by)


def end() -> None:
    """Remove what a tidy worker has kept; from now on SIGTERM ends it."""
    close_kept()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def call(pickled: bytes) -> bytes:
    """Call a pickled ``(function, args, kwargs)``; :func:`unpack` reads what this returns."""
    try:
        function, args, kwargs = pickle.loads(pickled)
        return pickle.dumps((True, function(*args, **kwargs)))
    except Exception as error:  # noqa: BLE001 - raised again on the other side
        if not isinstance(error, HarnessError):
            error.add_note(f"in a worker process:\n{traceback.format_exc()}")
        return _packed(error)


def _packed(error: Exception) -> bytes:
    """Pickle an error, or if it cannot be unpickled, a RuntimeError that says the same."""
    try:
        pickle.loads(packed := pickle.dumps((False, error)))
    except Exception:  # noqa: BLE001 - a class of errors may fail in any way here
        notes = "\n".join(getattr(error, "__notes__", []))
        return pickle.dumps((False, RuntimeError(f"{type(error).__name__}: {error}\n{notes}")))
    return packed


def unpack(answer: bytes) -> Any:
    """Return what a :func:`call` returned, or raise what it raised."""
    returned, result = pickle.loads(answer)
    if not returned:
        raise result
    return result
