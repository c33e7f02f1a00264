"""Golden stories of the workloads ``order``, ``red-packet``, ``counter`` and ``optimistic``.

See ``golden_stories.py``."""

from __future__ import annotations

from typing import Any

from harness.history import History
from tests.checkers.golden_stories import FO, LV, ME, NO, NR, RES, row
from tests.checkers.story import Story

PACKET = {"p0": {"cents": 1000, "shares": 5}}


def overlap(key: str, **settings: Any) -> Story:
    """Two trusting clients use one key. The first lease ends before the first client's work."""
    return Story(**settings).acquire("c0", 0.1, 0.11, valid_for=2.0, key=key).acquire("c1", 0.2, 2.2, key=key)


@row("order-twice", invalid=(ME, RES), valid=(FO,))
def order_twice() -> History:
    """Article 000: two data centres process one order."""
    story = overlap("o0").access("c0", "read", 0.2, 0, 0, key="o0").access("c1", "read", 2.3, 1, 0, key="o0")
    story.access("c1", "mark", 2.5, 2, key="o0").release("c1", 2.6, key="o0")
    return story.access("c0", "mark", 2.7, 3, key="o0").release("c0", 2.8, key="o0").history()


@row("order-blind", invalid=(RES,), valid=(ME, FO))
def order_blind() -> History:
    """The lock works. The second centre does not look whether the order has been processed."""
    story = Story().acquire("c0", 0.1, 0.11, key="o0").access("c0", "read", 0.2, 0, 0, key="o0")
    story.access("c0", "mark", 0.3, 1, key="o0").release("c0", 0.4, key="o0").acquire("c1", 0.2, 0.5, key="o0")
    return story.access("c1", "mark", 0.6, 2, key="o0").release("c1", 0.7, key="o0").history()


@row("sales-interleaved", invalid=(ME, RES), valid=(FO,))
def sales_interleaved() -> History:
    """Three units are sold, and no fourth one. The sections of two sales are interleaved."""
    story = overlap("i0", stock={"i0": 3}).access("c0", "read", 0.2, 0, 3, key="i0")
    story.access("c1", "read", 2.3, 1, 3, key="i0").access("c1", "take", 2.5, 2, key="i0").release("c1", 2.6, key="i0")
    return story.access("c0", "take", 2.7, 3, key="i0").release("c0", 2.8, key="i0").history()


@row("sales-in-order", valid=(ME, RES, FO))
def sales_in_order() -> History:
    """CONTROL: the second client looks after the first one has bought."""
    story = Story(stock={"i0": 3}).acquire("c0", 0.1, 0.11, key="i0").access("c0", "read", 0.2, 0, 3, key="i0")
    story.access("c0", "take", 0.3, 1, key="i0").release("c0", 0.4, key="i0").acquire("c1", 0.2, 0.5, key="i0")
    story.access("c1", "read", 0.6, 2, 2, key="i0").access("c1", "take", 0.7, 3, key="i0")
    return story.release("c1", 0.8, key="i0").history()


@row("order-info", valid=(RES,))
def order_info() -> History:
    """The write of the first centre has an unknown outcome. The second centre's read shows that it did not take
    effect."""
    story = Story().acquire("c0", 0.1, 0.11, key="o0").access("c0", "read", 0.2, 0, 0, key="o0")
    story.call("c0", "mark", 0.3, 0.4, "info", key="o0").release("c0", 0.5, key="o0")
    story.acquire("c1", 0.2, 0.6, key="o0").access("c1", "read", 0.7, 1, 0, key="o0")
    return story.access("c1", "mark", 0.8, 2, key="o0").release("c1", 0.9, key="o0").history()


def grab(story: Story, client: str, at: float, arrival: int, cents: int, shares: int, mine: int) -> Story:
    """Write the packet at ``at`` and the account a little later."""
    story.access(client, "write", at, arrival, {"cents": cents, "shares": shares}, key="p0")
    return story.access(client, "write", at + 0.01, arrival + 1, mine, key=f"p0/{client}")


@row("money-made", invalid=(ME, RES), valid=(FO,))
def money_made() -> History:
    """Both clients pay out of the same 1000 cents."""
    story = overlap("p0", stock=PACKET).access("c0", "read", 0.2, 0, PACKET["p0"], key="p0")
    story.access("c1", "read", 2.3, 1, PACKET["p0"], key="p0")
    grab(story, "c1", 2.4, 2, 900, 4, 100)
    return grab(story, "c0", 2.5, 4, 750, 4, 250).history()


@row("money-lost", invalid=(RES,))
def money_lost() -> History:
    """Every call was answered. 100 cents left the packet, and 60 arrived."""
    story = Story(stock=PACKET).acquire("c0", 0.1, 0.11, key="p0").access("c0", "read", 0.2, 0, PACKET["p0"], key="p0")
    return grab(story, "c0", 0.4, 1, 900, 4, 60).release("c0", 0.5, key="p0").history()


