"""``harness env``: list and remove the environments that were built for locks."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.console import Console

from harness.environments import store
from harness.environments.store import Environment
from harness.wording import counted

from .command import Commands
from .options import ListJsonOption, QuietOption
from .terminal import print_document

MB = 1_000_000
app = Commands(
    help="List and remove the environments in which locks run. Each is built on its first use.", no_args_is_help=True
)


@app.command("list")
def list_environments(
    json: ListJsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """List all environments, the one used last first."""
    rows = [_row(one) for one in store.environments()]
    if json:
        print_document(rows)
        return
    if quiet:
        for row in rows:
            typer.echo(row["key"])
        return
    console = Console(highlight=False)
    for row in rows:
        line = f"{row['key']}  {row['used']}  {row['bytes'] / MB:.0f} MB  {row['python']}"
        console.print(f"{line}\n    {', '.join(row['requirements'])}", markup=False, soft_wrap=True)
    total = sum(row["bytes"] for row in rows) / MB
    line = f"{counted(len(rows), 'environment')} in {store.folder()}, {total:.0f} MB"
    console.print(line, markup=False, soft_wrap=True)


@app.command("clean")
def clean(
    keys: Annotated[list[str] | None, typer.Argument(help="Keys, or their beginnings; all without any.")] = None,
    quiet: QuietOption = False,
) -> None:
    """Remove environments; they are built again when they are needed."""
    removed = store.remove(keys or ())
    typer.echo(len(removed) if quiet else f"removed {counted(len(removed), 'environment')} from {store.folder()}")


def _row(one: Environment) -> dict[str, Any]:
    used = datetime.fromtimestamp(one.used, UTC)
    return {
        "key": one.key,
        "used": f"{used:%Y-%m-%dT%H:%M:%SZ}",
        "bytes": one.size,
        "python": one.contents.python,
        "requirements": list(one.contents.requirements),
        "interpreter": str(one.interpreter),
    }
