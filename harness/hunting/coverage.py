"""What a search has seen: states of lock and servers, and which faults struck beside which, and when."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from typing import Final

import msgspec

from ..client_program import event
from ..history import NEMESIS, TYPES, History
from .asked import NO_FAULT, Asked
from .trials import Trial
from .vocabulary import Vocabulary
from .walk import PHASES, Walk

SHOWN: Final = 3
"""How many of what was never reached are named; the others are counted."""
LOCK_CALLS: Final = ("acquire", "extend", "check", "release")


class Coverage(msgspec.Struct, frozen=True, kw_only=True):
    """``states`` are what was seen of clients, servers' keys and faults at work, at one moment (see :func:`covered`);
    ``pairs`` two families of faults that struck in the same schedule, in the order of their names (the same twice: it
    struck more than once); ``moments`` (family, what the lock was at when it struck: one of
    :data:`harness.hunting.walk.PHASES`); ``events`` on which faults struck, as in a plan's ``on``; ``outcomes`` how
    calls ended, as in a plan's ``on`` (``acquire``: well, ``acquire:fail``, ``release:info`` ...)."""

    states: frozenset[str] = frozenset()
    pairs: frozenset[tuple[str, str]] = frozenset()
    moments: frozenset[tuple[str, str]] = frozenset()
    events: frozenset[str] = frozenset()
    outcomes: frozenset[str] = frozenset()


def covered(trial: Trial) -> Coverage:
    """What one schedule saw.

    A state is what the clients of a key are at, sorted, each with the number of servers that have the key for it;
    then how many servers have it for nobody (``free``), are ``down``, or have it for somebody unknown (``other``); then
    the families of faults at work: ``"holds 3, asking 2, idle | clock-jump"``, ``"holds, asking | free 1"``.
    """
    walk = Walk(trial)
    return Coverage(
        states=walk.states,
        pairs=frozenset(_pairs(walk.struck)),
        moments=frozenset(walk.moments),
        events=frozenset(_events(trial, walk.struck)),
        outcomes=frozenset(_outcomes(trial.history)),
    )


def merged(coverages: Iterable[Coverage]) -> Coverage:
    """What any of them has seen, in whatever order they come."""
    every = list(coverages)
    names = Coverage.__struct_fields__
    return Coverage(**{name: frozenset().union(*(getattr(one, name) for one in every)) for name in names})


def summary(coverage: Coverage) -> dict[str, int]:
    """How much of each kind was seen."""
    return {name: len(getattr(coverage, name)) for name in Coverage.__struct_fields__}


def _pairs(struck: list[str]) -> Iterator[tuple[str, str]]:
    times = Counter(struck)
    yield from combinations(sorted(times), 2)
    yield from ((name, name) for name, count in times.items() if count > 1)


def _events(trial: Trial, struck: list[str]) -> Iterator[str]:
    """The events on which the plan's faults struck: those that never did are in the history, with their event."""
    history = trial.history
    absent = [(op.value["fault"], op.error or "") for op in history.nemesis("inject") if op.type == "fail"]
    for spec in trial.plan.faults:
        never = any(fault == spec.fault and f"its event {spec.on!r}" in error for fault, error in absent)
        if spec.on is not None and spec.fault in struck and not never:
            yield spec.on


def _outcomes(history: History) -> Iterator[str]:
    """How clients' calls ended; one that never returned ended like one of which nobody knows."""
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


def never(asked: Asked, vocabulary: Vocabulary, coverage: Coverage) -> list[str]:
    """What a search that was asked for these faults, of a lock that says these things, never reached: sentences, none
    for what there is nothing to say of."""
    families = sorted({name for name in asked.faults if name != NO_FAULT})
    struck = sorted({family for family, _ in coverage.moments} & set(families))
    found = [_said("Never struck", families, struck, "families of faults")]
    if asked.most_faults > 1:
        found.append(_never_together(struck, coverage))
    if struck:
        found.append(_never_while(asked, struck, coverage))
        commands = [f"{phase}:{name}" for name in vocabulary.commands for phase in ("request", "reply")]
        found.append(_said("No fault struck on", [*vocabulary.events, *commands], coverage.events, "events"))
    found += _never_ended(vocabulary, coverage)
    return [sentence for sentence in found if sentence]


def _said(what: str, every: Sequence[str], reached: Iterable[str], kind: str) -> str:
    """A sentence with the first of ``every`` that were not reached, and how many; empty if all were."""
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
    return _said("Never struck in one schedule", list(pairs.values()), reached, "pairs of faults")


def _never_while(asked: Asked, struck: list[str], coverage: Coverage) -> str:
    """What no fault has met is said once, not of each family."""
    phases = [phase for phase in PHASES if asked.clients > 1 or phase != "held and asked for"]
    missing = [(name, phase) for phase in phases for name in struck if (name, phase) not in coverage.moments]
    if not missing:
        return ""
    by_none = [phase for phase in phases if all((name, phase) in missing for name in struck)]
    names = [f"any fault while it was {_WORDS.get(phase, phase)}" for phase in by_none]
    names += [f"{name} while it was {_WORDS.get(phase, phase)}" for name, phase in missing if phase not in by_none]
    count = f"{len(missing)} of {len(phases) * len(struck)} moments"
    return f"What the lock was never struck by: {_some(names)} ({count})."


_WORDS: Final = {"releasing": "given back", "unsure": "in doubt"}


def _never_ended(vocabulary: Vocabulary, coverage: Coverage) -> list[str]:
    """Which of the lock's calls always came to a known end, or a good one."""
    said = {name.partition(":")[0] for name in (*vocabulary.events, *coverage.outcomes)}
    calls = [name for name in LOCK_CALLS if name in said]
    sentences = []
    for what, kind in (("Never succeeded", "ok"), ("Never failed", "fail"), ("Never ended unknown", "info")):
        reached = [name for name in calls if event(name, kind) in coverage.outcomes]
        sentences.append(_said(what, calls, reached, "calls of the lock"))
    return sentences
