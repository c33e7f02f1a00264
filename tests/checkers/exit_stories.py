"""Golden stories of processes that end while their client holds a lock. See ``golden_stories.py``."""

from __future__ import annotations

from harness.history import History
from tests.checkers.golden_stories import LV, ME, NR, row
from tests.checkers.story import Story

EXIT = "exit"

# ttl is 2 s and slack 1 s, so a process must be gone 3 s after its main thread.


def held(**settings: object) -> Story:
    """c0 acquires k0, which c1 requests from 0.5 s on."""
    return Story(**settings).acquire("c0", 0.1, 0.11)


@row("process-gone", valid=(EXIT, ME, NR, LV))
def gone() -> History:
    """The process of c0 is gone 0.1 s after its main thread, and c1 gets the key when the lease is over."""
    story = held().exit(1.0, "c0", gone=1.1)
    return story.acquire("c1", 0.5, 2.12, timeout=5.0).release("c1", 3.0).history(9.0)


@row("process-gone-at-the-last-moment", valid=(EXIT,))
def gone_at_the_last_moment() -> History:
    story = held().exit(1.0, "c0", gone=3.99)
    return story.acquire("c1", 0.5, 2.12, timeout=5.0).release("c1", 3.0).history(9.0)


@row("process-gone-late", invalid=(EXIT,))
def gone_late() -> History:
    story = held().exit(1.0, "c0", gone=4.5)
    return story.acquire("c1", 0.5, 2.12, timeout=5.0).release("c1", 3.0).history(9.0)


@row("process-stays", invalid=(EXIT, NR, LV))
def stays() -> History:
    """A thread of c0 renews the lease to the end of the run."""
    story = held().exit(1.0, "c0", threads=["renewer"])
    for begin in range(1, 14, 2):
        story.acquire("c1", begin + 0.5, begin + 2.4, "fail", timeout=2.0)
    return story.history(16.0)


@row("process-stays-and-another-is-gone", invalid=(EXIT,))
def stays_for_another() -> History:
    """c1 is gone, which proves nothing about c0."""
    story = held().exit(1.0, "c0").acquire("c1", 0.5, 2.12, timeout=5.0).exit(2.5, "c1", gone=2.6)
    return story.acquire("c2", 0.5, 4.2, timeout=5.0).release("c2", 4.5).history(9.0)


@row("process-stays-while-paused", valid=(EXIT,))
def stays_paused() -> History:
    """c0 is paused while its process ends, and c1 is gone."""
    story = held().exit(1.0, "c0", gone=6.0)
    story.fault(0, "client-pause", ["c0"], 1.2, 5.9)
    story.acquire("c1", 0.5, 2.12, timeout=5.0).exit(2.5, "c1", gone=2.6)
    return story.acquire("c2", 0.5, 4.2, timeout=5.0).release("c2", 4.5).history(9.0)


@row("process-stays-until-a-crash", valid=(EXIT,))
def stays_until_killed() -> History:
    """c0 crashes 1 s after its main thread has ended, before its process had to be gone."""
    story = held().exit(1.0, "c0").crash(2.0, "c0")
    story.acquire("c1", 0.5, 2.12, timeout=5.0).exit(2.5, "c1", gone=2.6)
    return story.acquire("c2", 0.5, 4.2, timeout=5.0).release("c2", 4.5).history(9.0)


@row("exit-at-the-end", unknown=(EXIT,))
def exit_at_the_end() -> History:
    story = held().exit(1.0, "c0")
    return story.acquire("c1", 0.5, 2.12, timeout=5.0).release("c1", 2.5).history(2.6)


@row("no-exit", valid=(EXIT,))
def no_exit() -> History:
    return held().release("c0", 0.5).acquire("c1", 0.5, 0.6).release("c1", 0.9).history()
