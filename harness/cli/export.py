"""``harness export``: write a history as EDN, for the checkers of Jepsen and Knossos."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.errors import UsageError
from harness.files import require_place
from harness.wording import counted

from .options import QuietOption, single_command


def export_command(
    given: Annotated[Path, typer.Argument(help="A history.jsonl, or the folder of a run.", metavar="RUN|FILE")],
    out: Annotated[Path, typer.Argument(help="The .edn or .edn.gz file to write.")],
    keyed: Annotated[
        bool, typer.Option("--keyed", help="Write values as [key value], also if there is only one key.")
    ] = False,
    quiet: QuietOption = False,
) -> None:
    """Write a history as EDN, so that checkers of Jepsen and Knossos can read it."""
    from harness.history import History, HistoryError
    from harness.history.edn_write import write_edn
    from harness.run.store import HISTORY

    path = given / HISTORY if given.is_dir() else given
    if not out.name.endswith((".edn", ".edn.gz")):
        raise UsageError(f"expected a name that ends in .edn or .edn.gz, got {out.name!r}")
    require_place(out)
    try:
        history, cut = History.salvage(path)
        write_edn(history, out, keyed=keyed or None)
    except (HistoryError, OSError) as error:
        raise UsageError(str(error)) from error
    if cut:
        typer.echo(f"harness: the last line was left out: {cut}", err=True)
    typer.echo(out if quiet else f"{counted(len(history), 'entry')} written to {out}")


app = single_command(export_command)
