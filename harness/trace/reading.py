"""Read the trace of a stored run."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from harness.documents import DocumentError, MessageTrace, load_messages
from harness.documents.messages import LOG
from harness.history import History, HistoryError

from .log import load_log

HISTORY: Final = "history.jsonl"
_MALFORMED: Final = (ValueError, TypeError, KeyError, IndexError, AttributeError)


def load_trace(folder: Path, history: History | None = None, *, whole: bool = False) -> MessageTrace | None:
    """Return the trace of the run in a folder, None if it has none.

    It is read from ``trace.jsonl.gz``, or else decoded from ``trace.log.gz``, which takes about 20 µs a message.
    ``history`` is that of the run if it is loaded already. With ``whole``, the trace is decoded from the log if there
    is one, and has the messages of the whole run. Raises DocumentError if a file cannot be read.
    """
    decodes = whole and (folder / LOG).is_file()
    if not decodes and (found := load_messages(folder)) is not None:
        return found
    log = load_log(folder)
    if log is None:
        return None
    from .building import build  # here, since most runs have no trace
    from .streams import read_streams

    head, batches = log
    if whole:
        head = msgspec.structs.replace(head, windows=())
    past = _history(folder) if history is None else history
    try:
        return build(head, read_streams(batches, head.places), past)
    except _MALFORMED as error:
        raise DocumentError(f"{folder / LOG}: expected the messages of a run, but an entry is malformed") from error


def _history(folder: Path) -> History:
    try:
        return History.salvage(folder / HISTORY)[0]
    except (HistoryError, OSError) as error:
        raise DocumentError(str(error)) from error
