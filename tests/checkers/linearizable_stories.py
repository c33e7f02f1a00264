"""Golden stories of answers that have an order, and of answers that have none.

See ``golden_stories.py``."""

from __future__ import annotations

from harness.history import History
from tests.checkers.golden_stories import row
from tests.checkers.story import Story

LIN = "linearizability"


def leased(**settings: object) -> Story:
    """c0 holds k0 from 0.11 s to 0.5 s under a lease of 2 s."""
    return Story(**settings).acquire("c0", 0.1, 0.11, valid_for=2.0).release("c0", 0.5)


@row("owners", valid=(LIN,))
def owners() -> History:
    """CONTROL: a release that is under way lets another client in."""
    story = Story().acquire("c0", 0.1, 0.2).release("c0", 0.5, 0.9)
    return story.acquire("c1", 0.3, 0.6).release("c1", 0.8).history()


@row("owners-overlap", invalid=(LIN,))
def owners_overlap() -> History:
    """c1 is granted what c0 releases only afterwards."""
    story = Story().acquire("c0", 0.1, 0.2).release("c0", 0.7, 0.9)
    return story.acquire("c1", 0.3, 0.6).release("c1", 0.8).history()


@row("lease-over", valid=(LIN,))
def lease_over() -> History:
    """The lease of c0 has ended when c1 is granted the lock: the lock kept its promise, though c0 goes on."""
    story = Story().acquire("c0", 0.1, 0.11, valid_for=2.0).release("c0", 4.0)
    return story.acquire("c1", 0.3, 2.2, valid_for=2.0).release("c1", 2.5).history()


@row("lease-broken", invalid=(LIN,))
def lease_broken() -> History:
    """c1 is granted the lock 0.1 s before the end of c0's lease."""
    story = Story().acquire("c0", 0.1, 0.11, valid_for=2.0).release("c0", 4.0)
    return story.acquire("c1", 0.3, 2.01, valid_for=2.0).release("c1", 2.5).history()


@row("lease-stated", valid=(LIN,))
def lease_stated() -> History:
    """No grant says its lease, and the lock states one of 2 s for all."""
    story = Story(lease=2.0).acquire("c0", 0.1, 0.11).release("c0", 4.0)
    return story.acquire("c1", 0.3, 2.2).release("c1", 2.5).history()


@row("lease-prolonged", invalid=(LIN,))
def lease_prolonged() -> History:
    """c0 has prolonged its lease, and c1 is granted the lock within the longer one."""
    story = Story().acquire("c0", 0.1, 0.11, valid_for=2.0)
    story.call("c0", "extend", 1.9, 1.91, got={"extended": True}).release("c0", 4.0)
    return story.acquire("c1", 0.3, 2.2, valid_for=2.0).release("c1", 2.5).history()


@row("lease-stated-prolonged", valid=(LIN,))
def lease_stated_prolonged() -> History:
    """The lock states a lease of 2 s. c0's extend may have taken effect at 0.5 s, long before its answer."""
    story = Story(lease=2.0).acquire("c0", 0.1, 0.11)
    story.call("c0", "extend", 0.5, 0.9, got={"extended": True}).release("c0", 4.0)
    return story.acquire("c1", 0.3, 2.6).release("c1", 2.8).history()


@row("lease-stated-prolonged-broken", invalid=(LIN,))
def lease_stated_prolonged_broken() -> History:
    """c1 is granted the lock within 2 s of the invocation of c0's extend."""
    story = Story(lease=2.0).acquire("c0", 0.1, 0.11)
    story.call("c0", "extend", 0.5, 0.9, got={"extended": True}).release("c0", 4.0)
    return story.acquire("c1", 0.3, 2.4).release("c1", 2.8).history()


@row("lease-not-prolonged", valid=(LIN,))
def lease_not_prolonged() -> History:
    """An extend that is refused after the end of the lease is right, and so is the next grant."""
    story = Story().acquire("c0", 0.1, 0.11, valid_for=2.0)
    story.call("c0", "extend", 2.15, 2.16, got={"extended": False})
    return story.acquire("c1", 0.3, 2.2, valid_for=2.0).release("c1", 2.5).history()


@row("check-wrong", invalid=(LIN,))
def check_wrong() -> History:
    """A check says that c0 holds the lock, which c1 was granted after c0's lease and holds."""
    story = Story(discipline="checking").acquire("c0", 0.1, 0.11, valid_for=2.0)
    story.acquire("c1", 0.3, 2.2, valid_for=2.0)
    return story.call("c0", "check", 2.5, 2.51, got={"valid": True}).release("c1", 3.0).history()


