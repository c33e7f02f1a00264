"""Golden stories of how a lock serves its clients: answers in time, releases, and hand-overs.

See ``golden_stories.py``."""

from __future__ import annotations

from typing import Any

from harness.history import History
from tests.checkers.golden_stories import LV, row
from tests.checkers.story import Story

AN, RL, HO = "answers", "release", "handover"


def two_turns(**settings: object) -> Story:
    """c0 and then c1 hold k0, until 1.2 s."""
    story = Story(**settings).acquire("c0", 0.1, 0.11).release("c0", 0.5)
    return story.acquire("c1", 0.2, 0.51).release("c1", 1.2)


# Answers. ttl is 2 s, slack 1 s, and the timeout of the acquires below 2 s.


@row("in-time", valid=(AN, RL, HO))
def in_time() -> History:
    """CONTROL: each call is answered within its limit, two of them within the slack."""
    story = two_turns().acquire("c2", 2.0, 4.9, "fail", timeout=2.0)
    return story.acquire("c3", 2.0, 2.01).release("c3", 5.0, 7.9).history()


@row("acquire-hangs", invalid=(AN, LV))
def acquire_hangs() -> History:
    """From 2 s on, all acquires hang to the end."""
    story = two_turns()
    for client in ("c0", "c1", "c2"):
        story.acquire(client, 2.0, None, timeout=2.0)
    return story.history(30.0)


@row("released-while-others-hang", invalid=(AN, LV), valid=(RL,))
def released_while_others_hang() -> History:
    """Two acquires hang from 2 s on. They need not notice that a third client releases the key at 11 s."""
    story = two_turns().acquire("c0", 2.0, None, timeout=2.0).acquire("c1", 2.0, None, timeout=2.0)
    return story.acquire("c2", 10.0, 10.01).release("c2", 11.0).history(30.0)


@row("acquire-late", invalid=(AN,))
def acquire_late() -> History:
    """One acquire is refused 1.1 s after its timeout and slack."""
    return two_turns().acquire("c2", 2.0, 6.1, "fail", timeout=2.0).history()


@row("grant-late", invalid=(AN,))
def grant_late() -> History:
    """One acquire is granted 5 s after its timeout."""
    return two_turns().acquire("c2", 2.0, 9.0, timeout=2.0).release("c2", 9.1).history()


@row("release-hangs", invalid=(AN,))
def release_hangs() -> History:
    return two_turns().acquire("c2", 2.0, 2.01).call("c2", "release", 2.5, None).history(6.0)


@row("extend-hangs", invalid=(AN,))
def extend_hangs() -> History:
    return two_turns().acquire("c2", 2.0, 2.01).call("c2", "extend", 2.5, None).history(6.0)


@row("error-late", invalid=(AN,))
def error_late() -> History:
    """A release ends with an error after 5 s. An error is an answer, but this one is late."""
    return two_turns().acquire("c2", 2.0, 2.01).release("c2", 2.5, 7.5, "info").history()


@row("read-slow", valid=(AN,))
def read_slow() -> History:
    """A slow access of the resource is no call on the lock."""
    return two_turns().call("c2", "read", 2.0, 9.0, asked={"fence": None}, got={"arrival": 0, "value": 0}).history()


@row("without-timeout", valid=(AN,))
def without_timeout() -> History:
    """An acquire without a timeout has no limit."""
    return two_turns().call("c2", "acquire", 2.0, 12.0, "fail", asked={}).history()


@row("cut-short", valid=(AN,))
def cut_short() -> History:
    """An acquire is pending at the end, and its limit is not over."""
    return two_turns().acquire("c2", 2.0, None, timeout=2.0).history(4.9)


@row("crashed", valid=(AN,))
def crashed() -> History:
    """The calls of a client end when it crashes."""
    return two_turns().acquire("c2", 2.0, None, timeout=2.0).crash(2.5, "c2").history(30.0)


@row("paused", valid=(AN,))
def paused() -> History:
    """A client is paused during its acquire, for 3 s. The pause excuses it until 3 + 3 + 2 + 1 s later."""
    story = two_turns().fault(0, "client-pause", ["c2"], 3.0, 6.0)
    return story.acquire("c2", 2.0, 8.0, "fail", timeout=2.0).history()


