"""The store: one folder a run, ``<store>/<lock>/<UTC time>-<seed>/``, ``<store>/latest`` pointing at the last, and
one a sweep, ``<store>/sweeps/<UTC time>-<lock>/``, one a comparison, ``<store>/comparisons/<UTC time>/``, one a hunt,
``<store>/hunts/<UTC time>-<lock>/``; and what hunts have found, ``<store>/failures/<lock>/``."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import re
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from .errors import UsageError

HISTORY: Final = "history.jsonl"
RESULTS: Final = "results.json"
PLAN: Final = "plan.toml"
REPORT: Final = "report.html"
LATEST: Final = "latest"
LOGS: Final = "logs"
SWEEPS: Final = "sweeps"
COMPARISONS: Final = "comparisons"
HUNTS: Final = "hunts"
FAILURES: Final = "failures"
"""What hunts have found, a folder a lock, for the next hunt to try first."""


def new_run(store: Path, lock: str, seed: int, started: datetime) -> Path:
    """Make the folder of a run; UsageError if that cannot be done."""
    folder = _new(store, safe_name(lock), f"{_utc(started)}-{seed}")
    _point(store / LATEST, folder)
    return folder


def new_sweep(store: Path, lock: str, started: datetime) -> Path:
    """Make the folder of a sweep, ``<store>/sweeps/<UTC time>-<lock>``; UsageError if that cannot be done."""
    return _new(store, SWEEPS, f"{_utc(started)}-{safe_name(lock)}")


def new_comparison(store: Path, started: datetime) -> Path:
    """Make the folder of a comparison, ``<store>/comparisons/<UTC time>``; UsageError if that cannot be done."""
    return _new(store, COMPARISONS, _utc(started))


def new_hunt(store: Path, lock: str, started: datetime) -> Path:
    """Make the folder of a hunt, ``<store>/hunts/<UTC time>-<lock>``; UsageError if that cannot be done."""
    return _new(store, HUNTS, f"{_utc(started)}-{safe_name(lock)}")


def writable(store: Path) -> None:
    """UsageError if nothing can be kept there, for those who would find that out after long work only."""
    with _told(store):
        (store / HUNTS).mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=store / HUNTS):
            pass


def in_progress(folder: Path) -> bool:
    """Is a run being recorded in this folder at this moment? Whoever records holds a lock on the history's file, and
    the kernel takes it away when that process ends, however it ends."""
    try:
        with (folder / HISTORY).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def safe_name(lock: str) -> str:
    """What a lock's folder is called."""
    return re.sub(r"[^A-Za-z0-9._-]+", ".", lock)


def _utc(time: datetime) -> str:
    return f"{time.astimezone(UTC):%Y%m%dT%H%M%SZ}"


def _new(store: Path, parent: str, name: str) -> Path:
    """A folder that was not there; a number at the end tells it from those of the same second."""
    with _told(store):
        (store / parent).mkdir(parents=True, exist_ok=True)
        for again in itertools.count(1):
            folder = store / parent / (name if again == 1 else f"{name}-{again}")
            with contextlib.suppress(FileExistsError):  # of another process, which may have been quicker just now
                folder.mkdir()
                break
    return folder


@contextlib.contextmanager
def _told(store: Path) -> Iterator[None]:
    """What the file system refuses, as an error of whoever named the store."""
    try:
        yield
    except OSError as error:
        raise UsageError(
            f"cannot write to the store {store}: {error.strerror}; give another folder with --out"
        ) from error


def _point(link: Path, folder: Path) -> None:
    """Make ``link`` point at ``folder`` in one step; a store on a file system without links does without."""
    fresh = link.with_name(f".{link.name}-{os.getpid()}")
    with contextlib.suppress(OSError):
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(os.path.relpath(folder, link.parent))
        fresh.replace(link)


def write_results(folder: Path, document: dict[str, Any], name: str = RESULTS) -> None:
    """Replace ``results.json`` (or a document of another ``name``) in one step: a reader never sees half of it."""
    fresh = folder / f".{name}"
    fresh.write_bytes(msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n")
    fresh.replace(folder / name)


def write_logs(folder: Path, logs: dict[str, str]) -> None:
    """One file a server, in the folder ``logs``."""
    (folder / LOGS).mkdir(exist_ok=True)
    for host, text in logs.items():
        (folder / LOGS / f"{host}.log").write_text(text, encoding="utf-8")


def find_run(given: Path) -> Path:
    """The folder of a run given as that folder, a file in it, or ``<store>/latest``; UsageError if it is none."""
    folder = given.parent if given.is_file() else given
    if not folder.is_dir():
        raise UsageError(f"{given}: there is no such run; expected the folder of a run, such as store/{LATEST}")
    if not (folder / HISTORY).exists():
        raise UsageError(f"{given}: not the folder of a run, nor a file of one: no {HISTORY} there")
    return folder.resolve()
