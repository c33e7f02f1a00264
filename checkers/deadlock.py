"""Check that a lock becomes available within its ttl after its holder died or lost track of it (``NR``)."""

from __future__ import annotations

from harness.history import SECOND, History

from .base import Blame, Json, Verdict, Violation, conclude, no_lock_taken
from .faults import unhealed
from .mutual_exclusion import too_few
from .stuck import UNCLEAN, Stretches, StuckKey, stretches_in
from .view import NONE, view


class DeadlockChecker:
    """After a crash, an unknown outcome or a refused release, the key is granted again within ttl + slack.

    The time counts from the last of the crash, the end of the unknown call and the heals of disturbing faults, and only
    while clients keep requesting the key: see :mod:`.stuck`. A release that never returned, of a client that
    did not crash, excuses the lock.
    """

    name = "deadlock"

    def check(self, history: History) -> Verdict:
        if (lockless := no_lock_taken(history)) is not None:
            return lockless
        if not stated(history):
            return Verdict(None, "the start entry does not state ttl and slack")
        stretches = stretches_in(history)
        violations = [report(stretches, found, "deadlock") for found in stretches.stuck() if found.cause in UNCLEAN]
        return conclude(
            history,
            violations,
            fine="every key was granted again in time after its holder was gone",
            doubts=(unhealed(history), too_few(stretches.holds)),
            stats={"holds": len(stretches.holds)},
        )


def stated(history: History) -> bool:
    """Return whether the start entry has ttl and slack. Without them, no grant is ever late."""
    settings = view(history).settings
    return settings.get("ttl") is not None and settings.get("slack") is not None


REASONS = {
    "clean": "{client} had released it",
    "crashed": "{client} had crashed while it held it",
    "exited": "the process of {client} had ended while it held it",
    "unknown": "a call on it had an unknown outcome",
    "refused": "{client}'s release had been refused",
    "lost": "the lock had told {client} that it had lost it",
    "expired": "{client}'s lease had run out",
    "open": "{client} held it to the end",
    "heal": "all faults had been healed",
    "start": "no client had ever held it",
}


def report(stretches: Stretches, found: StuckKey, kind: str) -> Violation:
    """Return a stuck stretch as a violation, for the checkers deadlock and liveness."""
    columns, hold = stretches.columns, None if found.hold == NONE else stretches.holds[found.hold]
    key, at = columns.keys[found.key], columns.at
    askers = sorted({columns.name(columns.client[index]) for index in found.invokes})
    reason = REASONS[found.cause].format(client=hold.client if hold else "a client")
    names = ", ".join(askers)
    waits = (
        f"while acquires of {names} hung beyond their timeouts"
        if found.hanging
        else f"although {names} kept requesting it"
    )
    sentence = (
        f"No client got {key} from {at(found.idle_ns)} to {at(found.until_ns)}, {waits}: {reason}, so it should have "
        f"been available by {at(found.due_ns)} (ttl {stretches.ttl / SECOND:g} s, slack {stretches.slack / SECOND:g} s)"
    )
    back = stretches.set_back(found)
    if back is not None:
        sentence += f"; {back[0]}'s clock was set back by {columns.span(back[1])}, so leases end later there"
    involved: list[Json] = [hold.to_json()] if hold else []
    involved += [columns.call(index) for index in found.invokes]
    blame: Blame = "service" if back is None else "clock"
    return Violation(kind, key, sentence, found.idle_ns, found.until_ns, tuple(involved), blame)
