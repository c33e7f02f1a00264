"""Golden stories of faults that struck while a key was held and wanted, or at a quiet moment.

See ``golden_stories.py``. The ttl is 2 s and the slack 1 s. A waiter gets the key 9 ms after its release, so a fault
needs an exposure of 39 ms (9 ms / ln 2 * 3)."""

from __future__ import annotations

from harness.history import History
from tests.checkers.golden_stories import row
from tests.checkers.story import Story

EX = "exposure"


def turns(**settings: object) -> Story:
    """c0 holds k0 to 0.5 s and from 5.01 s to 5.5 s, and c1 in between to 1.2 s; the next waiter comes 0.3 s before the
    end of each of the first and the third hold."""
    story = Story(**settings).acquire("c0", 0.1, 0.11).release("c0", 0.5)
    story.acquire("c1", 0.2, 0.51).release("c1", 1.2)
    story.acquire("c0", 5.0, 5.01).release("c0", 5.5)
    return story.acquire("c1", 5.2, 5.51).release("c1", 5.9)


@row("no-fault", valid=(EX,))
def no_fault() -> History:
    return turns().history()


@row("jump-while-wanted", valid=(EX,))
def jump_while_wanted() -> History:
    """The clock jumps 200 ms before the end of a hold for which another client waits."""
    return turns().jump(0.3, {"n1": 3.0}).history()


@row("jump-when-quiet", unknown=(EX,))
def jump_when_quiet() -> History:
    return turns().jump(2.0, {"n1": 3.0}).history()


@row("jump-before-release", unknown=(EX,))
def jump_before_release() -> History:
    """The clock jumps 30 ms before the end of the hold, too late for the waiter to notice a free key. Later holds begin
    with the new clock."""
    return turns().jump(0.47, {"n1": 3.0}).history()


@row("jumps-add-up", valid=(EX,))
def jumps_add_up() -> History:
    """Two jumps, each 30 ms before the end of a hold."""
    return turns().jump(0.47, {"n1": 3.0}, 2.0).jump(5.47, {"n1": 3.0}).history()


@row("pause-while-wanted", valid=(EX,))
def pause_while_wanted() -> History:
    return turns().fault(0, "server-pause", ["n1"], 0.3, 0.4).history()


@row("pause-before-release", valid=(EX,))
def pause_before_release() -> History:
    """A pause of 30 ms lasts: unlike a jump of the clock, it holds up what the clients do in that time."""
    return turns().fault(0, "server-pause", ["n1"], 0.47, 0.5).history()


@row("pause-when-quiet", unknown=(EX,))
def pause_when_quiet() -> History:
    """A server is paused between two holds, and is healed before the next one."""
    return turns().fault(0, "server-pause", ["n1"], 2.0, 3.0).history()


@row("one-of-two-faults", unknown=(EX,))
def one_of_two_faults() -> History:
    """A fault struck well, another one at a quiet moment."""
    return turns().jump(0.3, {"n1": 3.0}).fault(99, "server-pause", ["n1"], 2.0, 3.0).history()


@row("held-not-wanted", unknown=(EX,))
def held_not_wanted() -> History:
    """The holder is paused while no other client wants the key. It asks for the key again itself."""
    story = turns().acquire("c0", 10.0, 10.01).fault(0, "client-pause", ["c0"], 10.1, 11.1)
    return story.acquire("c0", 10.05, 11.2).release("c0", 11.3).release("c0", 11.4).history()


@row("refused-again-and-again", valid=(EX,))
def refused_again_and_again() -> History:
    """A waiter is refused at once and comes back in time; fault and end of the hold lie between its requests."""
    story = turns().acquire("c0", 10.0, 10.01).fault(0, "server-pause", ["n1"], 10.3, 10.4).release("c0", 10.5)
    story.acquire("c1", 10.2, 10.201, "fail", timeout=0.0)
    return story.acquire("c1", 10.6, 10.601, timeout=0.0).release("c1", 11.0).history()


@row("holder-dies", valid=(EX,))
def holder_dies() -> History:
    """Another client wants the key of the dead client only later."""
    story = turns().acquire("c0", 10.0, 10.01).fault(0, "client-crash", ["c0"], 10.1).crash(10.1, "c0")
    return story.acquire("c1", 10.5, 12.1).release("c1", 12.2).history()


@row("bystander-dies", unknown=(EX,))
def bystander_dies() -> History:
    """The dead client held nothing."""
    return turns().fault(0, "client-crash", ["c2"], 0.3).crash(0.3, "c2").history()


@row("fault-without-lock", valid=(EX,))
def fault_without_lock() -> History:
    """CONTROL: the workload takes no lock."""
    return Story(locks=False, workload="optimistic").fault(0, "server-pause", ["n1"], 0.3, 0.4).history()
