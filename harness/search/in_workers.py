"""The parts of a hunt that run the lock, each in a worker process: the harness sends plans and gets documents.

Every part starts in a fresh worker, so no state of the lock or its library passes from one round to the next, or from
a search to the run that confirms what it found.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

import msgspec

from harness.clusters.kinds import KINDS
from harness.errors import UsageError
from harness.plan import Plan
from harness.run import simulated
from harness.run.plans.lock_facts import preloaded
from harness.run.processes import workers
from harness.run.processes.interpreter import interpreter_of
from harness.run.processes.signals import sigint_noted
from harness.worker.channel import Channel, Frame

from . import rounds
from .request import HuntRequest
from .rounds import Round, RoundProgress, RoundResult, ShrunkFailure
from .shrink import terse
from .stories.story import StoryText, story_of
from .trials import FailureKind, run_trial

T = TypeVar("T")
HERE: Final = __name__
_encode = msgspec.json.Encoder().encode


class ToldStory(msgspec.Struct, frozen=True, kw_only=True):
    """A story with the plan of its trial, which may be simpler than the one that was found."""

    plan: Plan
    story: StoryText


class _TrialRequest(msgspec.Struct, frozen=True, kw_only=True):
    plan: Plan
    look_for: tuple[str, ...] = ()
    checker: str = ""


class _ShrinkRequest(msgspec.Struct, frozen=True, kw_only=True):
    failure: ShrunkFailure
    request: HuntRequest


# The harness's side.


def installed_versions(request: HuntRequest) -> dict[str, str]:
    """Return the versions that the search of a completed request uses, as far as they are not this process's own."""
    plan = request.plan()
    if not request.interpreter():
        return {}
    packages = KINDS.find(plan.kind).packages
    return _call("installed_in_worker", _encode(packages), plan, dict[str, str])


def search(round_: Round, progress: RoundProgress | None = None) -> RoundResult:
    """Do what :func:`harness.search.rounds.search` does, in a worker. If the worker ends early, the result is a round
    without schedules, and its error says how it ended."""
    try:
        return _call("search_in_worker", _encode(round_), round_.request.plan(), RoundResult, progress)
    except workers.WorkerDied as died:
        return rounds.no_schedules(round_.number, str(died))


def shrink(failure: ShrunkFailure, request: HuntRequest) -> ShrunkFailure | None:
    """Shrink a failure in a worker; None if it does not happen again there."""
    argument = _encode(_ShrinkRequest(failure=failure, request=request))
    return _call("shrink_in_worker", argument, request.plan(), ShrunkFailure | None)  # type: ignore[arg-type]  # a union


def kinds_of(plan: Plan, look_for: tuple[str, ...]) -> tuple[FailureKind, ...]:
    """Run a schedule in a worker and return the kinds of its failures, the gravest first."""
    argument = _encode(_TrialRequest(plan=plan, look_for=look_for))
    return _call("judge_in_worker", argument, plan, tuple[FailureKind, ...])


def tell_story(plan: Plan, checker: str) -> ToldStory | None:
    """Return the story of a failing plan, None if ``checker`` finds no violation when the plan is run in a fresh
    worker."""
    argument = _encode(_TrialRequest(plan=plan, checker=checker))
    return _call("tell_in_worker", argument, plan, ToldStory | None)  # type: ignore[arg-type]  # a union


def _call(
    function: str, argument: bytes, plan: Plan, of: type[T], progress: Callable[[int, int, float], None] | None = None
) -> T:
    """Call a function of this module in a worker with what the plan requires."""

    def on_frame(kind: Frame, body: bytes) -> bool:
        """Pass progress on; return True if the hunt was interrupted, which the worker is told then."""
        if kind is Frame.PROGRESS and progress is not None:
            try:
                progress(*msgspec.json.decode(body, type=tuple[int, int, float]))
            except KeyboardInterrupt:
                return True
        return False

    result = workers.call(
        f"{HERE}:{function}",
        argument,
        on_frame,
        interpreter=interpreter_of(plan, search=True),
        preload=(HERE, *preloaded(plan.lock)),
    )
    return msgspec.json.decode(result, type=of)


# The worker's side.


def installed_in_worker(argument: bytes, channel: Channel) -> bytes:
    return simulated.installed(argument, channel)


def search_in_worker(argument: bytes, channel: Channel) -> bytes:
    """Search a :class:`Round`. After SIGINT it ends with its results so far, between two schedules."""
    round_ = msgspec.json.decode(argument, type=Round)
    with sigint_noted() as interrupted:

        def progress(schedules: int, states: int, best: float) -> None:
            channel.send(Frame.PROGRESS, _encode((schedules, states, best)))
            if interrupted():
                raise KeyboardInterrupt

        return _encode(rounds.search(round_, progress))


def judge_in_worker(argument: bytes, channel: Channel) -> bytes:
    del channel
    request = msgspec.json.decode(argument, type=_TrialRequest)
    return _encode(run_trial(request.plan).kinds(request.look_for))


def shrink_in_worker(argument: bytes, channel: Channel) -> bytes:
    del channel
    request = msgspec.json.decode(argument, type=_ShrinkRequest)
    try:
        return _encode(rounds.shrink_alone(request.failure, request.request))
    except UsageError:  # the lock keeps state between runs, so the failure does not happen again
        return _encode(None)


def tell_in_worker(argument: bytes, channel: Channel) -> bytes:
    del channel
    request = msgspec.json.decode(argument, type=_TrialRequest)
    trial = run_trial(request.plan)
    if request.checker not in trial.broken((request.checker,)):
        return _encode(None)
    told = story_of(trial, request.checker)
    return _encode(ToldStory(plan=terse(told.trial.plan), story=told.story))
