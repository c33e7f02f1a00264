"""``harness replay``: repeat a stored run or a plan, also a failure of the simulator on containers."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import typer
from rich.console import Console

from harness import plan as plans
from harness.documents import DocumentError, load_run
from harness.documents.hunt import COUNTEREXAMPLE
from harness.errors import UNKNOWN, VALID, VIOLATION, UsageError
from harness.history import History, HistoryError
from harness.plan import SERVERS, SSH, Hook, Plan
from harness.plan.hooks import hooks_of
from harness.plan.project import project_hooks
from harness.run import store as stores
from harness.run.plans.completion import no_engine
from harness.run.verdicts.judging import Result
from harness.search.replay import (
    Attempt,
    Prepared,
    differs_at,
    expected_of,
    judge,
    on_servers,
    prepare,
    simulate,
    without_races,
)

from .annotations import annotate, annotate_result, lock_place
from .options import (
    STORE,
    AllowHooksOption,
    AllowOption,
    JsonOption,
    OutOption,
    PythonOption,
    QuietOption,
    ServersOption,
    TrustOption,
    WithOption,
    YesOption,
    named_servers,
    printed,
    refuse_strange_code,
    single_command,
    with_requirements,
)
from .run_shared import AUTO, complete_for, refuse_unknown_cluster, run_and_print
from .stored_plans import plan_file
from .terminal import print_document, print_result

WORDS: Final = {True: "REPRODUCED", False: "PARTED", None: "UNKNOWN"}
STATUSES: Final = {True: VIOLATION, False: VALID, None: UNKNOWN}


@dataclass(frozen=True, slots=True)
class _ReplayInput:
    """A plan to repeat, its file, and the folder of its stored run, if there is one."""

    plan: Plan
    path: Path
    folder: Path | None

    @property
    def found_on_sim(self) -> bool:
        """True for a failure that the simulator showed."""
        if self.plan.cluster != "sim" or (self.plan.runs_on and "sim" not in self.plan.runs_on):
            return False
        if self.plan.expect is not None:
            return not self.plan.expect.safe
        return self.folder is not None and _violated(self.folder / stores.RESULTS)


@dataclass(frozen=True, slots=True)
class _ReplayOptions:
    """Settings of the command: the store, the command line itself, and what is printed."""

    out: Path
    command: str
    json: bool
    quiet: bool
    remote_servers: bool

    def execute(self, plan: Plan, reason: str) -> Result:
        return run_and_print(
            plan, self.out, self.command, reason, json=False, quiet=self.quiet or self.json, silent=True,
            remote_servers=self.remote_servers,
        )  # fmt: skip

    def console(self) -> Console:
        return Console(stderr=True, quiet=self.json or self.quiet, highlight=False)


def replay_command(
    given: Annotated[
        Path, typer.Argument(help="The folder of a run, a plan.toml or a counterexample.toml.", metavar="FILE|RUN")
    ],
    cluster: Annotated[str, typer.Option(help="Cluster to use instead: auto, sim or docker.")] = "",
    servers: ServersOption = None,
    yes: YesOption = False,
    with_: WithOption = None,
    python: PythonOption = "",
    tries: Annotated[int, typer.Option(help="On docker and servers: most tries until the failure is reproduced.")] = 3,
    trust: TrustOption = False,
    allow: AllowOption = None,
    allow_hooks: AllowHooksOption = False,
    out: OutOption = STORE,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Repeat a stored run, or run a plan. On the simulator the history is the same, byte for byte.

    On docker and on servers of your own, a failure that the simulator found is repeated with triggers instead of times.
    Exit status: 1 if it was reproduced, 0 if it was not, 3 if that is unknown.
    """
    if tries < 1:
        raise UsageError(f"tries must be at least 1, got {tries}")
    if cluster not in ("", SERVERS, SSH):  # a plan may be for one of these two
        refuse_unknown_cluster(cluster)
    own, cluster = named_servers(servers, cluster)
    how = _ReplayOptions(out, shlex.join(["harness", *sys.argv[1:]]), json, quiet, yes)
    found = _find(given)
    refuse_strange_code(found.plan, found.path, trust=trust, allow=allow, hooks=allow_hooks)
    hooks = project_hooks() if own and allow_hooks else {}
    if found.found_on_sim and (
        ready := _for_servers(found.plan, own, hooks) if own else _for_docker(found.plan, cluster)
    ):
        raise typer.Exit(_attempt_repeatedly(ready, tries, how))
    wanted = with_requirements(found.plan, with_, python)
    if own:
        hooks = {**hooks_of(hooks, wanted.faults), **wanted.hooks}
        wanted = msgspec.structs.replace(wanted, cluster=cluster, servers=tuple(own), nodes=0, hooks=hooks)
    try:
        plan, reason = complete_for(wanted, cluster or found.plan.cluster)
    except UsageError as error:
        raise UsageError(f"{found.path}: {error}") from error
    result = how.execute(plan, reason)
    _print_result(result, _compared(found, result), how)
    raise typer.Exit(result.exit_status)


