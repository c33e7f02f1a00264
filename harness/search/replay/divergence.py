"""Find the first difference between two runs of the same plan.

Times always differ, so compare what happened: how each client's calls ended, the order of grants of each key, and which
faults struck between them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import pairwise, zip_longest
from typing import Final

from harness.history import NEMESIS, History, Op
from harness.wording import in_seconds, moment

FAULTS: Final = "faults"
ORDER: Final = "order of "
GRANTED: Final = "granted"
Facts = tuple[object, ...]
"""The values by which two steps are compared."""


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first difference of a real run from the simulated one.

    ``sentence`` describes it. ``step`` counts the steps of the simulated run from 1. The moments are ns since the first
    entry of each run, None if the step did not happen there.
    """

    sentence: str
    step: int
    simulated_ns: int | None
    real_ns: int | None


@dataclass(frozen=True, slots=True)
class _Step:
    """One step, at ``time`` (ns) and with the entry ``index``; ``words`` describe it."""

    index: int
    time: int
    facts: Facts
    words: str


Track = list[_Step]
"""Steps whose order matters: those of one client, or those around one key."""


def first_divergence(
    simulated: History, real: History, until_ns: int | None = None, *, aside: Collection[str] = ()
) -> Divergence | None:
    """Return the first difference of ``real`` from the simulated run, None if there is none up to ``until_ns``.

    ``until_ns`` is in the time of the simulated history. Faults of the families ``aside`` are ignored.
    """
    here, there = _tracks(real, aside), _tracks(simulated, aside)
    last = max(simulated.time, default=0) if until_ns is None else until_ns
    partings = {name: _first(track, here.get(name, []), last) for name, track in there.items()}
    found = {name: pair for name, pair in partings.items() if pair is not None}
    if not found:
        return None
    expected, got = min(found.items(), key=_rank)[1]
    step = _number(there, expected)
    simulated_ns = expected.time - simulated.origin
    real_ns = None if got is None else got.time - real.origin
    told = "that never happened" if got is None else f"{got.words} (at {moment(got.time, real.origin)})"
    sentence = f"On the simulator {expected.words} at {in_seconds(simulated_ns)} (step {step}); here {told}"
    return Divergence(sentence, step, simulated_ns, real_ns)


def differs_at(one: History, other: History) -> int | None:
    """Return the number of the first entry in which two histories differ, None if they are equal."""
    pairs = enumerate(zip_longest(one, other))
    return next((number for number, (left, right) in pairs if left != right), None)


def _rank(divergence: tuple[str, tuple[_Step, _Step | None]]) -> tuple[int, bool, bool]:
    """Sort key among the differences at one step: a fault first, then a grant to another client, then the order of
    :func:`_tracks`."""
    name, (expected, got) = divergence
    return expected.index, name != FAULTS, got is None or got.facts[0] != GRANTED


def _first(track: Track, real: Track, last: int) -> tuple[_Step, _Step | None] | None:
    for number, step in enumerate(track):
        if step.time > last:
            return None
        got = real[number] if number < len(real) else None
        if got is None or got.facts != step.facts:
            return step, got
    return None


def _number(tracks: dict[str, Track], step: _Step) -> int:
    """Return the number of a step, counting each step of clients and faults once."""
    own = [other for name, track in tracks.items() if not name.startswith(ORDER) for other in track]
    return sum(other.index < step.index for other in own) + 1


def _tracks(history: History, aside: Collection[str]) -> dict[str, Track]:
    """Return the tracks by name: clients, then faults, then the order of grants of each key."""
    tracks: dict[str, Track] = {}
    held = _other_holders(history)
    for client in sorted({str(op.node) for op in history if op.process != NEMESIS}):
        tracks[f"client {client}"] = list(_without_repeats(_client(history, client, held)))
    struck = [op for op in history.nemesis("inject") if op.value["fault"] not in aside]
    faults = list(_faults(struck))
    tracks[FAULTS] = list(_observed(struck))
    for key in sorted({op.key for op in history if op.key is not None}):
        tracks[f"{ORDER}{key}"] = sorted([*_owners(history, key, held), *faults], key=lambda step: step.index)
    return tracks


def _client(history: History, client: str, held: dict[int, str]) -> Iterator[_Step]:
    for op in history:
        if op.process != NEMESIS and op.node == client and op.type != "invoke":
            yield _Step(
                op.index, op.time, (op.f, op.key, op.type, _refusal(op)), _describe_step(op, held.get(op.index))
            )


def _without_repeats(track: Iterator[_Step]) -> Iterator[_Step]:
    """Drop repeated failed attempts, since their number depends on times."""
    steps = list(track)
    yield from steps[:1]
    yield from (step for before, step in pairwise(steps) if step.facts != before.facts or step.facts[2] == "ok")


def _refusal(op: Op) -> str | None:
    """Return the reason of a refusal; the texts of other errors differ between simulated and real servers."""
    return op.error if op.type == "fail" and ":" not in str(op.error) else None


def _describe_step(op: Op, holder: str | None) -> str:
    what = f"{op.node}'s {op.f}" + (f" of {op.key}" if op.key is not None else "")
    if op.type == "ok" and op.f == "acquire":
        return f"{op.node} was granted {op.key}" + (f" while {holder} held it" if holder else "")
    endings = {"ok": "succeeded", "fail": f"failed: {op.error}", "info": f"ended without an answer: {op.error}"}
    return f"{what} {endings[op.type]}"


def _other_holders(history: History) -> dict[int, str]:
    """Return, by the index of a grant, another client that held the key and had not begun to release it."""
    holders: dict[tuple[str | None, str | None], None] = {}
    found: dict[int, str] = {}
    for op in history:
        if op.f == "acquire" and op.type == "ok":
            others = [str(client) for key, client in holders if key == op.key and client != op.node]
            found.update({op.index: others[0]} if others else {})
            holders[op.key, op.node] = None
        elif op.f == "release":
            holders.pop((op.key, op.node), None)
    return found


def _owners(history: History, key: str, held: dict[int, str]) -> Iterator[_Step]:
    """Yield the grants of a key and the beginnings of releases, in their order."""
    for op in history:
        if op.key != key or op.process == NEMESIS:
            continue
        if op.f == "acquire" and op.type == "ok":
            yield _Step(op.index, op.time, (GRANTED, op.node), _describe_step(op, held.get(op.index)))
        elif op.f == "release" and op.type == "invoke":
            yield _Step(op.index, op.time, ("released", op.node), f"{op.node} began to release {key}")


def _faults(injected: list[Op]) -> Iterator[_Step]:
    for op in injected:
        if op.type == "invoke":
            hosts = tuple(op.value["hosts"])
            yield _Step(op.index, op.time, (op.value["fault"], hosts), f"{op.value['fault']} struck {', '.join(hosts)}")


def _observed(injected: list[Op]) -> Iterator[_Step]:
    """Yield each fault when it struck, and whether its effect was confirmed."""
    ends = {op.value["id"]: op for op in injected if op.type != "invoke"}
    begun = {op.value["id"]: op for op in injected if op.type == "invoke"}
    for number in sorted({*ends, *begun}):
        op = begun.get(number) or ends[number]
        end = ends.get(number)
        effect = None if end is None else end.type == "ok"
        name, hosts = op.value["fault"], tuple(op.value["hosts"])
        words = f"{name} struck {', '.join(hosts)}" if hosts else f"{name} struck no host"
        told = "" if effect or end is None else f", {end.error}"
        yield _Step(op.index, op.time, (name, hosts, effect), words + told)
