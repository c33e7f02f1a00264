"""``harness conformance``: does a lock program, in whatever language, do what the client protocol asks of it?"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.status import Status
from rich.text import Text

from lock_impls import catalogue

from .clusters.kinds import ACCOUNT, SERVICE, kinds
from .conformance.bench import Bench, Settings
from .conformance.suite import CHECKS, Result, chosen, run
from .errors import UNKNOWN, VALID, VIOLATION, UsageError, unknown_name
from .lanes import terminable
from .options import counted, lock_options, positive, printed
from .terminal import print_document, print_status

DEFAULTS: Final = Settings()
WORDS: Final = {
    "holds": ("ok", "green"),
    "failed": ("FAILED", "bold red"),
    "skipped": ("skipped", "yellow"),
    "unknown": ("unknown", "yellow"),
}
SCHEMA: Final = 1
Say = Callable[[str], None]


def conformance_command(
    program: Annotated[
        list[str],
        typer.Argument(metavar="LOCK | -- COMMAND...", help="A lock of the catalogue; with --servers a command."),
    ],
    kind: Annotated[str, typer.Option(help="What the servers are; see 'harness list kinds'.")] = "",
    servers: Annotated[str, typer.Option(metavar="HOST:PORT,...", help="Servers that run already.")] = "",
    only: Annotated[
        list[str] | None, typer.Option(metavar="CHECK", help=f"Repeatable: {', '.join(c.name for c in CHECKS)}.")
    ] = None,
    ttl: Annotated[str, typer.Option(metavar="DURATION", help="Of leases.")] = f"{DEFAULTS.ttl:g}s",
    timeout: Annotated[
        str, typer.Option(metavar="DURATION", help="How long an acquire waits.")
    ] = f"{DEFAULTS.timeout:g}s",
    patience: Annotated[
        str, typer.Option(metavar="DURATION", help="How much longer it may take if no server answers.")
    ] = f"{DEFAULTS.patience:g}s",
    no_expiry: Annotated[
        bool, typer.Option("--no-expiry", help="Nothing is said to free the lock of a holder that died.")
    ] = False,
    lock: Annotated[str, typer.Option(help="With --servers: what open calls the lock; else the command's name.")] = "",
    lock_option: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="For the options of open; repeatable.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the result document and nothing else.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print the verdict only.")] = False,
) -> None:
    """Try whether a lock program, in whatever language, does what docs/client-protocol.md asks of it.

    A LOCK of the catalogue is tried in containers. Any COMMAND is tried without an engine, on servers that run already:
    harness conformance --kind redis-single --servers 127.0.0.1:6379 -- ./my-lock --its-options

    Exit status 0 if all checks hold but for those that are skipped, 1 if one failed, 3 if one could not be judged, all
    are skipped, or there is no server to try it on.
    """
    checks, options = chosen(only or ()), lock_options(lock_option)
    if lock and not servers:
        raise UsageError("lock: goes with --servers; in containers a lock is named by itself")
    settings = Settings(
        ttl=positive("ttl", ttl),
        timeout=positive("timeout", timeout),
        patience=positive("patience", patience),
        expires=not no_expiry,
    )
    title = shlex.join(program)
    results: list[Result] = []
    console = Console(highlight=False, emoji=False, quiet=json or quiet)
    with terminable(), _status(console) as say:
        trial = (
            _local(program, kind, servers, {"lock": lock or Path(program[0]).name, "options": options}, settings)
            if servers
            else _real(program, kind, options, settings, say)
        )
        with (
            trial as (bench, settings),
            contextlib.closing(
                run(bench, settings, checks, lambda check: say(f"{check.name}: {check.proves}"))
            ) as played,
        ):
            for result in played:
                results.append(result)
                _print(console, result)
    raise typer.Exit(_ended(title, results, settings, console, json=json, quiet=quiet))


@contextlib.contextmanager
def _status(console: Console) -> Iterator[Say]:
    """Shows what is being done at the bottom of a terminal; nothing where there is none."""
    if console.quiet or not console.is_terminal:
        yield lambda line: None  # noqa: ARG005
        return
    with Status("", console=console) as status:
        yield lambda line: status.update(Text(line, no_wrap=True, overflow="ellipsis"))


# What it is tried on.


@contextlib.contextmanager
def _local(
    command: Sequence[str], kind: str, servers: str, opened: Mapping[str, Any], settings: Settings
) -> Iterator[tuple[Bench, Settings]]:
    from .conformance.local import LocalBench

    if not kind:
        raise UsageError("kind: say with --kind what the servers are, such as redis-single; 'harness list kinds'")
    if kind not in kinds():
        raise unknown_name("kind", kind, kinds())
    addresses = [_address(text) for text in servers.split(",")]
    bench = LocalBench(command, addresses, {**opened, "kind": kind, "service": SERVICE, "account": ACCOUNT})
    try:
        yield bench, settings
    finally:
        bench.close()


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.strip().rpartition(":")
    if not (colon and host and port.isdecimal() and 0 < int(port) < 1 << 16):
        raise UsageError(f"servers: expected HOST:PORT, got {text!r}")
    return host.strip("[]"), int(port)


@contextlib.contextmanager
def _real(
    program: Sequence[str], kind: str, options: Mapping[str, Any], settings: Settings, say: Say
) -> Iterator[tuple[Bench, Settings]]:
    if _is_command(program):
        raise UsageError(
            f"servers: {shlex.join(program)} is a command, which needs --servers (and --kind); without them, expected "
            "the name of one lock"
        )
    from .conformance.containers import in_containers, lasting, program_of

    adapter = program_of(program[0])
    with in_containers(program[0], adapter, kind, options, say) as bench:
        yield bench, lasting(settings, adapter.info)


def _is_command(program: Sequence[str]) -> bool:
    name = program[0]
    return len(program) > 1 or os.sep in name or (name not in catalogue.names() and shutil.which(name) is not None)


# What came of it.


def _print(console: Console, result: Result) -> None:
    word, colour = WORDS[result.verdict]
    line = Text.assemble((f"{word:8}", colour), f"{result.name:19}", f"{result.proves} ", (_more(result), "dim"))
    told = [f"    {text}" for text in result.seen]
    if result.expected:
        told.append(f"    expected {result.expected}")

    def write() -> None:
        console.print(line, soft_wrap=True)
        if told:
            console.print("\n".join(told), markup=False, soft_wrap=True)

    printed(write)


def _more(result: Result) -> str:
    return f"({result.why or f'{result.seconds:.1f} s'})"


def _ended(
    title: str, results: Sequence[Result], settings: Settings, console: Console, *, json: bool, quiet: bool
) -> int:
    """Says what came of all, and with which status to end."""
    counts = Counter[str](result.verdict for result in results)
    status = VIOLATION if counts["failed"] else UNKNOWN if counts["unknown"] or not counts["holds"] else VALID
    if json:
        valid = {VALID: True, VIOLATION: False, UNKNOWN: None}[status]
        print_document({"schema": SCHEMA, "valid": valid, "program": title, "settings": asdict(settings),
                        "checks": [asdict(result) for result in results]})  # fmt: skip
    elif quiet:
        printed(lambda: print_status(status))
    else:
        told = [f"{counts[verdict]} {word}" for verdict, (word, _) in WORDS.items() if counts[verdict]]
        ended_early = len(results) == 1 and bool(counts["failed"]) and results[0].name == CHECKS[0].name
        rest = "; the others were not tried" if ended_early else ""
        seconds = sum(result.seconds for result in results)
        text = f"{title}: {counted(len(results), 'check')}, {', '.join(told)}, in {seconds:.1f} s{rest}"
        printed(lambda: console.print(text, markup=False, soft_wrap=True))
    return status
