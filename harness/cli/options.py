"""Helpers of all commands: shared options, parsing of option values, printing, and the progress bar."""

from __future__ import annotations

import contextlib
import io
import sys
import tomllib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer

from harness.errors import UsageError
from harness.plan import LONGEST_S, SERVERS, SSH, Plan, refuse_untrusted, seconds

from . import completion
from .command import Commands
from .stdout import stdout_errors
from .verbosity import verbose

if TYPE_CHECKING:
    from rich.console import Console

    from harness.run.progress import Progress

MOST_WORKERS: Final = 1_000
WORKER_BYTES: Final = 60_000_000
"""Memory of a worker process, roughly."""
REFRESHES: Final = 8
"""Refreshes of the progress display per second."""


LockArgument = Annotated[
    str,
    typer.Argument(
        help="A name from 'harness list locks', or package.module:Class.", autocompletion=completion.complete_locks
    ),
]
WorkloadOption = Annotated[
    str,
    typer.Option(help="What clients do; see 'harness list workloads'.", autocompletion=completion.complete_workloads),
]
SeedOption = Annotated[int, typer.Option(help="Seed of everything random.")]
OutOption = Annotated[Path, typer.Option(help="Folder in which results are stored.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result document and nothing else.")]
ListJsonOption = Annotated[bool, typer.Option("--json", help="Print a list of objects and nothing else.")]
QuietOption = Annotated[
    bool,
    typer.Option("--quiet", "-q", help="Print the result only (a word, a number, a name or a path), and no progress."),
]
STORE: Final = Path("store")
"""The folder in which results are stored unless another is given."""
WorkersOption = Annotated[
    int, typer.Option("--workers", help="Processes that execute runs; 0: one for each processor.")
]
ClusterWorkersOption = Annotated[
    int,
    typer.Option(
        "--workers", help="Processes that execute runs; 0: one for each processor, up to two more on containers."
    ),
]
SchedulerOption = Annotated[
    str, typer.Option("--scheduler", metavar="tcp://...", help="Execute simulated runs on this Dask cluster.")
]
KindOption = Annotated[
    str,
    typer.Option(
        "--kind",
        help="A name from 'harness list kinds', or package.module:Object; default: the lock's.",
        autocompletion=completion.complete_kinds,
    ),
]
WithOption = Annotated[
    list[str] | None,
    typer.Option("--with", metavar="REQUIREMENT", help="A library release, such as redis==5.2.1; repeatable."),
]
PythonOption = Annotated[str, typer.Option("--python", help="Python of the lock: a version, or on sim a path.")]
TrustOption = Annotated[bool, typer.Option("--trust", help="Run the code that the file names, such as its lock.")]
AllowOption = Annotated[
    list[str] | None,
    typer.Option(metavar="MODULE:CLASS", help="Run this class, image or command if the file names it; repeatable."),
]
AllowHooksOption = Annotated[
    bool,
    typer.Option(
        "--allow-hooks", help="Run hook commands, the file's and with --servers your project's, for the file's faults."
    ),
]


RequireOption = Annotated[
    str,
    typer.Option(
        metavar="NAMES",
        help="Properties that decide the verdict, with commas; see 'harness list checkers'. "
        "Default: all; with --fencing on, the resource instead of two holders.",
        autocompletion=completion.complete_checkers,
    ),
]
AcceptOption = Annotated[
    str,
    typer.Option(
        metavar="WORDS",
        help="known-limits: failures that the lock documents do not count.",
        autocompletion=completion.complete_words("known-limits"),
    ),
]
LeaseOption = Annotated[
    str,
    typer.Option(
        metavar="ttl|DURATION|OPTION[:ms]",
        help="The lease of grants that do not say it; default: what the lock states.",
    ),
]


ServersOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="ADDRESSES",
        help="Servers that you run, such as redis://127.0.0.1:6379; several with commas, or repeated.",
    ),
]
YesOption = Annotated[bool, typer.Option("--yes", help="With --servers: also servers on other machines.")]


def named_servers(texts: Sequence[str] | None, cluster: str) -> tuple[list[str], str]:
    """Return the addresses given with ``--servers``, and the cluster: they are a cluster of their own."""
    from harness.clusters.servers.addresses import separate

    addresses = [address for text in texts or () for address in separate(names_in(text))]
    if texts is not None and not addresses:
        raise UsageError("--servers: expected an address such as redis://127.0.0.1:6379")
    if not addresses:
        return [], cluster
    if cluster not in ("", "sim"):
        raise UsageError(f"--servers names the cluster: leave out --cluster {cluster}")
    return addresses, SERVERS


def named_hosts(cluster: str, hosts: str, **others: str) -> dict[str, Any]:
    """Return the fields of a plan for machines: ``hosts``, and ``others`` by name as in the plan. Raises UsageError."""
    if (cluster == SSH) != bool(names_in(hosts)):
        raise UsageError("--cluster ssh and --hosts NAMES go together")
    given = {name: text for name, text in others.items() if text}
    if given and cluster != SSH:
        raise UsageError(f"--{next(iter(given)).replace('_', '-')} goes with --cluster ssh")
    if "client_hosts" in given:
        given |= {"client_hosts": names_in(others["client_hosts"])}  # type: ignore[dict-item]
    return {"cluster": SSH, "hosts": names_in(hosts), **given} if cluster == SSH else {}


def names_in(text: str) -> list[str]:
    """Return the names in a text with commas."""
    return [name.strip() for name in text.split(",") if name.strip()]


