"""``harness env``: list and remove the environments that were built for locks."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.console import Console

from harness.environments import store
from harness.environments.store import Environment
from harness.wording import counted

from .terminal import print_document

MB = 1_000_000
app = typer.Typer(help="List and remove the environments in which locks run. Each is built on its first use.",
                  no_args_is_help=True, rich_markup_mode=None)  # fmt: skip


@app.command("list")
def list_environments(
    json: Annotated[bool, typer.Option("--json", help="Print a list of objects and nothing else.")] = False,
) -> None:
    """List all environments, the one used last first."""
    rows = [_row(one) for one in store.environments()]
    if json:
        print_document(rows)
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
) -> None:
    """Remove environments; they are built again when they are needed."""
    removed = store.remove(keys or ())
    typer.echo(f"removed {counted(len(removed), 'environment')} from {store.folder()}")


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
