"""Histories of ours in EDN, so that the checkers of Jepsen, Knossos and others can read them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from . import NEMESIS, History, Op, open_history
from .edn import keyword, written


def write_edn(history: History, path: Path, *, keyed: bool | None = None) -> None:
    """Write ``history`` to ``path``, one map a line (gzip if the name ends in ``.gz``).

    ``keyed`` (else: if it has more than one key) writes values as ``[key value]``, as ``jepsen.independent`` does;
    otherwise the key is a field of its own, which others do not look at.
    """
    if keyed is None:
        keyed = len({key for key, process in zip(history.key, history.process, strict=True) if process != NEMESIS}) > 1
    with open_history(path, "wb") as file:
        file.writelines(f"{line}\n".encode() for line in edn_lines(history, keyed=keyed))


def edn_lines(entries: Iterable[Op], *, keyed: bool) -> Iterator[str]:
    """The entries, a line each, as :func:`write_edn` writes them.

    Others take what a write or a cas answered for what was written: its ``ok`` has the value that it was invoked with.
    """
    asked: dict[int, Any] = {}
    for op in entries:
        value = _plain(op) if op.process != NEMESIS else op.value
        if op.f in ("write", "cas") and op.process != NEMESIS:
            if op.type == "invoke":
                asked[op.process] = value
            elif op.type == "ok":
                value = asked.get(op.process, value)
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
    """Of reads and writes what was read or written alone: others know no tokens and no order of arrival."""
    if op.f in ("read", "write") and isinstance(op.value, dict):
        return op.value.get("value")
    return op.value
