"""Talk to a lock program under test: send requests, match answers to them, and collect protocol errors."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from .testbed import ConformanceSettings, ProgramHandle

OUTCOMES: Final = ("ok", "fail", "info", "error")
NOT_ONE_OUTCOME: Final = f"which has not exactly one of {', '.join(OUTCOMES)}"
MAX_SHOWN_CHARACTERS: Final = 300
"""Characters of a line that a message shows."""
SHOWN_LINES: Final = 3
SURPLUS_WAIT_S: Final = 0.1
"""Seconds within which a surplus line would have arrived."""
SAFE_TTL_SHARE: Final = 0.9
"""Share of the ttl after which a lease, counted from its request, may have ended."""


StartProgram = Callable[[Callable[[bytes], None]], ProgramHandle]
"""Starts a program, given the callback for each line of its stdout."""


@dataclass(frozen=True, slots=True)
class ProgramAnswer:
    """A request with its answer. ``line`` is empty if no answer came; ``why`` explains that, or why a line is no valid
    answer."""

    client: str
    request: str
    line: str
    body: dict[str, Any]
    sent_at: float
    """Monotonic time at which the request was sent."""
    seconds: float
    why: str = ""

    @property
    def outcome(self) -> str:
        """One of :data:`OUTCOMES`, ``nothing`` without an answer, ``malformed`` if the line is no valid answer."""
        if not self.line:
            return "nothing"
        outcomes = [name for name in OUTCOMES if name in self.body]
        return outcomes[0] if len(outcomes) == 1 else "malformed"

    @property
    def value(self) -> Any:
        return self.body.get(self.outcome)

    @property
    def answered_at(self) -> float:
        """Monotonic time at which the answer arrived or was given up."""
        return self.sent_at + self.seconds

    def __str__(self) -> str:
        request = f"{self.client} received the request {_short(self.request)}"
        if not self.line:
            return f"{request} and did not answer{self.why}"
        problem = self.why or (NOT_ONE_OUTCOME if self.outcome == "malformed" else "")
        return f"{request} and answered {_short(self.line)}{problem and f', {problem},'} after {self.seconds:.2f} s"


class CheckFailed(Exception):
    """A check failed. ``seen`` are the observations, ``expected`` the expectation with its reason."""

    def __init__(self, expected: str, *seen: ProgramAnswer | ProgramHold | str) -> None:
        self.expected = expected
        self.seen = tuple(map(str, seen))
        super().__init__("; ".join([*self.seen, f"expected {expected}"]))


class CheckSkipped(Exception):
    """A check does not apply to this lock; the message says why."""


class CheckTooSlow(Exception):
    """A check cannot be judged, since it took longer than the lease that it is about."""


@dataclass(frozen=True, slots=True)
class ProgramHold:
    """A granted key. Its lease began at the request or later."""

    answer: ProgramAnswer
    ttl: float

    def check_not_expired(self, until: ProgramAnswer) -> None:
        """Raise :class:`CheckTooSlow` if the lease may have ended before an answer that depends on it."""
        seconds = until.answered_at - self.answer.sent_at
        if until.outcome in ("ok", "fail") and seconds > self.ttl * SAFE_TTL_SHARE:
            raise CheckTooSlow(
                f"it took {seconds:.1f} s, longer than the ttl of {self.ttl:g} s allows, and the lease may have ended: "
                "raise --ttl"
            )

    def __str__(self) -> str:
        return str(self.answer)


def expect(answer: ProgramAnswer, outcome: str, why: str, held: ProgramHold | None = None) -> ProgramAnswer:
    """Return an answer with the expected outcome, else raise :class:`CheckFailed`. If the expectation depends on a
    lease, that is ``held``."""
    if answer.outcome != outcome:
        if held is not None:
            held.check_not_expired(answer)
        raise CheckFailed(f"{outcome!r}: {why}", answer)
    return answer


@dataclass(frozen=True, slots=True)
class SentRequest:
    """A request that was sent."""

    number: int
    line: str
    sent_at: float
    earlier_stray_lines: int
    """Number of stray lines that the program wrote before the request was sent."""
    key: str
    """Key of an acquire; empty for other requests."""


class ProgramUnderTest:
    """A running lock program. Requests are numbered from 1.

    Protocol errors are collected by kind, so that a check of another property can continue as far as possible.
    """

    def __init__(self, client: str, settings: ConformanceSettings, start: StartProgram) -> None:
        self.client = client
        self.stray_lines: list[str] = []
        """Lines on stdout that are no JSON answers."""
        self.surplus_answers: list[str] = []
        """Answers without a request, second answers, and answers without exactly one outcome."""
        self.out_of_order: list[str] = []
        """Answers that arrived before those to earlier requests."""
        self.holds: dict[str, ProgramHold] = {}
        """Last grant of each key."""
        self._settings = settings
        self._changed = threading.Condition()
        self._waiting: dict[int, SentRequest] = {}
        self._answers: dict[int, tuple[str, dict[str, Any], float]] = {}
        self._malformed: tuple[str, str] | None = None
        """(Line, error) of a line that was meant as an answer but is malformed."""
        self._number = 0
        self._process = start(self._receive)

    # Requests.

    def send(self, op: str, **fields: Any) -> SentRequest:
        """Send a request without waiting for the answer."""
        with self._changed:
            self._number += 1
            line = msgspec.json.encode({"id": self._number, "op": op, **fields})
            key = fields["key"] if op == "acquire" else ""
            sent = SentRequest(self._number, line.decode(), time.monotonic(), len(self.stray_lines), key)
            self._waiting[sent.number] = sent
            with contextlib.suppress(OSError):  # a program that has ended is reported when the answer is missing
                self._process.send(line)
        return sent

    def answer(self, sent: SentRequest, within: float) -> ProgramAnswer:
        """Return the answer to a request, waiting until ``within`` seconds after it was sent."""
        deadline = sent.sent_at + within
        with self._changed:
            while sent.number not in self._answers and self._malformed is None:
                left = deadline - time.monotonic()
                if left <= 0 or (self.status() is not None and not self._changed.wait(SURPLUS_WAIT_S)):
                    break
                self._changed.wait(min(left, SURPLUS_WAIT_S))
            (line, why), self._malformed = self._malformed or ("", ""), None
            line, body, answered_at = self._answers.get(sent.number, (line, {}, time.monotonic()))
        seconds = answered_at - sent.sent_at
        if not line:
            why = self._why_unanswered(sent, seconds)
        answer = ProgramAnswer(self.client, sent.line, line, body, sent.sent_at, seconds, "" if body else why)
        if sent.key and answer.outcome == "ok":
            self.holds[sent.key] = ProgramHold(answer, self._settings.ttl)
        return answer

    def request(self, op: str, **fields: Any) -> ProgramAnswer:
        """Send a request that should be answered at once, and return its answer."""
        return self.answer(self.send(op, **fields), self._settings.patience)

    def acquire(self, key: str, timeout: float = 0.0) -> ProgramAnswer:
        return self.answer(self.send("acquire", key=key, timeout=timeout), timeout + self._settings.patience)

    def release(self, key: str) -> ProgramAnswer:
        return self.request("release", key=key)

    def acquire_free(self, key: str) -> ProgramHold:
        """Acquire a key that is free."""
        expect(self.acquire(key, self._settings.timeout), "ok", "the key is free, and the servers answer")
        return self.holds[key]

    def release_held(self, key: str) -> ProgramAnswer:
        """Release a key that the program holds."""
        why = f"{self.client} holds the key, and the servers answer"
        return expect(self.release(key), "ok", why, self.holds[key])

    # End of the program.

    def end_input(self) -> None:
        self._process.end_input()

    def kill(self) -> None:
        self._process.kill()

    def status(self) -> int | None:
        return self._process.status()

    def wait_for_end(self, within: float) -> int | None:
        """Return the exit status, ``None`` if the program still runs after ``within`` seconds."""
        deadline = time.monotonic() + within
        while (status := self.status()) is None and time.monotonic() < deadline:
            time.sleep(0.01)
        return status

    def _why_unanswered(self, sent: SentRequest, seconds: float) -> str:
        wrote = " and ".join(repr(_short(text)) for text in self.stray_lines[sent.earlier_stray_lines :][:SHOWN_LINES])
        status = self.status()
        if status is None:
            why = f" within {seconds:.2f} s{self._why_late(sent)}"
        else:
            lines = " | ".join(self._process.stderr_lines[-SHOWN_LINES:])
            why = f": the program has ended with status {status}{lines and f'; end of its stderr: {lines}'}"
        return f"{why}; it wrote {wrote} to its stdout, which is no answer" if wrote else why

    def _why_late(self, sent: SentRequest) -> str:
        """Explain a missing answer that arrives after the next request; empty if it does not arrive then either."""
        self.send("no-such-op")
        with self._changed:
            self._changed.wait_for(lambda: sent.number in self._answers, SURPLUS_WAIT_S)
            line, _, _ = self._answers.get(sent.number, ("", {}, 0.0))
        return line and f"; it answered {_short(line)} only after the next request"

    # Output of the program.

    def _receive(self, line: bytes) -> None:
        text, answered_at = line.decode(errors="replace").rstrip("\r"), time.monotonic()
        with self._changed:
            self._sort(text, _json(line), answered_at)
            self._changed.notify_all()

    def _sort(self, text: str, message: Any, answered_at: float) -> None:
        if not _looks_like_answer(message):
            self.stray_lines.append(text)
            return
        problem = self._why_no_answer(message)
        if problem:
            self.surplus_answers.append(f"{self.client} wrote {_short(text)}, {problem}")
            if self._waiting:  # the caller need not wait longer
                self._malformed = text, problem
            return
        number, body = message["id"], message
        if number not in self._waiting:
            self.surplus_answers.append(f"{self.client} wrote {_short(text)}, a second answer")
            return
        first = next(iter(self._waiting))
        sent = self._waiting.pop(number)
        if number != first:
            self.out_of_order.append(
                f"{self.client} answered request {number}, {_short(sent.line)}, before {first}, "
                f"{_short(self._waiting[first].line)}, which was sent earlier"
            )
        if sum(name in body for name in OUTCOMES) != 1:
            self.surplus_answers.append(f"{self.client} wrote {_short(text)}, {NOT_ONE_OUTCOME}")
        self._answers[number] = text, body, answered_at

    def _why_no_answer(self, message: Any) -> str:
        """Return why a line is no answer to any request; empty if it is one."""
        if not isinstance(message, dict):
            return "which is no JSON object"
        if "id" not in message:
            return "which has no id"
        number = message["id"]
        known = type(number) is int and (number in self._waiting or number in self._answers)
        return "" if known else "whose id is not that of a request"


def _looks_like_answer(message: Any) -> bool:
    """Return True if a line is meant as an answer, even if the id is missing or an array encloses it."""
    found = [message]
    while found:  # not recursive: a program may nest arrays as deeply as it likes
        one = found.pop()
        if isinstance(one, dict) and not {"id", *OUTCOMES}.isdisjoint(one):
            return True
        if isinstance(one, list):
            found += one
    return False


def _json(line: bytes) -> Any:
    try:
        return msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError):
        return None


def _short(text: str) -> str:
    return text if len(text) <= MAX_SHOWN_CHARACTERS else f"{text[:MAX_SHOWN_CHARACTERS]}..."
