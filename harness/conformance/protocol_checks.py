"""Checks of the protocol: each request gets exactly one answer, in order, with no other output; and the program
ends."""

from __future__ import annotations

import time
from typing import Final

from .check_context import Check, CheckContext
from .program import SURPLUS_WAIT_S, CheckFailed, expect

PAIRS: Final = 8
"""Pairs of requests that are sent before the first is answered."""


def opens(context: CheckContext) -> None:
    context.both()


def unknown_op(context: CheckContext) -> None:
    answer = context.first.request("no-such-op", key=context.key())
    expect(answer, "error", "the protocol has no such op")
    key = context.key()
    context.first.acquire_free(key)
    context.first.release_held(key)


def in_order(context: CheckContext) -> None:
    """One of the requests has to wait, since its key is busy."""
    first, second = context.both()
    busy, keys = context.key(), [context.key() for _ in range(PAIRS)]
    second.acquire_free(busy)
    plan = [("acquire", keys[0], "ok"), ("acquire", busy, "fail"), ("release", keys[0], "ok")]
    plan += [(op, key, "ok") for key in keys[1:] for op in ("acquire", "release")]
    timeouts = {busy: context.settings.wait}
    requests = [
        first.send(op, key=key, **({"timeout": timeouts.get(key, context.settings.timeout)} if op == "acquire" else {}))
        for op, key, _ in plan
    ]
    within = len(plan) * context.settings.patience
    answers = []
    for (_, key, _), sent in zip(plan, requests, strict=True):
        answers.append(first.answer(sent, within))
        if key == busy:  # release it before its lease ends: a slow program needs long for the remaining requests
            release = second.release(busy)
    if first.out_of_order:  # explains more than a wrong outcome
        raise CheckFailed("answers in the order of the requests", *first.out_of_order[:3])
    holds = {**first.holds, **second.holds}
    for (op, key, outcome), answer in zip(plan, answers, strict=True):
        why = "another client holds the key" if key == busy else f"earlier requests do not prevent this {op}"
        expect(answer, outcome, why, holds.get(key))
    expect(release, "ok", f"{second.client} holds the key", holds[busy])


def one_answer(context: CheckContext) -> None:
    """Check all output since the start, after a few more requests."""
    _make_requests(context)
    surplus_answers = [line for program in context.programs for line in program.surplus_answers]
    if surplus_answers:
        raise CheckFailed("exactly one answer to each request, with its id and one outcome", *surplus_answers[:3])


def only_answers(context: CheckContext) -> None:
    """Check all output since the start, after a few more requests."""
    _make_requests(context)
    stray_lines = [
        f"{program.client} wrote {line!r} to its stdout" for program in context.programs for line in program.stray_lines
    ]
    if stray_lines:
        raise CheckFailed("only answers on stdout (JSON objects with an id); a log belongs on stderr", *stray_lines[:3])


def _make_requests(context: CheckContext) -> None:
    first, second = context.both()
    key = context.key()
    first.acquire(key)
    second.acquire(key)
    first.release(key)
    second.release(key)
    time.sleep(SURPLUS_WAIT_S)


def closes(context: CheckContext) -> None:
    program = context.fresh()
    expect(context.open(program), "ok", "the servers are running")
    answer = expect(program.request("close"), "ok", "a program answers a request to close before it ends")
    status = program.wait_for_end(context.settings.patience)
    if status != 0:
        description = (
            f"still runs {context.settings.patience:g} s later" if status is None else f"ended with status {status}"
        )
        raise CheckFailed("an end with status 0", answer, f"the program {description}")


def ends_with_input(context: CheckContext) -> None:
    program = context.fresh()
    expect(context.open(program), "ok", "the servers are running")
    program.end_input()
    if program.wait_for_end(context.settings.patience) is None:
        raise CheckFailed(
            "the program to end when its stdin ends",
            f"the stdin of {program.client} ended, and the program still runs {context.settings.patience:g} s later",
        )


OPENS: Final = Check("opens", "the program connects to the servers and answers ok", opens)
FIRST: Final = (Check("unknown-op", "an unknown op is an error, and the program continues", unknown_op),)
IN_ORDER: Final = Check(
    "in-order", "answers come in the order of the requests, even if one request has to wait", in_order
)
LAST: Final = (
    Check("one-answer", "each request gets one answer, with its id and one outcome", one_answer),
    Check("only-answers", "stdout contains only answers", only_answers),
    Check("closes", "the program ends with status 0 after close", closes),
    Check("ends-with-input", "the program ends when its stdin ends", ends_with_input),
)
