"""The nightly run: run every scenario and compare with the expectations, ablate failures, and explore.

The cases of a suite are those of :mod:`.nightly_cases`.
"""

from __future__ import annotations

import contextlib
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from harness.documents import AblationDocument, NightlyDocument
from harness.documents.exploration import Exploration, Pair, PairVisit
from harness.documents.nightly import SCHEMA, ScenarioOutcome
from harness.documents.trace import state_of
from harness.errors import UNKNOWN, VALID, VIOLATION, UsageError
from harness.run.containers.container_images import Report, require_image
from harness.run.processes.signals import sigterm_interrupts
from harness.run.progress import Progress
from harness.run.verdicts.expectation import status_of
from harness.run.verdicts.judging import versions
from harness.scenarios.catalogue import Scenario
from harness.wording import counted

from .ablation import ablate
from .detection import Counts, counts_of, repeats
from .exploration import ExplorationState, explorable, explore
from .nightly_cases import CLUSTERS, FIRST_FRESH, Case, OnOutcome, cases, check_images, run_cases, scenarios_of
from .results_db import RESULTS_DB, explored, explored_failures, failures_on_containers
from .server_images import DEFAULT

COMPARED_NIGHTS: Final = 30
"""Earlier nights whose runs on containers make up a detection rate."""


class ExploreRequest(NamedTuple):
    """How long to explore, in seconds, and the locks whose names match a pattern."""

    budget_s: float
    locks: str = "*"


def nightly(
    suite: str = "smoke",
    cluster: str = "sim",
    *,
    store: Path = Path("store"),
    scenarios: Iterable[Scenario] | None = None,
    workers: int | None = None,
    scheduler: str | None = None,
    seed: int | None = None,
    explore: ExploreRequest | None = None,
    images: Sequence[str] = (),
    on_outcome: OnOutcome = lambda outcome, number, of: None,  # noqa: ARG005
    progress: Progress | None = None,
) -> NightlyDocument:
    """Run a suite and return the nightly run's document, with ``outcomes`` in the order of the scenarios.

    ``workers`` processes of this machine make the runs (1: only this process; None: one for each processor). With a
    Dask ``scheduler`` (``tcp://...``) its workers make the simulated runs; runs on containers are made on this machine.
    With a ``seed`` each simulated scenario also runs with fresh seeds from this one on. ``full`` on the simulator ends
    with ablations. ``explore`` asks for hunts after that, which need a seed. With ``images``, references or releases of
    servers, each scenario runs on all those of its service in containers. ``progress`` is told about images that are
    built, ablations and exploration. Raises UsageError for a wrong request, EnvironmentLacking if an image is missing.
    """
    if seed is not None and seed < FIRST_FRESH:
        raise UsageError(f"seed must be at least {FIRST_FRESH}, got {seed}: each night runs with the lower ones")
    if explore is not None and seed is None:
        raise UsageError("exploration needs a seed of its own: --seed auto, or --seed with a number")
    pairs = [] if explore is None else explorable(explore.locks)
    chosen = list(scenarios_of(suite) if scenarios is None else scenarios)
    if images:
        check_images(images, cluster)
    found_cases = cases(suite, cluster, chosen, seed=seed, images=images)
    todo = _with_stored_counts(found_cases, None if images else store / RESULTS_DB)
    started, began = datetime.now(UTC).replace(microsecond=0), time.monotonic()
    tell = progress or (lambda _fraction, _text: None)

    def report(line: str) -> None:
        tell(0.0, f"starting: {line}")

    for image in images:
        if image != DEFAULT:
            require_image(image, report)
    outcomes, interrupted = _run_suite(todo, store, workers, scheduler, on_outcome, report)
    ablated = found = None
    if suite == "full" and cluster != "docker" and not interrupted:
        ablated = _ablated(chosen, workers, scheduler, tell)
        interrupted = ablated.interrupted
    if explore is not None and seed is not None and not interrupted:
        found = _explored(explore.budget_s, pairs, store, seed, started, workers, scheduler, tell)
        interrupted = found.interrupted
    return NightlyDocument(
        schema=SCHEMA,
        started_at=started,
        suite=suite,
        clusters=CLUSTERS[cluster],
        images=tuple(images),
        seconds=round(time.monotonic() - began, 1),
        versions=dict(versions()),
        status=_status(outcomes, ablated, found, interrupted=interrupted),
        interrupted=interrupted,
        planned=sum(not case.refused for case in todo),
        outcomes=tuple(outcomes),
        ablations=() if ablated is None else ablated.outcomes,
        seed=seed,
        exploration=found,
    )


