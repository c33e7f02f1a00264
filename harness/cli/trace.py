"""``harness trace``: write the messages between the clients and servers of a run, decoded."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.errors import UsageError
from harness.files import require_place, write_file
from harness.wording import counted

from .options import QuietOption, single_command


def trace_command(
    given: Annotated[Path, typer.Argument(help="The folder of a run.", metavar="RUN")],
    out: Annotated[
        Path | None, typer.Argument(help="The .jsonl or .jsonl.gz file to write, else RUN/trace.jsonl.gz.")
    ] = None,
    whole: Annotated[
        bool, typer.Option("--all", help="Write the messages of the whole run, not only those around violations.")
    ] = False,
    quiet: QuietOption = False,
) -> None:
    """Write the messages between the clients and servers of a run, decoded: one line of JSON for each request with its
    reply. 'harness report' then shows those of RUN/trace.jsonl.gz."""
    from harness.documents import DocumentError
    from harness.documents.messages import TRACE, message_lines, pack_messages
    from harness.run.store import find_run
    from harness.trace.reading import load_trace

    folder = find_run(given)
    target = folder / TRACE if out is None else out
    if not target.name.endswith((".jsonl", ".jsonl.gz")):
        raise UsageError(f"expected a name that ends in .jsonl or .jsonl.gz, got {target.name!r}")
    require_place(target)
    try:
        trace = load_trace(folder, whole=whole)
    except DocumentError as error:
        raise UsageError(str(error)) from error
    if trace is None:
        raise UsageError(f"{given}: its messages were not logged: 'harness run --trace on' does")
    write_file(target, pack_messages(trace) if target.name.endswith(".gz") else message_lines(trace))
    typer.echo(target if quiet else f"{counted(len(trace.messages), 'message')} written to {target}")


app = single_command(trace_command)
