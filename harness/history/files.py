"""Files of histories, ours and others', into calls by column, a block at a time."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Final, cast

from . import History, HistoryError
from .calls import Calls, Wants
from .edn_history import read_edn
from .edn_values import Keyed
from .entries import Rising
from .jsonl import Reader
from .pairing import Pairing, paired

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
    called with the bytes read and their total, ``block`` is how many are read at a time. Raises :class:`HistoryError`
    for what cannot be read, naming the line; only a last line that was cut off is left out.

    Memory: 66 bytes a call (84 with grants), and about 430 for each distinct value, if values are wanted or the file
    is EDN. An EDN file, and one whose entries are not in the order of time, takes as much again until it is read to
    its end. Seen: ten million calls, 2.9 GB of JSON lines, in 0.8 GB (1.0 GB with grants), numba included.
    """
    kind = path.suffixes[-2:-1] if path.suffix == ".gz" else path.suffixes[-1:]
    if kind not in ([".jsonl"], [".edn"]):
        raise HistoryError(f"{path}: the name of a history ends in one of {', '.join(SUFFIXES)}")
    blocks = _blocks(path, block, progress)
    try:
        if kind == [".edn"]:
            return read_edn(str(path), blocks, wants, keyed)
        found = _as_it_comes(Reader(str(path), wants), blocks)
        return _sorted(Reader(str(path), wants), _blocks(path, block, progress)) if found is None else found
    except (OSError, EOFError) as error:
        raise HistoryError(f"{path}: cannot read the history: {error}") from error


def _as_it_comes(reader: Reader, blocks: Iterable[bytes]) -> Calls | None:
    """The calls of a file whose entries are in the order of time; None if they are not."""
    pairing, rising = Pairing(reader.entries), Rising()
    for text in blocks:
        reader.take(text)
        while reader.entries.blocks:
            block = reader.entries.blocks.popleft()
            if not rising.goes_on(block.time):
                return None
            pairing.add(block)
    calls = pairing.calls()
    calls.values = reader.values.found
    return calls


def _sorted(reader: Reader, blocks: Iterable[bytes]) -> Calls:
    """The calls of a file whose entries are not in order: clients in containers are heard one after the other. It is
    read as a whole, for 29 bytes an entry and more with values, before its first call is known."""
    for text in blocks:
        reader.take(text)
    entries = reader.entries
    entries.sort([block.time for block in entries.blocks])
    calls = paired(entries)
    calls.values = reader.values.found
    return calls


def calls_of(history: History, wants: Wants) -> Calls:
    """The calls of a history that is in memory, as :func:`read_calls` reads them from its file."""
    reader = Reader("the history", wants)
    reader.entries.unit = "entry"
    reader.add(history)
    return _sorted(reader, ())


def _blocks(path: Path, size: int, progress: Progress | None) -> Iterator[bytes]:
    """The file in blocks of whole lines; the last line may be cut off."""
    with path.open("rb") as raw:
        total = path.stat().st_size
        file = cast(IO[bytes], gzip.GzipFile(fileobj=raw)) if path.suffix == ".gz" else raw
        while text := file.read(size):
            yield text if text.endswith(b"\n") else text + file.readline()
            if progress is not None:
                progress(raw.tell(), total)
