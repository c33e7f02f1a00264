"""Checks of what a program says when servers do not answer: that nobody knows.

Each asks for something harmless first, so that there is a connection, and what is asked then can leave. The program is
not used any more afterwards: its connections may have broken, and that it recovers is a check of its own.
"""

from __future__ import annotations

import time
from typing import Final

from .program import Answer, Failed, Program, expect
from .stage import Check, Stage

LOOKS: Final = 3
"""How often another client looks whether a lock was taken whose answer was lost."""
AGAIN: Final = 0.1
"""Seconds until a program is asked again that has not recovered."""
SAYS: Final = {
    "ok": ", and 'ok' would say that it surely did",
    "fail": ", and 'fail' would say that it surely did not",
    "nothing": ", and a program says so soon, however long servers are silent",
}
"""What is wrong with another answer, or with none, where nobody knows."""


def silent_acquire(stage: Stage) -> None:
    first = stage.first
    _connect(stage, first)
    with stage.lost(first, "everything"):
        _unknown(first.acquire(stage.key(), stage.settings.timeout))
    first.kill()


def silent_release(stage: Stage) -> None:
    first, key = stage.first, stage.key()
    first.take(key)
    with stage.lost(first, "everything"):
        _unknown(first.release(key))
    first.kill()


def lost_answer(stage: Stage) -> None:
    first, second = stage.both()
    key = stage.key()
    _connect(stage, first)
    with stage.lost(first, "answers"):
        asked = first.send("acquire", key=key, timeout=stage.settings.timeout)
        seen = _seen_taken(stage, second, key)
        answer = first.answer(asked, stage.settings.timeout + stage.settings.patience)
    first.kill()
    if answer.outcome == "fail" and seen is None:
        return  # it was never seen to be taken, and may know why
    if answer.outcome != "info":
        why = f"info: the servers' answers to {first.seat} were lost"
        raise Failed(f"{why}; nobody else wanted the key, so it was taken for {first.seat}" if seen else why,
                     *([seen] if seen else []), answer)  # fmt: skip


def _seen_taken(stage: Stage, other: Program, key: str) -> Answer | None:
    """What another client was told who wanted a key for a moment, if it was that it is busy."""
    for _ in range(LOOKS):
        time.sleep(stage.settings.wait / (2 * LOOKS))
        answer = other.acquire(key)
        if answer.outcome == "fail":
            return answer
        if answer.outcome == "ok":
            other.give(key)
    return None


def recovers(stage: Stage) -> None:
    """An answer that it owes is waited for; what it says meanwhile is not looked at."""
    first = stage.first
    _connect(stage, first)
    with stage.lost(first, "everything"):
        first.acquire(stage.key(), stage.settings.timeout)
    deadline = time.monotonic() + stage.settings.lease_over
    while True:
        key = stage.key()
        answer = first.acquire(key, stage.settings.timeout)
        if answer.outcome == "ok":
            first.kill()
            return
        if answer.outcome == "nothing" or time.monotonic() > deadline:
            raise Failed(f"'ok': since {stage.settings.lease_over:g} s servers answer again", answer)
        time.sleep(AGAIN)


def _connect(stage: Stage, program: Program) -> None:
    key = stage.key()
    program.take(key)
    program.give(key)


def _unknown(answer: Answer) -> None:
    why = f"no server answered, so nobody knows whether it happened{SAYS.get(answer.outcome, '')}"
    expect(answer, "info", why)


CHECKS: Final = (
    Check("silent-acquire", "an acquire that no server answers is info, soon after its time-out", silent_acquire),
    Check("silent-release", "a release that no server answers is info", silent_release),
    Check("lost-answer", "an acquire whose answer was lost is not fail when it has the lock", lost_answer),
    Check("recovers", "after servers were silent it works again", recovers),
)
