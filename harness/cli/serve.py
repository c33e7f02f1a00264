"""``harness serve``: show the store in a browser."""

from __future__ import annotations

import errno
import logging
import socket
import webbrowser
from pathlib import Path
from typing import Annotated, Final

import typer

from harness.errors import VALID, EnvironmentLacking, UsageError

from .options import QuietOption, single_command

LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")


def serve_command(
    store: Annotated[Path, typer.Option("--store", "--out", help="Folder with the stored results.")] = Path("store"),
    host: Annotated[str, typer.Option(help="The address to listen on.")] = LOOPBACK[0],
    port: Annotated[int, typer.Option(help="The port; 0: any free one.")] = 8080,
    open_browser: Annotated[bool, typer.Option("--open", help="Also open a browser.")] = False,
    quiet: QuietOption = False,
) -> None:
    """Show all runs, hunts, comparisons, sweeps and trends of a store in a browser; nothing can be changed there."""
    if not 0 <= port <= 65535:
        raise UsageError(f"port must be from 0 to 65535, got {port}")
    there = _exists(store)
    import uvicorn  # noqa: F401 - before the address is printed: it is in an extra

    listener = _listen(host, port)
    name = f"[{host}]" if ":" in host else host
    address = f"http://{name}:{listener.getsockname()[1]}/"
    missing = "" if there else "; there is no such folder yet"
    typer.echo(address if quiet else f"{store} is shown at {address} (Ctrl-C ends it){missing}")
    if host not in LOOPBACK and not quiet:
        typer.echo(f"harness: anybody who reaches {host} can read this store: there is no password", err=True)
    if open_browser:
        webbrowser.open(address)
    _serve(store, host, listener)
    raise typer.Exit(VALID)


def _exists(store: Path) -> bool:
    """Tell whether the store exists; raises UsageError if it is a file, or cannot be read."""
    try:
        next(store.iterdir(), None)
    except FileNotFoundError:
        return False
    except NotADirectoryError as error:
        raise UsageError(f"{store}: expected the folder of a store, got a file") from error
    except OSError as error:
        raise UsageError(f"cannot read the store {store}: {error.strerror}") from error
    return True


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen()
    except (OSError, UnicodeError) as error:
        problem = f"cannot listen on {host}, port {port}: {getattr(error, 'strerror', None) or error}"
        if getattr(error, "errno", None) in (errno.EADDRINUSE, errno.EACCES):
            raise EnvironmentLacking(f"{problem}; --port 0 takes a free one") from error
        raise UsageError(problem) from error
    return listener


def _serve(store: Path, host: str, listener: socket.socket) -> None:
    """Serve until Ctrl-C or SIGTERM, which also end transfers in progress."""
    import uvicorn

    from harness.serve.app import application

    class Server(uvicorn.Server):
        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # transfers are interrupted on purpose
            await super().shutdown(sockets)

    config = uvicorn.Config(
        application(store, [host]), log_level="error", access_log=False, server_header=False, ws="none",
        lifespan="off", timeout_graceful_shutdown=0,
    )  # fmt: skip
    try:
        Server(config).run(sockets=[listener])
    except KeyboardInterrupt:
        return


app = single_command(serve_command)
