"""In a simulated run, too, what a lock with asyncio sends belongs to a call only if that is certain."""

from __future__ import annotations

import msgspec
import pytest

from harness.documents.messages import TracedMessage
from harness.history import History
from harness.plan import FaultSpec, Plan

from .logged import run_logged

PLAN = Plan(lock="tests.trace.watchdog_lock:WatchdogLock", time_limit=2.0, clients=2, ttl=0.3)
KINDS = {"SET": "acquire", "RENEW": "renewal", "DELETE": "release"}


class Sent:
    """The requests of a run by what sent them, and the run's history."""

    def __init__(self, plan: Plan) -> None:
        run = run_logged(plan)
        self.history = run.history()
        self.requests: dict[str, list[TracedMessage]] = {kind: [] for kind in KINDS.values()}
        for one in run.trace().messages:
            words = one.request.split()
            kind = next((kind for word, kind in KINDS.items() if word in words[:2]), None)
            if kind is not None:
                self.requests[kind].append(one)

    def calls(self, kind: str) -> list[str | None]:
        """Return the names of the calls that the requests of a kind have. Each was made by the request's client, and
        was in progress."""
        calls = {call.invoke.index: call for call in self.history.calls("acquire", "release")}
        found: list[str | None] = []
        for one in self.requests[kind]:
            if one.call is None:
                assert one.process is None
                found.append(None)
                continue
            invoke, done = calls[one.call].invoke, calls[one.call].done
            assert (invoke.node, invoke.process) == (one.client, one.process)
            assert one.sent is not None
            assert invoke.time <= one.sent
            assert done is None or one.sent <= done.time
            found.append(invoke.f)
        return found


def during_release(history: History, requests: list[TracedMessage]) -> int:
    """Return the number of requests that a client sent while its release was in progress."""
    spans = [(call.invoke.node, call.invoke.time, call.done.time) for call in history.calls("release") if call.done]
    return sum(
        any(one.client == node and one.sent and begin <= one.sent <= end for node, begin, end in spans)
        for one in requests
    )


@pytest.mark.parametrize("lock", ["WatchdogLock", "ReleasedInThread"])
def test_a_renewal_during_another_call_has_no_call(lock: str) -> None:
    sent = Sent(msgspec.structs.replace(PLAN, lock=f"tests.trace.watchdog_lock:{lock}"))
    assert during_release(sent.history, sent.requests["renewal"]) > 10
    assert set(sent.calls("renewal")) == {None}
    assert set(sent.calls("acquire")) == {"acquire"}
    assert set(sent.calls("release")) == {"release"}, "a task or thread that the call has started sends it"
    assert len(sent.requests["release"]) > 5


def test_each_of_two_calls_of_a_client_at_the_same_time_has_its_own_messages() -> None:
    sent = Sent(msgspec.structs.replace(PLAN, workload="shared-object", clients=1))
    assert len({one.process for one in sent.requests["acquire"]}) == 2
    assert set(sent.calls("acquire")) == {"acquire"}
    assert set(sent.calls("renewal")) == {None}
    assert None in sent.calls("release"), "a task of one of two calls may send for the other one"


@pytest.mark.parametrize("event", ["acquire:invoke", "release:invoke"])
def test_a_call_that_a_crash_interrupted_overlaps_no_later_call(event: str) -> None:
    crash = FaultSpec("client-crash", on=event, client=0, nth=2, delay=0.02, for_=0.2, params={"restart": True})
    sent = Sent(msgspec.structs.replace(PLAN, faults=(crash,)))
    assert sum(call.done is None or call.done.type == "info" for call in sent.history.calls("acquire", "release")) == 1
    of_c0 = [one for one in sent.requests["release"] if one.client == "c0"]
    assert len({one.process for one in of_c0}) == 2, "the client continues under another process number"
    assert set(sent.calls("release")) == {"release"}
