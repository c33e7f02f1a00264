"""One lock program that is talked to: what it was asked, what it answered, and what was wrong with that."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from .bench import Settings, Wire

OUTCOMES: Final = ("ok", "fail", "info", "error")
NOT_ONE: Final = f"which has not exactly one of {', '.join(OUTCOMES)}"
SHOWN: Final = 300
"""Letters of a line that a message shows."""
SHOWN_LINES: Final = 3
SPLIT_SECOND: Final = 0.1
"""Seconds in which a line that is one too many would have come."""
NEAR: Final = 0.9
"""Of a ttl: what took longer since a lease was asked for says nothing, it may have ended."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A request and what came of it. ``line`` is empty where no answer came; ``why`` says more about that, or about one
    that is none."""

    seat: str
    request: str
    line: str
    body: dict[str, Any]
    asked: float
    """Monotonic time at which the request was sent."""
    seconds: float
    why: str = ""

    @property
    def outcome(self) -> str:
        """One of :data:`OUTCOMES`, ``nothing`` if it was not answered, ``malformed`` if it is no answer."""
        if not self.line:
            return "nothing"
        outcomes = [name for name in OUTCOMES if name in self.body]
        return outcomes[0] if len(outcomes) == 1 else "malformed"

    @property
    def value(self) -> Any:
        return self.body.get(self.outcome)

    @property
    def at(self) -> float:
        """Monotonic time at which it was there, or given up."""
        return self.asked + self.seconds

    def __str__(self) -> str:
        asked = f"{self.seat} was asked {_short(self.request)}"
        if not self.line:
            return f"{asked} and did not answer{self.why}"
        wrong = self.why or (NOT_ONE if self.outcome == "malformed" else "")
        return f"{asked} and answered {_short(self.line)}{wrong and f', {wrong},'} after {self.seconds:.2f} s"


class Failed(Exception):
    """A check that does not hold: what was ``seen``, and what was ``expected`` and why."""

    def __init__(self, expected: str, *seen: Answer | Hold | str) -> None:
        self.expected = expected
        self.seen = tuple(map(str, seen))
        super().__init__("; ".join([*self.seen, f"expected {expected}"]))


class Skipped(Exception):
    """A check that says nothing about this lock, and why."""


class TooSlow(Exception):
    """Nobody can judge a check: it took longer than the lease that it was about."""


@dataclass(frozen=True, slots=True)
class Hold:
    """A key that was granted: its lease began when it was asked for, or later."""

    answer: Answer
    ttl: float

    def lasts(self, until: Answer) -> None:
        """Raises :class:`TooSlow` unless the lease surely lasted until an answer was there, one that goes by it."""
        seconds = until.at - self.answer.asked
        if until.outcome in ("ok", "fail") and seconds > self.ttl * NEAR:
            raise TooSlow(
                f"it took {seconds:.1f} s, longer than the ttl of {self.ttl:g} s allows, and the lease may have ended: "
                "raise --ttl"
            )

    def __str__(self) -> str:
        return str(self.answer)


def expect(answer: Answer, outcome: str, why: str, held: Hold | None = None) -> Answer:
    """The answer, if it is that. Where it has to be so only while a lease lasts, that is ``held``."""
    if answer.outcome != outcome:
        if held is not None:
            held.lasts(answer)
        raise Failed(f"{outcome!r}: {why}", answer)
    return answer


@dataclass(frozen=True, slots=True)
class Asked:
    """``noise`` is how much of that there was before it."""

    number: int
    line: str
    at: float
    noise: int
    key: str
    """Of an acquire, else empty."""


class Program:
    """Requests are numbered from 1. What it says wrongly is kept, by what is wrong with it: a check that is about
    something else goes on, as far as that is possible."""

    def __init__(self, seat: str, settings: Settings, start: Callable[[Callable[[bytes], None]], Wire]) -> None:
        self.seat = seat
        self.noise: list[str] = []
        """Lines that are no answers at all."""
        self.surplus: list[str] = []
        """Answers that nobody asked for, second ones, and those that have not exactly one outcome."""
        self.disorder: list[str] = []
        """Answers that came before those to earlier requests."""
        self.holds: dict[str, Hold] = {}
        """What it was granted last, by key."""
        self._settings = settings
        self._changed = threading.Condition()
        self._waiting: dict[int, Asked] = {}
        self._heard: dict[int, tuple[str, dict[str, Any], float]] = {}
        self._strange: tuple[str, str] | None = None
        """What must be an answer, and why it is none."""
        self._number = 0
        self._wire = start(self._hear)

    # Requests.

    def send(self, op: str, **fields: Any) -> Asked:
        """Ask, and do not wait."""
        with self._changed:
            self._number += 1
            line = msgspec.json.encode({"id": self._number, "op": op, **fields})
            key = fields["key"] if op == "acquire" else ""
            asked = Asked(self._number, line.decode(), time.monotonic(), len(self.noise), key)
            self._waiting[asked.number] = asked
            with contextlib.suppress(OSError):  # that it is gone is told when the answer is missed
                self._wire.send(line)
        return asked

    def answer(self, asked: Asked, within: float) -> Answer:
        """What came of it, at the latest that many seconds after it was asked."""
        deadline = asked.at + within
        with self._changed:
            while asked.number not in self._heard and self._strange is None:
                left = deadline - time.monotonic()
                if left <= 0 or (self.status() is not None and not self._changed.wait(SPLIT_SECOND)):
                    break
                self._changed.wait(min(left, SPLIT_SECOND))
            (line, why), self._strange = self._strange or ("", ""), None
            line, body, at = self._heard.get(asked.number, (line, {}, time.monotonic()))
        seconds = at - asked.at
        if not line:
            why = self._why_silent(asked, seconds)
        answer = Answer(self.seat, asked.line, line, body, asked.at, seconds, "" if body else why)
        if asked.key and answer.outcome == "ok":
            self.holds[asked.key] = Hold(answer, self._settings.ttl)
        return answer

    def ask(self, op: str, **fields: Any) -> Answer:
        """The answer to what should take no time."""
        return self.answer(self.send(op, **fields), self._settings.patience)

    def acquire(self, key: str, timeout: float = 0.0) -> Answer:
        return self.answer(self.send("acquire", key=key, timeout=timeout), timeout + self._settings.patience)

    def release(self, key: str) -> Answer:
        return self.ask("release", key=key)

    def take(self, key: str) -> Hold:
        """Acquire a key that is free."""
        expect(self.acquire(key, self._settings.timeout), "ok", "the key is free, and the servers answer")
        return self.holds[key]

    def give(self, key: str) -> Answer:
        """Release a key that it holds."""
        return expect(self.release(key), "ok", "it holds the key, and the servers answer", self.holds[key])

    # Its end.

    def end_input(self) -> None:
        self._wire.end_input()

    def kill(self) -> None:
        self._wire.kill()

    def status(self) -> int | None:
        return self._wire.status()

    def ended(self, within: float) -> int | None:
        """Its exit status, None if it still runs then."""
        deadline = time.monotonic() + within
        while (status := self.status()) is None and time.monotonic() < deadline:
            time.sleep(0.01)
        return status

    def _why_silent(self, asked: Asked, seconds: float) -> str:
        wrote = " and ".join(repr(_short(text)) for text in self.noise[asked.noise :][:SHOWN_LINES])
        status = self.status()
        if status is None:
            why = f" within {seconds:.2f} s{self._why_late(asked)}"
        else:
            said = f"; its last words: {' | '.join(self._wire.said[-3:])}" if self._wire.said else ""
            why = f": the program has ended with status {status}{said}"
        return f"{why}; it wrote {wrote} to its stdout, which is no answer" if wrote else why

    def _why_late(self, asked: Asked) -> str:
        """Does it answer one request when the next has come? Asks for something harmless."""
        self.send("no-such-op")
        with self._changed:
            self._changed.wait_for(lambda: asked.number in self._heard, SPLIT_SECOND)
            line, _, _ = self._heard.get(asked.number, ("", {}, 0.0))
        return line and f"; it answered {_short(line)} only when it was asked something else"

    # What it says.

    def _hear(self, line: bytes) -> None:
        text, at = line.decode(errors="replace").rstrip("\r"), time.monotonic()
        with self._changed:
            self._sort(text, _json(line), at)
            self._changed.notify_all()

    def _sort(self, text: str, found: Any, at: float) -> None:
        if not _meant(found):
            self.noise.append(text)
            return
        wrong = self._why_none(found)
        if wrong:
            self.surplus.append(f"{self.seat} wrote {_short(text)}, {wrong}")
            if self._waiting:  # whoever waits need not wait longer
                self._strange = text, wrong
            return
        number, body = found["id"], found
        if number not in self._waiting:
            self.surplus.append(f"{self.seat} wrote {_short(text)}, a second answer")
            return
        first = next(iter(self._waiting))
        asked = self._waiting.pop(number)
        if number != first:
            self.disorder.append(
                f"{self.seat} answered request {number}, {_short(asked.line)}, before {first}, "
                f"{_short(self._waiting[first].line)}, which was sent earlier"
            )
        if sum(name in body for name in OUTCOMES) != 1:
            self.surplus.append(f"{self.seat} wrote {_short(text)}, {NOT_ONE}")
        self._heard[number] = text, body, at

    def _why_none(self, found: Any) -> str:
        """Why it is an answer to no request, or nothing."""
        if not isinstance(found, dict):
            return "which is no JSON object"
        if "id" not in found:
            return "which has no id"
        number = found["id"]
        known = type(number) is int and (number in self._waiting or number in self._heard)
        return "" if known else "whose id is not that of a request"


def _meant(found: Any) -> bool:
    """As an answer, right or wrong: also what has the id left out, or an array around it."""
    if isinstance(found, dict):
        return not {"id", *OUTCOMES}.isdisjoint(found)
    return isinstance(found, list) and any(map(_meant, found))


def _json(line: bytes) -> Any:
    try:
        return msgspec.json.decode(line)
    except msgspec.DecodeError:
        return None


def _short(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