@row("paused-and-lost", invalid=(AN,))
def paused_and_lost() -> History:
    """A lost wake-up: a client is paused during its acquire, and still hangs long after the end of the pause."""
    story = two_turns().fault(0, "client-pause", ["c2"], 3.0, 6.0)
    return story.acquire("c2", 2.0, None, timeout=2.0).history(30.0)


@row("other-paused", invalid=(AN,))
def other_paused() -> History:
    """The pause of another client is no excuse."""
    story = two_turns().fault(0, "client-pause", ["c0"], 3.0, 6.0)
    return story.acquire("c2", 2.0, 8.0, "fail", timeout=2.0).history()


@row("hung", valid=(AN,))
def hung() -> History:
    """The client's own thread hangs for good, although the fault has a heal."""
    story = two_turns().acquire("c2", 2.0, 2.01).fault(0, "client-hang", ["c2"], 2.2, 4.0)
    return story.call("c2", "release", 2.2, None).history(30.0)


@row("server-down", valid=(AN,))
def server_down() -> History:
    """A server is down for 5 s, and the answers come when it is back."""
    story = two_turns().fault(0, "kill", ["n1"], 2.0, 7.0, disturbs=True)
    return story.acquire("c2", 2.0, 7.5, "info", timeout=2.0).history()


@row("no-calls", unknown=(AN, RL, HO))
def no_calls() -> History:
    return Story().history(5.0)


@row("lockless", valid=(AN, RL, HO))
def lockless() -> History:
    """Not applicable: the workload takes no lock."""
    return Story(locks=False, workload="optimistic").history(5.0)


# A lost wake-up, seen by liveness: the other clients are gone, so the key stays free.


@row("waiter-asleep", invalid=(LV,))
def waiter_asleep() -> History:
    """c2 is paused while it waits. The key becomes free, and c2 hangs although it continues at 4 s."""
    story = Story().acquire("c0", 0.1, 0.11).release("c0", 2.0).acquire("c1", 0.2, 2.01).release("c1", 3.0)
    return story.fault(0, "client-pause", ["c2"], 2.5, 4.0).acquire("c2", 0.3, None, timeout=2.0).history(30.0)


@row("waiter-paused", valid=(LV,))
def waiter_paused() -> History:
    """CONTROL: the same run ends while the pause still excuses the client."""
    story = Story().acquire("c0", 0.1, 0.11).release("c0", 2.0).acquire("c1", 0.2, 2.01).release("c1", 3.0)
    return story.fault(0, "client-pause", ["c2"], 2.5, 4.0).acquire("c2", 0.3, None, timeout=2.0).history(8.4)


def stopped_in_acquire(resumed: float, *, asked: float = 1.1, returned: float = 0.0) -> Story:
    """c1 asks for the key when it is free, and is stopped at 1.15 s before it gets the answer. c2's requests fail
    meanwhile."""
    story = Story().acquire("c0", 0.1, 0.11).release("c0", 1.0).fault(0, "client-pause", ["c1"], 1.15, resumed)
    end = returned or resumed + 0.02
    story.acquire("c1", asked, end).release("c1", end + 0.5)
    for begin in (1.2, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0):
        if begin < end - 0.1:
            story.acquire("c2", begin, begin + 0.1, "fail", timeout=0.1)
    return story


@row("stopped-in-acquire", valid=(LV, RL))
def stopped_in_acquire_for_short() -> History:
    """CONTROL: the key may be c1's already."""
    return stopped_in_acquire(3.5).history(30.0)


@row("stopped-in-acquire-for-long", invalid=(LV,))
def stopped_in_acquire_for_long() -> History:
    """Even if the key was c1's, its lease was over after 2 s, and c2 is refused for longer."""
    return stopped_in_acquire(8.0).history(30.0)


@row("stopped-long-ago", invalid=(LV,))
def stopped_long_ago() -> History:
    """c1's acquire goes on for long after the stop, so c1 does not have the key."""
    return stopped_in_acquire(1.3, returned=4.5).history(30.0)


