"""Golden stories of waiting: clients that give up early, refuse a free key, or sleep while it is free.

See ``golden_stories.py``. The ttl is 2 s and the slack 1 s."""

from __future__ import annotations

from harness.history import History, OpType
from tests.checkers.golden_stories import LV, row
from tests.checkers.lock_stories import TRY
from tests.checkers.service_stories import AN, HO, RL
from tests.checkers.story import Story

WAITING = (AN, HO, LV, RL, TRY)
"""The checkers of these stories."""


def turns_of_c0(rounds: int, *, free: float = 0.5, **settings: object) -> Story:
    """c0 holds for 0.5 s in each second from 1 s on, and the key is ``free`` after that."""
    story = Story(**settings)
    for number in range(rounds):
        story.acquire("c0", 1.0 + number * (0.5 + free), 1.01 + number * (0.5 + free), timeout=0.5)
        story.release("c0", 1.5 + number * (0.5 + free))
    return story.acquire("c1", 1.1 + rounds * (0.5 + free), 1.2 + rounds * (0.5 + free), timeout=0.5)


def give_up(story: Story, times: int, *, after: float = 0.01, timeout: float = 2.0, outcome: OpType = "fail") -> Story:
    """c2 requests the key in each second while c0 holds it, and gives up early."""
    for number in range(times):
        story.acquire("c2", 1.2 + number, 1.2 + number + after, outcome, timeout=timeout)
    return story


# Acquires that give up early.


@row("gives-up-early", unknown=(AN,))
def gives_up_early() -> History:
    return give_up(turns_of_c0(8), 5).history()


@row("gives-up-early-seldom", valid=(AN,))
def gives_up_early_seldom() -> History:
    """Four refusals may have a cause that the history does not show."""
    return give_up(turns_of_c0(8), 4).history()


@row("gives-up-in-a-minority", valid=(AN,))
def gives_up_in_a_minority() -> History:
    """Five requests give up early, and five others wait for their whole timeout."""
    story = give_up(turns_of_c0(14), 5)
    for number in range(5):
        story.acquire("c3", 1.2 + 2 * number, 3.1 + 2 * number, "fail", timeout=1.9)
    return story.history()


@row("gives-up-within-slack", valid=(AN,))
def gives_up_within_slack() -> History:
    return give_up(turns_of_c0(8), 6, timeout=0.9).history()


@row("gives-up-of-a-held-key", valid=(AN,))
def gives_up_of_a_held_key() -> History:
    """The key is not free before the timeouts are over."""
    story = Story().acquire("c0", 0.1, 0.11).release("c0", 20.0).acquire("c1", 19.0, 20.1, timeout=2.0)
    return give_up(story, 6).history()


@row("gives-up-paused", valid=(AN,))
def gives_up_paused() -> History:
    """The client is paused again and again."""
    return give_up(turns_of_c0(8).fault(0, "client-pause", ["c2"], 1.25, 7.0), 6).history()


@row("gives-up-beside-unknown", valid=(AN,))
def gives_up_beside_unknown() -> History:
    """An acquire with an unknown outcome may have taken the key each time."""
    story = turns_of_c0(8).acquire("c3", 1.0, 8.0, "info", timeout=7.0)
    return give_up(story, 6).history()


# Tries that are refused although the key is free.


def refuse_tries(refused: int, granted: int = 0, *, story: Story | None = None) -> Story:
    """c2 tries the free key once in each second; c0 tries it, too, and is granted it ``granted`` times."""
    story = story or turns_of_c0(40, workload="try-lock")
    for number in range(refused):
        story.acquire("c2", 1.7 + number, 1.71 + number, "fail", timeout=0.0)
    for number in range(granted):
        story.acquire("c3", 1.8 + number, 1.81 + number, timeout=0.0).release("c3", 1.82 + number)
    return story


@row("free-refused", invalid=(TRY,))
def free_refused() -> History:
    return refuse_tries(5).history()


@row("free-refused-seldom", valid=(TRY,))
def free_refused_seldom() -> History:
    return refuse_tries(4).history()


@row("free-refused-in-a-minority", valid=(TRY,))
def free_refused_in_a_minority() -> History:
    """Five tries of a free key are refused, and forty granted: two clients may have met, as they are not in order."""
    story = Story(workload="try-lock")
    for number in range(60):
        story.acquire("c0", 1.0 + number, 1.01 + number, timeout=0.0).release("c0", 1.5 + number)
    return refuse_tries(5, story=story).history()


@row("busy-refused", valid=(TRY,))
def busy_refused() -> History:
    """The key is held during the tries."""
    return give_up(turns_of_c0(8, workload="try-lock"), 6, timeout=0.0).history()


@row("free-refused-together", valid=(TRY,))
def free_refused_together() -> History:
    """Two clients try at the same time, so each may have refused the other."""
    story = refuse_tries(6)
    for number in range(6):
        story.acquire("c3", 1.705 + number, 1.715 + number, "fail", timeout=0.0)
    return story.history()


@row("free-refused-in-a-fault", valid=(TRY,))
def free_refused_in_a_fault() -> History:
    return refuse_tries(6, story=turns_of_c0(8).fault(0, "latency", ["n1"], 1.0, 9.0, disturbs=True)).history()


