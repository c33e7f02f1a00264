"""Files of histories, ours and others', into calls by column, a block at a time."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Final, cast

from . import History, HistoryError
from .calls import Calls, Wants
from .edn_history import read_edn
from .edn_values import Keyed
from .jsonl import Reader
from .pairing import paired

BLOCK: Final = 4 << 20
"""Bytes that are read at a time."""
SUFFIXES: Final = (".jsonl", ".edn", ".jsonl.gz", ".edn.gz")
Progress = Callable[[int, int], None]


def read_calls(
    path: Path, wants: Wants, *, keyed: Keyed = "auto", progress: Progress | None = None, block: int = BLOCK
) -> Calls:
    """The calls of the history at ``path``: JSON lines as ``harness`` writes them, or EDN as Jepsen and Knossos do,
    either with ``.gz``.

    ``keyed`` says whether values are ``[key value]`` (``jepsen.independent``); it is for EDN only. ``progress`` is
    called with the bytes read and their total. Raises :class:`HistoryError` for what cannot be read, naming the line.
    """
    kind = path.suffixes[-2:-1] if path.suffix == ".gz" else path.suffixes[-1:]
    if kind not in ([".jsonl"], [".edn"]):
        raise HistoryError(f"{path}: the name of a history ends in one of {', '.join(SUFFIXES)}")
    blocks = _blocks(path, block, progress)
    try:
        if kind == [".edn"]:
            return read_edn(str(path), blocks, wants, keyed)
        reader = Reader(str(path), wants)
        calls = paired(reader.read(blocks))
        calls.values = reader.values.found
    except (OSError, EOFError) as error:
        raise HistoryError(f"{path}: cannot read the history: {error}") from error
    return calls


def calls_of(history: History, wants: Wants) -> Calls:
    """The calls of a history that is in memory, as :func:`read_calls` reads them from its file."""
    reader = Reader("the history", wants)
    reader.entries.unit = "entry"
    reader.add(history)
    calls = paired(reader.entries)
    calls.values = reader.values.found
    return calls


def _blocks(path: Path, size: int, progress: Progress | None) -> Iterator[bytes]:
    """The file in blocks of whole lines; the last line may be cut off."""
    with path.open("rb") as raw:
        total = path.stat().st_size
        file = cast(IO[bytes], gzip.GzipFile(fileobj=raw)) if path.suffix == ".gz" else raw
        while text := file.read(size):
            yield text if text.endswith(b"\n") else text + file.readline()
            if progress is not None:
                progress(raw.tell(), total)