@row("stopped-before-acquire", invalid=(LV, RL))
def stopped_before_acquire() -> History:
    """c1 asks only after it was stopped, so the key cannot be c1's."""
    return stopped_in_acquire(3.5, asked=3.51).history(30.0)


@row("waiter-hung", valid=(LV,))
def waiter_hung() -> History:
    """The only client that wants the key hangs by itself, for good."""
    story = Story().acquire("c0", 0.1, 0.11).release("c0", 2.0).acquire("c1", 0.2, 2.01).release("c1", 3.0)
    return story.fault(0, "client-hang", ["c2"], 2.5, 4.0).acquire("c2", 0.3, None, timeout=2.0).history(30.0)


# The loss of a minority of the servers, which the lock claims to survive.


def outage(end: float, **settings: Any) -> Story:
    """One of five servers is down from 3 s to 23 s. c1's requests are granted in vain until ``end``."""
    servers = [f"n{number}" for number in range(1, 6)]
    story = Story(**{"servers": servers, "no_single_point": True, **settings})
    story.acquire("c0", 0.1, 0.11).release("c0", 2.5).fault(0, "kill", ["n5"], 3.0, 23.0, disturbs=True)
    begin = 3.5
    while begin < end:
        story.acquire("c1", begin, begin + 2.0, "fail", timeout=2.0)
        begin += 2.1
    return story.acquire("c1", begin, begin + 0.01, timeout=2.0).release("c1", begin + 0.5)


@row("one-down", invalid=(LV,))
def one_down() -> History:
    """Nobody is granted the key while four of five servers are up."""
    return outage(20.0).history(30.0)


@row("one-down-recovers", valid=(LV,))
def one_down_recovers() -> History:
    """CONTROL: it takes 10 s until the loss is noticed."""
    return outage(12.0).history(30.0)


@row("one-down-not-claimed", valid=(LV,))
def one_down_not_claimed() -> History:
    """CONTROL: the lock does not claim to survive the loss of a server."""
    return outage(20.0, no_single_point=False).history(30.0)


@row("one-down-of-two", valid=(LV,))
def one_down_of_two() -> History:
    """CONTROL: one of two servers is no majority."""
    return outage(20.0, servers=["n4", "n5"]).history(30.0)


@row("three-down", valid=(LV,))
def three_down() -> History:
    """CONTROL: two faults together strike three of five servers."""
    return outage(20.0).fault(1, "kill", ["n1", "n2"], 4.0, 22.0, disturbs=True).history(30.0)


@row("one-down-and-a-client", valid=(LV,))
def one_down_and_a_client() -> History:
    """CONTROL: a partition strikes a client, too."""
    return outage(20.0).fault(1, "partition-halves", ["c1", "n1"], 4.0, 22.0, disturbs=True).history(30.0)


# Releases.


def releases(outcome: str, *, count: int = 6, good: int = 0, lease: float | None = 2.0, end: float = 0.2) -> Story:
    """Clients take turns every 3 s; all releases but the ``good`` first ones have this outcome."""
    story = Story()
    for number in range(count):
        client, begin = f"c{number % 2}", 3.0 * number
        story.acquire(client, begin, begin + 0.01, valid_for=lease)
        how = "ok" if number < good else outcome
        story.release(client, begin + end, outcome=how)  # type: ignore[arg-type]
    return story


@row("release-raises", invalid=(RL,))
def release_raises() -> History:
    """Every release raises, and each hold ends with its ttl."""
    return releases("info").history()


@row("release-refused", invalid=(RL,))
def release_refused() -> History:
    """Every release of a live hold is refused."""
    return releases("fail").history()


@row("release-raises-mostly", invalid=(RL,))
def release_raises_mostly() -> History:
    return releases("info", good=2).history()


@row("release-raises-seldom", valid=(RL,))
def release_raises_seldom() -> History:
    """Half of the releases raise: that may have a cause that the history does not show."""
    return releases("info", good=3).history()


@row("release-raises-once", unknown=(RL,))
def release_raises_once() -> History:
    """A single release is too little to judge."""
    return releases("info", count=1).history()


