"""Golden stories of the server's keys beside the answers that clients got.

See ``golden_stories.py``. The ttl is 2 s and the slack 1 s; there is one server, n1, unless a story says otherwise."""

from __future__ import annotations

from harness.history import History
from tests.checkers.golden_stories import row
from tests.checkers.story import Story

KS = "keys"


def turns(**settings: object) -> Story:
    """c0 and then c1 hold k0, until 2.2 s; meanwhile c2's acquire is refused."""
    story = Story(**settings).acquire("c0", 0.1, 0.11).release("c0", 0.5)
    story.server_key(0.105, "a", by="c0", left=2.0).server_key(0.5005, None, by="c0")
    story.acquire("c2", 0.4, 0.6, "fail")
    story.acquire("c1", 0.2, 0.51).release("c1", 2.2)
    return story.server_key(0.508, "b", by="c1", left=2.0).server_key(2.2005, None, by="c1")


def held(*, left: float | None = 10.0, release: float = 8.0) -> Story:
    """c0 is granted the key at 5.01 s, until ``release``; the server's key ends ``left`` s after 5.005 s."""
    story = turns().acquire("c0", 5.0, 5.01).release("c0", release)
    return story.server_key(5.005, "a", by="c0", left=left)


def refused(end: float, *, by: str | None = None) -> Story:
    """c2 writes the key during an acquire that fails, and the key stays until ``end``."""
    story = turns().acquire("c2", 4.0, 4.1, "fail")
    return story.server_key(4.05, "c", by="c2", left=5.0).server_key(end, None, by=by)


@row("keys-agree", valid=(KS,))
def keys_agree() -> History:
    return turns().history()


@row("not-recorded", valid=(KS,))
def not_recorded() -> History:
    return Story().acquire("c0", 0.1, 0.11).release("c0", 0.5).history()


def minority(end: float) -> Story:
    """c2 writes the key on two of five servers during an acquire that fails; both keys stay until ``end``."""
    story = turns(servers=["n1", "n2", "n3", "n4", "n5"]).acquire("c2", 4.0, 4.1, "fail")
    for server in ("n2", "n3"):
        story.server_key(4.05, "c", by="c2", left=5.0, server=server)
        story.server_key(end, None, by="c2" if end < 9.0 else None, server=server)
    return story


@row("ghosts-on-a-minority", invalid=(KS,))
def ghosts_on_a_minority() -> History:
    """The votes of a failed acquire block two of five servers until they expire."""
    return minority(9.05).history(12.0)


@row("minority-removed", valid=(KS,))
def minority_removed() -> History:
    return minority(4.09).history(12.0)


@row("minority-under-fault", valid=(KS,))
def minority_under_fault() -> History:
    """One of the servers was paused, so its key could not be removed."""
    return minority(9.05).fault(0, "server-pause", ["n2"], 3.9, 4.5).history(12.0)


@row("several-servers", valid=(KS,))
def several_servers() -> History:
    """One of several servers has a key of another client than the holder, which proves no owner."""
    story = turns(servers=["n1", "n2", "n3"]).acquire("c0", 5.0, 5.01).release("c0", 8.0)
    story.server_key(5.005, "a", by="c0", left=10.0).server_key(6.0, "b", by="c1", left=1.0)
    return story.acquire("c1", 5.9, 8.5).release("c1", 9.0).history(12.0)


@row("ghost-hold", invalid=(KS,))
def ghost_hold() -> History:
    return refused(9.05).history()


@row("ghost-removed", valid=(KS,))
def ghost_removed() -> History:
    """The client removes the key soon after its acquire has failed."""
    return refused(4.3, by="c2").history()


@row("ghost-under-fault", valid=(KS,))
def ghost_under_fault() -> History:
    return refused(9.05).fault(0, "partition-clients", ["c2"], 3.9, 4.5).history()


@row("ghost-then-granted", valid=(KS,))
def ghost_then_granted() -> History:
    """The same client is granted the key by its next acquire, since the key is its own."""
    return refused(6.0, by="c2").acquire("c2", 4.5, 4.6).release("c2", 5.99).history()


@row("overwritten", invalid=(KS,))
def overwritten() -> History:
    return held().server_key(6.0, "b", by="c1", left=10.0).history()


@row("overwritten-when-evicted", valid=(KS,))
def overwritten_when_evicted() -> History:
    """The server may have lost the key before it was written again."""
    return held().fault(0, "eviction", ["n1"], 5.5, 5.9).server_key(6.0, "b", by="c1", left=10.0).history()


@row("removed", invalid=(KS,))
def removed() -> History:
    return held().server_key(6.0, None, by="c1").history()


@row("removed-after-a-lost-reply", invalid=(KS,))
def removed_after_a_lost_reply() -> History:
    """A fault of a client's link makes no server lose a key."""
    return held().fault(0, "lost-reply", ["c1"], 5.5, 5.9, disturbs=True).server_key(6.0, None, by="c1").history()


