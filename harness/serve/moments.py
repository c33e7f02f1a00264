"""The violations of a stored run as moments that its report can open among its messages."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from harness.run import store as stores

from . import files, pages
from .index import LARGEST

MOST: Final = 20
"""Violations that the page of a run lists."""
LONGEST_LINE: Final = 1 << 20
"""The most bytes of the first line of a history."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A violation, and the address that opens it in the report of its run."""

    at_s: float
    """Seconds since the first entry of the history."""
    sentence: str
    address: str


class _Evidence(msgspec.Struct):
    sentence: str = ""
    from_ns: int | None = None


class _Checker(msgspec.Struct):
    valid: bool | None = None
    evidence: list[_Evidence] = []


class _Results(msgspec.Struct):
    checkers: dict[str, _Checker] = {}


class _Entry(msgspec.Struct):
    time: int


def moments(store: Path, lock: str, run: str) -> list[Moment]:
    """Return the first violations of a run in the order of time; none if its documents cannot be read."""
    try:
        results = msgspec.json.decode(_read(store, (lock, run, stores.RESULTS), LARGEST), type=_Results)
        first = _read(store, (lock, run, stores.HISTORY), LONGEST_LINE).split(b"\n", 1)[0]
        found = _violations(results, msgspec.json.decode(first, type=_Entry).time)
    except (OSError, ValueError, RecursionError, OverflowError):  # the page of the run says what is wrong with it
        return []
    report = pages.store_url(lock, run, stores.REPORT)
    return [
        Moment(at, sentence, f"{report}#t={at:.6f}&violation={number}")
        for number, (at, sentence) in enumerate(found[:MOST], 1)
    ]


def _violations(results: _Results, origin: int) -> list[tuple[float, str]]:
    """Return the time and sentence of each violation in the order of their numbers, which the report gives, too."""
    found = [
        ((one.from_ns - origin) / 1e9, one.sentence)
        for checker in results.checkers.values()
        for one in (checker.evidence if checker.valid is False else ())
        if one.from_ns is not None
    ]
    return sorted(found, key=lambda one: one[0])


def _read(store: Path, parts: tuple[str, ...], most: int) -> bytes:
    """Return at most the first ``most`` bytes of a file of the store; raises OSError if it cannot be read."""
    file = files.open_file(store, parts)
    if file is None:
        raise OSError(0, "it cannot be read")
    with file:
        return file.read(most)