@row("release-raises-first", valid=(RL,))
def release_raises_first() -> History:
    """The only release of a live hold raises, and a lock that renews itself confirms the late ones."""
    story = releases("ok", count=5, lease=None, end=2.5).acquire("c2", 15.0, 15.01, valid_for=2.0)
    return story.release("c2", 15.2, outcome="info").history()


@row("release-refused-late", unknown=(RL,))
def release_refused_late() -> History:
    """Each hold outlasted its lease, so that each refusal is correct, and no release was tested."""
    return releases("fail", end=2.5).history()


@row("release-refused-after-ttl", unknown=(RL,))
def release_refused_after_ttl() -> History:
    """The same without a stated lease."""
    return releases("fail", lease=None, end=2.5).history()


@row("release-ok-after-ttl", valid=(RL,))
def release_ok_after_ttl() -> History:
    """A lock that renews itself confirms late releases."""
    return releases("ok", lease=None, end=2.5).history()


@row("release-disturbed", valid=(RL,))
def release_disturbed() -> History:
    """A server is down in each release but the first."""
    story = releases("info", good=1)
    return story.fault(0, "kill", ["n1"], 0.5, 16.0, disturbs=True).history()


@row("release-after-lost", valid=(RL,))
def release_after_lost() -> History:
    """The lock had said that the holds were lost, so it may refuse to release them."""
    story = releases("ok", count=1)
    for number in range(1, 5):
        begin = 3.0 * number
        story.acquire("c0", begin, begin + 0.01, valid_for=2.0)
        story.call("c0", "check", begin + 0.1, begin + 0.11, got={"valid": False})
        story.release("c0", begin + 0.2, outcome="fail")
    return story.history()


@row("release-never-returns", invalid=(RL, AN))
def release_never_returns() -> History:
    """Both clients hang in their first release."""
    story = Story()
    for number, client in enumerate(("c0", "c1")):
        begin = 3.0 * number
        story.acquire(client, begin, begin + 0.01, valid_for=2.0).call(client, "release", begin + 0.2, None)
    return story.history(20.0)


@row("release-pending", valid=(RL,))
def release_pending() -> History:
    """At the end of the run, two releases have not returned, and they are not late."""
    story = releases("ok", count=1)
    for number, client in enumerate(("c0", "c1")):
        begin = 0.5 * number + 3.0
        story.acquire(client, begin, begin + 0.01, valid_for=2.0).call(client, "release", begin + 0.2, None)
    return story.history(6.15)


@row("release-ignored", invalid=(RL, LV))
def release_ignored() -> History:
    """The release returns ok and does nothing: the key is granted again when the ttl is over."""
    story = Story(ttl=4.0).acquire("c0", 0.1, 0.11).release("c0", 0.5).acquire("c1", 0.2, 4.2)
    return story.release("c1", 4.5).history()


@row("release-twice", invalid=(RL,))
def release_twice() -> History:
    """The second release of the same hold returns ok."""
    return two_turns().release("c1", 1.5).history()


@row("release-by-stranger", invalid=(RL,))
def release_by_stranger() -> History:
    """c2 was refused the lock. It releases it all the same, and gets an ok."""
    story = two_turns().call("c2", "acquire", 0.6, 0.7, "fail", asked={"timeout": 0.1}, error="busy")
    return story.release("c2", 0.8).history()


@row("release-by-stranger-refused", valid=(RL,))
def release_by_stranger_refused() -> History:
    """CONTROL: the lock refuses such a release."""
    story = two_turns().call("c2", "acquire", 0.6, 0.7, "fail", asked={"timeout": 0.1}, error="busy")
    return story.release("c2", 0.8, outcome="fail").history()


@row("release-idle", valid=(RL, "linearizability"))
def release_idle() -> History:
    """c1 releases again, and knows that it holds nothing."""
    return two_turns().call("c1", "release", 1.5, 1.51, asked={"idle": True}).history()


@row("release-again-after-error", valid=(RL,))
def release_again_after_error() -> History:
    """The first release has an unknown outcome, so the client may still hold the lock."""
    story = two_turns().acquire("c2", 2.0, 2.01).release("c2", 2.1, outcome="info")
    return story.release("c2", 2.2).history()


