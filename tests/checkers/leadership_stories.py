"""Golden stories of leaders. See ``golden_stories.py``."""

from __future__ import annotations

from typing import Any

from harness.history import History
from tests.checkers.golden_stories import ME, row
from tests.checkers.story import Story

LEADERSHIP = "leadership"

# ttl is 2 s. A leader acts by writing {"act": number}.


def act(story: Story, client: str, at: float, arrival: int) -> Story:
    return story.access(client, "write", at, arrival, {"act": arrival})


def told(story: Story, client: str, at: float, answer: bool) -> Story:
    return story.call(client, "extend", at, at + 0.001, got={"extended": answer})


def succession(**settings: Any) -> Story:
    """c0 leads from 0.11 s on, and relies on the lock for 1.6 s; c1 leads from 2.2 s on. Both act twice."""
    story = Story(**settings)
    granted = {"fence": None, "valid_for": None, "relies_for": 1.6}
    story.call("c0", "acquire", 0.1, 0.11, asked={"timeout": 10.0}, got=granted)
    act(story, "c0", 0.5, 0)
    act(story, "c0", 1.0, 1)
    story.acquire("c1", 0.2, 2.2)
    act(story, "c1", 2.5, 2)
    return act(story, "c1", 3.0, 3)


@row("one-leader-at-a-time", valid=(LEADERSHIP, ME))
def one_leader_at_a_time() -> History:
    return succession().release("c1", 3.5).history()


@row("leads-again", valid=(LEADERSHIP,))
def leads_again() -> History:
    """c0 leads a second time, after c1."""
    story = succession().release("c1", 3.5).acquire("c0", 3.6, 3.7)
    return act(story, "c0", 4.0, 4).release("c0", 4.1).history()


@row("former-leader-acts", invalid=(LEADERSHIP,), valid=(ME,))
def former_leader_acts() -> History:
    """c0 acts once more after c1, although it had stopped relying on the lock."""
    return act(succession(), "c0", 3.2, 4).release("c1", 3.5).history()


@row("former-leader-is-told-that-it-leads", invalid=(LEADERSHIP,))
def former_leader_is_told_that_it_leads() -> History:
    story = told(succession(), "c0", 3.1, True)
    return act(story, "c0", 3.2, 4).release("c1", 3.5).history()


@row("former-leader-acts-before-its-successor", valid=(LEADERSHIP,))
def former_leader_acts_before_its_successor() -> History:
    """c0's last act comes after c1's grant, but before c1 has acted."""
    story = Story().acquire("c0", 0.1, 0.11)
    act(story, "c0", 0.5, 0)
    story.release("c0", 1.0).acquire("c1", 0.2, 1.01)
    act(story, "c0", 1.05, 1)
    return act(story, "c1", 1.5, 2).release("c1", 2.0).history()


@row("former-leader-is-refused", valid=(LEADERSHIP,))
def former_leader_is_refused() -> History:
    """The resource refuses c0's late act."""
    story = succession(fencing="on")
    story.call("c0", "write", 3.2, 3.201, "fail", asked={"fence": None, "value": {"act": 9}}, error="stale fence")
    return story.release("c1", 3.5).history()


@row("leaders-of-two-keys", valid=(LEADERSHIP,))
def leaders_of_two_keys() -> History:
    story = Story().acquire("c0", 0.1, 0.11).acquire("c1", 0.2, 0.21, key="k1")
    act(story, "c0", 0.5, 0)
    story.access("c1", "write", 0.6, 1, {"act": 1}, key="k1")
    return act(story, "c0", 0.7, 2).release("c0", 1.0).release("c1", 1.1, key="k1").history()


@row("no-leader", valid=(LEADERSHIP,))
def no_leader() -> History:
    """Writes of the usual workload are no acts."""
    story = Story().acquire("c0", 0.1, 0.11).access("c0", "write", 0.2, 0, 1).release("c0", 0.3)
    story.acquire("c1", 0.2, 0.31).access("c1", "write", 0.4, 1, 2)
    return story.access("c0", "write", 0.5, 2, 3).release("c1", 0.6).history()
