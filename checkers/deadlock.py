"""A lock whose holder died, or lost track of it, comes back within its ttl (``NR`` in the table of anomalies)."""

from __future__ import annotations

from checkers.base import Json, Verdict, Violation, conclude, no_lock_taken
from checkers.faults import unhealed
from checkers.mutual_exclusion import too_few
from checkers.stuck import UNCLEAN, Stretches, Stuck
from checkers.view import NONE, view
from harness.history import SECOND, History


class Deadlock:
    """After a crash, an unknown outcome or a refused release, the key is granted again within ttl + slack.

    Counted from the last of the crash, the unknown call's end and the heals of disturbing faults, and only while
    clients kept asking: see :mod:`checkers.stuck`. A release that never returned and whose client did not crash
    excuses.
    """

    name = "deadlock"

    def check(self, history: History) -> Verdict:
        if (lockless := no_lock_taken(history)) is not None:
            return lockless
        if not stated(history):
            return Verdict(None, "the start entry does not state ttl and slack")
        stretches = Stretches(history)
        violations = [report(stretches, found, "deadlock") for found in stretches.stuck() if found.cause in UNCLEAN]
        return conclude(
            history,
            violations,
            fine="no key stayed taken after its holder had gone",
            doubts=(unhealed(history), too_few(stretches.holds)),
            stats={"holds": len(stretches.holds)},
        )


def stated(history: History) -> bool:
    """Whether the start entry has the ttl and the slack, without which nothing is ever late."""
    settings = view(history).settings
    return settings.get("ttl") is not None and settings.get("slack") is not None


REASONS = {
    "clean": "{client} had released it",
    "crashed": "{client} had crashed while it held it",
    "unknown": "the outcome of a call on it was unknown",
    "refused": "{client}'s release had been refused",
    "lost": "{client} had been told that it had lost it",
    "expired": "{client}'s lease had run out",
    "open": "{client} held it to the end",
    "heal": "all faults had been healed",
    "start": "nobody had ever held it",
}


def report(stretches: Stretches, found: Stuck, kind: str) -> Violation:
    """A stuck stretch as a violation, for deadlock and liveness."""
    columns, hold = stretches.columns, None if found.hold == NONE else stretches.holds[found.hold]
    key, at = columns.keys[found.key], columns.at
    askers = sorted({columns.name(columns.client[index]) for index in found.invokes})
    reason = REASONS[found.cause].format(client=hold.client if hold else "nobody")
    sentence = (
        f"nobody held {key} from {at(found.idle_ns)} to {at(found.until_ns)} though {', '.join(askers)} kept "
        f"asking: {reason}, and it was due by {at(found.due_ns)} "
        f"(ttl {stretches.ttl / SECOND:g} s, slack {stretches.slack / SECOND:g} s)"
    )
    involved: list[Json] = [hold.to_json()] if hold else []
    involved += [columns.call(index) for index in found.invokes]
    return Violation(kind, key, sentence, found.idle_ns, found.until_ns, tuple(involved), "service")
