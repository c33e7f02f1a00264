"""Layout of the store, the folder that holds all results, and functions that make its folders and files.

- ``<store>/<lock>/<UTC time>-<seed>/``: one run; the link ``<store>/latest`` points to the last one
- ``<store>/sweeps/<UTC time>-<lock>/``: one sweep
- ``<store>/comparisons/<UTC time>/``: one comparison
- ``<store>/hunts/<UTC time>-<lock>/``: one hunt
- ``<store>/bisections/<UTC time>-<lock>/``: one bisection
- ``<store>/versions/<UTC time>-<lock>/``: one comparison of releases
- ``<store>/fidelity/<UTC time>/``: one comparison of the simulated servers with the real ones
- ``<store>/failures/<lock>/``: failures that hunts have found
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from harness.clusters.wire import WireRecording, pack
from harness.errors import UsageError
from harness.files import cannot_write, is_being_written, make_writable, write_file

HISTORY: Final = "history.jsonl"
RESULTS: Final = "results.json"
PLAN: Final = "plan.toml"
REPORT: Final = "report.html"
LATEST: Final = "latest"
LOGS: Final = "logs"
WIRE: Final = "wire"
"""Folder of a run with the recorded traffic of its servers."""
SWEEPS: Final = "sweeps"
COMPARISONS: Final = "comparisons"
HUNTS: Final = "hunts"
BISECTIONS: Final = "bisections"
VERSIONS: Final = "versions"
FIDELITY: Final = "fidelity"
FAILURES: Final = "failures"
"""Failures that hunts have found, one folder for each lock. The next hunt tries them first."""
NOT_LOCKS: Final = frozenset({LATEST, SWEEPS, COMPARISONS, HUNTS, BISECTIONS, VERSIONS, FIDELITY, FAILURES})
"""Names in the store that are not folders of a lock's runs."""


def new_run(store: Path, lock: str, seed: int, started: datetime) -> Path:
    """Make the folder of a run; HarnessError if that fails."""
    folder = _new(store, safe_name(lock), f"{_utc(started)}-{seed}")
    _point(store / LATEST, folder)
    return folder


def new_sweep(store: Path, lock: str, started: datetime) -> Path:
    """Make the folder of a sweep, ``<store>/sweeps/<UTC time>-<lock>``; HarnessError if that fails."""
    return _new(store, SWEEPS, f"{_utc(started)}-{safe_name(lock)}")


def new_comparison(store: Path, started: datetime) -> Path:
    """Make the folder of a comparison, ``<store>/comparisons/<UTC time>``; HarnessError if that fails."""
    return _new(store, COMPARISONS, _utc(started))


def new_hunt(store: Path, lock: str, started: datetime) -> Path:
    """Make the folder of a hunt, ``<store>/hunts/<UTC time>-<lock>``; HarnessError if that fails."""
    return _new(store, HUNTS, f"{_utc(started)}-{safe_name(lock)}")


def new_bisection(store: Path, lock: str, started: datetime) -> Path:
    """Make the folder of a bisection, ``<store>/bisections/<UTC time>-<lock>``; HarnessError if that fails."""
    return _new(store, BISECTIONS, f"{_utc(started)}-{safe_name(lock)}")


def new_versions(store: Path, lock: str, started: datetime) -> Path:
    """Make the folder of a comparison of releases, ``<store>/versions/<UTC time>-<lock>``; HarnessError if that
    fails."""
    return _new(store, VERSIONS, f"{_utc(started)}-{safe_name(lock)}")


def new_fidelity(store: Path, started: datetime) -> Path:
    """Make the folder of a comparison of servers, ``<store>/fidelity/<UTC time>``; HarnessError if that fails."""
    return _new(store, FIDELITY, _utc(started))


def writable(store: Path) -> None:
    """Make the store if it is missing. Raises HarnessError if nothing can be written there; long commands call this
    before they start."""
    with store_errors(store):
        make_writable(store)


def in_progress(folder: Path) -> bool:
    """Return True if a run is being recorded in this folder. The recording process marks the history's file, and the
    mark ends with that process, however it ends."""
    return is_being_written(folder / HISTORY)


def safe_name(lock: str) -> str:
    """Return the name of a lock's folder. It is no name of :data:`NOT_LOCKS`."""
    name = re.sub(r"[^A-Za-z0-9._-]+", ".", lock)
    return f"{name}.lock" if name in NOT_LOCKS else name


def _utc(time: datetime) -> str:
    return f"{time.astimezone(UTC):%Y%m%dT%H%M%SZ}"


def _new(store: Path, parent: str, name: str) -> Path:
    """Make a new folder; its name gets a number at the end if there is one of the same second already."""
    with store_errors(store):
        (store / parent).mkdir(parents=True, exist_ok=True)
        for again in itertools.count(1):
            folder = store / parent / (name if again == 1 else f"{name}-{again}")
            with contextlib.suppress(FileExistsError):  # perhaps made by another process just now
                folder.mkdir()
                break
    return folder


@contextlib.contextmanager
def store_errors(store: Path) -> Iterator[None]:
    """Turn errors of the file system into a HarnessError that names the store."""
    try:
        yield
    except OSError as error:
        raise cannot_write(f"to the store {store}", error, "; give another folder with --out") from error


def _point(link: Path, folder: Path) -> None:
    """Make ``link`` point at ``folder`` atomically; do nothing on a file system without links."""
    fresh = link.with_name(f".{link.name}-{os.getpid()}")
    with contextlib.suppress(OSError):
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(os.path.relpath(folder, link.parent), target_is_directory=True)
        if os.name == "nt" and link.is_symlink():  # Windows replaces no link to a folder
            link.rmdir()
        fresh.replace(link)


def write_results(folder: Path, document: msgspec.Struct | dict[str, Any], name: str = RESULTS) -> None:
    """Write ``results.json`` (or the document ``name``) as a whole, so that a reader never sees half of it."""
    from harness.documents import indented  # late: loads every document, and `harness check` writes none

    write_file(folder / name, indented(document))


def write_logs(folder: Path, logs: dict[str, str]) -> None:
    """Write one file for each server into the folder ``logs``."""
    with store_errors(folder):
        (folder / LOGS).mkdir(exist_ok=True)
    for host, text in logs.items():
        write_file(folder / LOGS / f"{host}.log", text)


def write_wire(folder: Path, recordings: Mapping[str, WireRecording]) -> None:
    """Write the recorded traffic of each server into the folder ``wire``, if there is any."""
    for host, recording in recordings.items():
        with store_errors(folder):
            (folder / WIRE).mkdir(exist_ok=True)
        write_file(folder / WIRE / f"{host}.jsonl.gz", pack(recording))


def find_run(given: Path) -> Path:
    """Return the folder of a run that is given as that folder, a file in it, or ``<store>/latest``.

    Raises UsageError if it is not a run."""
    folder = given.parent if given.is_file() else given
    if not folder.is_dir():
        raise UsageError(f"{given}: no such run; expected the folder of a run, such as store/{LATEST}")
    if not (folder / HISTORY).exists():
        raise UsageError(f"{given}: neither the folder of a run nor a file in one: it has no {HISTORY}")
    return folder.resolve()
