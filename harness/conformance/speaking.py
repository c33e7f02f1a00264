"""Checks of how a program speaks: that it answers, once, in order, and nothing else; and that it ends."""

from __future__ import annotations

import time
from typing import Final

from .program import SPLIT_SECOND, Failed, expect
from .stage import Check, Stage

MANY: Final = 8
"""Pairs of requests that are sent before the first is answered."""


def opens(stage: Stage) -> None:
    stage.both()


def unknown_op(stage: Stage) -> None:
    answer = stage.first.ask("no-such-op", key=stage.key())
    expect(answer, "error", "the protocol has no such op, and programs say so")
    key = stage.key()
    stage.first.take(key)
    stage.first.give(key)


def in_order(stage: Stage) -> None:
    """One of the requests has to wait, since its key is busy."""
    first, second = stage.both()
    busy, keys = stage.key(), [stage.key() for _ in range(MANY)]
    second.take(busy)
    plan = [("acquire", keys[0], "ok"), ("acquire", busy, "fail"), ("release", keys[0], "ok")]
    plan += [(op, key, "ok") for key in keys[1:] for op in ("acquire", "release")]
    timeouts = {busy: stage.settings.wait}
    asked = [
        first.send(op, key=key, **({"timeout": timeouts.get(key, stage.settings.timeout)} if op == "acquire" else {}))
        for op, key, _ in plan
    ]
    within = len(plan) * stage.settings.patience
    answers = []
    for (_, key, _), sent in zip(plan, asked, strict=True):
        answers.append(first.answer(sent, within))
        if key == busy:  # before its lease ends: a slow program has much to do yet
            given = second.release(busy)
    if first.disorder:  # tells more than what came of it
        raise Failed("answers in the order of the requests", *first.disorder[:3])
    holds = {**first.holds, **second.holds}
    for (op, key, outcome), answer in zip(plan, answers, strict=True):
        why = "another client holds the key" if key == busy else f"this {op} came after others, and nothing opposes it"
        expect(answer, outcome, why, holds.get(key))
    expect(given, "ok", f"{second.seat} holds the key", holds[busy])


def one_answer(stage: Stage) -> None:
    """Of all that was said since the beginning, and of some requests more."""
    _say_something(stage)
    surplus = [line for program in stage.programs for line in program.surplus]
    if surplus:
        raise Failed("exactly one answer to each request, with its id and one outcome", *surplus[:3])


def only_answers(stage: Stage) -> None:
    """Of all that was said since the beginning, and of some requests more."""
    _say_something(stage)
    noise = [f"{program.seat} wrote {line!r} to its stdout" for program in stage.programs for line in program.noise]
    if noise:
        raise Failed("nothing but answers there, JSON objects with an id: a log goes to stderr", *noise[:3])


def _say_something(stage: Stage) -> None:
    first, second = stage.both()
    key = stage.key()
    first.acquire(key)
    second.acquire(key)
    first.release(key)
    second.release(key)
    time.sleep(SPLIT_SECOND)


def closes(stage: Stage) -> None:
    program = stage.fresh()
    expect(stage.open(program), "ok", "the servers are there")
    answer = expect(program.ask("close"), "ok", "a program that is asked to end says that it does")
    status = program.ended(stage.settings.patience)
    if status != 0:
        went = f"still runs {stage.settings.patience:g} s later" if status is None else f"ended with status {status}"
        raise Failed("an end with status 0", answer, f"the program {went}")


def ends_with_input(stage: Stage) -> None:
    program = stage.fresh()
    expect(stage.open(program), "ok", "the servers are there")
    program.end_input()
    if program.ended(stage.settings.patience) is None:
        raise Failed(
            "an end: whoever started it is gone",
            f"the stdin of {program.seat} ended, and the program still runs {stage.settings.patience:g} s later",
        )


OPENS: Final = Check("opens", "it connects to the servers, and says so", opens)
FIRST: Final = (Check("unknown-op", "an op that it does not know is an error, and it goes on", unknown_op),)
IN_ORDER: Final = Check("in-order", "answers come in the order of the requests, also if one has to wait", in_order)
LAST: Final = (
    Check("one-answer", "each request is answered once, with its id and one outcome", one_answer),
    Check("only-answers", "nothing but answers is on its stdout", only_answers),
    Check("closes", "after close it ends, with status 0", closes),
    Check("ends-with-input", "it ends when its stdin does", ends_with_input),
)
