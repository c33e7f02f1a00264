"""``harness publish DIR``: write pages about all locks from stored results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from harness.documents.publication import PublicationDocument
from harness.wording import counted

from .links import linked
from .options import STORE, JsonOption, QuietOption, printed, progress_on_stderr, single_command
from .terminal import print_document

INDEX: Final = "index.html"


def publish_command(
    folder: Annotated[Path, typer.Argument(help="The folder for the pages; other files in it stay.", metavar="DIR")],
    store: Annotated[Path, typer.Option(help="Folder with the stored results.")] = STORE,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Write a page for each lock, and an index that answers which lock to use, from the results in a store.

    The same results give the same bytes. Exit status 2 if the store has no results, or if a file in DIR is in the way
    that this command did not write; 4 if a page cannot be written.
    """
    from harness.studies.publication import publish

    with progress_on_stderr("publish", quiet=quiet or json) as progress:
        document = publish(folder, store=store, progress=progress)
    for text in document.unreadable:
        typer.echo(f"harness: left out: {text}", err=True)
    printed(lambda: _print(document, folder, json=json, quiet=quiet))


def _print(document: PublicationDocument, folder: Path, *, json: bool, quiet: bool) -> None:
    if json:
        print_document(document)
        return
    page = folder / INDEX
    if quiet:
        typer.echo(str(page))
        return
    catalogued = sum(lock.catalogued for lock in document.locks)
    others = len(document.locks) - catalogued
    nights = counted(len(document.nights), "nightly run")
    typer.echo(f"{counted(catalogued, 'lock')} of the catalogue and {others} other classes, from {nights}")
    typer.echo(linked(page))


app = single_command(publish_command)
