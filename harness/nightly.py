"""The suite: every scenario on every cluster that can do it, each held against what is expected of it.

Simulated runs go to a pool of processes. On containers the scenarios are sorted by what they run on, so that a cluster
is started once for all of its kind, and shared out to lanes, each a process that goes through its clusters one after
the other.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from multiprocessing import connection
from pathlib import Path
from typing import Any, Final

import msgspec

from scenarios import catalogue
from scenarios.catalogue import Scenario

from .completion import complete
from .errors import UNKNOWN, VALID, HarnessError, UsageError
from .expectation import Judgement, Outcome, judge, status_of
from .fault_specs import needs
from .plan import Plan
from .reported import reported
from .runs import Result, run, versions

SCHEMA: Final = 1
SUITES: Final = ("smoke", "full")
CLUSTERS: Final = {"sim": ("sim",), "docker": ("docker",), "both": ("sim", "docker")}
SEEDS: Final = {"smoke": 1, "full": 5}
"""Runs of each scenario on the simulator."""
LANES: Final = 2
"""Clusters of containers at work at a time, unless somebody says otherwise: runs on them wait most of the time, and are
told by events, but a machine that is too busy stretches every pause."""
ENDS_WITHIN: Final = 120.0
"""Seconds that a process may take to remove what it has started."""
Tell = Callable[[Outcome, int, int], None]
"""Called with each outcome, how many there are by now, and how many there will be."""


@dataclass(frozen=True, slots=True)
class Case:
    """One run to make: a scenario on a cluster, with a seed. ``refused`` is why it cannot be made there."""

    scenario: str
    cluster: str
    plan: Plan
    refused: str = ""


# What there is to do.


def cases(suite: str, cluster: str, scenarios: Iterable[Scenario] | None = None) -> list[Case]:
    """The runs of a suite (``smoke``, ``full``) on a cluster (``sim``, ``docker``, ``both``). On real clusters the
    smoke suite has a few scenarios only, those that say so."""
    if suite not in SUITES:
        raise UsageError(f"suite must be {' or '.join(SUITES)}, got {suite!r}")
    if cluster not in CLUSTERS:
        raise UsageError(f"cluster must be one of {', '.join(CLUSTERS)}, got {cluster!r}")
    wanted = list(catalogue.all() if scenarios is None else scenarios)
    found = []
    for backend in CLUSTERS[cluster]:
        for scenario in wanted:
            if backend == "docker" and suite == "smoke" and not scenario.plan.smoke:
                continue
            first = _case(scenario, backend)
            more = SEEDS[suite] if backend == "sim" and not first.refused else 1
            found += [first, *(_seeded(first, seed) for seed in range(1, more))]
    if not found:
        raise UsageError(f"suite {suite} on {cluster}: none of the scenarios belongs to it")
    return found


def _seeded(case: Case, later: int) -> Case:
    return replace(case, plan=msgspec.structs.replace(case.plan, seed=case.plan.seed + later))


def _case(scenario: Scenario, backend: str) -> Case:
    plan = msgspec.structs.replace(scenario.plan, cluster=backend)
    if plan.expect is None:
        raise UsageError(f"{scenario.path}: a scenario of a suite must say what is expected of it ([expect])")
    refused = refusal(plan, backend)
    if not refused:
        return Case(scenario.name, backend, complete(plan))
    if all(refusal(plan, other) for other in CLUSTERS["both"]):  # it is no cluster's fault
        raise UsageError(f"{scenario.path}: {refused}")
    return Case(scenario.name, backend, plan, refused)


def refusal(plan: Plan, backend: str) -> str:
    """Why a plan cannot be run on a backend; nothing if it can."""
    if plan.runs_on and backend not in plan.runs_on:
        return f"a story of {' and '.join(plan.runs_on)} only"
    try:
        complete(msgspec.structs.replace(plan, cluster=backend))
    except UsageError as error:
        return str(error)
    return ""


# One of them.


def play(case: Case, store: Path, open_cluster: Any = None) -> Outcome:
    """Run a case. What is not as expected is kept in the store, with its report; on containers everything is."""
    plan = case.plan
    if case.refused:
        return _outcome(case, Judgement("not-run", case.refused), None, 0.0)
    began = time.monotonic()
    options = {} if open_cluster is None else {"open_cluster": open_cluster}
    try:
        result = run(plan, store=store if plan.cluster == "docker" else None, command=_command(case), **options)
    except HarnessError as error:
        return _outcome(case, Judgement("error", str(error)), None, time.monotonic() - began)
    except Exception as error:  # noqa: BLE001 - one broken run must not end the night
        last = traceback.extract_tb(error.__traceback__)[-1]
        why = f"{type(error).__name__}: {error} ({Path(last.filename).name}:{last.lineno})"
        return _outcome(case, Judgement("error", why), None, time.monotonic() - began)
    if result.interrupted:
        raise KeyboardInterrupt
    judgement = judged(result)
    if judgement.state != "as-expected":
        try:
            result = reported(result, store, _command(case))
        except Exception as error:  # noqa: BLE001 - what was found counts, though it cannot be kept
            judgement = replace(judgement, why=f"{judgement.why} (no report: {error})")
    return _outcome(case, judgement, result, time.monotonic() - began)


def judged(result: Result) -> Judgement:
    """What the run of a plan with expectations came to."""
    assert result.plan.expect is not None
    return judge(result.plan.expect, result.verdicts, result.history.origin)


def _command(case: Case) -> str:
    return f"harness scenario run {case.scenario} --cluster {case.cluster} --seed {case.plan.seed}"


def _outcome(case: Case, judgement: Judgement, result: Result | None, seconds: float) -> Outcome:
    plan, expect = case.plan, case.plan.expect
    assert expect is not None
    return Outcome(
        scenario=case.scenario,
        row=case.scenario.partition(".")[0],
        title=plan.title,
        safe=expect.safe,
        lock=plan.lock,
        kind=plan.kind,
        faults=tuple(spec.fault for spec in plan.faults),
        workload=plan.workload,
        cluster=case.cluster,
        seed=plan.seed,
        state=judgement.state,
        why=judgement.why,
        expected={"invalid": list(expect.invalid), "valid": list(expect.valid)},
        valid=None if result is None else result.valid,
        checkers={} if result is None else {name: verdict.valid for name, verdict in result.verdicts.items()},
        found_s=judgement.found_s,
        time_limit=plan.time_limit,
        real_seconds=round(seconds, 3),
        acquires=0 if result is None else result.document["stats"]["acquires_ok"],
        folder=None if result is None or result.folder is None else str(result.folder),
    )


# All of them.


def nightly(
    suite: str = "smoke",
    cluster: str = "sim",
    *,
    store: Path = Path("store"),
    scenarios: Iterable[Scenario] | None = None,
    workers: int | None = None,
    lanes: int = LANES,
    tell: Tell = lambda outcome, number, of: None,  # noqa: ARG005
) -> dict[str, Any]:
    """Run a suite and return the night's document (plain data; ``outcomes`` in the order of the scenarios). With one
    worker everything simulated runs in this process."""
    todo = cases(suite, cluster, scenarios)
    started, began = datetime.now(UTC), time.monotonic()
    outcomes: dict[tuple[str, str, int], Outcome] = {}
    interrupted = False
    try:
        with _terminable(), contextlib.closing(_played(todo, store, workers or os.cpu_count() or 1, lanes)) as played:
            for case, outcome in played:
                outcomes[case.scenario, case.cluster, case.plan.seed] = outcome
                tell(outcome, len(outcomes), len(todo))
    except KeyboardInterrupt:
        interrupted = True
    order = [(case.scenario, case.cluster, case.plan.seed) for case in todo]
    in_order = [outcomes[name] for name in order if name in outcomes]
    states = [outcome.state for outcome in in_order]
    nothing = interrupted or all(state == "not-run" for state in states)
    return {
        "schema": SCHEMA,
        "started_at": f"{started:%Y-%m-%dT%H:%M:%SZ}",
        "suite": suite,
        "clusters": list(CLUSTERS[cluster]),
        "seconds": round(time.monotonic() - began, 1),
        "versions": versions(),
        "status": status_of(states) or (UNKNOWN if nothing else VALID),
        "interrupted": interrupted,
        "outcomes": msgspec.to_builtins(in_order),
    }


@contextlib.contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM ends a night as Ctrl-C does, and that does so too where a shell has put the night in the background."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    wanted = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, signal.default_int_handler) for number in wanted}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _played(todo: Sequence[Case], store: Path, workers: int, lanes: int) -> Generator[tuple[Case, Outcome], None, None]:
    """Each as soon as it is done: first those on the simulator, then those on containers, which want the machine for
    themselves."""
    yield from _shared_out([case for case in todo if case.cluster == "sim"], store, workers)
    real = [case for case in todo if case.cluster == "docker"]
    yield from _shared_out(sorted(real, key=_where), store, lanes)


def _where(case: Case) -> tuple[str, ...]:
    """Cases with the same clusters come one after the other."""
    plan = case.plan
    needed = {need for spec in plan.faults for need in needs(spec)}
    return plan.kind, str(plan.nodes), str("disk" in needed), case.scenario


def _shared_out(todo: Sequence[Case], store: Path, count: int) -> Iterator[tuple[Case, Outcome]]:
    """By processes that are each given the next case when they are done with one."""
    if count == 1 or len(todo) <= 1:
        with _Player(store) as player:
            for case in todo:
                yield case, player.play(case)
        return
    waiting = deque(todo)
    lanes: list[_Lane] = []
    try:
        while waiting or lanes:
            while waiting and len(lanes) < count:
                lanes.append(_Lane(store, waiting.popleft()))
            for lane in _ready(lanes):
                case, outcome = lane.case, lane.outcome()
                if outcome is None or not waiting:
                    lanes.remove(lane)
                    lane.end()
                else:
                    lane.give(waiting.popleft())
                died = Judgement("error", "the process that ran it has died")
                yield case, outcome or _outcome(case, died, None, 0.0)
    finally:
        for lane in lanes:  # there are some only if nobody wants to know any more
            lane.interrupt()
        for lane in lanes:
            lane.end()


def _ready(lanes: Sequence[_Lane]) -> list[_Lane]:
    """Those that have an outcome, or have died."""
    heard = connection.wait([lane.line for lane in lanes])
    return [lane for lane in lanes if lane.line in heard]


class _Lane:
    """A process that plays one case after the other, and which one it is at."""

    def __init__(self, store: Path, case: Case) -> None:
        context = multiprocessing.get_context("spawn")
        self.line, other_end = context.Pipe()
        self._process = context.Process(target=_work, args=(other_end, store))
        self._process.start()
        other_end.close()
        self.give(case)

    def give(self, case: Case) -> None:
        self.case = case
        with contextlib.suppress(OSError):  # it has died, which is heard when it is asked
            self.line.send(case)

    def outcome(self) -> Outcome | None:
        """None if it has died."""
        try:
            found: Outcome = self.line.recv()
        except (EOFError, OSError):
            return None
        return found

    def interrupt(self) -> None:
        """As Ctrl-C does, which it may have had already: a run ends early, and removes what it has started."""
        if self._process.pid is not None and self._process.is_alive():
            os.kill(self._process.pid, signal.SIGINT)

    def end(self) -> None:
        self.line.close()
        self._process.join(ENDS_WITHIN)
        self._process.kill()
        self._process.join()


def _work(line: Any, store: Path) -> None:
    """In the process: ends when the other end is closed, or its process gone."""
    with contextlib.suppress(KeyboardInterrupt, EOFError, OSError), _Player(store) as player:
        while True:
            line.send(player.play(line.recv()))


class _Player(contextlib.ExitStack):
    """Plays cases one after the other, on clusters that it keeps for as long as the next case can use them."""

    def __init__(self, store: Path) -> None:
        super().__init__()
        self._store = store
        self._kept: Any = None

    def play(self, case: Case) -> Outcome:
        if case.cluster == "sim":
            return play(case, self._store)
        if self._kept is None:
            from .kept import Kept

            self._kept = self.enter_context(Kept())
        return play(case, self._store, self._kept.open)