def _find(given: Path) -> _ReplayInput:
    """Return the plan stored at this path, with the folder of its run."""
    path = plan_file(given)
    ours = path.name in (stores.PLAN, COUNTEREXAMPLE) and (path.parent / stores.HISTORY).exists()
    return _ReplayInput(plans.load(path), path, path.parent if ours else None)


def _violated(results: Path) -> bool:
    try:
        return load_run(results).valid is False
    except DocumentError:
        return False


# On the simulator.


def _compared(found: _ReplayInput, result: Result) -> dict[str, Any] | None:
    """Compare the history with the stored one. Return None unless both are of the simulator, since only then must they
    be equal."""
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
    where = "only in its formatting" if entry is None else f"at entry {entry}: {_both(stored, result.history, entry)}"
    return {"same": False, "entry": entry, "said": f"differs from the stored history {where}"}


def _both(stored: History, now: History, entry: int) -> str:
    """Return an entry of two histories, as far as both contain it."""
    lines = [msgspec.json.encode(one[entry]).decode() if entry < len(one) else "nothing" for one in (stored, now)]
    return f"stored: {lines[0]}; now: {lines[1]}"


def _print_result(result: Result, compared: dict[str, Any] | None, how: _ReplayOptions) -> None:
    annotate_result(result)

    def write() -> None:
        if how.json:
            print_document(result.document if compared is None else {**result.document, "replayed": compared})
            return
        print_result(result, json=False, quiet=how.quiet)
        if compared is not None and not how.quiet:
            Console(highlight=False).print(f"replay: {compared['said']}", soft_wrap=True, markup=False)

    printed(write)


# On real servers.


def _for_docker(plan: Plan, cluster: str) -> Prepared | None:
    """Return the plan with triggers, if it is to run on containers and there is a failure to reproduce."""
    if cluster not in ("docker", AUTO) or (cluster == AUTO and no_engine()):
        return None
    try:
        simulated = simulate(plan)
        return prepare(simulated) if expected_of(simulated) else None
    except UsageError:
        if cluster == AUTO:  # then the simulator is used, and the reason is printed
            return None
        raise


def _for_servers(plan: Plan, addresses: list[str], hooks: Mapping[str, Hook]) -> Prepared | None:
    """Return the plan with triggers for servers of the user's, if there is a failure to reproduce."""
    simulated = simulate(plan)
    return prepare(simulated, on_servers(addresses, hooks)) if expected_of(simulated) else None


def _attempt_repeatedly(ready: Prepared, tries: int, how: _ReplayOptions) -> int:
    """Try until the failure is reproduced; return the exit status."""
    console = how.console()
    attempts: list[Attempt] = []
    printed_notes: list[str] = []
    for number in range(1, tries + 1):
        # The first try may have diverged because of a race.
        ready = without_races(ready) if len(attempts) == 1 else ready
        for note in ready.notes[len(printed_notes) :]:
            console.print(f"by triggers: {note}", soft_wrap=True, markup=False)
        printed_notes = list(ready.notes)
        result = how.execute(ready.plan, f"try {number} of {tries}")
        attempts.append(judge(ready, result.history, result.verdicts))
        if attempts[-1].reproduced or result.interrupted:
            break
        console.print(f"try {number}: {attempts[-1].where}", soft_wrap=True, markup=False)
    _conclude(ready, result, attempts, how)
    return STATUSES[_reproduced(attempts)]


def _reproduced(attempts: list[Attempt]) -> bool | None:
    """Return True if a try reproduced the failure, False if a conclusive try did not, None if no try was conclusive."""
    reproductions = [attempt.reproduced for attempt in attempts]
    return True if True in reproductions else False if False in reproductions else None


def _conclude(ready: Prepared, result: Result, attempts: list[Attempt], how: _ReplayOptions) -> None:
    verdict, last = _reproduced(attempts), attempts[-1]
    names = ", ".join(ready.expected)
    sentence = {
        True: f"reproduced at try {len(attempts)}: {names} violated, as on the simulator",
        False: f"not reproduced in {_tries(attempts)}; it diverged from the simulation: {last.where}",
        None: f"unknown after {_tries(attempts)}: no run was conclusive; the last diverged: {last.where}",
    }[verdict]
    replayed = {
        "reproduced": verdict,
        "said": sentence,
        "parted": None if last.divergence is None else asdict(last.divergence),
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
            Console(highlight=False).print(f"replay: {sentence}", soft_wrap=True, markup=False)

    if verdict is True:
        annotate(False, result.plan.lock, sentence, _report(result), lock_place(result.plan.lock))
    printed(write)


def _report(result: Result) -> Path | None:
    return None if result.folder is None else result.folder / stores.REPORT


def _tries(attempts: list[Attempt]) -> str:
    return "1 try" if len(attempts) == 1 else f"{len(attempts)} tries"


app = single_command(replay_command)