def refuse_strange_code(
    plan: Plan, path: Path, *, trust: bool, allow: Sequence[str] | None, hooks: bool = False
) -> None:
    """Raise UsageError if the plan in the file ``path`` names code that the user did not allow. With ``hooks`` the
    commands of its hooks are allowed."""
    if not trust:
        refuse_untrusted(plan, str(path), allow or (), hooks=hooks)


def with_requirements(plan: Plan, requires: Sequence[str] | None, python: str) -> Plan:
    """Return the plan with the requirements of ``--with`` and ``--python``, where they are given."""
    return msgspec.structs.replace(
        plan, requires=tuple(requires) if requires else plan.requires, python=python or plan.python
    )


def worker_count(given: int) -> int | None:
    """Return what the API calls ``workers``, from the number given with ``--workers``."""
    if given < 0:
        raise UsageError(f"workers must not be negative, got {given}")
    if given > MOST_WORKERS:
        memory = f"{given * WORKER_BYTES / 1e9:,.0f} GB of memory"
        raise UsageError(f"workers must be at most {MOST_WORKERS:,}, got {given:,}, which would need about {memory}")
    return given or None


def single_command(function: Callable[..., None]) -> typer.Typer:
    """Return the application of a command that has no commands of its own."""
    app = Commands()
    app.command()(function)
    return app


def chosen_kind(lock: str, kind: str, topology: str, requires: Sequence[str] | None = None, python: str = "") -> str:
    """Return the kind of cluster that the options ``--kind`` and ``--topology`` choose, or "" without them. The
    lock is loaded with the libraries and the Python that it requires. Raises UsageError."""
    if kind and topology:
        raise UsageError("--kind says more than --topology: give one of them")
    if not topology:
        return kind
    from harness.run.plans.lock_facts import find_facts
    from harness.run.processes.interpreter import interpreter_of  # late: starts a worker

    plan = Plan(lock=lock, requires=tuple(requires or ()), python=python)
    kinds = find_facts(lock, interpreter_of(plan.check(), environment_progress)).kinds
    found = next((kind for kind in kinds if kind.endswith(f"-{topology}")), None)
    if found is None:
        raise UsageError(f"{lock} runs on {' or '.join(kinds)}, not on {topology!r} ones")
    return found


def environment_progress(line: str) -> None:
    """Print a line about an environment that is being built."""
    print(line, file=sys.stderr)


def lock_options(texts: Sequence[str] | None) -> dict[str, Any]:
    """Parse the ``name=value`` texts of ``--lock-option``; raises UsageError."""
    return named_options("lock-option", texts)


def named_options(option: str, texts: Sequence[str] | None) -> dict[str, Any]:
    """Parse the ``name=value`` texts given with ``--option``; raises UsageError."""
    return dict(_option(option, text) for text in texts or ())


def _option(option: str, text: str) -> tuple[str, Any]:
    """Return name and value of ``NAME=VALUE``; the value is TOML or, if it is not valid TOML, a text."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError(f"{option}: expected NAME=VALUE, got {text!r}")
    try:
        return name, tomllib.loads(f"value = {value}")["value"]
    except ValueError:  # not TOML, or an integer with more digits than Python converts
        return name, value
    except RecursionError as error:
        raise UsageError(f"{option}: the value of {name} is nested too deeply") from error


def duration(option: str, text: str) -> float:
    """Return the seconds of a duration such as ``"150ms"``, given with ``--option``; raises UsageError."""
    try:
        found = seconds(text)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from error
    if abs(found) > LONGEST_S:
        raise UsageError(f"{option} must be at most {LONGEST_S:g} seconds, got {found:g}")
    return found


def positive(option: str, text: str) -> float:
    """Return the seconds of a duration that must be more than 0, as :func:`duration`."""
    found = duration(option, text)
    if found <= 0:
        raise UsageError(f"{option} must be more than 0 seconds, got {found:g}")
    return found


def printed(write: Callable[[], None]) -> None:
    """Call ``write`` and flush stdout. Raises HarnessError if stdout is closed (``| head``) or on a full disk: nobody
    could tell a cut document from a whole one."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # for characters that the terminal's encoding lacks
    with stdout_errors():
        write()


def progress_on_stderr(title: str, *, quiet: bool) -> contextlib.AbstractContextManager[Progress | None]:
    """Return :func:`progress_bar` on stderr; None in its place, and rich is not loaded, if nothing would be shown."""
    if quiet or not (sys.stderr.isatty() or verbose()):
        return contextlib.nullcontext()
    from rich.console import Console

    return progress_bar(Console(stderr=True, highlight=False), title)


@contextlib.contextmanager
def progress_bar(console: Console, title: str) -> Iterator[Progress]:
    """Show a progress display on ``console`` and yield the callback that updates it.

    If the console is not a terminal (even with forced colours) or cannot move its cursor, a long start is reported by
    lines on stderr, since it may build images. A verbose command also reports each phase by a line. A quiet console
    shows nothing else."""
    with _display(console, title) as tell:
        if not verbose():
            yield tell
            return
        from .phase_lines import PhaseLines

        lines = PhaseLines(title)

        def tell_both(fraction: float, text: str) -> None:
            tell(fraction, text)
            lines.tell(fraction, text)

        yield tell_both


@contextlib.contextmanager
def _display(console: Console, title: str) -> Iterator[Progress]:
    from rich.live import Live  # late: a command without a display needs no rich

    from .display import Display
    from .start_lines import StartLines

    display = Display(title)
    if console.quiet:
        yield display.tell
        return
    if console.is_dumb_terminal or not console.file.isatty():
        with StartLines(title) as lines:
            yield lines.tell
        return
    with Live(display, console=console, transient=True, refresh_per_second=REFRESHES):
        yield display.tell
