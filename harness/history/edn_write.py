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
    """The entries, a line each, as :func:`write_edn` writes them."""
    for op in entries:
        yield "{" + ", ".join(f":{name} {text}" for name, text in _fields(op, keyed=keyed)) + "}"


def _fields(op: Op, *, keyed: bool) -> Iterator[tuple[str, str]]:
    client = op.process != NEMESIS
    yield "index", str(op.index)
    yield "time", str(op.time)
    yield "process", str(op.process) if client else ":nemesis"
    yield "type", f":{op.type}"
    yield "f", keyword(op.f)
    value = _plain(op) if client else op.value
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
