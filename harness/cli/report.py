"""``harness report``: write the report of a stored run again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.errors import UNKNOWN, VIOLATION
from harness.files import cannot_write

from .links import linked
from .options import QuietOption, single_command


def report_command(
    given: Annotated[Path, typer.Argument(help="The folder of a run.", metavar="RUN")],
    checker: Annotated[
        list[str] | None,
        typer.Option(metavar="MODULE:CLASS", help="A checker of your own to run again; repeatable."),
    ] = None,
    quiet: QuietOption = False,
) -> None:
    """Write the report of a stored run again. For a run that was cut short the exit status is 3, or 1 if its history
    already has a violation of what is required.

    No code that the folder names is run: the stored verdict of a checker of your own stays unless --checker names it.
    """
    from harness.documents import load_run
    from harness.reports import model, run_report
    from harness.run import store as stores
    from harness.run.verdicts.judging import not_run, rejudge

    folder = stores.find_run(given)
    try:
        if checker or not (folder / stores.RESULTS).exists():
            result = rejudge(folder, checkers=checker or ())
            for name in () if quiet else not_run(result.plan, checker or ()):
                typer.echo(f"harness: {name} was not run: only the stored plan names it; --checker {name}", err=True)
        page = run_report.write(folder)
        typer.echo(str(page) if quiet else linked(page))
        stored = model.load(folder)
    except OSError as error:
        raise cannot_write(f"the report of {folder}", error) from error
    if stored.interrupted:
        if not quiet:
            typer.echo(f"harness: {folder / stores.HISTORY}: {stored.interrupted}", err=True)
        raise typer.Exit(VIOLATION if load_run(folder / stores.RESULTS).valid is False else UNKNOWN)


app = single_command(report_command)