def _with_stored_counts(todo: Sequence[Case], database: Path | None) -> list[Case]:
    """Add the counts of the stored runs, if there is a database, to the cases whose detection rate counts."""
    if not any(repeats(case.plan) for case in todo):
        return list(todo)
    stored: defaultdict[str, Counts] = defaultdict(Counts)
    for outcome in failures_on_containers(database, COMPARED_NIGHTS) if database and database.exists() else ():
        before, of = stored[outcome.scenario], counts_of(outcome)
        stored[outcome.scenario] = Counts(before.found + of.found, before.runs + of.runs)
    return [replace(case, before=stored[case.scenario]) if repeats(case.plan) else case for case in todo]


def _run_suite(
    todo: Sequence[Case],
    store: Path,
    workers: int | None,
    scheduler: str | None,
    on_outcome: OnOutcome,
    report: Report,
) -> tuple[list[ScenarioOutcome], bool]:
    """Return the outcomes in the order of the cases, and whether the suite was interrupted."""
    outcomes: dict[tuple[str, str, str, int], ScenarioOutcome] = {}
    interrupted = False
    try:
        with sigterm_interrupts(), contextlib.closing(run_cases(todo, store, workers, scheduler, report)) as finished:
            for case, outcome in finished:
                outcomes[case.key] = outcome
                on_outcome(outcome, len(outcomes), len(todo))
    except KeyboardInterrupt:
        interrupted = True
    return [outcomes[case.key] for case in todo if case.key in outcomes], interrupted


def _ablated(
    scenarios: Iterable[Scenario], workers: int | None, scheduler: str | None, tell: Progress
) -> AblationDocument:
    failures = [one for one in scenarios if one.plan.expect is not None and not one.plan.expect.safe]
    return ablate(
        failures,
        workers=workers,
        scheduler=scheduler,
        on_outcome=lambda one, number, of: tell(
            number / of, f"ablation: {number} of {of} · {one.scenario} {one.change}"
        ),
    )


def _explored(
    budget_s: float,
    pairs: Sequence[Pair],
    store: Path,
    seed: int,
    started: datetime,
    workers: int | None,
    scheduler: str | None,
    tell: Progress,
) -> Exploration:
    database = store / RESULTS_DB

    def on_visit(visit: PairVisit, state: ExplorationState) -> None:
        new = sum(one.state == "new" for one in state.failures.values())
        tell(
            min(1.0, state.seconds / budget_s),
            f"exploration: {counted(len(state.visits), 'visit')}, {counted(new, 'new failure')} · "
            f"{visit.lock} under {visit.fault}",
        )

    tell(0.0, "exploration: failures of earlier nights")
    with sigterm_interrupts():
        return explore(
            pairs,
            store,
            seed=seed,
            budget_s=budget_s,
            started=started,
            explored=explored(database) if database.exists() else {},
            known=explored_failures(database) if database.exists() else (),
            workers=workers,
            scheduler=scheduler,
            on_visit=on_visit,
        )


def _status(
    outcomes: Sequence[ScenarioOutcome],
    ablated: AblationDocument | None,
    found: Exploration | None,
    *,
    interrupted: bool,
) -> int:
    """Return the exit status: 1 if a scenario is not as expected, a failure survives its ablation, exploration found a
    new failure or a recorded reply is impossible; else 3 if something is unknown, the run was interrupted, or no case
    could be run; else 0."""
    states = [outcome.state for outcome in outcomes]
    nothing = interrupted or all(state == "not-run" for state in states)
    parts = (
        status_of(states),
        VALID if ablated is None else ablated.status,
        VIOLATION if found is not None and found.new else VALID,
        VIOLATION if any(state_of(outcome.traces) == "impossible" for outcome in outcomes) else VALID,
        UNKNOWN if nothing else VALID,
    )
    return VIOLATION if VIOLATION in parts else max(parts)
