"""Simulated runs for a replay on containers, in a worker: the code of a plan's lock never runs in the harness's own
process."""

from __future__ import annotations

from typing import Final

import msgspec

from harness.checkers import catalogue
from harness.checkers.running import run_all
from harness.history import History, Op
from harness.plan import Plan
from harness.run import workers
from harness.run.interpreter import interpreter_of
from harness.run.lock_facts import preloaded
from harness.worker.channel import Channel, Frame

from .simulated import Command, Simulated, simulate

HERE: Final = __name__


class _Rehearsed(msgspec.Struct, frozen=True, kw_only=True):
    plan: Plan
    history: tuple[Op, ...]
    commands: tuple[Command, ...]


def rehearse(plan: Plan) -> Simulated:
    """Run a plan on the simulator in a worker, with the Python and the libraries that it requires; nothing is stored.

    Raises UsageError if the simulator cannot do it, WorkerDied if the lock ends the worker.
    """
    argument = msgspec.json.encode(plan)
    result = workers.call(
        f"{HERE}:rehearse_in_worker",
        argument,
        _no_frame,
        interpreter=interpreter_of(plan),
        preload=(HERE, *preloaded(plan.lock)),
    )
    found = msgspec.json.decode(result, type=_Rehearsed)
    history = History(found.history)
    return Simulated(found.plan, history, found.commands, run_all(history, catalogue.chosen(found.plan.checkers)))


def rehearse_in_worker(argument: bytes, channel: Channel) -> bytes:
    """Run the plan in ``argument`` and return its entries and commands."""
    del channel
    run = simulate(msgspec.json.decode(argument, type=Plan))
    return msgspec.json.encode(_Rehearsed(plan=run.plan, history=tuple(run.history), commands=run.commands))


def _no_frame(kind: Frame, body: bytes) -> None:
    """No-op callback: a rehearsal sends no frames."""
