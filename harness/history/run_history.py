"""Read the stored history of a run, which somebody may have edited.

Checkers and reports calculate with some fields of its values. These must have the types and sizes that runs write.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final

import msgspec

from . import NEMESIS, SECOND, History, HistoryError

LONGEST_S: Final = 30 * 24 * 3600
"""No run is longer. Reports cut its time into windows."""
Seconds = Annotated[float, msgspec.Meta(ge=-1e9, le=1e9)]
Number = Annotated[int, msgspec.Meta(gt=-(2**62), lt=2**62)]


class _CallFields(msgspec.Struct):
    """Fields of requests and answers."""

    timeout: Seconds | None = None
    valid_for: Seconds | None = None
    relies_for: Seconds | None = None
    arrival: Number = 0


class _NemesisFields(msgspec.Struct):
    """Fields of the entry ``start`` and of the entries about faults."""

    clients: list[str] = []
    servers: list[str] = []
    ttl: Seconds | None = None
    slack: Seconds | None = None
    hold: Seconds | None = None
    lease: Seconds | None = None
    id: Number = 0
    fault: str = ""
    hosts: list[str] = []
    observed: dict[str, Any] | None = None


def read_run_history(path: Path) -> tuple[History, str]:
    """Read like :meth:`History.salvage`.

    Raises HistoryError also for a field of a type or size that no run writes, and for times too far apart."""
    history, cut = History.salvage(path)
    for index, (process, value) in enumerate(zip(history.process, history.value, strict=True)):
        if value is None:
            continue
        try:
            msgspec.convert(value, _NemesisFields if process == NEMESIS else _CallFields)
        except msgspec.ValidationError as error:
            raise HistoryError(f"{path}: entry {index} ({history.f[index]}): value: {error}") from error
    if history.time and max(history.time) - min(history.time) > LONGEST_S * SECOND:
        raise HistoryError(f"{path}: the times of its entries are more than {LONGEST_S:,} s apart")
    return history, cut
