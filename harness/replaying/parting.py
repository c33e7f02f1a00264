"""Where a run parted from another of the same plan: not in its times, which are never the same, but in what happened:
how each client's calls ended, who got a lock after whom, and which faults struck among that."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import pairwise, zip_longest
from typing import Final

from ..history import NEMESIS, SECOND, History, Op

FAULTS: Final = "faults"
ORDER: Final = "order of "
GRANTED: Final = "granted"
Facts = tuple[object, ...]
"""What a step is compared by."""


@dataclass(frozen=True, slots=True)
class Parting:
    """``sentence`` says it in full. ``step`` counts the simulated run's steps from 1 on; the moments are ns since each
    run's first entry, None where nothing of the kind happened."""

    sentence: str
    step: int
    simulated_ns: int | None
    real_ns: int | None


@dataclass(frozen=True, slots=True)
class _Step:
    """Something that happened, at ``time`` (ns) and with the entry ``index``, in plain words."""

    index: int
    time: int
    facts: Facts
    words: str


Track = list[_Step]
"""Steps that must come in this order: one client's, or those around one key."""


def parted(
    simulated: History, real: History, until_ns: int | None = None, *, aside: Collection[str] = ()
) -> Parting | None:
    """Where ``real`` first parts from the simulated run, looking no further than ``until_ns`` (in the simulated
    history's own time); None if it does not. Faults of the families ``aside`` are not looked at. A pure function of
    both."""
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
    told = "that never happened" if got is None else f"{got.words} (at {(got.time - real.origin) / SECOND:.3f} s)"
    sentence = f"On the simulator {expected.words} at {simulated_ns / SECOND:.3f} s (step {step}); here {told}"
    return Parting(sentence, step, simulated_ns, real_ns)


def differs_at(one: History, other: History) -> int | None:
    """The number of the first entry in which two histories differ, None if they are the same."""
    pairs = enumerate(zip_longest(one, other))
    return next((number for number, (left, right) in pairs if left != right), None)


def _rank(parting: tuple[str, tuple[_Step, _Step | None]]) -> tuple[int, bool, bool]:
    """Of several at one step what says most: that it was the fault, that another client was granted the key, else what
    comes first of :func:`_tracks`."""
    name, (expected, got) = parting
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
    """Steps are counted by what clients and faults did, each once."""
    own = [other for name, track in tracks.items() if not name.startswith(ORDER) for other in track]
    return sum(other.index < step.index for other in own) + 1


def _tracks(history: History, aside: Collection[str]) -> dict[str, Track]:
    """By name, those of clients before those of faults, and those before the order around each key."""
    tracks: dict[str, Track] = {}
    held = _held(history)
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
            yield _Step(op.index, op.time, (op.f, op.key, op.type, _refusal(op)), _told(op, held.get(op.index)))


def _without_repeats(track: Iterator[_Step]) -> Iterator[_Step]:
    """How often somebody asked in vain, one time after the other, is a matter of times."""
    steps = list(track)
    yield from steps[:1]
    yield from (step for before, step in pairwise(steps) if step.facts != before.facts or step.facts[2] == "ok")


def _refusal(op: Op) -> str | None:
    """Of a refusal, which one: what else errors say differs between simulated and real servers."""
    return op.error if op.type == "fail" and ":" not in str(op.error) else None


def _told(op: Op, holder: str | None) -> str:
    what = f"{op.node}'s {op.f}" + (f" of {op.key}" if op.key is not None else "")
    if op.type == "ok" and op.f == "acquire":
        return f"{op.node} was granted {op.key}" + (f" while {holder} held it" if holder else "")
    endings = {"ok": "succeeded", "fail": f"failed: {op.error}", "info": f"ended without an answer: {op.error}"}
    return f"{what} {endings[op.type]}"


def _held(history: History) -> dict[int, str]:
    """By a grant's index, another client that had been granted the key by then, and had not begun to release it."""
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
    """Grants of a key and the ends of holds, in their order."""
    for op in history:
        if op.key != key or op.process == NEMESIS:
            continue
        if op.f == "acquire" and op.type == "ok":
            yield _Step(op.index, op.time, (GRANTED, op.node), _told(op, held.get(op.index)))
        elif op.f == "release" and op.type == "invoke":
            yield _Step(op.index, op.time, ("released", op.node), f"{op.node} began to release {key}")


def _faults(injected: list[Op]) -> Iterator[_Step]:
    for op in injected:
        if op.type == "invoke":
            hosts = tuple(op.value["hosts"])
            yield _Step(op.index, op.time, (op.value["fault"], hosts), f"{op.value['fault']} struck {', '.join(hosts)}")


def _observed(injected: list[Op]) -> Iterator[_Step]:
    """Each fault when it struck, and whether it was seen to have an effect."""
    ends = {op.value["id"]: op for op in injected if op.type != "invoke"}
    begun = {op.value["id"]: op for op in injected if op.type == "invoke"}
    for number in sorted({*ends, *begun}):
        op = begun.get(number) or ends[number]
        end = ends.get(number)
        effect = None if end is None else end.type == "ok"
        name, hosts = op.value["fault"], tuple(op.value["hosts"])
        words = f"{name} struck {', '.join(hosts)}" if hosts else f"{name} struck nobody"
        told = "" if effect or end is None else f", {end.error}"
        yield _Step(op.index, op.time, (name, hosts, effect), words + told)
