"""``harness docs``: the documentation in a browser."""

from __future__ import annotations

import webbrowser
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from harness.errors import VALID, EnvironmentLacking, UsageError

from .options import QuietOption, single_command

PACKAGE: Final = Path(__file__).parents[1]
PLACES: Final = (PACKAGE / "site", PACKAGE.parent / "site")
"""Folders of the built site: in an installed package, and in a checkout of the repository."""


class QuietHandler(SimpleHTTPRequestHandler):
    """Serves the files of the site to this machine, and prints nothing."""

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Print nothing."""

    def list_directory(self, path: Any) -> None:  # noqa: ARG002 - the base class calls it so
        """Refuse folders without a page."""
        self.send_error(404)


def docs_command(
    site: Annotated[Path | None, typer.Option(help="Folder of the built site; default: where it is found.")] = None,
    serve: Annotated[bool, typer.Option("--serve", help="Serve it on 127.0.0.1 until Ctrl-C.")] = False,
    port: Annotated[int, typer.Option(help="With --serve: the port; 0: any free one.")] = 8000,
    open_browser: Annotated[bool, typer.Option("--open", help="Also open a browser.")] = False,
    quiet: QuietOption = False,
) -> None:
    """Print the address of the documentation's first page, which a browser can open without a server."""
    del quiet  # the address is all that is printed
    if not 0 <= port <= 65535:
        raise UsageError(f"port must be from 0 to 65535, got {port}")
    folder = _built(site)
    if not serve:
        _show((folder / "index.html").resolve().as_uri(), open_browser)
        raise typer.Exit(VALID)
    try:
        server = ThreadingHTTPServer(("127.0.0.1", port), partial(QuietHandler, directory=str(folder)))
    except OSError as error:
        raise EnvironmentLacking(
            f"cannot listen on 127.0.0.1, port {port}: {error.strerror}; --port 0 takes a free one"
        ) from error
    with server:
        _show(f"http://127.0.0.1:{server.server_address[1]}/", open_browser)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            raise typer.Exit(VALID) from None


def _built(site: Path | None) -> Path:
    """Return the folder of the built site. Raises UsageError or EnvironmentLacking if there is none."""
    if site is not None:
        if not (site / "index.html").is_file():
            raise UsageError(f"{site}: expected the folder of a built site, with index.html")
        return site
    found = next((place for place in PLACES if (place / "index.html").is_file()), None)
    if found is None:
        raise EnvironmentLacking(
            "the site is not built; in the repository: pip install -e '.[docs]' && mkdocs build --strict. "
            "Its pages are also the Markdown files in docs/"
        )
    return found


def _show(address: str, open_browser: bool) -> None:
    typer.echo(address)
    if open_browser:
        webbrowser.open(address)


app = single_command(docs_command)
