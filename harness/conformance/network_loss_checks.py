"""Checks of a program whose servers do not answer: it must report an unknown outcome (``info``).

Each check first makes a harmless request, so that there is a connection on which the next request can leave. The
program is not reused afterwards: its connections may have broken, and recovery is a check of its own.
"""

from __future__ import annotations

import time
from typing import Final

from .check_context import Check, CheckContext
from .program import CheckFailed, ProgramAnswer, ProgramUnderTest, expect

ATTEMPTS: Final = 3
"""Attempts by another client to find out whether an acquire took effect although its answer was lost."""
RETRY_INTERVAL_S: Final = 0.1
"""Seconds between requests to a program that has not recovered yet."""
REASONS: Final = {
    "ok": "; 'ok' would claim that it took effect",
    "fail": "; 'fail' would claim that it did not take effect",
    "nothing": "; a program must report that soon, however long servers are silent",
}
"""Explanation of a wrong answer, or of none, to a request with an unknown outcome."""


def silent_acquire(context: CheckContext) -> None:
    first = context.first
    _connect(context, first)
    with context.data_loss(first, "everything"):
        _expect_info(first.acquire(context.key(), context.settings.timeout))
    first.kill()


def silent_release(context: CheckContext) -> None:
    first, key = context.first, context.key()
    first.acquire_free(key)
    with context.data_loss(first, "everything"):
        _expect_info(first.release(key))
    first.kill()


def lost_answer(context: CheckContext) -> None:
    first, second = context.both()
    key = context.key()
    _connect(context, first)
    with context.data_loss(first, "answers"):
        request = first.send("acquire", key=key, timeout=context.settings.timeout)
        busy_answer = _busy_answer(context, second, key)
        answer = first.answer(request, context.settings.timeout + context.settings.patience)
    first.kill()
    if answer.outcome == "fail" and busy_answer is None:
        return  # no other client found the key busy, so 'fail' may be right
    if answer.outcome != "info":
        why = f"info: the servers' answers to {first.client} were lost"
        if busy_answer is None:
            raise CheckFailed(why, answer)
        raise CheckFailed(f"{why}; no other client used the key, so {first.client} holds it", busy_answer, answer)


def _busy_answer(context: CheckContext, other: ProgramUnderTest, key: str) -> ProgramAnswer | None:
    """Let another client try the key a few times, and return its first answer ``fail``, if any."""
    for _ in range(ATTEMPTS):
        time.sleep(context.settings.wait / (2 * ATTEMPTS))
        answer = other.acquire(key)
        if answer.outcome == "fail":
            return answer
        if answer.outcome == "ok":
            other.release_held(key)
    return None


def recovers(context: CheckContext) -> None:
    """Wait for the first successful acquire; ignore the outcomes of earlier ones."""
    first = context.first
    _connect(context, first)
    with context.data_loss(first, "everything"):
        first.acquire(context.key(), context.settings.timeout)
    deadline = time.monotonic() + context.settings.lease_over
    while True:
        key = context.key()
        answer = first.acquire(key, context.settings.timeout)
        if answer.outcome == "ok":
            first.kill()
            return
        if answer.outcome == "nothing" or time.monotonic() > deadline:
            raise CheckFailed(f"'ok': the servers have answered again for {context.settings.lease_over:g} s", answer)
        time.sleep(RETRY_INTERVAL_S)


def _connect(context: CheckContext, program: ProgramUnderTest) -> None:
    key = context.key()
    program.acquire_free(key)
    program.release_held(key)


def _expect_info(answer: ProgramAnswer) -> None:
    why = f"no server answered, so it is unknown whether the request took effect{REASONS.get(answer.outcome, '')}"
    expect(answer, "info", why)


CHECKS: Final = (
    Check("silent-acquire", "an acquire that no server answers is info, soon after its time-out", silent_acquire),
    Check("silent-release", "a release that no server answers is info", silent_release),
    Check("lost-answer", "an acquire that took effect is not fail if its answer was lost", lost_answer),
    Check("recovers", "the program works again when silent servers answer again", recovers),
)
