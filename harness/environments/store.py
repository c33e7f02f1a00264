"""Environments on disk: built once for the same contents, whole or not at all, and used again without a network."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from harness.errors import EnvironmentLacking, UsageError

from . import uv

FOLDER: Final = "LOCK_HARNESS_ENVIRONMENTS"
"""Environment variable with the folder of all environments."""
ABOUT: Final = "environment.json"
FORMAT: Final = 1
"""Part of every key; a new number makes all environments be built again."""
PATH_FILE: Final = "lock_harness.pth"
ABANDONED_S: Final = 3600.0
"""Age of an unfinished environment that nobody builds any more."""
Progress = Callable[[str], None]


class Contents(msgspec.Struct, frozen=True, kw_only=True):
    """All that an environment is made of: the same contents have the same key.

    ``python`` is the interpreter that it is based on, ``harness`` the folder of the harness's own code.
    """

    python: str
    requirements: tuple[str, ...]
    harness: str
    format: int = FORMAT

    @property
    def key(self) -> str:
        return hashlib.sha256(msgspec.json.encode(self)).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Environment:
    """An environment that was built; ``used`` is the time of its last use (seconds since 1970)."""

    folder: Path
    contents: Contents
    used: float

    @property
    def key(self) -> str:
        return self.folder.name

    @property
    def interpreter(self) -> Path:
        return self.folder / "bin" / "python"

    @property
    def size(self) -> int:
        """Bytes of its files. Those that it shares with uv's cache count, too."""
        return sum(path.lstat().st_size for path in self.folder.rglob("*") if path.is_file())


def folder() -> Path:
    """Return the folder of all environments, which may not exist yet."""
    named = os.environ.get(FOLDER)
    if named:
        return Path(named)
    import platformdirs

    return platformdirs.user_cache_path("lock-harness", appauthor=False) / "environments"


def environments() -> list[Environment]:
    """Return all environments, the one used last first."""
    found = [_read(path) for path in sorted(folder().glob("*/")) if not path.name.startswith(".")]
    return sorted((one for one in found if one is not None), key=lambda one: one.used, reverse=True)


def _read(path: Path) -> Environment | None:
    about = path / ABOUT
    try:
        contents = msgspec.json.decode(about.read_bytes(), type=Contents)
        return Environment(path, contents, about.stat().st_mtime)
    except (OSError, msgspec.DecodeError):
        return None


def environment(python: str, requirements: Sequence[str], progress: Progress | None = None) -> Environment:
    """Return the environment with these requirements on an interpreter, building it if there is none yet.

    ``progress`` is called with one line before something that takes long. Raises UsageError if the requirements cannot
    be satisfied, EnvironmentLacking if the environment cannot be built for another reason.
    """
    code = Path(__file__).resolve().parents[1]
    contents = Contents(python=python, requirements=tuple(sorted(set(requirements))), harness=str(code))
    report = progress or _no_report
    target = folder() / contents.key
    found = _used(target)
    if found is not None:
        return found
    try:
        with _only_builder(target, report):
            found = _used(target)
            if found is None:
                listed = ", ".join(contents.requirements)
                report(f"building an environment with {listed} (once; 'harness env list' shows it)")
                _build(contents, target)
                found = _used(target)
    except OSError as error:
        reason = error.strerror or str(error)
        raise EnvironmentLacking(f"cannot build an environment in {target.parent}: {reason}") from error
    assert found is not None
    return found


def _no_report(line: str) -> None: ...


def _used(path: Path) -> Environment | None:
    """Return the environment in this folder and note the time of its use; None if there is none that works."""
    found = _read(path)
    if found is None or not found.interpreter.exists():  # its Python was removed from this machine
        return None
    with contextlib.suppress(OSError):  # a cache that cannot be written to can be used
        os.utime(path / ABOUT)
    return found


@contextlib.contextmanager
def _only_builder(target: Path, progress: Progress) -> Iterator[None]:
    from filelock import FileLock, Timeout  # slow to import

    target.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(target.parent / f".{target.name}.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        progress("waiting for another process that builds the same environment")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _build(contents: Contents, target: Path) -> None:
    """Build beside the target and rename, so that the target is whole or absent. Only one process does it at a time."""
    for left in target.parent.glob(f".{target.name}.*/"):  # of a builder that was killed
        shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as work:
        fresh = Path(work) / "fresh"
        uv.run("venv", "-q", "--no-project", "--relocatable", "--python", contents.python, str(fresh))
        try:
            uv.run("pip", "install", "-q", "--python", str(fresh / "bin" / "python"), "--", *contents.requirements)
        except UsageError as error:
            raise UsageError(f"no environment can have {', '.join(contents.requirements)}: {error}") from error
        (packages,) = (fresh / "lib").glob("python*/site-packages")
        (fresh / "harness-code").mkdir()
        (fresh / "harness-code" / "harness").symlink_to(contents.harness, target_is_directory=True)
        # A folder with our package alone: beside an installed harness lie the libraries that it uses itself.
        (packages / PATH_FILE).write_text(f"{target / 'harness-code'}\n", encoding="utf-8")
        (fresh / ABOUT).write_bytes(msgspec.json.encode(contents))
        if target.exists():
            shutil.rmtree(target)
        fresh.rename(target)


def remove(keys: Sequence[str] = ()) -> list[Environment]:
    """Remove environments by the beginnings of their keys, all without any, and return them; UsageError if a key fits
    none."""
    there = environments()
    for key in keys:
        if not key:
            raise UsageError("a key must not be empty: 'harness env clean' without a key removes all environments")
        if not any(one.key.startswith(key) for one in there):
            raise UsageError(f"no environment's key begins with {key!r}: 'harness env list' shows them")
    chosen = [one for one in there if not keys or one.key.startswith(tuple(keys))]
    for one in chosen:
        shutil.rmtree(one.folder)
    if not keys:
        for left in folder().glob(".*/"):  # of builders that were killed
            if time.time() - left.stat().st_mtime > ABANDONED_S:
                shutil.rmtree(left, ignore_errors=True)
    return chosen
