"""Golden stories of the lock's own promises: reentrancy, prompt answers to tries, and service in queue order.

See ``golden_stories.py``."""

from __future__ import annotations

from harness.history import History
from tests.checkers.golden_stories import LV, ME, NR, row
from tests.checkers.story import Story

RE, TRY, FA = "reentrancy", "try-lock", "fairness"


def outer(lease: float | None = None) -> Story:
    """c0 holds from 0.11 s on, and c1 waits."""
    story = Story(workload="reentrant").acquire("c0", 0.1, 0.11, valid_for=lease)
    return story.acquire("c1", 0.15, 3.01)


def release_both(story: Story) -> History:
    return story.release("c0", 3.0).release("c1", 3.5).history()


def again(
    story: Story, begin: float, end: float | None, outcome: str = "fail", error: str | None = "busy", client: str = "c0"
) -> Story:
    """Another acquire by a client that holds the key."""
    return story.call(client, "acquire", begin, end, outcome, asked={"timeout": 0.5}, error=error)  # type: ignore[arg-type]


@row("uniq-reent-self", invalid=(RE,), valid=(ME, NR, LV))
def uniq_reent_self() -> History:
    """18: the holder's nested acquire waits until its timeout. No other client is harmed."""
    return release_both(again(outer(), 0.2, 0.7))


@row("reent-raised", invalid=(RE,))
def reent_raised() -> History:
    """The lock raises an error of its own when its holder re-acquires."""
    return release_both(again(outer(), 0.2, 0.21, error="LockError: not reentrant"))


@row("reent-own-lease", invalid=(RE,))
def reent_own_lease() -> History:
    """The holder re-acquires, but only after a wait that is longer than any answer takes."""
    return release_both(outer().acquire("c0", 0.2, 1.5).release("c0", 1.6))


@row("reent-hangs", invalid=(RE,))
def reent_hangs() -> History:
    """The holder's nested acquire never returns."""
    return again(outer(), 0.2, None).history(3.6)


@row("uniq-reent-nocount", invalid=(RE,), valid=(TRY,))
def nested_release_frees() -> History:
    """19: the inner of two nested releases frees the lock."""
    story = Story().acquire("c0", 0.1, 0.11).acquire("c0", 0.2, 0.21).release("c0", 0.3).acquire("c1", 0.15, 0.32)
    return story.release("c1", 0.5).release("c0", 0.6).history()


@row("reent-counted", valid=(RE, ME))
def reent_counted() -> History:
    """CONTROL: the other client acquires when both releases are done."""
    return release_both(outer().acquire("c0", 0.2, 0.21).release("c0", 0.3))


@row("reent-unknown", valid=(RE,))
def reent_unknown() -> History:
    """One nested acquire is granted. Another one has an unknown outcome, which is no evidence of a violation."""
    story = outer().acquire("c0", 0.2, 0.21).release("c0", 0.3)
    return release_both(again(story, 0.4, 1.9, "info", "Indeterminate: no answer"))


@row("reent-only-unknown", unknown=(RE,))
def reent_only_unknown() -> History:
    """Every nested acquire has an unknown outcome, so there is nothing to judge."""
    return release_both(again(outer(), 0.4, 1.9, "info", "Indeterminate: no answer"))


@row("reent-none", unknown=(RE,))
def reent_none() -> History:
    """The workload nests acquires, but no client made a nested one."""
    return release_both(outer())


@row("reent-not-asked", valid=(RE,))
def reent_not_asked() -> History:
    """Not applicable: clients of other workloads make no nested acquires."""
    story = Story().acquire("c0", 0.1, 0.11).acquire("c1", 0.2, 0.6)
    return story.release("c0", 0.5).release("c1", 0.7).history()


@row("reent-lease-over", valid=(RE,))
def reent_lease_over() -> History:
    """The outer lease has expired, so the lock may rightly belong to another client."""
    return release_both(again(outer(lease=1.0), 1.2, 1.7))


@row("reent-renewed", invalid=(RE,))
def reent_renewed() -> History:
    """A nested grant has extended the lease, and the next one is refused before it ends."""
    story = outer(lease=1.0).acquire("c0", 0.9, 0.91, valid_for=1.0).release("c0", 1.0)
    return release_both(again(story, 1.2, 1.7))


@row("reent-paused", valid=(RE,))
def reent_paused() -> History:
    """A holder that was paused may have lost the lock."""
    return release_both(again(outer().fault(0, "client-pause", ["c0"], 0.2, 1.1), 1.2, 1.7))


@row("reent-other-paused", invalid=(RE,))
def reent_other_paused() -> History:
    """The pause of another client is no excuse."""
    return release_both(again(outer().fault(0, "client-pause", ["c2"], 0.2, 1.1), 1.2, 1.7))


@row("reent-refused-release", valid=(RE,), invalid=(ME,))
def reent_refused_release() -> History:
    """The inner release was refused, so it freed nothing. The overlap has another cause."""
    story = Story().acquire("c0", 0.1, 0.11).acquire("c0", 0.2, 0.21).release("c0", 0.3, outcome="fail")
    return story.acquire("c1", 0.15, 0.32).release("c1", 0.5).release("c0", 0.6).history()


