"""``harness replay``: a stored run or a plan again; what the simulator found, on containers."""

from __future__ import annotations

import shlex
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import typer
from rich.console import Console

from . import plan as plans
from . import store as stores
from .cli_runs import AUTO, placed, play_one
from .completion import no_engine
from .errors import UNKNOWN, VALID, VIOLATION, UsageError
from .history import History, HistoryError
from .options import printed
from .plan import Plan
from .replaying import Attempt, Prepared, differs_at, expected_of, firmer, judged, prepared, simulate
from .runs import Result
from .terminal import print_document, print_result

COUNTEREXAMPLE: Final = "counterexample.toml"
WORDS: Final = {True: "REPRODUCED", False: "PARTED", None: "UNKNOWN"}
STATUSES: Final = {True: VIOLATION, False: VALID, None: UNKNOWN}


@dataclass(frozen=True, slots=True)
class _Given:
    """A plan, and what is stored of its run: its folder, if it has one."""

    plan: Plan
    folder: Path | None

    @property
    def found_on_sim(self) -> bool:
        """Is it a failure that the simulator showed?"""
        if self.plan.cluster != "sim" or (self.plan.runs_on and "sim" not in self.plan.runs_on):
            return False
        if self.plan.expect is not None:
            return not self.plan.expect.safe
        return self.folder is not None and _violated(self.folder / stores.RESULTS)


@dataclass(frozen=True, slots=True)
class _How:
    """How a command is to be carried out: the store, the command itself, and what is printed."""

    out: Path
    command: str
    json: bool
    quiet: bool

    def play(self, plan: Plan, reason: str) -> Result:
        return play_one(plan, self.out, self.command, reason, json=False, quiet=self.quiet or self.json, silent=True)

    def console(self) -> Console:
        return Console(stderr=True, quiet=self.json or self.quiet, highlight=False)


def replay_command(
    given: Annotated[
        Path, typer.Argument(help="The folder of a run, a plan.toml or a counterexample.toml.", metavar="FILE|RUN")
    ],
    cluster: Annotated[str, typer.Option(help="Run it on another cluster: auto, sim or docker.")] = "",
    tries: Annotated[int, typer.Option(help="On docker: at most so many, until a failure is reproduced.")] = 3,
    out: Annotated[Path, typer.Option(help="The store.")] = Path("store"),
    json: Annotated[bool, typer.Option("--json", help="Print the result document and nothing else.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print the verdict only.")] = False,
) -> None:
    """Repeat a stored run, or run a plan: on the simulator the history is the same, byte for byte. A failure that was
    found there is repeated on docker by triggers instead of times: exit status 1 if it was reproduced, 0 if it was not,
    3 if nobody can tell."""
    if tries < 1:
        raise UsageError(f"tries must be at least 1, got {tries}")
    how = _How(out, shlex.join(["harness", *sys.argv[1:]]), json, quiet)
    found = _find(given)
    if found.found_on_sim and (ready := _for_docker(found.plan, cluster)):
        raise typer.Exit(_try(ready, tries, how))
    plan, reason = placed(found.plan, cluster or found.plan.cluster)
    result = how.play(plan, reason)
    _say(result, _compared(found, result), how)
    raise typer.Exit(result.exit_status)


def _find(given: Path) -> _Given:
    """What is stored at this place."""
    path = given
    if given.is_dir():
        path = given / stores.PLAN if (given / stores.PLAN).exists() else given / COUNTEREXAMPLE
        path = path if path.exists() else given / stores.PLAN
    ours = path.name in (stores.PLAN, COUNTEREXAMPLE) and (path.parent / stores.HISTORY).exists()
    return _Given(plans.load(path), path.parent if ours else None)


def _violated(results: Path) -> bool:
    try:
        return bool(msgspec.json.decode(results.read_bytes())["valid"] is False)
    except (OSError, msgspec.DecodeError, KeyError, TypeError):
        return False


# On the simulator.


