"""Golden stories of critical sections that ended on their own, or did not.

See ``golden_stories.py``."""

from __future__ import annotations

from harness.history import History
from tests.checkers.golden_stories import RES, row
from tests.checkers.story import Story

CLIENTS = ("c0", "c1")


def updating(**settings: object) -> Story:
    return Story(updates=True, **settings)


def interrupted(story: Story, client: str, at: float, arrival: int) -> Story:
    """The client reads, and an exception ends its critical section."""
    story.acquire(client, at, at + 0.01).access(client, "read", at + 0.02, arrival, 0)
    return story.call(client, "release", at + 0.1, at + 0.11, asked={"interrupted": True})


def complete(story: Story, client: str, at: float, arrival: int) -> Story:
    """The client reads 0, the first value, and writes it again."""
    story.acquire(client, at, at + 0.01).access(client, "read", at + 0.02, arrival, 0)
    return story.access(client, "write", at + 0.03, arrival + 1, 0).release(client, at + 0.1)


@row("all-interrupted", unknown=(RES,))
def all_interrupted() -> History:
    """The lock interrupts each critical section after its read, so nobody writes."""
    story = updating()
    for number in range(6):
        interrupted(story, CLIENTS[number % 2], float(number), number)
    return story.history()


@row("one-tenth-complete", valid=(RES,))
def one_tenth_complete() -> History:
    """CONTROL: two of 20 critical sections end on their own, one of each client."""
    story = updating()
    for number in range(18):
        interrupted(story, CLIENTS[number % 2], float(number), number)
    complete(story, "c0", 18.0, 18)
    return complete(story, "c1", 19.0, 20).history()


@row("fewer-complete", unknown=(RES,))
def fewer_complete() -> History:
    """The same with one more interruption."""
    story = updating()
    for number in range(19):
        interrupted(story, CLIENTS[number % 2], float(number), number)
    complete(story, "c0", 19.0, 19)
    return complete(story, "c1", 20.0, 21).history()


@row("told-lost", unknown=(RES,))
def told_lost() -> History:
    """The lock says at each check that it is lost."""
    story = updating(discipline="checking")
    for number in range(6):
        client, at = CLIENTS[number % 2], float(number)
        story.acquire(client, at, at + 0.01).access(client, "read", at + 0.02, number, 0)
        story.call(client, "check", at + 0.03, at + 0.04, got={"valid": False}).release(client, at + 0.1)
    return story.history()


@row("answers-lost", unknown=(RES,))
def answers_lost() -> History:
    """No access to the resource is answered."""
    story = updating()
    for number in range(6):
        client, at = CLIENTS[number % 2], float(number)
        story.acquire(client, at, at + 0.01).call(client, "read", at + 0.02, at + 0.03, "info")
        story.release(client, at + 0.1)
    return story.history()


@row("nothing-accessed", unknown=(RES,))
def nothing_accessed() -> History:
    story = updating()
    for number in range(6):
        story.acquire(CLIENTS[number % 2], float(number), number + 0.01).release(CLIENTS[number % 2], number + 0.1)
    return story.history()


@row("nothing-changed", unknown=(RES,))
def nothing_changed() -> History:
    story = updating()
    for number in range(6):
        client, at = CLIENTS[number % 2], float(number)
        story.acquire(client, at, at + 0.01).access(client, "read", at + 0.02, number, 0).release(client, at + 0.1)
    return story.history()


@row("one-client-completes", unknown=(RES,))
def one_client_completes() -> History:
    """Critical sections of c1 are interrupted, those of c0 are not."""
    story = updating()
    for number in range(3):
        complete(story, "c0", 2.0 * number, 3 * number)
        interrupted(story, "c1", 2.0 * number + 1, 3 * number + 2)
    return story.history()


@row("no-updates-stated", valid=(RES,))
def no_updates_stated() -> History:
    """CONTROL: the workload does not state that its critical sections change the resource."""
    story = Story()
    for number in range(6):
        interrupted(story, CLIENTS[number % 2], float(number), number)
    return story.history()


@row("packet-complete", valid=(RES,))
def packet_complete() -> History:
    """CONTROL: the account p0/c0 is accessed under the lock of the packet p0, and additions count as changes."""
    story = updating()
    for number, client in enumerate(CLIENTS):
        story.acquire(client, float(number), number + 0.01, key="p0")
        story.access(client, "read", number + 0.02, number, 0, key=f"p0/{client}")
        story.add(client, number + 0.03, number, key="p0").release(client, number + 0.1, key="p0")
    return story.history()
