"""Golden stories of shared locks: readers may hold them together, writers may not. See ``golden_stories.py``."""

from __future__ import annotations

from harness.history import History
from tests.checkers.golden_stories import FO, LV, ME, NO, NR, RES, row
from tests.checkers.lock_stories import FA, RE
from tests.checkers.story import Story

SHARED = True


def readers(**settings: object) -> Story:
    """c1 and c2 read together, and c3 waits to write."""
    story = Story(workload="readers-writers", **settings).acquire("c1", 0.1, 0.11, fence=1, shared=SHARED)
    return story.acquire("c2", 0.12, 0.13, fence=2, shared=SHARED).acquire("c3", 0.14, 0.41, fence=3)


@row("shared-together", valid=(ME, FO, RES, NO, NR, LV, FA))
def shared_together() -> History:
    """CONTROL: two readers read twice each, in any order, and the writer follows them."""
    story = readers()
    for arrival, (client, at) in enumerate((("c2", 0.15), ("c1", 0.16), ("c2", 0.25), ("c1", 0.26))):
        story.access(client, "read", at, arrival, 0, fence=int(client[1]), shared=SHARED)
    story.release("c1", 0.3).release("c2", 0.4)
    return story.access("c3", "write", 0.5, 4, 1, fence=3).release("c3", 0.6).history()


@row("shared-alone", unknown=(ME,))
def shared_alone() -> History:
    """There are only readers, so there was no contention."""
    story = Story().acquire("c1", 0.1, 0.11, shared=SHARED).acquire("c2", 0.12, 0.13, shared=SHARED)
    return story.release("c1", 0.3).release("c2", 0.4).history()


@row("shared-writer-beside-reader", invalid=(ME, RES))
def writer_beside_reader() -> History:
    """c0 is granted the write lock while c1 reads, and changes the value under c1."""
    story = Story().acquire("c1", 0.1, 0.11, shared=SHARED).access("c1", "read", 0.12, 0, 0, shared=SHARED)
    story.acquire("c0", 0.15, 0.2).access("c0", "read", 0.21, 1, 0).access("c0", "write", 0.3, 2, 1).release("c0", 0.31)
    return story.access("c1", "read", 0.4, 3, 1, shared=SHARED).release("c1", 0.5).history()


@row("shared-reader-beside-writer", invalid=(ME,), valid=(RES,))
def reader_beside_writer() -> History:
    """A reader is granted the lock beside a writer. A long read that began earlier overlaps rightly."""
    story = Story().acquire("c2", 0.1, 0.5, outcome="fail").acquire("c0", 0.1, 0.2)
    return story.acquire("c1", 0.25, 0.3, shared=SHARED).release("c0", 0.4).release("c1", 0.5).history()


@row("shared-two-writers", invalid=(ME,))
def two_writers() -> History:
    """Readers may overlap and two writers may not, whether or not readers come between the writers."""
    story = readers().release("c1", 0.3).release("c2", 0.4).acquire("c0", 0.45, 0.5)
    return story.release("c3", 0.6).release("c0", 0.7).history()


@row("shared-same-token", valid=(FO,))
def same_token() -> History:
    """Readers who share the lock get the token of the writer before them, all the same one."""
    story = Story().acquire("c0", 0.1, 0.11, fence=7).release("c0", 0.2)
    story.acquire("c1", 0.21, 0.22, fence=8, shared=SHARED).acquire("c2", 0.23, 0.24, fence=8, shared=SHARED)
    return story.release("c1", 0.3).release("c2", 0.4).history()


@row("shared-token-stale", invalid=(FO,))
def stale_reader() -> History:
    """A writer overtakes a reader, which is then granted the lock with its older token."""
    story = Story().acquire("c1", 0.1, 0.11, fence=1, shared=SHARED).fault(0, "client-pause", ["c1"], 0.12, 3.2)
    story.acquire("c0", 0.13, 2.3, fence=2).access("c0", "write", 2.4, 0, 1, fence=2).release("c0", 2.5)
    return story.access("c1", "read", 3.3, 1, 1, fence=1, shared=SHARED).release("c1", 3.4).history()


@row("shared-release-frees-all", invalid=(NO, ME))
def release_frees_all() -> History:
    """The first of two readers to release frees the lock, so the waiting writer is granted it beside the other."""
    return readers().release("c1", 0.4).release("c2", 0.6).release("c3", 0.7).history()


@row("shared-third-reader", valid=(NO, ME))
def third_reader() -> History:
    """A third reader acquires after the first has released, beside the second. The writer keeps waiting."""
    story = Story().acquire("c1", 0.1, 0.11, shared=SHARED).acquire("c2", 0.12, 0.13, shared=SHARED)
    story.acquire("c3", 0.14, 0.91).release("c1", 0.3).acquire("c0", 0.35, 0.36, shared=SHARED)
    return story.release("c2", 0.8).release("c0", 0.9).release("c3", 1.0).history()


@row("shared-nested", valid=(RE,))
def shared_nested() -> History:
    """A reader nests a shared acquire. Its inner release admits no writer, and other readers read all the time."""
    story = Story().acquire("c1", 0.1, 0.11, shared=SHARED).acquire("c1", 0.2, 0.21, shared=SHARED).release("c1", 0.3)
    story.acquire("c2", 0.31, 0.32, shared=SHARED).acquire("c3", 0.35, 0.61)
    return story.release("c2", 0.5).release("c1", 0.6).release("c3", 0.7).history()


@row("shared-woken-together", valid=(FA,))
def woken_together() -> History:
    """Two readers have waited for the same writer. The one that asked first hears of its grant a moment later."""
    story = queue().acquire("c1", 0.3, 2.02, shared=SHARED).acquire("c2", 1.1, 2.01, shared=SHARED)
    return story.release("c0", 2.0).release("c1", 2.5).release("c2", 2.6).history()


@row("shared-writer-passed", invalid=(FA,))
def writer_passed() -> History:
    """A reader joins another reader, and overtakes a writer that requested the lock before it."""
    story = queue(shared=SHARED).acquire("c1", 0.3, 2.7).acquire("c2", 1.1, 1.12, shared=SHARED)
    return story.release("c0", 2.0).release("c2", 2.6).release("c1", 2.9).history()


def queue(*, shared: bool = False) -> Story:
    """c0, c1 and c2 have each held the lock before, so each has its connection. c0 holds it from 0.11 s on."""
    story = Story(queue=True, ttl=10.0)
    for place, client in enumerate(("c1", "c2")):
        story.acquire(client, 0.01 + place / 50, 0.011 + place / 50).release(client, 0.015 + place / 50)
    return story.acquire("c0", 0.1, 0.11, shared=shared)


@row("shared-reader-hangs", invalid=(LV,))
def reader_hangs() -> History:
    """One reader never releases. Others read beside it, and the writer never acquires."""
    story = Story().acquire("c1", 0.1, 0.11, shared=SHARED).acquire("c3", 0.2, None, timeout=60.0)
    for at in (1.0, 3.0, 5.0, 7.0):
        story.acquire("c2", at, at + 0.01, shared=SHARED).release("c2", at + 0.5)
    return story.history(9.0)
