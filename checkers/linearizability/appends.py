"""The appends to keys of a store, and the appends that the texts that gets returned consist of.

:mod:`harness.checkers.linearizability.chains` says what follows from them.
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
import numpy.typing as npt

from harness.checkers.models.key_value import text
from harness.history.calls import NONE, Calls, Ints

from .elements import failure
from .problem import ProvedImpossible


class Appends:
    """The appends of the keys that have any, as writes that follow a certain value.

    A text that a get returned is divided into the text of a put (or none) and those of appends. If that is possible in
    two ways, or if texts occur twice, the key is ambiguous.
    """

    def __init__(self, calls: Calls, numbers: dict[Hashable, int], ambiguous: npt.NDArray[np.bool_]) -> None:
        self._calls, self._numbers, self._ambiguous = calls, numbers, ambiguous
        self.failures: list[ProvedImpossible] = []

    def fill(self, before: Ints, after: Ints) -> None:
        """Set the numbers of the values before and after each append."""
        calls, numbers = self._calls, self._numbers
        appends = np.flatnonzero(calls.named(["append"]))
        for row in appends.tolist():
            after[row] = numbers.setdefault(("an append of which no get tells", row), len(numbers))
        by_key = np.argsort(calls.key, kind="stable")
        for key in np.unique(calls.key[appends]).tolist():
            begin, end = np.searchsorted(calls.key[by_key], [key, key + 1]).tolist()
            try:
                self._fill_key(by_key[begin:end], before, after)
            except _AmbiguousError:
                self._ambiguous[key] = True

    def _fill_key(self, rows: Ints, before: Ints, after: Ints) -> None:
        texts = _Texts(self._calls, rows)
        told: dict[int, tuple[str, list[int]]] = {}
        follows: dict[int, str] = {}
        for got, get in texts.got.items():
            parts = texts.parts(got)
            for number, write in enumerate(parts):
                value = "".join(texts.of[one] for one in parts[:number])
                if write in told and (told[write][0] != value or write in parts[:number]):
                    self.failures.append(failure(self._calls, {*parts, get, *told[write][1]}))
                    after[texts.got_by] = NONE  # what they tell contradicts itself, so nothing follows from it
                    return
                told.setdefault(write, (value, [*parts, get]))
                if number or write in texts.appends.values():
                    follows[write] = value
        for write, value in follows.items():
            before[write] = self._numbers.setdefault(value, len(self._numbers))
            after[write] = self._numbers.setdefault(value + texts.of[write], len(self._numbers))


class _AmbiguousError(Exception):
    """It cannot be told which writes a text consists of."""


class _Texts:
    """The texts of a key that has appends: ``of`` each write, and those that gets returned, each with one such get."""

    def __init__(self, calls: Calls, rows: Ints) -> None:
        self.of: dict[int, str] = {}
        self.got: dict[str, int] = {}
        self.got_by: list[int] = []
        """All gets that returned a text."""
        self.puts: dict[str, int] = {}
        self.appends: dict[str, int] = {}
        for row in rows.tolist():
            f = calls.fs[calls.f[row]]
            if f == "get" and not calls.known[row]:
                continue
            value = text(calls.result_of(row) if f == "get" else calls.argument_of(row))
            if f == "cas" or not isinstance(value, str):
                raise _AmbiguousError
            if f == "get":
                self.got.setdefault(value, row)
                self.got_by.append(row)
                continue
            if not value or value in (self.puts if f == "put" else self.appends):
                raise _AmbiguousError
            self.of[row] = value
            (self.puts if f == "put" else self.appends)[value] = row
        self._lengths = sorted({len(one) for one in self.of.values()})

    def parts(self, value: str) -> list[int]:
        """Return the writes whose texts ``value`` consists of; none if there are no such writes."""
        found: list[int] = []
        at = 0
        while at < len(value):
            some = [value[at : at + length] for length in self._lengths if at + length <= len(value)]
            fitting = [self.appends[one] for one in some if one in self.appends]
            if not at:
                fitting += [self.puts[one] for one in some if one in self.puts]
            if len(fitting) > 1:
                raise _AmbiguousError
            if not fitting:
                return []
            found += fitting
            at += len(self.of[fitting[0]])
        return found
