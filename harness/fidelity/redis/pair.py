"""The same steps for the simulated Redis and a real redis-server: commands of three clients, clock moves, faults.

Connections ``a`` and ``b`` speak RESP2, ``c`` speaks RESP3. The steps are:

- ``("a", "set", "k", "v")``: a command on a connection, which is opened if need be.
- ``("close", "a")``: the client closes its connection.
- ``("clock", 100)``: the wall clock moves by ms, also backwards. Until ``("expire",)`` no expired key is deleted that
  no command uses.
- ``("fault", "pause")``, ``("fault", "resume")``, ``("fault", "restart", "with data")`` or ``"without data"``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from harness.fidelity.comparison import AnswerPair, Step
from harness.fidelity.simulated import SteppedConnection, SteppedHost
from harness.protocols.redis_replies import UNORDERED, replies
from harness.sim.servers.redis.expiry import PERIOD_NS, end_timed_out_waits
from harness.sim.servers.redis.protocol import encode_command
from harness.sim.servers.redis.server import RedisServer

from .known import known
from .real import RealConnection, RealRedis, missing
from .steps import RESP3, steps

START_MS: Final = 1_767_225_600_000
"""Wall-clock time at the start of each sequence: 2026-01-01T00:00:00Z."""
NS_PER_MS: Final = 1_000_000
BELOW_MS_NS: Final = 250_500
"""Both wall clocks stand so long after a whole ms: see :mod:`harness.fidelity.redis.real`."""
_LEFT: Final = re.compile(r"(>?\['p?unsubscribe', )('.*')(, :\d+\])")
_HELLO: Final = encode_command([b"hello", b"3"])


class RedisComparison:
    """The simulated Redis and a redis-server; a :class:`~harness.fidelity.comparison.Server`."""

    name = "redis"

    def missing(self) -> str:
        return missing()

    @contextmanager
    def start(self) -> Iterator[RedisPair]:
        real = RealRedis()
        real.start()
        try:
            yield RedisPair(real)
        finally:
            real.stop()


class RedisPair:
    """A running redis-server, and a new simulated one for each sequence."""

    def __init__(self, real: RealRedis) -> None:
        self._real = real
        self.version = real.version()

    def steps(self, seed: int) -> Sequence[Step]:
        return steps(seed)

    def known(self, step: Step, answers: AnswerPair) -> str:
        return known(step, answers)

    def run(self, steps: Sequence[Step]) -> Iterator[AnswerPair]:
        trial = Trial(self._real)
        try:
            for step in steps:
                yield trial.take(step)
        finally:
            trial.close()


class Trial:
    """One execution of a sequence on both servers, which are empty at its start."""

    def __init__(self, real: RealRedis) -> None:
        self._real = real
        self._now_ms = START_MS
        real.reset(START_MS)
        self.server = RedisServer()
        self._host = SteppedHost(self.server, START_MS * NS_PER_MS + BELOW_MS_NS)
        self._simulated: dict[str, SteppedConnection] = {}
        self._connections: dict[str, RealConnection] = {}
        self._sender: str | None = None
        """The connection that sent during a pause. The real server serves several in any order after it."""

    def take(self, step: Step) -> AnswerPair:
        match step:
            case ("close", str(name)):
                return self._close(name)
            case ("clock", int(ms)):
                return self._move_clock(ms)
            case ("expire",):
                return self._expire()
            case ("fault", *what):
                return self._fault(*what)
            case (str(name), *words):
                return self._command(name, [str(word) for word in words])
        raise ValueError(f"not a step: {step!r}")

    def close(self) -> None:
        self._real.resume()
        for connection in self._connections.values():
            connection.close()

    def _command(self, name: str, words: Sequence[str]) -> AnswerPair:
        if self._host.paused and self._sender not in (None, name):
            return AnswerPair("", "")
        if self._host.paused:
            if name not in self._connections:  # a paused server accepts no connection, and says no hello
                return AnswerPair("", "")
            self._sender = name
        data = encode_command([word.encode() for word in words])
        self._open(name)
        self._simulated[name].ask(data)
        self._connections[name].send(data)
        return self._answers(words)

    def _open(self, name: str) -> None:
        if name in self._connections:
            return
        self._connections[name] = real = self._real.connect()
        self._simulated[name] = simulated = SteppedConnection(self._host, name)
        if name in RESP3:
            simulated.ask(_HELLO)
            simulated.take()
            real.send(_HELLO)
            real.wait(1, 60)
        else:
            self._real.settle()  # the order of connections is that of their acceptance

    def _answers(self, words: Sequence[str] = ()) -> AnswerPair:
        """Return what arrived on all connections since the last step."""
        if self._host.paused:
            return AnswerPair("", "")
        self._host.run_timers(0)  # clients that waited go on with what they sent meanwhile
        lower = {word.lower() for word in words}
        unordered = not UNORDERED.isdisjoint(lower) or "exec" in lower
        sent = {name: replies(one.take(), unordered=unordered)[0] for name, one in self._simulated.items()}
        engine = self.server
        alone = sum(map(len, sent.values())) > 0 and not (engine.blocked or engine.channels or engine.patterns)
        expected = {name: len(found) for name, found in sent.items()}
        came = self._real.collect(self._connections, expected, alone=alone, unordered=unordered)
        simulated = _text(sent, [name for name, one in self._simulated.items() if one.closed])
        real = _text(came, self._closed(simulated))
        for name in [name for name, one in self._simulated.items() if one.closed]:
            self._drop(name)
        return AnswerPair(real, simulated)

    def _closed(self, simulated: str) -> list[str]:
        """Return the connections that the real server closed. It may do so a moment after its last reply."""
        return [
            name
            for name, one in self._connections.items()
            if one.closed or (f"{name} closed" in simulated and not one.wait(1, 1) and one.closed)
        ]

    def _drop(self, name: str) -> None:
        self._connections.pop(name).close()
        self._simulated.pop(name).hang_up()

    def _close(self, name: str) -> AnswerPair:
        if name not in self._connections or self._host.paused:
            return AnswerPair("", "")
        self._drop(name)
        self._real.settle()
        return self._answers()

    def _move_clock(self, ms: int) -> AnswerPair:
        if self._host.paused and self.server.blocked:
            # After a pause the real server may serve what was sent before it ends the waits, or the other way round.
            return AnswerPair("", "")
        self._now_ms += ms
        self._host.wall += ms * NS_PER_MS
        self._real.set_clock(self._now_ms)
        if not self._host.paused:
            self._end_waits()
        return self._answers()

    def _end_waits(self) -> None:
        """The real server looks for time-outs after each event; the simulated one with a timer."""
        end_timed_out_waits(self.server)
        self.server.flush_unsent()

    def _expire(self) -> AnswerPair:
        if self._host.paused:
            return AnswerPair("", "")
        self._host.run_timers(PERIOD_NS)
        size = self.server.size()
        real = self._real.expire_keys(size)
        answers = self._answers()
        return AnswerPair(f"{answers.real} keys {real}", f"{answers.simulated} keys {size}")

    def _fault(self, what: str, data: str = "") -> AnswerPair:
        if what == "pause" and not self._host.paused:
            self._real.settle()
            self._real.pause()
            self._host.pause()
            self._sender = None
        elif what == "resume" and self._host.paused:
            self._host.resume()
            self._real.resume()
            return self._answers()
        elif what == "restart":
            return self._restart(with_data=data == "with data")
        return AnswerPair("", "")

    def _restart(self, *, with_data: bool) -> AnswerPair:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()
        self._simulated.clear()
        self._host.restart(with_data=with_data)
        self._real.restart(with_data=with_data)
        return self._expire()  # as the new server has done before it was told to leave expired keys alone


def _sorted_channels(texts: Sequence[str]) -> list[str]:
    """Sort the channels that a client leaves at once. Redis leaves them in the order of its hash table."""
    left = iter(sorted(found[2] for text in texts if (found := _LEFT.fullmatch(text))))
    return [f"{found[1]}{next(left)}{found[3]}" if (found := _LEFT.fullmatch(text)) else text for text in texts]


def _text(found: Mapping[str, Sequence[str]], closed: Sequence[str]) -> str:
    lines = [f"{name}: {text}" for name, texts in sorted(found.items()) for text in _sorted_channels(texts)]
    return "; ".join([*lines, *(f"{name} closed" for name in sorted(closed))])
