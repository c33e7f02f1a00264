"""Errors that end a command with one message and a documented exit status, and no traceback."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Final, Literal

VALID, VIOLATION, USAGE, UNKNOWN, MISSING = 0, 1, 2, 3, 4
"""Exit statuses: valid, violation found, usage error, verdict unknown, something missing on this machine."""
INTERRUPTED = 130
"""Exit status after Ctrl-C, as in shells (128 + SIGINT)."""

MAX_LISTED_NAMES = 40


class HarnessError(Exception):
    """An error that the user can fix; the message says what is wrong, where, and what was expected."""

    exit_status = USAGE


class UsageError(HarnessError):
    """A wrong argument, or a file with wrong contents."""


class MissingLibrary(UsageError):
    """The requested code is in a library, or imports one, that is not installed."""


class MissingExtra(MissingLibrary):
    """A part of this project was left out when it was installed."""

    exit_status = MISSING


class EnvironmentLacking(HarnessError):
    """Something is missing on this machine; the message names the command that installs it."""

    exit_status = MISSING


class LockFailed(Exception):
    """The code of the lock did something that is no outcome of a call, so the run says nothing about the lock."""


class MachineLost(Exception):
    """A machine of the cluster was lost during the run, so the run says nothing about the lock."""


class Interruption(BaseException):
    """Base of what a fault raises in a client's thread. The outcome of a call that ends with it is unknown."""


class ThreadInterrupted(Interruption, KeyboardInterrupt):
    """A fault interrupted a client's thread as Ctrl-C does."""


class AlarmRaised(Interruption, Exception):
    """A fault interrupted a client's thread as a handler of ``signal.alarm`` does that raises an exception."""


def uncallable_hook() -> str:
    """Return what is wrong with the hooks for uncaught exceptions, such as ``sys.excepthook is None``; "" if none is.
    Code under test may replace them, and Python starts no thread without them."""
    for module in (sys, threading):
        if not callable(module.excepthook):
            return f"{module.__name__}.excepthook is {module.excepthook!r:.80}"
    return ""


Ending = Literal["an exception", "sys.exit", "a handler of SIGTERM", "SIGTERM"]
"""What ends the main thread of a client's process. The handler of SIGTERM calls ``sys.exit``; without one, SIGTERM
kills the process."""


class ProcessEnds(BaseException):
    """Raised in the main thread of a client, to end its process."""

    def __init__(self, ending: Ending) -> None:
        super().__init__(ending)
        self.ending = ending

    @property
    def cleans_up(self) -> bool:
        """Whether the interpreter waits for threads and calls the functions of ``atexit``."""
        return self.ending != "SIGTERM"


class HostEnded(BaseException):
    """Raised in code on a simulated host that has ended. No code on the host may take it for an error."""


EXTRAS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("docker", "requests", "toxiproxy"), "docker"),
    **dict.fromkeys(("pymysql", "sqlglot"), "mysql"),
    "pg8000": "postgres",
    **dict.fromkeys(("etcd3", "grpc", "google"), "etcd"),
    **dict.fromkeys(("starlette", "uvicorn", "zipstream"), "serve"),
    "consul": "consul",
    "distributed": "dask",
    "hazelcast": "hazelcast",
    "kazoo": "zookeeper",
    "matplotlib": "plots",
    "nats": "nats",
    "numba": "fast",
    "pymemcache": "memcached",
}
"""Module → the extra of this project that installs it."""


def installation(error: ImportError) -> str:
    """Return the command that installs the module that could not be imported; "" if no extra of ours has it."""
    extra = EXTRAS.get(_imported(error))
    return f"pip install 'lock-harness[{extra}]'" if extra else ""


def missing_extra(error: ImportError) -> MissingExtra | None:
    """Return the error that names the extra to install; None if no extra has the module that could not be imported."""
    command = installation(error)
    if not command:
        return None
    return MissingExtra(f"this needs the Python module {_imported(error)!r}, which is not installed: {command}")


def _imported(error: ImportError) -> str:
    return (error.name or "").partition(".")[0]


def unknown_name(what: str, got: str, names: Iterable[str]) -> UsageError:
    """Return the error for the unknown ``what`` (such as "lock") called ``got``, with the most similar ``names``."""
    known = sorted(set(names))
    near = get_close_matches(got, known, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(known[:MAX_LISTED_NAMES])}"
    if not near and len(known) > MAX_LISTED_NAMES:
        hint += f" and {len(known) - MAX_LISTED_NAMES} more"
    return UsageError(f"unknown {what} {got!r}: {hint}")