@row("release-after-unknown", valid=(RL,))
def release_after_unknown() -> History:
    """The acquire has an unknown outcome, so the client may hold the lock."""
    return two_turns().acquire("c2", 2.0, 2.01, "info").release("c2", 2.1).history()


@row("release-nested", valid=(RL,))
def release_nested() -> History:
    """A nested hold is released twice."""
    story = two_turns().acquire("c2", 2.0, 2.01).acquire("c2", 2.1, 2.11)
    return story.release("c2", 2.2).release("c2", 2.3).history()


def overrun(outcome: str, *, released: float = 3.5, shared: bool = False) -> History:
    """c0's lease ends at 2.01 s. c1 holds the key from 2.5 to 4 s, and c0 releases it."""
    story = two_turns().acquire("c2", 2.0, 2.01, valid_for=1.0, shared=shared)
    story.acquire("c3", 2.1, 3.2, valid_for=2.0, shared=shared).release("c3", 4.0)
    return story.release("c2", released, outcome=outcome).history()  # type: ignore[arg-type]


@row("release-late-ok", invalid=(RL,))
def release_late_ok() -> History:
    """A release returns ok although the lease is over and another client holds the lock."""
    return overrun("ok")


@row("release-late-refused", valid=(RL,))
def release_late_refused() -> History:
    """CONTROL: the release is refused."""
    return overrun("fail")


@row("release-late-free", valid=(RL,))
def release_late_free() -> History:
    """The release is late, but the other client has released the key already."""
    return overrun("ok", released=4.5)


@row("release-late-shared", valid=(RL,))
def release_late_shared() -> History:
    """Both clients share the key, so each has a hold to release."""
    return overrun("ok", shared=True)


@row("release-lost-ok", invalid=(RL,))
def release_lost_ok() -> History:
    """The lock tells c2 that it is lost, grants the key to c3, and then confirms the release of c2."""
    story = two_turns().acquire("c2", 2.0, 2.01).call("c2", "check", 3.0, 3.01, got={"valid": False})
    return story.acquire("c3", 2.1, 3.2).release("c3", 4.0).release("c2", 3.5).history()


# Hand-overs.


def monopoly(
    count: int,
    *,
    first: str = "c0",
    others: tuple[str, ...] = ("c1", "c2", "c3"),
    rest: float = 0.9,
    wait: float = 0.95,
) -> Story:
    """c0 gets the key again and again, with a rest in between; the others' requests are refused."""
    story, end = Story(), count * (rest + 0.1)
    for number in range(count):
        begin = number * (rest + 0.1)
        story.acquire("c0", begin, begin + 0.001).release("c0", begin + 0.1)
    for client in others:
        for number in range(int(end)):
            refused = {"asked": {"timeout": wait}, "error": "busy"}
            story.call(client, "acquire", number + 0.0, number + wait, "fail", **refused)  # type: ignore[arg-type]
    return story


@row("monopoly", invalid=(HO,))
def belongs_to_the_first() -> History:
    """k0 belongs to the first client for ever. It is free most of the time, and the others wait for it."""
    return monopoly(10).history()


@row("monopoly-tries", invalid=(HO,))
def monopoly_tries() -> History:
    """The others do not wait; each tries the key once per second."""
    return monopoly(10, wait=0.001).history()


@row("monopoly-short", unknown=(HO,))
def monopoly_short() -> History:
    """The same for a short time: the others may have had bad luck, and there was no hand-over."""
    return monopoly(6).history()


@row("monopoly-busy", unknown=(HO,))
def monopoly_busy() -> History:
    """The key is free for short moments only, and the same client takes it each time."""
    return monopoly(100, rest=0.02).history()


@row("monopoly-other-wins", invalid=(HO,))
def monopoly_other_wins() -> History:
    """c0 and c3 take turns, and c1 and c2 never get the key."""
    return monopoly(16, others=("c1", "c2")).acquire("c3", 20.0, 20.01).release("c3", 20.1).history()


