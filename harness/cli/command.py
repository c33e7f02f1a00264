"""Commands with the options that all commands have: ``-h``, ``-v``, and ``-q`` where a command prints a result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand, TyperOption

from . import verbosity

VERBOSE_HELP: Final = "Also print on stderr the value and the origin of each option, and every phase."


class HarnessCommand(TyperCommand):
    """A command with ``--verbose``. It reports the defaults that it takes from the project."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.params.append(_verbose_option())

    def invoke(self, ctx: Any) -> Any:
        verbosity.report_options(ctx)
        try:
            return super().invoke(ctx)
        finally:
            verbosity.set_verbose(False)


class Commands(typer.Typer):
    """Application of one command or of a group of commands, which are all a :class:`HarnessCommand`."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(
            add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None, **settings
        )  # fmt: skip

    def command(self, name: str | None = None, **settings: Any) -> Callable[..., Any]:
        return super().command(name, cls=HarnessCommand, **settings)


def _verbose_option() -> TyperOption:
    """Return the option; Typer makes it of a declaration, because its constructor is not the same in all releases."""
    app = typer.Typer(add_completion=False)

    @app.command()
    def declare(
        verbose: Annotated[
            bool,
            typer.Option(
                "--verbose", "-v", help=VERBOSE_HELP, callback=_set_verbose, is_eager=True, expose_value=False
            ),
        ] = False,
    ) -> None:
        del verbose

    option = typer.main.get_command(app).params[0]
    assert isinstance(option, TyperOption)
    return option


def _set_verbose(wanted: bool) -> None:
    verbosity.set_verbose(wanted)