def _compared(found: _Given, result: Result) -> dict[str, Any] | None:
    """Whether a history is the stored one, where it should be: on the simulator, of a run that was there, too."""
    if found.folder is None or found.plan.cluster != "sim" or result.plan.cluster != "sim":
        return None
    assert result.folder is not None
    path = found.folder / stores.HISTORY
    if path.read_bytes() == (result.folder / stores.HISTORY).read_bytes():
        return {"same": True, "said": "the same history, byte for byte"}
    try:
        stored, _ = History.salvage(path)
    except HistoryError as error:
        return {"same": False, "said": f"the stored history cannot be compared: {error}"}
    entry = differs_at(stored, result.history)
    where = (
        "in how it is written only" if entry is None else f"at entry {entry}: {_both(stored, result.history, entry)}"
    )
    return {"same": False, "entry": entry, "said": f"parts from the stored history {where}"}


def _both(stored: History, now: History, entry: int) -> str:
    """An entry of two histories, as far as both have it."""
    lines = [msgspec.json.encode(one[entry]).decode() if entry < len(one) else "nothing" for one in (stored, now)]
    return f"it was {lines[0]}, and is {lines[1]}"


def _say(result: Result, compared: dict[str, Any] | None, how: _How) -> None:
    def write() -> None:
        if how.json:
            print_document(result.document if compared is None else {**result.document, "replayed": compared})
            return
        print_result(result, json=False, quiet=how.quiet)
        if compared is not None and not how.quiet:
            Console(highlight=False).print(f"replay: {compared['said']}", soft_wrap=True, markup=False)

    printed(write)


# On containers.


def _for_docker(plan: Plan, cluster: str) -> Prepared | None:
    """The plan by triggers, if it is to be run on containers and there is a failure to look for."""
    if cluster not in ("docker", AUTO) or (cluster == AUTO and no_engine()):
        return None
    try:
        simulated = simulate(plan)
        return prepared(simulated) if expected_of(simulated) else None
    except UsageError:
        if cluster == AUTO:  # then the simulator it is, and it is said why
            return None
        raise


def _try(ready: Prepared, tries: int, how: _How) -> int:
    """Try until it is reproduced; the exit status."""
    console = how.console()
    attempts: list[Attempt] = []
    told: list[str] = []
    for number in range(1, tries + 1):
        ready = firmer(ready) if len(attempts) == 1 else ready  # what the first try parted by may be a race
        for note in ready.notes[len(told) :]:
            console.print(f"by triggers: {note}", soft_wrap=True, markup=False)
        told = list(ready.notes)
        result = how.play(ready.plan, f"try {number} of {tries}")
        attempts.append(judged(ready, result.history, result.verdicts))
        if attempts[-1].reproduced or result.interrupted:
            break
        console.print(f"try {number}: {attempts[-1].where}", soft_wrap=True, markup=False)
    _conclude(ready, result, attempts, how)
    return STATUSES[_overall(attempts)]


def _overall(attempts: list[Attempt]) -> bool | None:
    """Reproduced, or not in any try that says anything, or unknown: no try does."""
    said = [attempt.reproduced for attempt in attempts]
    return True if True in said else False if False in said else None


def _conclude(ready: Prepared, result: Result, attempts: list[Attempt], how: _How) -> None:
    verdict, last = _overall(attempts), attempts[-1]
    names = ", ".join(ready.expected)
    told = {
        True: f"reproduced at try {len(attempts)}: {names} violated, as on the simulator",
        False: f"not reproduced in {_tries(attempts)}; it parted from the simulation: {last.where}",
        None: f"unknown after {_tries(attempts)}: no run proves anything; the last parted: {last.where}",
    }[verdict]
    replayed = {
        "reproduced": verdict,
        "said": told,
        "parted": None if last.parting is None else asdict(last.parting),
        "notes": list(ready.notes),
        "tries": len(attempts),
        "simulated": {"violated": list(ready.simulated.violated()), "expected": list(ready.expected)},
    }

    def write() -> None:
        if how.json:
            print_document({**result.document, "replayed": replayed})
        elif how.quiet:
            Console(highlight=False).print(WORDS[verdict])
        else:
            print_result(result, json=False, quiet=False)
            Console(highlight=False).print(f"replay: {told}", soft_wrap=True, markup=False)

    printed(write)


def _tries(attempts: list[Attempt]) -> str:
    return "1 try" if len(attempts) == 1 else f"{len(attempts)} tries"
