"""Checks of what a program says of its locks, while all servers answer."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Final

from .program import Answer, Failed, Hold, Program, Skipped, expect
from .stage import Check, Stage

ROUNDS: Final = 10
"""Turns that each of two programs wants, one against the other."""
HELD: Final = 0.005
"""Seconds of each turn."""
GRANTS: Final = 4
SOONEST: Final = 0.9
"""Of a time-out that must have passed, as clocks and timers are."""
ODD: Final = (
    "-a", "-A", " with blanks", " with  blanks", "/with/slashes", "/with/slashes/", "-ünïcødé-锁", "-ünïcødé-🔒",
    '"quoted\\', "'quoted\\", "%2f..%00", "{a}*?[a]", "x" * 199, "x" * 200,
)  # fmt: skip
"""Ends of keys; of two beside each other that are nearly the same each client has one."""


def prompt(stage: Stage) -> None:
    key, limit = stage.key(), stage.settings.prompt
    answer = stage.first.take(key).answer
    stage.first.give(key)
    if answer.seconds > limit:
        raise Failed(f"an answer within {limit:g} s: the key is free, and the servers answer", answer)


def grant(stage: Stage) -> None:
    key = stage.key()
    answer = stage.first.take(key).answer
    stage.first.give(key)
    value = answer.value
    if value is None:
        return
    if not isinstance(value, dict):
        raise Failed("null, or an object with fence and valid_for", answer)
    valid_for = value.get("valid_for")
    if valid_for is None:
        return
    if type(valid_for) not in (int, float) or not 0 < valid_for <= stage.settings.ttl:
        raise Failed(f"a valid_for that is null, or above 0 and at most the ttl of {stage.settings.ttl:g} s", answer)


def busy_now(stage: Stage) -> None:
    first, second = stage.both()
    key = stage.key()
    held = first.take(key)
    answer = expect(second.acquire(key), "fail", f"{first.seat} holds the key, and with timeout 0 nobody waits", held)
    if answer.seconds > stage.settings.prompt:
        raise Failed(f"an answer within {stage.settings.prompt:g} s: its timeout is 0", answer)
    first.give(key)


def busy_waits(stage: Stage) -> None:
    first, second = stage.both()
    key, wait = stage.key(), stage.settings.wait
    held = first.take(key)
    why = f"{first.seat} holds the key, with a ttl that was not over"
    answer = expect(second.acquire(key, wait), "fail", why, held)
    if answer.value == "busy" and answer.seconds < wait * SOONEST:
        raise Failed(f"an acquire that waits {wait:g} s for a busy lock before it gives up", held, answer)
    first.give(key)


def one_holder(stage: Stage) -> None:
    """Two programs want the same key, again and again; what each believes must not overlap."""
    key = stage.key()
    with ThreadPoolExecutor(2) as pool:
        turns = [pool.submit(_turns, stage, program, key) for program in stage.both()]
        held = sorted(turn for future in turns for turn in future.result())
    for (began, until, seat, one), (since, _, _, other) in pairwise(held):
        if since < until < began + stage.settings.ttl:  # of a lease that was over before, the other could know
            raise Failed("one holder at a time", one, other, f"{seat} released the key {until - since:.3f} s later")


def _turns(stage: Stage, program: Program, key: str) -> list[tuple[float, float, str, str]]:
    """Between which monotonic times it held the key, who it was, and its answer."""
    turns = []
    for _ in range(ROUNDS):
        answer = program.acquire(key, stage.settings.patience)
        if answer.outcome != "ok":
            continue
        time.sleep(HELD)
        turns.append((answer.asked + answer.seconds, time.monotonic(), program.seat, str(answer)))
        program.give(key)
    if not turns:
        raise Failed(f"a lock that is had at least once in {ROUNDS} times, with one other client", answer)
    return turns


def released(stage: Stage) -> None:
    """A release that was never sent is found: the key is free only when the lease ends."""
    first, second = stage.both()
    key = stage.key()
    held = first.take(key)
    given = first.give(key)
    answer = second.acquire(key, stage.settings.lease_over)
    _had_soon(stage, answer, answer.seconds, held, given)
    second.give(key)


def handed_on(stage: Stage) -> None:
    first, second = stage.both()
    key = stage.key()
    held = first.take(key)
    waiting = second.send("acquire", key=key, timeout=stage.settings.lease_over)
    time.sleep(stage.settings.wait / 4)
    given = first.give(key)
    answer = second.answer(waiting, stage.settings.lease_over + stage.settings.patience)
    _had_soon(stage, answer, answer.asked + answer.seconds - given.asked, held, given)
    second.give(key)


def _had_soon(stage: Stage, answer: Answer, seconds: float, *before: Hold | Answer) -> None:
    """Was a lock had that many seconds after its release, and not only when its lease was over?"""
    why = "it was released, and nobody else wants it"
    if answer.outcome != "ok":
        raise Failed(f"'ok': {why}", *before, answer)
    if seconds > stage.settings.prompt:
        raise Failed(
            f"the lock within {stage.settings.prompt:g} s of its release: {why}; was the release dropped, and only the "
            f"end of the lease freed it (ttl {stage.settings.ttl:g} s)?", *before, answer,
        )  # fmt: skip


def release_unheld(stage: Stage) -> None:
    key = stage.key()
    expect(stage.first.release(key), "fail", "it never acquired this key")
    stage.first.take(key)
    stage.first.give(key)
    expect(stage.first.release(key), "fail", "it has released this key already")


def release_of_another(stage: Stage) -> None:
    first, second = stage.both()
    key = stage.key()
    held = first.take(key)
    answer = second.release(key)
    then = second.acquire(key)
    if then.outcome == "ok":
        held.lasts(then)
        raise Failed(
            f"the key to stay with {first.seat}, which holds it, whatever another releases", held, answer, then
        )
    expect(answer, "fail", f"{first.seat} holds the key, not {second.seat}")
    expect(then, "fail", f"{first.seat} holds the key", held)
    first.give(key)


def fences(stage: Stage) -> None:
    key, last = stage.key(), None
    for turn in range(GRANTS):
        program = stage.both()[turn % 2]
        answer = program.take(key).answer
        program.give(key)
        fence = answer.value.get("fence") if isinstance(answer.value, dict) else None
        if fence is None and last is None:
            raise Skipped("it gives no fences")
        if type(fence) is not int:
            raise Failed("a fence that is a whole number, with every grant", *([last] if last else []), answer)
        if last is not None and fence <= last.value["fence"]:
            raise Failed("a fence that has grown since the last grant of this key", last, answer)
        last = answer


def keys(stage: Stage) -> None:
    """Each of the two programs holds one of two that are nearly the same."""
    first, second = stage.both()
    same = stage.key()
    for one, other in zip(ODD[::2], ODD[1::2], strict=True):
        held = first.take(same + one)
        second.take(same + other)
        expect(second.acquire(same + one), "fail", f"{first.seat} holds this key", held)
        first.give(same + one)
        second.give(same + other)


def holder_dies(stage: Stage) -> None:
    first, second = stage.both()
    if not stage.settings.expires:
        raise Skipped("it says that nothing frees it when its holder dies")
    key = stage.key()
    held = first.take(key)
    first.kill()
    answer = second.acquire(key, stage.settings.lease_over)
    if answer.outcome != "ok":
        died = f"{first.seat} was killed"
        raise Failed(
            f"'ok': its holder has died, and its lease is over (ttl {stage.settings.ttl:g} s)", held, died, answer
        )
    second.give(key)


def still_valid(stage: Stage) -> None:
    for held, answer in _while_held_and_after(stage, "still_valid"):
        if answer.outcome != "ok" or answer.value is not bool(held):
            if held:
                held.lasts(answer)
            raise Failed(
                f"'ok' with {str(bool(held)).lower()}: it {'holds' if held else 'has released'} the key", answer
            )


def extends(stage: Stage) -> None:
    for held, answer in _while_held_and_after(stage, "extend"):
        if held and (answer.outcome != "ok" or answer.value is not True):
            held.lasts(answer)
            raise Failed("'ok' with true: it holds the key, and the servers answer", answer)
        if not held and not (answer.outcome == "fail" or (answer.outcome == "ok" and answer.value is False)):
            raise Failed("'fail', or 'ok' with false: it has released the key", answer)


def _while_held_and_after(stage: Stage, op: str) -> Iterator[tuple[Hold | None, Answer]]:
    """Asked while it holds a key, and after it has released it; skipped for a program that has no such op."""
    key = stage.key()
    held = stage.first.take(key)
    answer = stage.first.ask(op, key=key)
    if answer.outcome == "error":
        stage.first.give(key)
        raise Skipped(f"it has no {op}")
    yield held, answer
    stage.first.give(key)
    yield None, stage.first.ask(op, key=key)


CHECKS: Final = (
    Check("prompt", "a free lock is had within a second", prompt),
    Check("grant", "valid_for is above 0 and at most the ttl, where it says one", grant),
    Check("busy-now", "a busy lock fails at once with timeout 0", busy_now),
    Check("busy-waits", "a busy lock fails when the time-out is over, and not before", busy_waits),
    Check("one-holder", "of two programs that want a key one at a time holds it", one_holder),
    Check("released", "what was released can be had at once", released),
    Check("handed-on", "who waits for a lock has it soon after its release", handed_on),
    Check("release-unheld", "to release what it does not hold fails", release_unheld),
    Check("release-of-another", "a release by another client fails, and frees nothing", release_of_another),
    Check("fences", "fences grow with every grant", fences),
    Check("keys", "keys may be any text, and do not get in each other's way", keys),
    Check("still-valid", "still_valid says whether it holds the lock", still_valid),
    Check("extends", "extend says whether it holds the lock", extends),
)
DIES: Final = Check("holder-dies", "the lock of a program that was killed is free when its lease is over", holder_dies)
