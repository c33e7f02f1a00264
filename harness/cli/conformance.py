"""``harness conformance``: check whether a lock program in any language follows the client protocol."""

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

from harness.clusters.kinds import ACCOUNT, KINDS, kinds
from harness.clusters.kinds.redis import SERVICE
from harness.conformance.check_context import Check
from harness.conformance.suite import CHECKS, CheckResult, chosen, run
from harness.conformance.testbed import ConformanceSettings, Testbed
from harness.errors import UNKNOWN, VALID, VIOLATION, UsageError, unknown_name
from harness.lock_impls import catalogue
from harness.run.processes.signals import sigterm_interrupts
from harness.wording import counted

from .completion import complete_locks
from .options import JsonOption, QuietOption, lock_options, positive, printed, single_command
from .terminal import print_document
from .verdicts import print_status

DEFAULTS: Final = ConformanceSettings()
WORDS: Final = {
    "holds": ("ok", "green"),
    "failed": ("FAILED", "bold red"),
    "skipped": ("skipped", "yellow"),
    "unknown": ("unknown", "yellow"),
}
SCHEMA: Final = 1
ReportStatus = Callable[[str], None]


def conformance_command(
    program: Annotated[
        list[str],
        typer.Argument(
            metavar="LOCK | -- COMMAND...",
            help="A lock of the catalogue; with --servers a command.",
            autocompletion=complete_locks,
        ),
    ],
    kind: Annotated[str, typer.Option(help="Kind of the servers; see 'harness list kinds'.")] = "",
    servers: Annotated[str, typer.Option(metavar="HOST:PORT,...", help="Addresses of running servers.")] = "",
    only: Annotated[
        list[str] | None, typer.Option(metavar="CHECK", help=f"Repeatable: {', '.join(c.name for c in CHECKS)}.")
    ] = None,
    ttl: Annotated[str, typer.Option(metavar="DURATION", help="Lease time.")] = f"{DEFAULTS.ttl:g}s",
    timeout: Annotated[
        str, typer.Option(metavar="DURATION", help="How long an acquire waits.")
    ] = f"{DEFAULTS.timeout:g}s",
    patience: Annotated[
        str, typer.Option(metavar="DURATION", help="How much longer an acquire may take if no server answers.")
    ] = f"{DEFAULTS.patience:g}s",
    no_expiry: Annotated[
        bool, typer.Option("--no-expiry", help="The lock does not promise to free locks of dead holders.")
    ] = False,
    lock: Annotated[
        str, typer.Option(help="With --servers: the lock's name in open. Default: the command's name.")
    ] = "",
    lock_option: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="For the options of open; repeatable.")
    ] = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Check whether a lock program in any language follows docs/client-protocol.md.

    A LOCK of the catalogue is tested in containers. A COMMAND is tested on running servers, without an engine.
    For example: harness conformance --kind redis-single --servers 127.0.0.1:6379 -- ./my-lock.

    Exit status 0 if no check failed and some check holds, 1 if one failed, 3 if one could not be judged, all are
    skipped, or no server answers.
    """
    checks, options = chosen(only or ()), lock_options(lock_option)
    if lock and not servers:
        raise UsageError("lock: requires --servers; in containers the lock's own name is used")
    settings = ConformanceSettings(
        ttl=positive("ttl", ttl),
        timeout=positive("timeout", timeout),
        patience=positive("patience", patience),
        expires=not no_expiry,
    )
    console = Console(highlight=False, emoji=False, quiet=json or quiet)
    with sigterm_interrupts(), _status(console) as report:
        trial = (
            _local(program, kind, servers, {"lock": lock or Path(program[0]).name, "options": options}, settings)
            if servers
            else _in_containers(program, kind, options, settings, report)
        )
        with trial as (testbed, settings):
            results = _run_checks(testbed, settings, checks, console, report)
    raise typer.Exit(_print_summary(shlex.join(program), results, settings, console, json=json, quiet=quiet))


def _run_checks(
    testbed: Testbed, settings: ConformanceSettings, checks: Sequence[Check], console: Console, report: ReportStatus
) -> list[CheckResult]:
    """Run the checks, print each result as soon as it is known, and return all results."""
    results: list[CheckResult] = []
    check_results = run(testbed, settings, checks, lambda check: report(f"{check.name}: {check.proves}"))
    with contextlib.closing(check_results):
        for result in check_results:
            results.append(result)
            _print(console, result)
    return results


@contextlib.contextmanager
def _status(console: Console) -> Iterator[ReportStatus]:
    """Show the current check at the bottom of a terminal; show nothing if the output is not a terminal."""
    if console.quiet or not console.is_terminal:
        yield lambda line: None  # noqa: ARG005
        return
    with Status("", console=console) as status:
        yield lambda line: status.update(Text(line, no_wrap=True, overflow="ellipsis"))


# Servers and program under test.


@contextlib.contextmanager
def _local(
    command: Sequence[str], kind: str, servers: str, open_fields: Mapping[str, Any], settings: ConformanceSettings
) -> Iterator[tuple[Testbed, ConformanceSettings]]:
    from harness.conformance.local import LocalTestbed

    if not kind:
        raise UsageError("kind: --servers requires --kind, such as redis-single; 'harness list kinds' lists them")
    if not KINDS.has(kind):
        raise unknown_name("kind", kind, kinds())
    KINDS.find(kind)
    addresses = [_address(text) for text in servers.split(",")]
    testbed = LocalTestbed(command, addresses, {**open_fields, "kind": kind, "service": SERVICE, "account": ACCOUNT})
    try:
        yield testbed, settings
    finally:
        testbed.close()


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.strip().rpartition(":")
    if not (colon and host and port.isdecimal() and 0 < int(port) < 1 << 16):
        raise UsageError(f"servers: expected HOST:PORT, got {text!r}")
    return host.strip("[]"), int(port)


@contextlib.contextmanager
def _in_containers(
    program: Sequence[str], kind: str, options: Mapping[str, Any], settings: ConformanceSettings, report: ReportStatus
) -> Iterator[tuple[Testbed, ConformanceSettings]]:
    if _is_command(program):
        raise UsageError(
            f"servers: {shlex.join(program)} is a command, which requires --servers and --kind; without them, expected "
            "the name of one lock"
        )
    from harness.conformance.containers import in_containers, program_of, with_lock_times

    adapter = program_of(program[0])
    with in_containers(program[0], adapter, kind, options, report) as testbed:
        yield testbed, with_lock_times(settings, adapter.info)


def _is_command(program: Sequence[str]) -> bool:
    name = program[0]
    return len(program) > 1 or os.sep in name or (name not in catalogue.names() and shutil.which(name) is not None)


# Output of the results.


def _print(console: Console, result: CheckResult) -> None:
    word, colour = WORDS[result.verdict]
    line = Text.assemble((f"{word:8}", colour), f"{result.name:19}", f"{result.proves} ", (_remark(result), "dim"))
    lines = [f"    {text}" for text in result.seen]
    if result.expected:
        lines.append(f"    expected {result.expected}")

    def write() -> None:
        console.print(line, soft_wrap=True)
        if lines:
            console.print("\n".join(lines), markup=False, soft_wrap=True)

    printed(write)


def _remark(result: CheckResult) -> str:
    return f"({result.why or f'{result.seconds:.1f} s'})"


def _print_summary(
    title: str,
    results: Sequence[CheckResult],
    settings: ConformanceSettings,
    console: Console,
    *,
    json: bool,
    quiet: bool,
) -> int:
    """Print all results and return the exit status."""
    counts = Counter[str](result.verdict for result in results)
    status = VIOLATION if counts["failed"] else UNKNOWN if counts["unknown"] or not counts["holds"] else VALID
    if json:
        valid = {VALID: True, VIOLATION: False, UNKNOWN: None}[status]
        print_document({"schema": SCHEMA, "valid": valid, "program": title, "settings": asdict(settings),
                        "checks": [asdict(result) for result in results]})  # fmt: skip
    elif quiet:
        printed(lambda: print_status(status))
    else:
        lines = [f"{counts[verdict]} {word}" for verdict, (word, _) in WORDS.items() if counts[verdict]]
        ended_early = len(results) == 1 and bool(counts["failed"]) and results[0].name == CHECKS[0].name
        rest = "; the other checks were not run" if ended_early else ""
        seconds = sum(result.seconds for result in results)
        text = f"{title}: {counted(len(results), 'check')}, {', '.join(lines)}, in {seconds:.1f} s{rest}"
        printed(lambda: console.print(text, markup=False, soft_wrap=True))
    return status


app = single_command(conformance_command)
