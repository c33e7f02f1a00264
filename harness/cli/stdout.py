"""Errors of standard output: a full disk behind it, or a closed pipe. Nothing that is slow to import is used."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
from collections.abc import Iterator
from typing import Final

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
        _drop_stdout()
        raise cannot_write("to standard output", error) from error
    except SystemExit as exit_:
        if not isinstance(exit_.__context__, BrokenPipeError):  # Rich turns it into SystemExit(1)
            raise
        _drop_stdout()
        raise cannot_write("to standard output", exit_.__context__) from exit_


def allow_any_text() -> None:
    """Print ``?`` for a character that the output cannot encode: a pipe on Windows has few of them."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.encoding.lower() not in ("utf-8", "utf8"):
            stream.reconfigure(errors="replace")


def _drop_stdout() -> None:
    """Connect stdout to the null device, so that the interpreter can flush it when it exits."""
    with contextlib.suppress(io.UnsupportedOperation):  # stdout is not a file, as in a test
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
