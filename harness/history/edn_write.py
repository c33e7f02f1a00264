"""Write our histories as EDN, so that the checkers of Jepsen, Knossos and others can read them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from . import NEMESIS, History, Op, written_history
from .edn import keyword, written


def write_edn(history: History, path: Path, *, keyed: bool | None = None) -> None:
    """Write ``history`` to ``path``, one map a line (gzip if the name ends in ``.gz``).

    With ``keyed`` (default: if the history has more than one key), values are ``[key value]``, as
    ``jepsen.independent`` writes them. Otherwise the key is a field of its own, which other tools ignore.
    """
    if keyed is None:
        keyed = len({key for key, process in zip(history.key, history.process, strict=True) if process != NEMESIS}) > 1
    with written_history(path) as file:
        file.writelines(f"{line}\n".encode() for line in edn_lines(history, keyed=keyed))


def edn_lines(entries: Iterable[Op], *, keyed: bool) -> Iterator[str]:
    """Yield the entries, one line each, as :func:`write_edn` writes them.

    Other tools take the answer to a write or cas for the written value, so its ``ok`` has the value of the invocation.
    """
    invocations: dict[int, Any] = {}
    for op in entries:
        value = _plain(op) if op.process != NEMESIS else op.value
        if op.f in ("write", "cas") and op.process != NEMESIS:
            if op.type == "invoke":
                invocations[op.process] = value
            elif op.type == "ok":
                value = invocations.get(op.process, value)
        yield "{" + ", ".join(f":{name} {text}" for name, text in _fields(op, value, keyed=keyed)) + "}"


def _fields(op: Op, value: Any, *, keyed: bool) -> Iterator[tuple[str, str]]:
    client = op.process != NEMESIS
    yield "index", str(op.index)
    yield "time", str(op.time)
    yield "process", str(op.process) if client else ":nemesis"
    yield "type", f":{op.type}"
    yield "f", keyword(op.f)
    yield "value", written((op.key, value) if client and keyed else value)
    if op.key is not None and not (client and keyed):
        yield "key", written(op.key)
    if op.error is not None:
        yield "error", written(op.error)
    if op.node is not None:
        yield "node", written(op.node)


def _plain(op: Op) -> Any:
    """Return only the value of a read or write: other tools know neither tokens nor the order of arrival."""
    if op.f in ("read", "write") and isinstance(op.value, dict):
        return op.value.get("value")
    return op.value
