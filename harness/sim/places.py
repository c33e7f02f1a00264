"""Places in the code of the lock under test, found in the stacks of threads that send data."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from asyncio.base_events import BaseEventLoop
from collections.abc import Callable, Container, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, Final, Literal, cast
from weakref import WeakKeyDictionary

NOWHERE: Final = -1
SUPPORT_ONLY: Final = -2
Code = Literal["lock", "support", "other"]
"""Code of the lock under test, of what connects locks to servers, or any other code."""
Place = tuple[str, int, str]
"""A line of the lock's code that sent data: file, line and function. Places have the numbers 0, 1, 2, ... in the order
of their first use."""


class PlaceFinder:
    """Numbers the places that it finds, and passes each new one to ``on_place``. ``code_of`` says whose code a source
    file is."""

    def __init__(self, code_of: Callable[[str], Code], on_place: Callable[[Place], None]) -> None:
        self._code_of = code_of
        self._on_place = on_place
        self._known: dict[str, Code] = {}
        self._places: dict[tuple[str, int], int] = {}
        self._tasks: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
        """Places that made tasks of asyncio."""

    @contextlib.contextmanager
    def watching_tasks(self) -> Iterator[None]:
        """Note from which place each task of asyncio is made. A library may send in a task of its own, as redis-py does
        before Python 3.12, where ``wait_for`` makes one."""
        kind: Any = BaseEventLoop
        original = kind.create_task

        def create_task(loop: Any, coro: Any, **options: Any) -> Any:
            task = original(loop, coro, **options)
            self._tasks[task] = self.find(sys._getframe(1))
            return task

        kind.create_task = create_task
        try:
            yield
        finally:
            kind.create_task = original

    def find(self, frame: FrameType | None) -> int:
        """Return the number of the innermost place in the lock's code in a stack.

        It is :data:`SUPPORT_ONLY` if the stack has code that connects locks, and none of a lock. If the stack has
        neither, it is the place that made the running task of asyncio, or :data:`NOWHERE`.
        """
        place = self._in_stack(frame)
        return self._of_task() if place == NOWHERE and self._tasks else place

    def find_in_call(self, frame: FrameType | None, task: asyncio.Task[Any]) -> int:
        """Return the number of the innermost place in the lock's code in a stack, which belongs to a call that ``task``
        awaits. If the stack has none, it is the place at which ``task`` waits, or else what :meth:`find` returns."""
        frames, awaiting = [frame], cast("Any", task.get_coro())
        while awaiting is not None:
            frames.insert(1, getattr(awaiting, "cr_frame", None) or getattr(awaiting, "gi_frame", None))
            awaiting = getattr(awaiting, "cr_await", None) or getattr(awaiting, "gi_yieldfrom", None)
        for place in map(self._in_stack, frames):
            if place > NOWHERE:
                return place
        return self.find(frame)

    def _in_stack(self, frame: FrameType | None) -> int:
        known, nowhere = self._known, NOWHERE
        while frame is not None:
            file = frame.f_code.co_filename
            try:
                found = known[file]
            except KeyError:
                found = known[file] = self._code_of(file)
            if found != "other":
                if found == "lock":
                    return self._number_of(frame)
                nowhere = SUPPORT_ONLY
            frame = frame.f_back
        return nowhere

    def _of_task(self) -> int:
        """Return the place that made the running task of asyncio."""
        try:
            task = asyncio.current_task()
        except RuntimeError:  # no event loop runs
            return NOWHERE
        return NOWHERE if task is None else self._tasks.get(task, NOWHERE)

    def _number_of(self, frame: FrameType) -> int:
        place = frame.f_code.co_filename, frame.f_lineno
        number = self._places.get(place)
        if number is None:
            number = self._places[place] = len(self._places)
            self._on_place((*place, frame.f_code.co_qualname))
        return number


def source_name(path: Path, taken: Container[str]) -> str:
    """Return the file's name with the folders above it that are packages; the whole path if that name is taken."""
    parts = [path.name]
    folder = path.parent
    while (folder / "__init__.py").is_file():
        parts.insert(0, folder.name)
        folder = folder.parent
    name = "/".join(parts)
    return str(path) if name in taken else name
