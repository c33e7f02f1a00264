"""Search for an execution of a simulated server that gives all replies which a real one has given.

It goes forward depth first, and back when a reply differs. Two rules keep it short. It tries no state twice in which
the same requests are done (Lowe, "Testing for linearizability", 2017). And a request that gets its reply and changes
nothing that others can see is not tried later as well: every execution in which it comes later is also one with it
moved to here.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from .conversation import Life
from .execution import Differs, Execution, Furthest, Step
from .specification import Specification

CHECKPOINT: Final = 25
"""Steps between two copies of the state, from which an earlier state is computed."""
MOST_STEPS: Final = 400_000
MOST_SECONDS: Final = 30.0
"""Bounds of a search: its steps, and its processor time."""


@dataclass(slots=True)
class Unexplained:
    """The first reply that no execution gives. ``possible`` are the replies of the executions that come so far."""

    request: str
    connection: int
    peer: str
    time_ns: int
    real: str
    possible: tuple[str, ...]


@dataclass(slots=True)
class SearchResult:
    """``explained`` is None if a bound of the search was reached. ``requests`` counts those with a reply."""

    explained: bool | None
    requests: int = 0
    steps: int = 0
    unexplained: Unexplained | None = None


class _Node:
    """The steps that are left to try after a prefix of an execution, and a copy of its state or None."""

    __slots__ = ("digest", "saved", "steps")

    def __init__(self, steps: list[Step], saved: Any, digest: Hashable) -> None:
        self.steps = steps
        self.saved = saved
        self.digest = digest


def explain(
    found: Sequence[Life],
    specification: Specification,
    *,
    most_steps: int = MOST_STEPS,
    most_seconds: float = MOST_SECONDS,
) -> SearchResult:
    """Return whether an execution of the simulated server gives all recorded replies."""
    requests = sum(one.replied_ns is not None for life in found for talk in life.conversations for one in talk.requests)
    search = _Search(Execution(found, specification, Furthest()))
    explained = search.run(most_steps, time.thread_time() + most_seconds)
    unexplained = None if explained else search.first_difference()
    return SearchResult(explained, requests, search.taken, unexplained)


class _Search:
    def __init__(self, execution: Execution) -> None:
        self._now = execution
        self._path: list[Step] = []
        self._nodes = [_Node(execution.steps(), execution.checkpoint(), None)]
        self._seen: set[Hashable] = set()
        self._stale = False
        self._saved = 0
        """Length of the path at the last checkpoint."""
        self.taken = 0

    def run(self, most_steps: int, deadline: float) -> bool | None:
        while not self._now.done or self._stale:
            if self.taken >= most_steps or (self.taken % 256 == 0 and time.thread_time() > deadline):
                return None
            node = self._nodes[-1]
            if not node.steps:
                self._nodes.pop()
                if not self._nodes:
                    return False
                self._path.pop()
                self._stale = True
                continue
            self._take(node)
        return True

    def _take(self, node: _Node) -> None:
        if self._stale:
            self._go_back()
        step = node.steps.pop(0)
        if step.what == "request" and not step.chosen:
            dated = self._dated(step)
            if not dated:
                return
            step, *others = dated
            node.steps[:0] = others
        self.taken += 1
        try:
            self._now.apply(step)
        except Differs:
            self._stale = True
            return
        key = self._now.key()
        if key in self._seen:
            self._stale = True
            return
        self._seen.add(key)
        if key[1] == node.digest and step.what == "request" and not self._now.told_others:
            node.steps.clear()
        self._path.append(step)
        saved = self._now.checkpoint() if len(self._path) - self._saved >= CHECKPOINT else None
        if saved is not None:
            self._saved = len(self._path)
        steps = self._now.steps()
        if not steps and not self._now.done:
            self._now.note_end()
        self._nodes.append(_Node(steps, saved, key[1]))

    def _dated(self, step: Step) -> list[Step]:
        request, reply, moment = self._now.moment(self._now.talks[step.talk])
        return [step._replace(chosen=chosen) for chosen in self._now.spec.choices(request, reply, moment)]

    def _go_back(self) -> None:
        """Compute the state after the steps of the path."""
        start = max(index for index, node in enumerate(self._nodes) if node.saved is not None)
        self._now.restore(self._nodes[start].saved)
        for step in self._path[start:]:
            self._now.apply(step)
        self._stale, self._saved = False, start

    def first_difference(self) -> Unexplained | None:
        """Return the earliest message that is not explained by the executions that come furthest."""
        furthest, spec = self._now.furthest, self._now.spec
        talk, reply, request = furthest.talk, furthest.reply, furthest.request
        if talk is None or reply is None:
            return None
        return Unexplained(
            request="" if request is None else spec.shown_request(request),
            connection=talk.number,
            peer=talk.peer,
            time_ns=reply.sent_ns,
            real=spec.shown_reply(reply.data),
            possible=tuple(furthest.replies.get(talk.number, ())),
        )
