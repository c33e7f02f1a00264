"""Describe faults and late messages as clauses that follow "At 0.205 s, "."""

from __future__ import annotations

from harness.faults.records import FaultRecord, seconds
from harness.plan import Delay, FaultSpec


def occasion(spec: FaultSpec, record: FaultRecord, who: str) -> str:
    """Return the clause that says at which step of the client ``who`` (empty: unknown) the fault strikes.

    It is empty if the plan does not say so. The usual step, after an acquire, needs no words.
    """
    if spec.on is None or spec.delay or spec.on == "acquire":
        return ""
    whose = "its" if record.hosts == (who,) else f"{who}'s"
    event, _, phase = spec.on.partition(":")
    if event in ("request", "reply"):
        return f", when {'a' if not who else whose} {phase} is {'sent' if event == 'request' else 'answered'}"
    if not who:
        return ""
    if phase == "invoke":
        return f", just before {who} requests it" if event == "acquire" else f", just before {who}'s {event}"
    return f", just after {whose} {event}"


def late(delay: Delay) -> str:
    """Return a clause about a message that took longer."""
    return f"message {delay.nth} from {delay.source} to {delay.target} arrives {seconds(delay.by)} late"