@row("reent-open-to-all", valid=(RE,), invalid=(ME,))
def reent_open_to_all() -> History:
    """The other client held the lock before the inner release."""
    story = Story().acquire("c0", 0.1, 0.11).acquire("c0", 0.2, 0.21).acquire("c1", 0.15, 0.25).release("c0", 0.3)
    return story.release("c1", 0.5).release("c0", 0.6).history()


@row("reent-alone", unknown=(ME,))
def reent_alone() -> History:
    """A client that blocks only itself is no contention, so mutual exclusion was not tested."""
    story = again(Story(workload="reentrant").acquire("c0", 0.1, 0.11), 0.2, 0.7).release("c0", 0.8)
    return story.acquire("c1", 1.0, 1.01).release("c1", 1.1).history()


# Tries.


def story_with_try(begin: float, end: float | None, outcome: str = "fail", story: Story | None = None) -> Story:
    """c0 holds from 0.11 s to 3 s, and c1 tries."""
    story = (story or Story(workload="try-lock")).acquire("c0", 0.1, 0.11, timeout=0.0).release("c0", 3.0)
    error = "busy" if outcome == "fail" else None
    return story.call("c1", "acquire", begin, end, outcome, asked={"timeout": 0.0}, error=error)  # type: ignore[arg-type]


@row("uniq-in-open-tx", invalid=(TRY,), valid=(ME, LV))
def uniq_in_open_tx() -> History:
    """20: a try meets a row of an open transaction, and waits for that transaction to end."""
    return story_with_try(0.5, 3.01, "ok").release("c1", 3.2).history()


@row("slow-no", invalid=(TRY,))
def slow_no() -> History:
    """The refusal takes too long."""
    return story_with_try(0.5, 1.6).history()


@row("no-answer", invalid=(TRY,))
def no_answer() -> History:
    """A try never returns."""
    return story_with_try(0.5, None).history(4.0)


@row("quick", valid=(TRY,))
def quick() -> History:
    """CONTROL: both answers come within the slack, one of them late."""
    return story_with_try(0.5, 1.4).history()


@row("slow-after-cut", valid=(TRY,))
def slow_after_cut() -> History:
    """A recent network partition excuses slow answers."""
    cut = Story(workload="try-lock").fault(0, "partition-clients", ["c1", "n1"], 0.2, 0.4, disturbs=True)
    return story_with_try(0.5, 1.6, story=cut).history()


@row("servers-lost", valid=(TRY,))
def servers_lost() -> History:
    """The servers lost their data long ago. The try ends in an error without a wait."""
    lost = Story(workload="try-lock").fault(0, "kill-amnesia", ["n1"], 0.2, 0.21, disturbs=True)
    return story_with_try(9.0, 11.0, "info", lost).history()


@row("slow-then-error", invalid=(TRY,))
def slow_then_error() -> History:
    """The client library times out before the lock answers, and no fault explains it."""
    return story_with_try(0.5, 2.5, "info").history()


@row("slow-long-after", invalid=(TRY,))
def slow_long_after() -> History:
    """A slow refusal, long after a fault."""
    return story_with_try(9.0, 11.0, story=Story(workload="try-lock").fault(0, "latency", ["n1"], 0.2, 0.21)).history()


@row("slow-beside-pause", invalid=(TRY,))
def slow_beside_pause() -> History:
    """A try waits for another client, which is paused."""
    paused = Story(workload="try-lock").fault(0, "client-pause", ["c0"], 0.2, 1.4)
    return story_with_try(0.5, 1.6, story=paused).history()


@row("patient", valid=(TRY,))
def patient() -> History:
    """Not applicable: a client with a timeout may have to wait."""
    return Story().acquire("c0", 0.1, 0.11).release("c0", 3.0).acquire("c1", 0.5, 3.01).release("c1", 3.2).history()


@row("nobody-tried", unknown=(TRY,))
def nobody_tried() -> History:
    """The workload consists of tries, but the history has none."""
    return Story(workload="try-lock").acquire("c0", 0.1, 0.11).release("c0", 0.2).history()


# Queues.


def story_with_queue(**settings: object) -> Story:
    """c0, c1 and c2 have a connection; c0 holds from 1.01 to 3 s."""
    story = Story(**{"workload": "queue", **settings})
    for number, client in enumerate(("c0", "c1", "c2")):
        story.acquire(client, 0.1 + 0.1 * number, 0.11 + 0.1 * number).release(client, 0.15 + 0.1 * number)
    return story.acquire("c0", 1.0, 1.01).release("c0", 3.0)


def story_with_promised_queue() -> Story:
    """Return the history of a lock that promises queue order, whether or not a queue forms."""
    return story_with_queue(workload="mutex", queue=True)