@row("overwritten-when-expired", valid=(KS,))
def overwritten_when_expired() -> History:
    """The holder is late: its key had ended by the server's clock."""
    return held(left=0.5).server_key(6.0, "b", by="c1", left=10.0).history()


@row("overwritten-after-release", valid=(KS,))
def overwritten_after_release() -> History:
    return held(release=5.9).server_key(6.0, "b", by="c1", left=10.0).history()


@row("session-ended", valid=(KS,))
def session_ended() -> History:
    """A key without an end of its own passes to the next session."""
    return held(left=None).server_key(6.0, "b", by="c1").history()


@row("removed-by-the-server", valid=(KS,))
def removed_by_the_server() -> History:
    return held().server_key(6.0, None).history()


@row("prolonged", invalid=(KS,))
def prolonged() -> History:
    return held().server_key(6.0, "a", by="c1", left=20.0).server_key(8.0005, None, by="c0").history()


@row("prolonged-by-its-owner", valid=(KS,))
def prolonged_by_its_owner() -> History:
    return held().server_key(6.0, "a", by="c0", left=20.0).server_key(8.0005, None, by="c0").history()


@row("moved-by-a-clock", valid=(KS,))
def moved_by_a_clock() -> History:
    return held().server_key(6.0, "a", left=20.0).server_key(8.0005, None, by="c0").history()


@row("waiter-asleep", invalid=(KS,))
def waiter_asleep() -> History:
    return held().server_key(8.0005, None, by="c0").acquire("c1", 7.0, None).history(12.0)


@row("waiter-woken", valid=(KS,))
def waiter_woken() -> History:
    story = held().server_key(8.0005, None, by="c0").acquire("c1", 7.0, 8.9).release("c1", 9.5)
    return story.server_key(8.895, "b", by="c1", left=2.0).history()


@row("waiter-under-fault", valid=(KS,))
def waiter_under_fault() -> History:
    story = held().server_key(8.0005, None, by="c0").acquire("c1", 7.0, 11.0, "fail")
    return story.fault(0, "server-pause", ["n1"], 7.9, 9.0).history()


@row("server-down", valid=(KS,))
def server_down() -> History:
    """The server does not answer, so the record does not say that the key is free."""
    story = held().server_key(8.0005, None, answers=False).acquire("c1", 7.0, 11.0, "fail")
    return story.history()


def forgotten(
    *, second: str = "fail", since: float = 6.002, left: float = 10.0, until: float = 15.005, lease: float = 10.0
) -> Story:
    """c0's release at 6.0 s has an unknown outcome, and its next release is refused. The key stays until ``until``."""
    story = turns(ttl=10.0).acquire("c0", 5.0, 5.01, valid_for=lease).release("c0", 6.0, 6.001, "info")
    story.release("c0", since, since + 0.001, second)  # type: ignore[arg-type]
    return story.server_key(5.005, "a", by="c0", left=left).server_key(until, None, by="c0")


@row("token-lost", invalid=(KS,))
def token_lost() -> History:
    return forgotten().history()


@row("token-lost-removed", valid=(KS,))
def token_lost_removed() -> History:
    """The first release was still under way, and removes the key."""
    return forgotten(until=6.2).history()


@row("token-kept", valid=(KS,))
def token_kept() -> History:
    """The next release succeeds."""
    return forgotten(second="ok", until=6.003).history()


@row("token-lost-late", valid=(KS,))
def token_lost_late() -> History:
    """The lease that the grant stated was over when the next release was refused."""
    return forgotten(lease=0.9).history()


@row("token-of-another-acquire", valid=(KS,))
def token_of_another_acquire() -> History:
    """c0 wrote the key after its grant: it is not the key that its token was for."""
    story = turns(ttl=10.0).acquire("c0", 5.0, 5.01).release("c0", 6.0, 6.001, "info")
    story.release("c0", 6.002, 6.003, "fail").server_key(5.5, "a", by="c0", left=10.0)
    return story.server_key(15.5, None, by="c0").history()


@row("token-lost-by-clock", valid=(KS,))
def token_lost_by_clock() -> History:
    """The client's clock jumped, by which its lease was over."""
    return forgotten().jump(5.5, {"c0": 20.0}).history()


@row("token-lost-by-cancellation", invalid=(KS,))
def token_lost_by_cancellation() -> History:
    """The first release was cancelled."""
    return forgotten().fault(0, "task-cancel", ["c0"], 5.9, 6.1).history()


@row("token-out-of-reach", valid=(KS,))
def token_out_of_reach() -> History:
    """The client is cut off from the server, so both of its releases fail."""
    return forgotten().fault(0, "partition", ["c0"], 5.9, 7.0).history()


@row("token-acquired-again", valid=(KS,))
def token_acquired_again() -> History:
    """Between the two releases c0 requested the lock again, with a new token."""
    story = turns(ttl=10.0).acquire("c0", 5.0, 5.01).release("c0", 6.0, 6.001, "info")
    story.acquire("c0", 6.1, 6.2, "fail").release("c0", 6.3, 6.301, "fail")
    return story.server_key(5.005, "a", by="c0", left=10.0).server_key(15.005, None, by="c0").history()
