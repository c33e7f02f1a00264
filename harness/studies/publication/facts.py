"""Statements of a lock about itself: its entry in the catalogue, or the description of a scenario's class."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Final

from harness.documents import ComparisonDocument
from harness.documents.nightly import ScenarioOutcome
from harness.documents.publication import (
    PublishedFailure,
    PublishedLimit,
    PublishedLock,
    PublishedProperty,
    PublishedReference,
    PublishedState,
)
from harness.lock_impls import catalogue
from harness.lock_impls.base import LockInfo
from harness.lock_impls.descriptions import DescriptionError, infos_in, methods_in
from harness.run.plans.lock_facts import stated_origin
from harness.scenarios import catalogue as scenarios
from harness.scenarios.catalogue import Scenario
from harness.wording import LIMITS, SAFETY, as_sentence, counted

from .runs import StoredRun
from .verdicts import worst

CHECKER_OF: Final = {
    "fencing": "fencing",
    "re-entrant": "reentrancy",
    "read-write": "",
    "queue": "fairness",
    "no single point of failure": "",
}
"""Properties of the index, each with the checker of runs that tests it; "" if only a workload or a comparison does."""
COMPARED: Final = {
    "fencing": "fence",
    "re-entrant": "reentrant",
    "no single point of failure": "no-single-point",
}
"""The same properties in comparisons."""
SHARED: Final = "readers-writers"
"""Workload in which clients acquire in shared mode."""
Observed = dict[str, list[tuple[PublishedState, str]]]
"""By the name of a property: what each stored result shows of it, and why."""


def described(name: str) -> LockInfo | None:
    """Return what our lock, of the catalogue or of ``harness.scenarios.locks``, states; None for any other. No lock is
    loaded."""
    own = catalogue.own_description(name)
    if own is not None:
        return own.info
    module, _, cls = name.partition(":")
    if not module.startswith("harness.scenarios.locks.") or importlib.util.find_spec(module) is None:
        return None
    try:
        return infos_in(module).get(cls)
    except DescriptionError:
        return None


def entry(name: str, page: str, kinds: Iterable[str]) -> PublishedLock:
    """Return what is known of a lock before any run; ``kinds`` are those that stored results name."""
    info, origin = described(name), stated_origin(name)
    catalogued = catalogue.own_description(name) is not None
    what_runs = as_sentence(origin.sentence) if origin else ""
    if info is None:
        used = tuple(dict.fromkeys(kinds))
        return PublishedLock(
            name=name, page=page, catalogued=catalogued, what_runs=what_runs, kinds=used, services=_services(used)
        )
    return PublishedLock(
        name=name,
        page=page,
        catalogued=catalogued,
        title=info.title,
        what_runs=what_runs,
        algorithm=info.algorithm,
        source=info.source,
        safety=info.safety,
        safety_text=SAFETY[info.safety],
        services=_services(info.kinds),
        kinds=info.kinds,
        language=info.language,
        library=info.library,
        promises=info.promises,
        on_death=info.on_death,
        outage=info.outage,
        containers_only=not info.simulated,
        limits=tuple(PublishedLimit(name=limit, text=LIMITS[limit]) for limit in info.documented_limits),
        failures=tuple(PublishedFailure(id=one.id, what=one.what, command=one.command) for one in info.failures),
    )


def _services(kinds: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(kind.partition("-")[0] for kind in kinds))


def references(name: str, known: Iterable[str]) -> tuple[PublishedReference, ...]:
    """Return the references of the scenarios of a lock: those of the catalogue, and ``known`` ones by name."""
    wanted = set(known)
    found: dict[str, list[str]] = {}
    for scenario in _scenarios():
        if scenario.plan.source and (scenario.plan.lock == name or scenario.name in wanted):
            found.setdefault(scenario.plan.source, []).append(scenario.name)
    return tuple(PublishedReference(source=source, scenarios=tuple(names)) for source, names in found.items())


@cache
def _scenarios() -> tuple[Scenario, ...]:
    return tuple(scenarios.all())


# Properties.


def claims(name: str) -> dict[str, bool | None]:
    """Return the properties that a lock may have, and whether it claims them; None if nothing says so."""
    info = described(name)
    if info is None:
        return dict.fromkeys(CHECKER_OF)
    own = catalogue.own_description(name)
    shared = None if own is None else "acquire_shared" in methods_in(own.module, own.cls)
    return {
        "fencing": info.fence,
        "re-entrant": info.reentrant,
        "read-write": shared,
        "queue": info.queue,
        "no single point of failure": info.no_single_point,
    }


def observed_in_outcomes(outcomes: Iterable[ScenarioOutcome], into: dict[str, Observed]) -> None:
    """Add what outcomes of nightly runs show of each lock's properties."""
    for one in outcomes:
        why = f"The scenario {one.scenario} shows it. {one.reason or one.why}"
        _observe(into.setdefault(one.lock, {}), one.states, one.workload, dict.fromkeys(one.states, why))


def observed_in_runs(runs: Iterable[StoredRun], into: dict[str, Observed]) -> None:
    """Add what stored runs show of each lock's properties."""
    for run in runs:
        states = {name: checker.state for name, checker in run.head.checkers.items()}
        whys = {name: as_sentence(checker.explanation) for name, checker in run.head.checkers.items()}
        _observe(into.setdefault(run.head.lock, {}), states, run.head.plan.workload, whys)


def _observe(into: Observed, states: Mapping[str, str], workload: str, whys: Mapping[str, str]) -> None:
    for name, checker in CHECKER_OF.items():
        if name == "read-write" and workload == SHARED:
            checker = "mutual-exclusion"  # noqa: PLW2901
        state = states.get(checker, "")
        if state in ("broken", "known-limit", "kept"):
            into.setdefault(name, []).append((state, whys[checker]))  # type: ignore[arg-type]  # one of the words above


def properties(name: str, observed: Observed) -> tuple[PublishedProperty, ...]:
    """Return the properties of a lock. What a lock does not claim is not tested: no run can break it."""
    return tuple(_property(label, claim, observed.get(label, [])) for label, claim in claims(name).items())


def _property(label: str, claim: bool | None, observed: Sequence[tuple[PublishedState, str]]) -> PublishedProperty:
    if claim is False:
        return PublishedProperty(name=label, claimed=False, why="The lock does not claim it.")
    state = worst(one for one, _ in observed)
    if state == "not-tested":
        return PublishedProperty(name=label, claimed=claim, why="No stored run tested it.")
    if state == "kept":
        why = f"{counted(len(observed), 'result')} found no violation."
    else:
        why = next(text for one, text in observed if one == state)
    return PublishedProperty(name=label, claimed=claim, state=state, why=why)


def observed_in_comparisons(documents: Iterable[ComparisonDocument], into: dict[str, Observed]) -> None:
    """Add what comparisons measured of each lock's properties."""
    for document in documents:
        for lock in document.locks:
            for name, compared in COMPARED.items():
                found = lock.properties.get(compared)
                if found is not None and found.measured is not None:
                    state: PublishedState = "kept" if found.measured else "violated"
                    into.setdefault(lock.name, {}).setdefault(name, []).append((state, as_sentence(found.found)))
