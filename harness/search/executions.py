"""Single executions of an exhaustive search: follow a path of steps, judge the result, and repeat it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from harness.documents.lock import LockFacts
from harness.errors import HarnessError
from harness.history import History, Op
from harness.history.lock_keys import KeyState
from harness.plan import Plan
from harness.run.opening import open_simulated
from harness.run.plans.lock_facts import find_facts, preloaded, searched_facts
from harness.run.processes import workers
from harness.run.processes.interpreter import interpreter_of
from harness.worker.channel import Channel

from .interleavings import ExecutionStep, FixedSteps, Path
from .scope import Scope, checker_to_look_for
from .steered import KEY, Bounds, Section
from .trials import Trial, judged

LOOK_FOR: Final = ("mutual-exclusion", "resource")
"""Checkers that count if the scope names none."""


def execute(plan: Plan, bounds: Bounds, path: Path, on_change: Callable[[KeyState], None] | None = None) -> Section:
    """Execute a completed plan along a path. ``on_change`` is called with each change of the lock's key on a server.

    Raises KeyboardInterrupt if the execution is interrupted.
    """
    cluster = open_simulated(plan)
    if on_change is not None:
        cluster.watch_keys([KEY], on_change)
    section = Section(plan, searched_facts(plan.lock), cluster, bounds, path)
    section.run()
    if section.recorder.history.nemesis("stop")[0].value["reason"] == "interrupted":
        raise KeyboardInterrupt
    return section


def judge(
    plan: Plan, lock: LockFacts, history: History, look_for: tuple[str, ...] = (), keys: Sequence[KeyState] = ()
) -> Trial:
    """Run the checkers on an execution; HarnessError if a fault, or its heal, was not confirmed."""
    names = ("faults", *(look_for or LOOK_FOR))
    trial = judged(plan, lock, history, list(keys), [checker_to_look_for(name) for name in names])
    seen = trial.verdicts["faults"]
    if seen.valid is not True:
        raise HarnessError(f"an execution of {plan.lock} cannot be judged: {seen.explanation}")
    return trial


class _Repetition(msgspec.Struct, frozen=True, kw_only=True):
    """Arguments of a repetition in a worker; see :func:`repeat`."""

    scope: Scope
    plan: Plan
    steps: tuple[ExecutionStep, ...]


class _Repeated(msgspec.Struct, frozen=True, kw_only=True):
    history: tuple[Op, ...]
    keys: tuple[KeyState, ...]


def repeat(scope: Scope, steps: Sequence[ExecutionStep]) -> Trial:
    """Repeat, in a worker process, the execution that took these steps: the same history, byte for byte, with the
    states of the lock's key.

    Raises :class:`harness.search.interleavings.NotReproducible` if the steps cannot be taken, HarnessError for a worker
    that ended early.
    """
    plan = scope.plan()
    interpreter = interpreter_of(plan, search=True)
    result = workers.call(
        f"{__name__}:repeat_in_worker",
        msgspec.json.encode(_Repetition(scope=scope, plan=plan, steps=tuple(steps))),
        lambda _kind, _body: None,
        interpreter=interpreter,
        preload=(__name__, *preloaded(scope.lock)),
    )
    found = msgspec.json.decode(result, type=_Repeated)
    return judge(plan, find_facts(plan.lock, interpreter), History(found.history), scope.look_for, found.keys)


def repeat_in_worker(argument: bytes, channel: Channel) -> bytes:
    """Repeat an execution and return its entries and the states of the lock's key."""
    del channel
    request = msgspec.json.decode(argument, type=_Repetition)
    keys: list[KeyState] = []
    section = execute(request.plan, request.scope.bounds(), FixedSteps(request.steps), keys.append)
    history = tuple(section.recorder.history)
    return msgspec.json.encode(_Repeated(history=history, keys=tuple(keys)))
