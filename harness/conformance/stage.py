"""What a check has to work with: two programs that are connected, more of them if need be, fresh keys, and silence."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from .bench import SEATS, Bench, Lost, Settings
from .program import Answer, Program, expect


@dataclass(frozen=True, slots=True)
class Check:
    """``proves`` is a sentence; ``run`` raises :class:`.program.Failed` or :class:`.program.Skipped`."""

    name: str
    proves: str
    run: Callable[[Stage], None]


class Stage:
    """Programs stay connected from one check to the next, unless they were killed or asked to end."""

    def __init__(self, bench: Bench, settings: Settings) -> None:
        self.settings = settings
        self.programs: list[Program] = []
        """All that were ever started."""
        self._bench = bench
        self._seated: dict[str, Program] = {}
        self._run = secrets.token_hex(3)
        self._keys = 0

    @property
    def first(self) -> Program:
        return self._at(SEATS[0])

    @property
    def second(self) -> Program:
        return self._at(SEATS[1])

    def both(self) -> tuple[Program, Program]:
        return self.first, self.second

    def _at(self, seat: str) -> Program:
        seated = self._seated.get(seat)
        if seated is None or seated.status() is not None:
            seated = self._seated[seat] = self.fresh(seat)
            expect(self.open(seated), "ok", "the servers are there")
        return seated

    def fresh(self, seat: str = SEATS[0]) -> Program:
        """One more program, which has not connected yet."""
        program = Program(seat, self.settings, partial(self._bench.start, seat))
        self.programs.append(program)
        return program

    def open(self, program: Program) -> Answer:
        asked = program.send("open", **self._bench.opening(program.seat), ttl=self.settings.ttl)
        return program.answer(asked, self.settings.start)

    def key(self) -> str:
        """A key that nobody has used, in this run or another."""
        self._keys += 1
        return f"conformance-{self._run}-{self._keys}"

    @contextlib.contextmanager
    def lost(self, program: Program, lost: Lost) -> Iterator[None]:
        """What does not pass between a program and its servers meanwhile."""
        self._bench.lose(program.seat, lost)
        try:
            yield
        finally:
            self._bench.restore()

    def clear(self) -> None:
        """End all programs: what follows begins with new ones."""
        self._bench.restore()
        for program in self.programs:
            program.kill()
        self._seated.clear()
