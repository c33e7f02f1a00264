"""Run loops over arrays as plain Python or, where that pays, as machine code made by numba.

numba is optional (the extra ``fast``) and slow to start: importing it takes a second, and compiling the loops of one
check takes ten more. Plain Python handles 100,000 rows in that second. So :func:`fastest` chooses: a loop stays plain
Python until it has so many rows that machine code finishes earlier, the wait for numba included. Both give the same
results. numba caches machine code on disk in a folder that it can write to: beside the source, or in the user's cache
folder.

A loop is a function of numbers and numpy arrays, marked with :func:`compilable`. It calls other marked loops, and uses
module-level numbers, through the global names of its module.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Lock
from types import FunctionType
from typing import Any, TypeVar, cast

Loop = TypeVar("Loop", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Limits:
    """Numbers of rows from which machine code pays: if the process has it already, if it is on disk, if numba must
    compile it.

    Measured on two busy cores: Python takes 5 to 10 microseconds a row; numba takes 2 to 3 s to start and to load
    machine code from disk, and 6 to 15 s to compile it.
    """

    loaded: int = 0
    on_disk: int = 300_000
    absent: int = 2_000_000


ALWAYS = Limits(0, 0, 0)
NEVER = Limits(sys.maxsize, sys.maxsize, sys.maxsize)

limits = Limits()
"""The limits in force; tests and benchmarks replace them."""

_LOOPS: set[Any] = set()
_machine_code: dict[Any, MachineCode | None] = {}
_lock = Lock()


def compilable(loop: Loop) -> Loop:
    """Mark ``loop`` as one that numba can compile; the function itself stays plain Python."""
    _LOOPS.add(loop)
    return loop


def fastest(loop: Loop, rows: int) -> Loop:
    """Return ``loop`` or its machine code, whichever finishes earlier with ``rows`` rows, waiting for numba included.

    A row stands for 5 to 10 microseconds of plain Python. Machine code lets other threads run meanwhile.
    """
    with _lock:
        if rows < limits.loaded:
            return loop
        if loop not in _machine_code:
            if rows < limits.on_disk or (rows < limits.absent and not _is_on_disk(loop)):
                return loop
            _machine_code[loop] = _compile(loop)
        return cast(Loop, _machine_code[loop] or loop)


class MachineCode:
    """A loop as machine code, loaded or compiled at the first call.

    If numba cannot use its cache, the loop is compiled anew in each process. If numba cannot compile it either (no
    working LLVM on this platform), it runs as plain Python.
    """

    def __init__(self, numba: Any, loop: Any) -> None:
        self._numba = numba
        self._loop = loop
        self._copy = _linked(numba, loop)
        self._run: Any = None

    @property
    def compiled(self) -> bool:
        """Return whether the machine code exists: not before the first call, and not if numba could not compile the
        loop."""
        return self._run not in (None, self._loop)

    def __call__(self, *arguments: Any) -> Any:
        if self._run is None:
            self._run = self._ready(arguments)
        return self._run(*arguments)

    def _ready(self, arguments: tuple[Any, ...]) -> Any:
        types = tuple(map(self._numba.typeof, arguments))
        for on_disk in (True, False):
            try:
                run = self._numba.njit(cache=on_disk, nogil=True)(self._copy)
                run.compile(types)
            except Exception:  # noqa: BLE001 - a full disk, a damaged cache, no LLVM: many types, one remedy
                continue
            return run
        return self._loop


def _compile(loop: Any) -> MachineCode | None:
    """Return machine code of ``loop``; None if numba is not installed, or does not work with the installed numpy."""
    try:
        import numba
    except ImportError:
        return None
    return MachineCode(numba, loop)


@cache
def _is_on_disk(loop: Any) -> bool:
    """Return whether a process has compiled ``loop`` before. This looks into numba's cache folder, since importing
    numba is slow."""
    pattern = f"*{_name(loop)}*.py{sys.version_info.major}{sys.version_info.minor}*.nbi"
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    roots = [home / "numba", Path.home() / "Library/Caches/numba"]
    if os.environ.get("NUMBA_CACHE_DIR"):
        roots = [Path(os.environ["NUMBA_CACHE_DIR"])]
    folders = [
        Path(loop.__code__.co_filename).parent / "__pycache__",
        *(each for root in roots for each in root.glob("*")),
    ]
    return any(True for folder in folders for _ in folder.glob(pattern))


def _linked(numba: Any, loop: Any) -> Any:
    """Return a copy of ``loop`` for numba that calls the machine code of the loops it uses.

    numba finds cached code by the function's name and the contents of its file. Loops and numbers from other files
    matter too, so the name of the copy has a digest of them all: cached code is never used after its sources change.
    """
    names = {**loop.__globals__}
    for name, inner in _used(loop):
        if inner in _LOOPS:
            names[name] = numba.njit(nogil=True)(_linked(numba, inner))
    copy = FunctionType(loop.__code__, names, _name(loop))
    copy.__qualname__ = copy.__name__
    return copy


def _name(loop: Any) -> str:
    return f"{loop.__name__}_{_digest(loop)}"


def _digest(loop: Any) -> str:
    import hashlib  # imported here because small inputs do not need it

    code = loop.__code__
    parts = [code.co_code.hex(), repr(code.co_consts)]
    parts += [f"{name} {_digest(inner) if inner in _LOOPS else inner!r}" for name, inner in _used(loop)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _used(loop: Any) -> Iterator[tuple[str, Any]]:
    """Yield the loops and numbers that ``loop`` uses by a global name."""
    for name in loop.__code__.co_names:
        value = loop.__globals__.get(name)
        if isinstance(value, int) or (isinstance(value, FunctionType) and value in _LOOPS):
            yield name, value