# Waiters that sleep while the key is free.


def sleep_while_free(times: int, *, granted: int = 0, workload: str = "mutex") -> Story:
    """c2 and c3 wait for two seconds each, in which the key is free for one; some are granted it at the end."""
    story = turns_of_c0(2 * times, free=0.5, workload=workload)
    for number in range(times):
        for client in ("c2", "c3"):
            story.acquire(client, 1.2 + 2 * number, 3.1 + 2 * number, "fail", timeout=1.9)
    for number in range(granted):
        story.acquire("c1", 1.1 + 2 * number, 1.51 + 2 * number, timeout=1.9).release("c1", 1.52 + 2 * number)
    return story


@row("waiters-asleep", invalid=(HO,))
def waiters_asleep() -> History:
    return sleep_while_free(15).acquire("c2", 60.0, 60.1).acquire("c3", 61.0, 61.1).history()


@row("waiters-asleep-for-a-short-time", valid=(HO,))
def waiters_asleep_for_a_short_time() -> History:
    return sleep_while_free(10).acquire("c2", 60.0, 60.1).acquire("c3", 61.0, 61.1).history()


@row("waiters-awake", valid=(HO,))
def waiters_awake() -> History:
    """Another waiter gets the key often, so the others had bad luck."""
    return sleep_while_free(15, granted=15).acquire("c2", 60.0, 60.1).acquire("c3", 61.0, 61.1).history()


@row("waiters-paused", valid=(HO,))
def waiters_paused() -> History:
    story = sleep_while_free(15).acquire("c2", 60.0, 60.1).acquire("c3", 61.0, 61.1)
    return story.fault(0, "client-pause", ["c2", "c3"], 1.3, 30.0).history()


# Unknown outcomes.


def raise_errors(errors: int, *, grants: int) -> History:
    """c0 and c1 take turns, and some of c2's acquires raise an error."""
    story = Story()
    for number in range(grants):
        story.acquire(f"c{number % 2}", number, number + 0.01).release(f"c{number % 2}", number + 0.4)
    for number in range(errors):
        story.acquire("c2", 0.5 + number, 0.51 + number, "info")
    return story.history()


@row("each-second-unknown", unknown=(LV,))
def each_second_unknown() -> History:
    return raise_errors(9, grants=9)


@row("a-tenth-unknown", valid=(LV,))
def a_tenth_unknown() -> History:
    return raise_errors(5, grants=45)


@row("four-unknown", valid=(LV,))
def four_unknown() -> History:
    return raise_errors(4, grants=9)


# Releases that take effect at the next acquire of their client.


def defer(times: int, *, left: float = 2.0, at_once: int = 0, by: str | None = "c0") -> Story:
    """c0 acquires once in each second. Its key stays until it acquires again, except in the last ``at_once`` turns."""
    story = Story().acquire("c1", 0.1, 0.11).release("c1", 0.2).server_key(0.105, "b", by="c1", left=2.0)
    story.server_key(0.2005, None, by="c1")
    for number in range(times + at_once):
        begin = 1.0 + number
        story.acquire("c0", begin, begin + 0.1).release("c0", begin + 0.5)
        if 0 < number <= times:
            story.server_key(begin + 0.01, None, by=by)
        story.server_key(begin + 0.05, f"a{number}", by="c0", left=left)
        if number >= times:
            story.server_key(begin + 0.5005, None, by="c0")
    return story


@row("deferred-release", invalid=(RL,))
def deferred_release() -> History:
    return defer(6).history()


@row("deferred-seldom", valid=(RL,))
def deferred_seldom() -> History:
    return defer(5).history()


@row("deferred-in-a-minority", valid=(RL,))
def deferred_in_a_minority() -> History:
    return defer(5, at_once=8).history()


@row("deferred-lease-over", valid=(RL,))
def deferred_lease_over() -> History:
    """The lease on the server was over when the release returned."""
    return defer(6, left=0.3).history()


@row("deferred-by-another", valid=(RL,))
def deferred_by_another() -> History:
    """Another client's message removed the key."""
    return defer(6, by="c1").history()


@row("deferred-paused", valid=(RL,))
def deferred_paused() -> History:
    return defer(6).fault(0, "client-pause", ["c0"], 1.2, 7.0).history()


@row("deferred-key-stays-free", valid=(RL,))
def deferred_key_stays_free() -> History:
    """A release stores that the key is free, and the next acquire replaces that."""
    story = defer(6)
    for number in range(6):
        story.server_key(1.5005 + number, "free", by="c0", left=2.0)
    return story.history()


@row("removed-in-between", valid=(RL,))
def removed_in_between() -> History:
    """The server removes the key a while after the release returned, and before the next acquire."""
    story = Story().acquire("c1", 0.1, 0.11).release("c1", 0.2)
    for number in range(8):
        begin = 1.0 + number
        story.acquire("c0", begin, begin + 0.1).release("c0", begin + 0.5)
        story.server_key(begin + 0.05, f"a{number}", by="c0", left=2.0).server_key(begin + 0.7, None, by="c0")
    return story.history()