@row("money-info", valid=(RES,))
def money_info() -> History:
    """The account may hold 300 or 60. With 300 the sum is right."""
    story = Story(stock=PACKET).acquire("c0", 0.1, 0.11, key="p0").access("c0", "read", 0.2, 0, PACKET["p0"], key="p0")
    grab(story, "c0", 0.3, 1, 940, 4, 60).release("c0", 0.4, key="p0").acquire("c0", 0.45, 0.46, key="p0")
    story.access("c0", "write", 0.5, 3, {"cents": 700, "shares": 3}, key="p0")
    return story.call("c0", "write", 0.6, 0.7, "info", key="p0/c0", asked={"value": 300}).history()


@row("money-info-rest", valid=(RES,))
def money_info_rest() -> History:
    """The withdrawal of the last share has an unknown outcome. If it took effect, all 1000 cents are accounted
    for."""
    story = Story(stock=PACKET).acquire("c0", 0.1, 0.11, key="p0").access("c0", "read", 0.2, 0, PACKET["p0"], key="p0")
    grab(story, "c0", 0.3, 1, 900, 4, 100).release("c0", 0.4, key="p0").acquire("c1", 0.2, 0.5, key="p0")
    story.call("c1", "write", 0.6, 0.7, "info", key="p0", asked={"value": {"cents": 650, "shares": 3}})
    return story.access("c1", "write", 0.8, 3, 250, key="p0/c1").history()


@row("money-crash", valid=(RES,))
def money_crash() -> History:
    """The client dies between the writes of the packet and its account. The lock is not the cause."""
    story = Story(stock=PACKET).acquire("c0", 0.1, 0.11, key="p0").access("c0", "read", 0.2, 0, PACKET["p0"], key="p0")
    story.access("c0", "write", 0.3, 1, {"cents": 900, "shares": 4}, key="p0")
    return story.fault(0, "client-crash", ["c0"], 0.31).crash(0.31, "c0").history()


def story_with_two_additions(second: int, **release: Any) -> Story:
    """Two critical sections, one after the other. The first one reads 0."""
    story = Story().acquire("c0", 0.1, 0.11).add("c0", 0.2, 0).release("c0", 0.3, **release)
    return story.acquire("c1", 0.15, 0.4).add("c1", 0.5, second).release("c1", 0.6)


@row("add-stale", invalid=(RES,), valid=(ME, FO))
def add_stale() -> History:
    """28 and 29 with a counter in the lock's own service: the lock is correct, and one of two updates is lost."""
    return story_with_two_additions(0).history()


@row("add-fresh", valid=(RES, ME, FO))
def add_fresh() -> History:
    """CONTROL: the second critical section reads what the first one wrote."""
    return story_with_two_additions(1).history()


@row("add-refused-release", valid=(RES,))
def add_refused_release() -> History:
    """Another client held the lock by then. The refusal of the release may also have refused the commit."""
    return story_with_two_additions(0, outcome="fail").history()


@row("add-rolled-back", valid=(RES,))
def add_rolled_back() -> History:
    """The commit of the first transaction has an unknown outcome. It failed if the second one reads 0."""
    return story_with_two_additions(0, outcome="info").history()


@row("add-info", valid=(RES,))
def add_info() -> History:
    """The first addition got no answer."""
    story = Story().acquire("c0", 0.1, 0.11).add("c0", 0.2, outcome="info").release("c0", 0.3)
    return story.acquire("c1", 0.15, 0.4).add("c1", 0.5, 0).release("c1", 0.6).history()


def story_with_two_reads() -> Story:
    story = Story(workload="optimistic", locks=False).access("c0", "read", 0.1, 0, 0).access("c1", "read", 0.2, 1, 0)
    return story.access("c0", "cas", 0.3, 2, 1)


@row("cas-refused", valid=(RES, ME, FO, NO, NR, LV))
def cas_refused() -> History:
    """Optimistic locking: a late client is refused and reads again. No client requests a lock."""
    story = story_with_two_reads().call(
        "c1", "cas", 0.4, 0.5, "fail", asked={"value": 1, "version": 0}, error="changed"
    )
    return story.access("c1", "read", 0.6, 3, 1).access("c1", "cas", 0.7, 4, 2).history()


@row("cas-blind", invalid=(RES,), valid=(ME, FO, NO, NR, LV))
def cas_blind() -> History:
    """A store accepts every write, whatever its version."""
    return story_with_two_reads().access("c1", "cas", 0.4, 3, 1).history()


@row("cas-info", valid=(RES,))
def cas_info() -> History:
    """A conditional write whose reply was lost explains the next read."""
    story = Story(locks=False).access("c0", "read", 0.1, 0, 0).access("c0", "cas", 0.2, 1, 1)
    story.call("c1", "cas", 0.3, 0.4, "info", asked={"value": 2, "version": 1})
    return story.access("c0", "read", 0.5, 3, 2).access("c0", "cas", 0.6, 4, 3).history()
