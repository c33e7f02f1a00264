"""Publish what a store says about each lock: a page for each lock, an index, and the same as one document.

The pages depend on the stored results and on the catalogue of this version alone. The same store gives the same bytes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from harness.documents import indented
from harness.documents.publication import PublicationDocument
from harness.run.progress import Progress

from .folder import check_folder, write_folder
from .gathering import gather

DOCUMENT: Final = "locks.json"


def publish(folder: Path, *, store: Path = Path("store"), progress: Progress | None = None) -> PublicationDocument:
    """Write a page for each lock and an index into ``folder``, from the results in ``store``, and return what they say.

    ``progress`` is called with the share that is done, 0 to 1, and what is being done. Files in ``folder`` of another
    origin stay. Raises UsageError if the store has no results, the database of nightly runs is damaged, or such a file
    is in the way; HarnessError if a file cannot be written.
    """
    from harness.reports import publication  # late: loads the templates

    tell = progress or (lambda _fraction, _text: None)
    check_folder(folder, store)
    document, copies = gather(store, tell)
    tell(0.6, f"rendering: {len(document.locks)} locks")
    pages = publication.pages(document)
    files: dict[str, bytes | Path] = {path: text.encode(errors="replace") for path, text in pages.items()}
    files |= copies.sources
    files[DOCUMENT] = indented(document)
    write_folder(folder, files, tell)
    return document
