"""Schedules drawn from the search space of a hunt, without running any: the same request draws the same."""

from __future__ import annotations

import hypothesis
from hypothesis import HealthCheck, Phase

from harness.plan import Plan, dump

from .request import HuntRequest
from .rounds import same_everywhere
from .shrink import terse
from .space import schedules
from .vocabulary import learn_vocabulary


def draw(request: HuntRequest) -> tuple[Plan, ...]:
    """Return the schedules of a request, at most ``request.schedules``, each once.

    The lock is run a few times, to learn its commands. Raises UsageError for a request that cannot be searched.
    """
    request = request.completed()
    vocabulary = learn_vocabulary(request)
    plans: dict[str, Plan] = {}

    @hypothesis.seed(request.seed)
    @hypothesis.settings(
        max_examples=request.schedules, phases=(Phase.generate,), database=None, deadline=None,
        suppress_health_check=list(HealthCheck), verbosity=hypothesis.Verbosity.quiet, backend="hypothesis",
    )  # fmt: skip
    @hypothesis.given(schedules(request, vocabulary))
    def drawn(plan: Plan) -> None:
        plans.setdefault(dump(plan), plan)

    with same_everywhere():
        drawn()
    return tuple(terse(plan) for plan in plans.values())
