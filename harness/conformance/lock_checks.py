"""Checks of a program's answers about its locks, while all servers answer."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Final

from .check_context import Check, CheckContext
from .program import CheckFailed, CheckSkipped, ProgramAnswer, ProgramHold, ProgramUnderTest, expect

ROUNDS: Final = 10
"""Acquires by each of two competing programs."""
HOLD_S: Final = 0.005
"""Seconds of each hold."""
GRANTS: Final = 4
MIN_TIMEOUT_SHARE: Final = 0.9
"""Least share of a time-out that must have passed. Less than 1, since clocks and timers are not exact."""
UNUSUAL_SUFFIXES: Final = (
    "-a", "-A", " with blanks", " with  blanks", "/with/slashes", "/with/slashes/", "-ünïcødé-锁", "-ünïcødé-🔒",
    '"quoted\\', "'quoted\\", "%2f..%00", "{a}*?[a]", "x" * 199, "x" * 200,
)  # fmt: skip
"""Suffixes of keys, in pairs that are nearly equal: each client holds one key of a pair."""


def prompt(context: CheckContext) -> None:
    key, limit = context.key(), context.settings.prompt
    answer = context.first.acquire_free(key).answer
    context.first.release_held(key)
    if answer.seconds > limit:
        raise CheckFailed(f"an answer within {limit:g} s: the key is free, and the servers answer", answer)


def grant(context: CheckContext) -> None:
    key = context.key()
    answer = context.first.acquire_free(key).answer
    context.first.release_held(key)
    value = answer.value
    if value is None:
        return
    if not isinstance(value, dict):
        raise CheckFailed("null, or an object with fence and valid_for", answer)
    valid_for = value.get("valid_for")
    if valid_for is None:
        return
    if type(valid_for) not in (int, float) or not 0 < valid_for <= context.settings.ttl:
        raise CheckFailed(
            f"a valid_for that is null, or above 0 and at most the ttl of {context.settings.ttl:g} s", answer
        )


def busy_now(context: CheckContext) -> None:
    first, second = context.both()
    key = context.key()
    held = first.acquire_free(key)
    answer = expect(
        second.acquire(key), "fail", f"{first.client} holds the key, and an acquire with timeout 0 does not wait", held
    )
    if answer.seconds > context.settings.prompt:
        raise CheckFailed(f"an answer within {context.settings.prompt:g} s: its timeout is 0", answer)
    first.release_held(key)


def busy_waits(context: CheckContext) -> None:
    first, second = context.both()
    key, wait = context.key(), context.settings.wait
    held = first.acquire_free(key)
    why = f"{first.client} holds the key, and its ttl had not ended"
    answer = expect(second.acquire(key, wait), "fail", why, held)
    if answer.value == "busy" and answer.seconds < wait * MIN_TIMEOUT_SHARE:
        raise CheckFailed(f"an acquire that waits {wait:g} s for a busy lock before it fails", held, answer)
    first.release_held(key)


def one_holder(context: CheckContext) -> None:
    """Let two programs compete for the same key, and check that their holds do not overlap."""
    key = context.key()
    with ThreadPoolExecutor(2) as pool:
        periods = [pool.submit(_hold_repeatedly, context, program, key) for program in context.both()]
        held = sorted(period for future in periods for period in future.result())
    for (began, until, client, one), (since, _, _, other) in pairwise(held):
        if since < until < began + context.settings.ttl:  # after the ttl, the second program may rightly acquire it
            raise CheckFailed(
                "one holder at a time", one, other, f"{client} released the key {until - since:.3f} s later"
            )


def _hold_repeatedly(context: CheckContext, program: ProgramUnderTest, key: str) -> list[tuple[float, float, str, str]]:
    """Return (start, end, client, answer) of each hold, in monotonic time."""
    periods = []
    for _ in range(ROUNDS):
        answer = program.acquire(key, context.settings.patience)
        if answer.outcome != "ok":
            continue
        time.sleep(HOLD_S)
        periods.append((answer.sent_at + answer.seconds, time.monotonic(), program.client, str(answer)))
        program.release_held(key)
    if not periods:
        raise CheckFailed(f"at least one success in {ROUNDS} acquires, with one competing client", answer)
    return periods


def released(context: CheckContext) -> None:
    """Detect a release that was never sent: the key is free only when the lease ends."""
    first, second = context.both()
    key = context.key()
    held = first.acquire_free(key)
    release = first.release_held(key)
    answer = second.acquire(key, context.settings.lease_over)
    _check_acquired_soon(context, answer, answer.seconds, held, release)
    second.release_held(key)


def handed_on(context: CheckContext) -> None:
    first, second = context.both()
    key = context.key()
    held = first.acquire_free(key)
    waiting = second.send("acquire", key=key, timeout=context.settings.lease_over)
    time.sleep(context.settings.wait / 4)
    release = first.release_held(key)
    answer = second.answer(waiting, context.settings.lease_over + context.settings.patience)
    _check_acquired_soon(context, answer, answer.sent_at + answer.seconds - release.sent_at, held, release)
    second.release_held(key)


def _check_acquired_soon(
    context: CheckContext, answer: ProgramAnswer, seconds: float, *before: ProgramHold | ProgramAnswer
) -> None:
    """Check that a key was acquired soon after its release (after ``seconds``), not only when its lease ended."""
    why = "the key was released, and no other client wants it"
    if answer.outcome != "ok":
        raise CheckFailed(f"'ok': {why}", *before, answer)
    if seconds > context.settings.prompt:
        raise CheckFailed(
            f"the lock within {context.settings.prompt:g} s of its release: {why}; perhaps the release was not sent, "
            f"and the key became free only when the lease ended (ttl {context.settings.ttl:g} s)", *before, answer,
        )  # fmt: skip


def release_unheld(context: CheckContext) -> None:
    key = context.key()
    expect(context.first.release(key), "fail", f"{context.first.client} never acquired this key")
    context.first.acquire_free(key)
    context.first.release_held(key)
    expect(context.first.release(key), "fail", f"{context.first.client} has released this key already")


def release_of_another(context: CheckContext) -> None:
    first, second = context.both()
    key = context.key()
    held = first.acquire_free(key)
    answer = second.release(key)
    then = second.acquire(key)
    if then.outcome == "ok":
        held.check_not_expired(then)
        raise CheckFailed(f"{first.client} still to hold the key after a release by another client", held, answer, then)
    expect(answer, "fail", f"{first.client} holds the key, not {second.client}")
    expect(then, "fail", f"{first.client} holds the key", held)
    first.release_held(key)


def fences(context: CheckContext) -> None:
    key, last = context.key(), None
    for period in range(GRANTS):
        program = context.both()[period % 2]
        answer = program.acquire_free(key).answer
        program.release_held(key)
        fence = answer.value.get("fence") if isinstance(answer.value, dict) else None
        if fence is None and last is None:
            raise CheckSkipped("the program returns no fences")
        if type(fence) is not int:
            raise CheckFailed("every grant to have a fence that is a whole number", *([last] if last else []), answer)
        if last is not None and fence <= last.value["fence"]:
            raise CheckFailed("a fence that is greater than that of the last grant of this key", last, answer)
        last = answer


def keys(context: CheckContext) -> None:
    """Let each of the two programs hold one of two keys that are nearly equal."""
    first, second = context.both()
    prefix = context.key()
    for one, other in zip(UNUSUAL_SUFFIXES[::2], UNUSUAL_SUFFIXES[1::2], strict=True):
        held = first.acquire_free(prefix + one)
        second.acquire_free(prefix + other)
        expect(second.acquire(prefix + one), "fail", f"{first.client} holds this key", held)
        first.release_held(prefix + one)
        second.release_held(prefix + other)


def holder_dies(context: CheckContext) -> None:
    first, second = context.both()
    if not context.settings.expires:
        raise CheckSkipped("the lock does not promise to become free when its holder dies")
    key = context.key()
    held = first.acquire_free(key)
    first.kill()
    answer = second.acquire(key, context.settings.lease_over)
    if answer.outcome != "ok":
        died = f"{first.client} was killed"
        raise CheckFailed(
            f"'ok': its holder has died, and its lease has ended (ttl {context.settings.ttl:g} s)", held, died, answer
        )
    second.release_held(key)


def still_valid(context: CheckContext) -> None:
    for held, answer in _while_held_and_after(context, "still_valid"):
        if answer.outcome != "ok" or answer.value is not bool(held):
            if held:
                held.check_not_expired(answer)
            raise CheckFailed(
                f"'ok' with {str(bool(held)).lower()}: {answer.client} {'holds' if held else 'has released'} the key",
                answer,
            )


def extends(context: CheckContext) -> None:
    for held, answer in _while_held_and_after(context, "extend"):
        if held and (answer.outcome != "ok" or answer.value is not True):
            held.check_not_expired(answer)
            raise CheckFailed(f"'ok' with true: {answer.client} holds the key, and the servers answer", answer)
        if not held and not (answer.outcome == "fail" or (answer.outcome == "ok" and answer.value is False)):
            raise CheckFailed(f"'fail', or 'ok' with false: {answer.client} has released the key", answer)


def _while_held_and_after(context: CheckContext, op: str) -> Iterator[tuple[ProgramHold | None, ProgramAnswer]]:
    """Yield a hold and the answer to ``op`` during it, then None and the answer after its release.

    Raise :class:`CheckSkipped` if the program does not have this optional op."""
    key = context.key()
    held = context.first.acquire_free(key)
    answer = context.first.request(op, key=key)
    if answer.outcome == "error":
        context.first.release_held(key)
        raise CheckSkipped(f"the program does not have the op {op}")
    yield held, answer
    context.first.release_held(key)
    yield None, context.first.request(op, key=key)


CHECKS: Final = (
    Check("prompt", "an acquire of a free lock succeeds within a second", prompt),
    Check("grant", "valid_for, if given, is above 0 and at most the ttl", grant),
    Check("busy-now", "an acquire of a busy lock with timeout 0 fails at once", busy_now),
    Check("busy-waits", "an acquire of a busy lock fails when its time-out ends, not before", busy_waits),
    Check("one-holder", "two competing programs never hold a key at the same time", one_holder),
    Check("released", "a released lock can be acquired at once", released),
    Check("handed-on", "a waiter acquires the lock soon after its release", handed_on),
    Check("release-unheld", "a release of a lock that the client does not hold fails", release_unheld),
    Check("release-of-another", "a release by another client fails and does not free the lock", release_of_another),
    Check("fences", "the fence is higher for every grant", fences),
    Check("keys", "a key may be any text, and similar keys are different locks", keys),
    Check("still-valid", "still_valid is true while the client holds the lock, false afterwards", still_valid),
    Check("extends", "extend succeeds while the client holds the lock, not afterwards", extends),
)
DIES: Final = Check("holder-dies", "the lock of a killed program is free when its lease has ended", holder_dies)