def serve_c2_first(story: Story, *, second: float = 1.8) -> History:
    """c1 requests the lock at 1.1 s, c2 at ``second`` (in seconds), and c2 is served first."""
    story.acquire("c1", 1.1, 3.41).release("c1", 3.8)
    return story.acquire("c2", second, 3.01).release("c2", 3.4).history()


@row("zk-herd", invalid=(FA,), valid=(ME, LV))
def zk_herd() -> History:
    """90: all waiters are woken, and the last one acquires."""
    return serve_c2_first(story_with_queue())


@row("queue-promised", invalid=(FA,))
def queue_promised() -> History:
    """A lock that promises queue order must keep it under any workload."""
    return serve_c2_first(story_with_queue(workload="mutex", queue=True))


@row("no-queue-promised", valid=(FA,))
def no_queue_promised() -> History:
    """Not applicable: this lock promises no order, like most."""
    return serve_c2_first(story_with_queue(workload="mutex", queue=False))


@row("in-order", valid=(FA,))
def in_order() -> History:
    """CONTROL: first come, first served."""
    story = story_with_queue().acquire("c1", 1.1, 3.01).release("c1", 3.4).acquire("c2", 1.8, 3.41)
    return story.release("c2", 3.8).history()


@row("close-by", valid=(FA,))
def close_by() -> History:
    """Both requested the lock at nearly the same time, so the order at the service is unknown."""
    return serve_c2_first(story_with_promised_queue(), second=1.5)


@row("session-ended", valid=(FA,))
def session_ended() -> History:
    """The session of the first waiter ended, and with it its place in the queue."""
    story = story_with_promised_queue().call(
        "c1", "acquire", 1.1, 3.41, "fail", asked={"timeout": 10.0}, error="LockError: expired"
    )
    return story.acquire("c2", 1.8, 3.01).release("c2", 3.4).history()


@row("cut-off", valid=(FA,))
def cut_off() -> History:
    """The first waiter was partitioned while it waited, so it may have had to queue again."""
    story = story_with_promised_queue().fault(0, "partition-clients", ["c1"], 1.3, 1.9)
    return serve_c2_first(story)


@row("cut-off-before", valid=(FA,))
def cut_off_before() -> History:
    """The first waiter was paused before its request, so it may have needed a new session."""
    story = story_with_promised_queue().fault(0, "client-pause", ["c1"], 0.5, 1.0)
    return serve_c2_first(story)


@row("gave-up", valid=(FA,))
def gave_up() -> History:
    """The first waiter timed out before the second one was served."""
    story = story_with_promised_queue().call("c1", "acquire", 1.1, 3.2, "fail", asked={"timeout": 1.5}, error="busy")
    return story.acquire("c2", 1.8, 3.01).release("c2", 3.4).history()


@row("new-connection", valid=(FA,))
def new_connection() -> History:
    """This is the first request of the first waiter, so it may still be connecting."""
    story = (
        story_with_promised_queue()
        .acquire("c3", 1.1, 3.41)
        .release("c3", 3.8)
        .acquire("c2", 1.8, 3.01)
        .release("c2", 3.4)
    )
    return story.history()


@row("older-place", valid=(FA,))
def older_place() -> History:
    """An earlier request of the second waiter has an unknown outcome, so it may have kept that place in the queue."""
    story = story_with_promised_queue().call(
        "c2", "acquire", 0.5, 1.05, "info", asked={"timeout": 0.5}, error="Indeterminate: no answer"
    )
    return serve_c2_first(story)


@row("nobody-queued", unknown=(FA,))
def nobody_queued() -> History:
    """The workload makes clients queue, but no queue formed."""
    return story_with_queue().history()


def story_with_starving_c1(rounds: int, *, answered: bool = True, **settings: object) -> Story:
    """c0 and c2 alternate holds of 0.1 s from 3.5 s on. c1 requests the lock every 0.3 s, each time without a long
    wait."""
    story = story_with_queue(**settings)
    for number in range(rounds):
        begin = 3.5 + 0.1 * number
        story.acquire(("c0", "c2")[number % 2], begin, begin + 0.01).release(("c0", "c2")[number % 2], begin + 0.09)
    for number in range(rounds // 3 if answered else 0):
        begin = 3.5 + 0.3 * number
        story.call("c1", "acquire", begin, begin + 0.29, "fail", asked={"timeout": 0.3}, error="busy")
    if not answered:
        story.call("c1", "acquire", 3.5, None, asked={"timeout": 0.3})
    return story


@row("starvation", invalid=(FA,))
def starvation() -> History:
    """Others overtake a persistent client many times. All three acquired in the first seconds; c1 never does
    again."""
    return story_with_starving_c1(90).history()


@row("starvation-unanswered", invalid=(FA,))
def starvation_unanswered() -> History:
    """One request of the overtaken client also never gets an answer."""
    return story_with_starving_c1(90, answered=False).history()


@row("bad-luck", valid=(FA,))
def bad_luck() -> History:
    """Others overtake the client a few times, as happens when the next holder is chosen at random."""
    return story_with_starving_c1(45, workload="mutex", queue=True).history()
