"""Coverage of a search: states of clients and servers, combinations of faults, and moments at which faults struck."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from typing import Final

import msgspec

from harness.history import NEMESIS, TYPES, History
from harness.worker.client_program import event

from .request import NO_FAULT, HuntRequest
from .trials import Trial
from .vocabulary import Vocabulary
from .walk import PHASES, TrialCoverage

SHOWN: Final = 3
"""The most unreached items that a sentence names; it counts the others."""
LOCK_CALLS: Final = ("acquire", "extend", "check", "release")


class Coverage(msgspec.Struct, frozen=True, kw_only=True):
    """States and events that a search has reached.

    - ``states``: combined states of clients, servers' keys and active faults (see :func:`coverage_of`).
    - ``pairs``: two families of faults that struck in one schedule, sorted; a family twice if it did.
    - ``moments``: family of faults, and phase of the lock when it struck (:data:`harness.search.walk.PHASES`).
    - ``events``: events on which faults struck, as in a plan's ``on``.
    - ``outcomes``: how calls ended, as in a plan's ``on`` (``acquire``: success, ``acquire:fail``, ``release:info``).
    """

    states: frozenset[str] = frozenset()
    pairs: frozenset[tuple[str, str]] = frozenset()
    moments: frozenset[tuple[str, str]] = frozenset()
    events: frozenset[str] = frozenset()
    outcomes: frozenset[str] = frozenset()


def coverage_of(trial: Trial) -> Coverage:
    """Return the coverage of one schedule.

    A state lists the beliefs of a key's clients, sorted, each with the number of servers on which it owns the key; then
    the numbers of servers on which the key is ``free``, which are ``down``, or where the owner is unknown (``other``);
    then the active families of faults: ``"holds 3, asking 2, idle | clock-jump"``, ``"holds, asking | free 1"``.
    """
    walk = TrialCoverage(trial)
    return Coverage(
        states=walk.states,
        pairs=frozenset(_pairs(walk.struck)),
        moments=frozenset(walk.moments),
        events=frozenset(_events(trial, walk.struck)),
        outcomes=frozenset(_outcomes(trial.history)),
    )


def merged(coverages: Iterable[Coverage]) -> Coverage:
    """Return the union of several coverages."""
    every = list(coverages)
    names = Coverage.__struct_fields__
    return Coverage(**{name: frozenset().union(*(getattr(one, name) for one in every)) for name in names})


def summary(coverage: Coverage) -> dict[str, int]:
    """Return the number of items of each kind."""
    return {name: len(getattr(coverage, name)) for name in Coverage.__struct_fields__}


def _pairs(struck: list[str]) -> Iterator[tuple[str, str]]:
    times = Counter(struck)
    yield from combinations(sorted(times), 2)
    yield from ((name, name) for name, count in times.items() if count > 1)


def _events(trial: Trial, struck: list[str]) -> Iterator[str]:
    """Yield the events on which the plan's faults struck. The history has an error for each event that never came."""
    history = trial.history
    absent = [(op.value["fault"], op.error or "") for op in history.nemesis("inject") if op.type == "fail"]
    for spec in trial.plan.faults:
        missed = any(fault == spec.fault and f"its event {spec.on!r}" in error for fault, error in absent)
        if spec.on is not None and spec.fault in struck and not missed:
            yield spec.on


def _outcomes(history: History) -> Iterator[str]:
    """Yield how the clients' calls ended; the outcome of a call that never returned is unknown (``info``)."""
    waiting: dict[int, str] = {}
    for process, kind, f in zip(history.process, history.type, history.f, strict=True):
        if process == NEMESIS:
            continue
        if TYPES[kind] == "invoke":
            waiting[process] = f
        else:
            waiting.pop(process, None)
            yield event(f, TYPES[kind])
    yield from (event(f, "info") for f in waiting.values())


# What was never reached.


def unreached(request: HuntRequest, vocabulary: Vocabulary, coverage: Coverage) -> list[str]:
    """Return sentences about what the search never reached, of the request's faults and the lock's vocabulary."""
    families = sorted({name for name in request.faults if name != NO_FAULT})
    struck = sorted({family for family, _ in coverage.moments} & set(families))
    found = [_missing("Never struck", families, struck, "families of faults")]
    if request.most_faults > 1:
        found.append(_never_together(struck, coverage))
    if struck:
        found.append(_never_while(request, struck, coverage))
        commands = [f"{phase}:{name}" for name in vocabulary.commands for phase in ("request", "reply")]
        found.append(_missing("No fault struck on", [*vocabulary.events, *commands], coverage.events, "events"))
    found += _never_ended(vocabulary, coverage)
    return [sentence for sentence in found if sentence]


def _missing(what: str, every: Sequence[str], reached: Iterable[str], kind: str) -> str:
    """Return a sentence that names the first unreached items of ``every`` and counts all; empty if there are none."""
    there = set(reached)
    missing = [name for name in every if name not in there]
    return f"{what}: {_some(missing)} ({len(missing)} of {len(every)} {kind})." if missing else ""


def _some(names: list[str]) -> str:
    more = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {more} more" if more > 0 else "")


def _never_together(struck: list[str], coverage: Coverage) -> str:
    pairs = {pair: " with ".join(pair) for pair in combinations(struck, 2)}
    pairs |= {(name, name): f"{name} twice" for name in struck}
    reached = [words for pair, words in pairs.items() if pair in coverage.pairs]
    return _missing("Never struck in one schedule", list(pairs.values()), reached, "pairs of faults")


def _never_while(request: HuntRequest, struck: list[str], coverage: Coverage) -> str:
    """Return a sentence about unreached moments; a phase that no family reached is named only once."""
    phases = [phase for phase in PHASES if request.clients > 1 or phase != "held and asked for"]
    missing = [(name, phase) for phase in phases for name in struck if (name, phase) not in coverage.moments]
    if not missing:
        return ""
    by_none = [phase for phase in phases if all((name, phase) in missing for name in struck)]
    names = [f"any fault while it was {_WORDS.get(phase, phase)}" for phase in by_none]
    names += [f"{name} while it was {_WORDS.get(phase, phase)}" for name, phase in missing if phase not in by_none]
    count = f"{len(missing)} of {len(phases) * len(struck)} moments"
    return f"Never struck the lock: {_some(names)} ({count})."


_WORDS: Final = {"releasing": "being released", "unsure": "in an unknown state"}


def _never_ended(vocabulary: Vocabulary, coverage: Coverage) -> list[str]:
    """Return sentences about the lock's calls that never succeeded, never failed, or never had an unknown outcome."""
    known = {name.partition(":")[0] for name in (*vocabulary.events, *coverage.outcomes)}
    calls = [name for name in LOCK_CALLS if name in known]
    sentences = []
    for what, kind in (("Never succeeded", "ok"), ("Never failed", "fail"), ("Never ended unknown", "info")):
        reached = [name for name in calls if event(name, kind) in coverage.outcomes]
        sentences.append(_missing(what, calls, reached, "calls of the lock"))
    return sentences
