"""Resources of a check: two connected lock programs, further programs, unused keys, and loss of network data."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from .program import ProgramAnswer, ProgramUnderTest, expect
from .testbed import CLIENTS, ConformanceSettings, LostData, Testbed


@dataclass(frozen=True, slots=True)
class Check:
    """A conformance check. ``proves`` is a sentence for reports; ``run`` raises :class:`.program.CheckFailed` or
    :class:`.program.CheckSkipped`."""

    name: str
    proves: str
    run: Callable[[CheckContext], None]


class CheckContext:
    """Programs and keys for checks. Programs stay connected between checks, unless they were killed or asked to end."""

    def __init__(self, testbed: Testbed, settings: ConformanceSettings) -> None:
        self.settings = settings
        self.programs: list[ProgramUnderTest] = []
        """All programs that were started."""
        self._testbed = testbed
        self._connected: dict[str, ProgramUnderTest] = {}
        self._run = secrets.token_hex(3)
        self._keys = 0

    @property
    def first(self) -> ProgramUnderTest:
        return self._at(CLIENTS[0])

    @property
    def second(self) -> ProgramUnderTest:
        return self._at(CLIENTS[1])

    def both(self) -> tuple[ProgramUnderTest, ProgramUnderTest]:
        return self.first, self.second

    def _at(self, client: str) -> ProgramUnderTest:
        program = self._connected.get(client)
        if program is None or program.status() is not None:
            program = self._connected[client] = self.fresh(client)
            expect(self.open(program), "ok", "the servers are running")
        return program

    def fresh(self, client: str = CLIENTS[0]) -> ProgramUnderTest:
        """Start another program, not connected yet."""
        program = ProgramUnderTest(client, self.settings, partial(self._testbed.start, client))
        self.programs.append(program)
        return program

    def open(self, program: ProgramUnderTest) -> ProgramAnswer:
        request = program.send("open", **self._testbed.open_fields(program.client), ttl=self.settings.ttl)
        return program.answer(request, self.settings.start)

    def key(self) -> str:
        """Return a key that was never used, in this run or another."""
        self._keys += 1
        return f"conformance-{self._run}-{self._keys}"

    @contextlib.contextmanager
    def data_loss(self, program: ProgramUnderTest, lost_data: LostData) -> Iterator[None]:
        """Context in which data between a program and its servers is lost."""
        self._testbed.start_losing(program.client, lost_data)
        try:
            yield
        finally:
            self._testbed.stop_losing()

    def clear(self) -> None:
        """Kill all programs; the next check starts new ones."""
        self._testbed.stop_losing()
        for program in self.programs:
            program.kill()
        self._connected.clear()
