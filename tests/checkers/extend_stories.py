"""Golden stories of extends: of live holds, of leases that are over, and of locks that another client has had since.

See ``golden_stories.py``. The ttl is 2 s and the slack 1 s."""

from __future__ import annotations

from typing import Any

from harness.history import History
from tests.checkers.golden_stories import row
from tests.checkers.story import Story

EX = "extend"
TRUE, FALSE = {"extended": True}, {"extended": False}


def held(*, shared: bool = False, **settings: Any) -> Story:
    """c0 is granted k0 at 0.11 s, and extends it at 0.5 s."""
    story = Story(**settings).acquire("c0", 0.1, 0.11, shared=shared)
    return story.call("c0", "extend", 0.5, 0.51, got=TRUE)


def passed_on(**settings: Any) -> Story:
    """After the lease of c0, c1 is granted k0, and releases it."""
    return held(**settings).acquire("c1", 0.6, 3.0).release("c1", 3.5)


@row("extend-in-time", valid=(EX,))
def extend_in_time() -> History:
    return held().release("c0", 0.8).acquire("c1", 0.6, 0.81).release("c1", 1.5).history()


@row("extend-told", valid=(EX,))
def extend_told() -> History:
    """The lock says that it is lost."""
    return passed_on().call("c0", "extend", 4.0, 4.01, got=FALSE).history()


@row("extend-beside-holder", invalid=(EX,))
def extend_beside_holder() -> History:
    """No lease is stated, and c1 holds k0 while the extend of c0 is confirmed."""
    story = held().acquire("c1", 0.6, 3.0).call("c0", "extend", 3.2, 3.21, got=TRUE)
    return story.release("c1", 3.5).history()


@row("extend-during-grant", valid=(EX,))
def extend_during_grant() -> History:
    """c1 is granted k0 after the extend was invoked, which may have been answered before."""
    story = held().acquire("c1", 0.6, 3.0).call("c0", "extend", 2.4, 3.1, got=TRUE)
    return story.release("c1", 3.5).history()


@row("extend-after-other", invalid=(EX,))
def extend_after_other() -> History:
    """By the stated lease, c0 had lost k0 when c1 was granted it. c1 has released it since."""
    return passed_on(lease=2.0).call("c0", "extend", 4.0, 4.01, got=TRUE).history()


@row("extend-after-other-unstated", valid=(EX,))
def extend_after_other_unstated() -> History:
    """No lease is stated, so the grant to c1 may have been wrong, which another checker reports."""
    return passed_on().call("c0", "extend", 4.0, 4.01, got=TRUE).history()


@row("extend-after-nobody", valid=(EX,))
def extend_after_nobody() -> History:
    """The lease had ended, and nobody has had the lock since."""
    return held(lease=2.0).call("c0", "extend", 4.0, 4.01, got=TRUE).history()


@row("extend-beside-dead-lease", valid=(EX,))
def extend_beside_dead_lease() -> History:
    """c1 has never released k0, but its lease of a ttl must be over."""
    return held().acquire("c1", 0.6, 3.0).call("c0", "extend", 6.0, 6.01, got=TRUE).history()


@row("extend-late-answer", valid=(EX,))
def extend_late_answer() -> History:
    """c1 was stopped during its acquire: its grant may be older than that of c0."""
    story = Story(lease=2.0).acquire("c1", 0.05, 6.1)
    story.fault(0, "client-pause", ["c1"], 0.06, 6.0).acquire("c0", 3.0, 3.01)
    return story.call("c0", "extend", 4.5, 4.51, got=TRUE).call("c0", "extend", 6.3, 6.31, got=TRUE).history()


@row("extend-shared", valid=(EX,))
def extend_shared() -> History:
    """Both clients hold the lock shared."""
    story = held(lease=2.0, shared=True).acquire("c1", 0.6, 3.0, shared=True)
    return story.call("c0", "extend", 3.2, 3.21, got=TRUE).release("c1", 3.5).history()


@row("extend-unknown-acquire", valid=(EX,))
def extend_unknown_acquire() -> History:
    """c0 may have been granted the lock again: the outcome of its last acquire is unknown."""
    story = passed_on(lease=2.0).acquire("c0", 3.6, 3.7, "info")
    return story.call("c0", "extend", 4.0, 4.01, got=TRUE).history()


@row("extend-refused-twice", invalid=(EX,))
def extend_refused_twice() -> History:
    """Two of three extends of live holds say that the lock is lost."""
    story = held().release("c0", 0.6)
    for begin in (1.0, 2.0):
        story.acquire("c1", begin, begin + 0.1).call("c1", "extend", begin + 0.3, begin + 0.31, got=FALSE)
    return story.history()


@row("extend-refused-once", valid=(EX,))
def extend_refused_once() -> History:
    """One failure may have a cause that the history does not show. The other extend is that of a lease that is over."""
    story = Story(lease=2.0).acquire("c0", 0.1, 0.11).call("c0", "extend", 0.3, 0.31, got=FALSE)
    return story.acquire("c1", 3.0, 3.01).call("c1", "extend", 5.5, 5.51, got=TRUE).history()


@row("extend-raised", invalid=(EX,))
def extend_raised() -> History:
    """Two extends of live holds raise."""
    story = held().release("c0", 0.6)
    for begin in (1.0, 2.0):
        story.acquire("c1", begin, begin + 0.1).call("c1", "extend", begin + 0.3, begin + 0.31, "fail", error="no")
        story.release("c1", begin + 0.5)
    return story.history()


@row("extend-refused-by-fault", valid=(EX,))
def extend_refused_by_fault() -> History:
    """The server restarted meanwhile."""
    story = held().release("c0", 0.6).fault(0, "server-restart", ["n1"], 0.9, 1.2, disturbs=True)
    for begin in (1.0, 2.0):
        story.acquire("c1", begin, begin + 0.1).call("c1", "extend", begin + 0.3, begin + 0.31, got=FALSE)
    return story.history()


@row("extend-refused-late", valid=(EX,))
def extend_refused_late() -> History:
    """The clients had stopped relying on their holds: an extend in time would have been confirmed."""
    story = held().release("c0", 0.6)
    for begin in (1.0, 3.0):
        story.call("c1", "acquire", begin, begin + 0.1, asked={"timeout": 9.0}, got={"fence": None, "relies_for": 1.2})
        story.call("c1", "extend", begin + 1.5, begin + 1.51, got=FALSE)
    return story.history()


@row("extend-never", unknown=(EX,))
def extend_never() -> History:
    """No extend is confirmed, all come after the lease."""
    return Story(lease=2.0).acquire("c0", 0.1, 0.11).call("c0", "extend", 4.0, 4.01, got=FALSE).history()


@row("extend-nothing", valid=(EX,))
def extend_nothing() -> History:
    """A lock that nobody extends."""
    return Story().acquire("c0", 0.1, 0.11).release("c0", 0.5).history()
