"""Errors of standard output and standard error: a full disk behind them, or a closed pipe. Nothing that is slow to
import is used."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
from collections.abc import Iterator
from typing import Final, TextIO

from harness.files import cannot_write

OF_OUTPUT: Final = frozenset({errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EIO})


@contextlib.contextmanager
def stdout_errors() -> Iterator[None]:
    """Flush stdout at the end, and turn its errors into a HarnessError. What is left in its buffer is dropped."""
    try:
        yield
        sys.stdout.flush()
    except OSError as error:
        if error.filename is not None or error.errno not in OF_OUTPUT:
            raise
        _drop(sys.stdout)
        raise cannot_write("to standard output", error) from error
    except SystemExit as exit_:
        if not isinstance(exit_.__context__, BrokenPipeError):  # Rich turns it into SystemExit(1)
            raise
        _drop(sys.stdout)
        raise cannot_write("to standard output", exit_.__context__) from exit_


def print_error(message: str) -> None:
    """Print a message on stderr. It is lost if nobody can read it, as in ``harness run LOCK 2>&1 | head -1``: an
    exception would end the command with status 1, which says that the lock was violated."""
    try:
        print(message, file=sys.stderr or io.StringIO(), flush=True)
    except OSError:
        _drop(sys.stderr)


def allow_any_text() -> None:
    """Print ``?`` for a character that the output cannot encode: a pipe on Windows has few of them."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.encoding.lower() not in ("utf-8", "utf8"):
            stream.reconfigure(errors="replace")


def _drop(stream: TextIO) -> None:
    """Connect a standard stream to the null device, so that the interpreter can flush it when it exits."""
    with contextlib.suppress(io.UnsupportedOperation):  # the stream is not a file, as in a test
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)
