"""An environment for each simulated process: variables that a client sets are not those of the other clients."""

from __future__ import annotations

import os
from collections.abc import Iterator, MutableMapping
from typing import Any

from greenlet import getcurrent

from .dispatch import Replacement, dispatch
from .kernel import Task


class _Variables(MutableMapping[Any, Any]):
    """The contents of ``os.environ``: those of the running task's process, else those of this process."""

    def __init__(self, real: dict[Any, Any]) -> None:
        self._real = real

    def _mine(self) -> dict[Any, Any]:
        task = getcurrent()
        if type(task) is not Task:
            return self._real
        if task.life.environment is None:
            task.life.environment = dict(self._real)
        return task.life.environment

    def __getitem__(self, name: Any) -> Any:
        return self._mine()[name]

    def __setitem__(self, name: Any, value: Any) -> None:
        self._mine()[name] = value

    def __delitem__(self, name: Any) -> None:
        del self._mine()[name]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._mine())

    def __len__(self) -> int:
        return len(self._mine())


def replacements() -> Iterator[Replacement]:
    """Yield the replacements by which the environment is simulated."""
    variables = _Variables(os.environ._data)  # type: ignore[attr-defined]
    yield os.environ, "_data", variables
    if os.supports_bytes_environ:
        yield os.environb, "_data", variables
    # os.environ calls them before it changes its contents.
    yield os, "putenv", dispatch(os.putenv, lambda task, name, value: None)  # noqa: ARG005
    yield os, "unsetenv", dispatch(os.unsetenv, lambda task, name: None)  # noqa: ARG005