@row("left-out-refused", invalid=(HO,))
def left_out_refused() -> History:
    """c0 and c1 pass the key on, and the lock refuses each request of c2 with an error of its own."""
    story = Story()
    for number in range(30):
        client = f"c{number % 2}"
        story.acquire(client, number + 0.0, number + 0.001).release(client, number + 0.1)
        refused = {"asked": {"timeout": 0.9}, "error": "LockError: not you"}
        story.call("c2", "acquire", number + 0.01, number + 0.02, "fail", **refused)  # type: ignore[arg-type]
    return story.history()


@row("left-out-by-fault", valid=(HO,))
def left_out_by_fault() -> History:
    """Servers are cut off from c1 and c2 all the time."""
    story = monopoly(16, others=("c1", "c2")).acquire("c3", 20.0, 20.01).release("c3", 20.1)
    story.fault(0, "partition-clients", ["c1"], 0.0, 19.0)
    return story.fault(1, "partition-clients", ["c2"], 0.0, 19.0).history()


@row("left-out-held", valid=(HO,))
def left_out_held() -> History:
    """c0 and c3 pass the key on at once, so that it is never free while c1 and c2 wait."""
    story = Story()
    for number in range(30):
        client = ("c0", "c3")[number % 2]
        story.acquire(client, number + 0.0, number + 0.001).release(client, number + 0.99, number + 0.995)
        for waiter in ("c1", "c2"):
            refused = {"asked": {"timeout": 0.9}, "error": "busy"}
            story.call(waiter, "acquire", number + 0.01, number + 0.98, "fail", **refused)  # type: ignore[arg-type]
    return story.history()


@row("left-out-unsure", valid=(HO,))
def left_out_unsure() -> History:
    """All releases have an unknown outcome, so the key may not have been free."""
    story = Story()
    for number in range(30):
        client = f"c{number % 2}"
        story.acquire(client, number + 0.0, number + 0.001).release(client, number + 0.1, outcome="info")
        refused = {"asked": {"timeout": 0.9}, "error": "busy"}
        story.call("c2", "acquire", number + 0.01, number + 0.98, "fail", **refused)  # type: ignore[arg-type]
    return story.history()


@row("one-client", unknown=(HO,))
def one_client() -> History:
    story = Story(clients=["c0"])
    for number in range(5):
        story.acquire("c0", number, number + 0.01).release("c0", number + 0.2)
    return story.history()


@row("keys-apart", unknown=(HO,))
def keys_apart() -> History:
    """Each client has a key of its own."""
    story = Story()
    for number, client in enumerate(("c0", "c1")):
        story.acquire(client, 0.1, 0.11, key=f"k{number}").release(client, 0.3, key=f"k{number}")
    return story.history()


@row("readers-only", unknown=(HO,))
def readers_only() -> History:
    """Readers that share a key do not hand it over."""
    story = Story()
    for number, client in enumerate(("c0", "c1", "c2")):
        story.acquire(client, 0.1, 0.11 + number / 10, shared=True).release(client, 0.5 + number / 10)
    return story.history()


@row("reader-to-writer", valid=(HO,))
def reader_to_writer() -> History:
    story = Story().acquire("c0", 0.1, 0.11, shared=True).release("c0", 0.3)
    return story.acquire("c1", 0.2, 0.31).release("c1", 0.4).history()


@row("optimistic-alone", unknown=("resource",))
def optimistic_alone() -> History:
    """A single client updates the resource without a lock, so nothing was contended."""
    story = Story(clients=["c0"], locks=False, workload="optimistic")
    for number in range(3):
        asked = {"value": number + 1, "version": number}
        story.call("c0", "read", number, number + 0.01, got={"arrival": 2 * number, "value": number, "version": number})
        story.call("c0", "cas", number + 0.1, number + 0.11, asked=asked, got={"arrival": 2 * number + 1})
    return story.history()


@row("optimistic-together", valid=("resource",))
def optimistic_together() -> History:
    story = Story(locks=False, workload="optimistic")
    for number in range(4):
        asked, client = {"value": number + 1, "version": number}, f"c{number % 2}"
        got = {"arrival": 2 * number, "value": number, "version": number}
        story.call(client, "read", number, number + 0.01, asked={"fence": None}, got=got)
        story.call(client, "cas", number + 0.1, number + 0.11, asked=asked, got={"arrival": 2 * number + 1})
    return story.history()