@row("lost-early", valid=(LIN,))
def lost_early() -> History:
    """The lock tells c0 that it is lost, and c1 is granted it; the lock never stated how long it lasts."""
    story = Story().acquire("c0", 0.1, 0.11).call("c0", "check", 0.5, 0.51, got={"valid": False})
    return story.acquire("c1", 0.3, 0.6).release("c1", 0.9).history()


@row("holder-died", valid=(LIN,))
def holder_died() -> History:
    """c0 dies with the lock. Without a stated lease, c1 may be granted it from then on."""
    story = Story().acquire("c0", 0.1, 0.11).crash(0.5, "c0")
    return story.acquire("c1", 0.3, 0.6).release("c1", 0.9).history()


@row("holder-dies-later", invalid=(LIN,))
def holder_dies_later() -> History:
    story = Story().acquire("c0", 0.1, 0.11).crash(0.7, "c0")
    return story.acquire("c1", 0.3, 0.6).release("c1", 0.9).history()


@row("release-refused", valid=(LIN,))
def release_refused() -> History:
    """A release is refused: c0 has lost the lock by then."""
    story = Story().acquire("c0", 0.1, 0.11).release("c0", 0.5, 0.51, "fail")
    return story.acquire("c1", 0.3, 0.6).release("c1", 0.9).history()


@row("release-unknown", valid=(LIN,))
def release_unknown() -> History:
    story = Story().acquire("c0", 0.1, 0.11).release("c0", 0.5, 0.55, "info")
    return story.acquire("c1", 0.3, 0.6).release("c1", 0.9).history()


@row("release-too-late", invalid=(LIN,))
def release_too_late() -> History:
    """c1 is granted the lock before c0 asks for the release that is refused."""
    story = Story().acquire("c0", 0.1, 0.11).release("c0", 0.7, 0.71, "fail")
    return story.acquire("c1", 0.3, 0.6).release("c1", 0.9).history()


@row("release-of-nothing", invalid=(LIN,))
def release_of_nothing() -> History:
    """The lock says ok to a second release."""
    return Story().acquire("c0", 0.1, 0.11).release("c0", 0.5).release("c0", 0.6).history()


@row("acquire-unknown", valid=(LIN,))
def acquire_unknown() -> History:
    """An acquire of unknown outcome did not happen, so that c1 can be granted the lock."""
    return leased().acquire("c2", 0.6, 0.7, "info").acquire("c1", 0.8, 0.9, valid_for=2.0).history()


@row("acquire-failed", valid=(LIN,))
def acquire_failed() -> History:
    return leased().acquire("c2", 0.6, 0.7, "fail").acquire("c1", 0.8, 0.9, valid_for=2.0).history()


@row("release-after-unknown-acquire", valid=(LIN,))
def release_after_unknown_acquire() -> History:
    """The acquire of unknown outcome may have succeeded, after the release of c0."""
    story = Story().acquire("c0", 0.1, 0.11).release("c0", 0.2)
    return story.acquire("c1", 0.3, 0.4, "info").release("c1", 0.5).history()


@row("release-of-what-was-released", valid=(LIN,))
def release_of_what_was_released() -> History:
    """The first release has an unknown outcome. The second one comes while c1 holds the lock, and does nothing."""
    story = Story().acquire("c0", 0.1, 0.11).release("c0", 0.2, 0.21, "info").acquire("c1", 0.3, 0.31)
    return story.release("c0", 0.4).release("c1", 0.5).history()


@row("release-of-what-was-never-held", valid=(LIN,))
def release_of_what_was_never_held() -> History:
    """The acquire of c1 cannot have succeeded, since c0 holds the lock. The lock says ok and does nothing."""
    story = Story().acquire("c0", 0.1, 0.11).acquire("c1", 0.2, 0.3, "info").release("c1", 0.4)
    return story.release("c0", 0.6).history()


@row("tokens-fall", invalid=(LIN,))
def tokens_fall() -> History:
    story = Story().acquire("c0", 0.1, 0.11, fence=2).release("c0", 0.2)
    return story.acquire("c1", 0.3, 0.31, fence=1).release("c1", 0.4).history()


@row("tokens-grow", valid=(LIN,))
def tokens_grow() -> History:
    story = Story().acquire("c0", 0.1, 0.11, fence=1).release("c0", 0.2)
    return story.acquire("c1", 0.3, 0.31, fence=2).release("c1", 0.4).history()


