"""Every small history of a kind, one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, product
from typing import Any

from harness.history.calls import Calls
from tests.checkers.linear.build import Entry, calls

Doing = tuple[str, Any, Any]
"""A function, its argument, and what it returns if that is known."""


def histories(counts: Sequence[int], doings: Sequence[Doing], *, unknown: bool = True) -> Iterator[Calls]:
    """Yield every history in which client ``i`` makes ``counts[i]`` calls, each one of ``doings``, of known or
    unknown outcome, in every interleaving. After an unknown outcome a client continues under a new process number.

    A call of unknown outcome has no completion here: only the fact that its client continues matters."""
    outcomes = (True, False) if unknown else (True,)
    choices = list(product(doings, outcomes))
    for chosen in product(choices, repeat=sum(counts)):
        scripts = _scripts(counts, chosen)
        for order in _interleavings([len(script) for script in scripts]):
            at = [0] * len(scripts)
            entries: list[Entry] = []
            for client in order:
                entries.append(scripts[client][at[client]])
                at[client] += 1
            yield calls(entries, clients={number: number % len(counts) for number in range(100)})


def _scripts(counts: Sequence[int], chosen: Sequence[tuple[Doing, bool]]) -> list[list[Entry]]:
    left = iter(chosen)
    scripts: list[list[Entry]] = []
    for client, count in enumerate(counts):
        process = client
        script: list[Entry] = []
        for _ in range(count):
            (f, argument, result), known = next(left)
            script.append((process, "invoke", f, argument))
            if known:
                script.append((process, "ok", f, result))
            else:
                process += len(counts)
        scripts.append(script)
    return scripts


def _interleavings(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Yield every interleaving of scripts of these lengths, as the index of the script that takes each step."""
    if len(lengths) == 1:
        yield [0] * lengths[0]
        return
    for rest in _interleavings(lengths[1:]):
        for places in combinations(range(len(rest) + lengths[0]), lengths[0]):
            mine = set(places)
            others = iter(rest)
            yield [0 if place in mine else next(others) + 1 for place in range(len(rest) + lengths[0])]
