"""Read history files, ours and Jepsen's, into columns of calls, one block at a time."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import IO, Final, cast

from harness.files import refuse_device

from . import History, HistoryError
from .calls import Calls, Keyed, Wants
from .entries import Rising
from .jsonl import Reader
from .pairing import Pairing, paired

BLOCK: Final = 4 << 20
"""Bytes read at a time."""
ENTRY: Final = 200
"""Approximate bytes of an entry: the size of a lock's entry as JSON."""
SUFFIXES: Final = (".jsonl", ".edn", ".jsonl.gz", ".edn.gz")
Progress = Callable[[int, int], None]


def read_calls(
    path: Path,
    wants: Wants,
    *,
    keyed: Keyed = "auto",
    clients: bool = True,
    refusals: Collection[str] = (),
    progress: Progress | None = None,
    block: int = BLOCK,
) -> Calls:
    """Read the calls of the history at ``path``: JSON lines of this project, or EDN of Jepsen and Knossos, with ``.gz``
    or not.

    ``keyed`` says whether values are ``[key value]`` (``jepsen.independent``), and ``clients`` whether clients are
    named by values such as ``{:client "a"}``; both are for EDN only. Failed calls of the functions ``refusals`` are
    kept, as calls of ``refused <function>``. ``progress`` is called with the bytes read and the
    total, after each ``block`` bytes. Raises :class:`HistoryError`, with the line, for an unreadable file; only a
    truncated last line is skipped.

    Memory: 66 bytes a call (84 with grants), and about 430 for each distinct value, if values are wanted or the file is
    EDN. An EDN file, and a file whose entries are not in the order of time, need as much again until they are read
    completely. Measured: ten million calls, 2.9 GB of JSON lines, in 0.8 GB (1.0 GB with grants), numba included.
    """
    kind = path.suffixes[-2:-1] if path.suffix == ".gz" else path.suffixes[-1:]
    if kind not in ([".jsonl"], [".edn"]):
        raise HistoryError(f"{path}: the name of a history ends in one of {', '.join(SUFFIXES)}")
    blocks = line_blocks(path, block, progress)
    try:
        if kind == [".edn"]:
            from .edn_history import read_edn  # imported here because JSON lines do not need it

            return read_edn(str(path), blocks, wants, keyed, clients=clients, refusals=refusals)
        found = _read_in_order(Reader(str(path), wants), blocks, path.stat().st_size // ENTRY, refusals)
        if found is None:
            found = _sorted(Reader(str(path), wants), line_blocks(path, block, progress), refusals)
        return found
    except (OSError, EOFError) as error:
        raise HistoryError(f"{path}: cannot read the history: {error}") from error


def _read_in_order(reader: Reader, blocks: Iterable[bytes], expected: int, refusals: Collection[str]) -> Calls | None:
    """Return the calls of a file whose entries are in the order of time; None if they are not."""
    pairing, rising = Pairing(reader.entries, expected, refusals), Rising()
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


def _sorted(reader: Reader, blocks: Iterable[bytes], refusals: Collection[str]) -> Calls:
    """Return the calls of a file whose entries are not in order, as entries of clients in containers arrive one client
    at a time.

    All entries are read before the first call is known: 29 bytes an entry, and more with values.
    """
    for text in blocks:
        reader.take(text)
    entries = reader.entries
    entries.sort([block.time for block in entries.blocks])
    calls = paired(entries, refusals)
    calls.values = reader.values.found
    return calls


def calls_of(history: History, wants: Wants, refusals: Collection[str] = ()) -> Calls:
    """Return the calls of a history in memory, as :func:`read_calls` reads them from its file."""
    reader = Reader("the history", wants)
    reader.entries.unit = "entry"
    reader.add(history)
    return _sorted(reader, (), refusals)


def line_blocks(path: Path, size: int = BLOCK, progress: Progress | None = None) -> Iterator[bytes]:
    """Yield the file in blocks of whole lines; the last line may be truncated."""
    refuse_device(path)
    with path.open("rb") as raw:
        total = path.stat().st_size
        file = cast(IO[bytes], gzip.GzipFile(fileobj=raw)) if path.suffix == ".gz" else raw
        while text := file.read(size):
            yield text if text.endswith(b"\n") else text + file.readline()
            if progress is not None:
                progress(raw.tell(), total)