@row("nested", valid=(LIN,))
def nested() -> History:
    story = Story().acquire("c0", 0.1, 0.11).acquire("c0", 0.2, 0.21).release("c0", 0.3).release("c0", 0.4)
    return story.acquire("c1", 0.35, 0.5).release("c1", 0.6).history()


@row("nested-freed-early", invalid=(LIN,))
def nested_freed_early() -> History:
    """The first of two releases lets c1 in."""
    story = Story().acquire("c0", 0.1, 0.11).acquire("c0", 0.2, 0.21).release("c0", 0.3).release("c0", 0.6)
    return story.acquire("c1", 0.35, 0.5).release("c1", 0.7).history()


def held_twice() -> Story:
    return Story().acquire("c0", 0.1, 0.2).acquire("c0", 0.25, 0.3).release("c0", 0.35, 0.4, "info")


@row("nested-freed-unknown", valid=(LIN,))
def nested_freed_unknown() -> History:
    """Both releases of c0 have unknown outcomes and may have taken effect: only a search finds that order."""
    story = held_twice().release("c0", 0.45, 0.5, "info")
    return story.acquire("c1", 0.6, 0.7).release("c1", 0.8).history()


@row("nested-freed-half", invalid=(LIN,))
def nested_freed_half() -> History:
    """c0 took the lock twice, and its only release has an unknown outcome: only a search excludes all orders."""
    return held_twice().acquire("c1", 0.6, 0.7).release("c1", 0.8).history()


@row("readers", valid=(LIN,))
def readers() -> History:
    story = Story().acquire("c0", 0.1, 0.11, shared=True).acquire("c1", 0.1, 0.12, shared=True)
    return story.release("c0", 0.3).release("c1", 0.3).acquire("c2", 0.2, 0.4).release("c2", 0.5).history()


@row("readers-and-writer", invalid=(LIN,))
def readers_and_writer() -> History:
    story = Story().acquire("c0", 0.1, 0.11, shared=True).acquire("c1", 0.1, 0.12, shared=True)
    return story.release("c0", 0.3).release("c1", 0.5).acquire("c2", 0.2, 0.4).release("c2", 0.6).history()


@row("leases-of-readers", valid=(LIN,))
def leases_of_readers() -> History:
    """No model has both, so nothing is judged."""
    story = Story().acquire("c0", 0.1, 0.11, shared=True, valid_for=2.0)
    return story.acquire("c2", 0.2, 0.4, valid_for=2.0).release("c2", 0.6).history()


@row("nothing-granted", unknown=(LIN,))
def nothing_granted() -> History:
    return Story().acquire("c0", 0.1, 0.2, "fail").acquire("c1", 0.1, 0.2, "fail").history()


@row("no-lock", valid=(LIN,))
def no_lock() -> History:
    return Story(locks=False).access("c0", "read", 0.1, 0, 0).history()


def lost_at(seconds: float, written: float | None) -> Story:
    """c0's acquire, from 0.1 s to 1.0 s, gives a lease of 2 s, which the grant does not state. A check says that the
    lock is lost at ``seconds``; the key was written at ``written``, if that was recorded."""
    story = Story(lease=2.0).acquire("c0", 0.1, 1.0)
    if written is not None:
        story.server_key(written, "c0", by="c0", left=2.0).server_key(written + 2.0, None)
    return story.call("c0", "check", seconds, seconds + 0.01, got={"valid": False}).acquire("c1", 4.0, 4.1)


@row("lost-after-a-late-answer", valid=(LIN,))
def lost_after_a_late_answer() -> History:
    """The lease began at 0.2 s, when the key was written."""
    return lost_at(2.5, 0.2).release("c1", 4.5).history()


@row("lost-before-the-written-lease", invalid=(LIN,))
def lost_before_the_written_lease() -> History:
    """The key was written at 0.9 s, so it had to last until 2.9 s."""
    return lost_at(2.5, 0.9).release("c1", 4.5).history()


@row("lost-after-a-slow-acquire", valid=(LIN,))
def lost_after_a_slow_acquire() -> History:
    """Nobody knows when the lease began: perhaps with the call."""
    return lost_at(2.5, None).release("c1", 4.5).history()


@row("lost-during-any-lease", invalid=(LIN,))
def lost_during_any_lease() -> History:
    return lost_at(1.5, None).release("c1", 4.5).history()
