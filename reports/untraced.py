"""The reason why a report shows no messages between clients and servers, and how to get them."""

from __future__ import annotations

from typing import Final

from .model import RunView

UNSEEN: Final = {
    "servers": "the harness cannot see what servers of yours receive. "
    "On --cluster sim or docker it can, if the lock runs there.",
    "ssh": "the harness does not record them on machines that it reaches by ssh. "
    "On --cluster sim or docker it does, if the lock runs there.",
}
"""Sentences for backends that cannot record messages."""
ENCRYPTED: Final = "kubernetes"
MOST_UNDECODED: Final = 3


def reason(run: RunView) -> str:
    """Return in a sentence or two why the report has no messages.

    Empty if it has some, or if the run had no servers to send messages to.
    """
    if run.trace is not None and run.trace.messages:
        return ""
    why = _reason(run)
    return f"This report has no messages between clients and servers: {why}" if why else ""


def _reason(run: RunView) -> str:
    if run.trace_trouble:
        return run.trace_trouble
    if not run.servers or not run.backend:
        return ""
    if run.backend in UNSEEN:
        return UNSEEN[run.backend]
    if dict(run.cluster).get("kind") == ENCRYPTED:
        return "connections to Kubernetes are encrypted, so the harness cannot decode them."
    if run.trace is not None:
        reasons = "; ".join(run.trace.undecoded[:MOST_UNDECODED])
        return f"none could be decoded ({reasons})." if reasons else "no client sent a request while they were kept."
    return f"they were not kept. {_default(run)} {_remedy(run)}"


def _default(run: RunView) -> str:
    if "--trace off" in run.command:
        return "The run had --trace off."
    if run.judgement == "invalid":
        return "--trace off keeps none, and a nightly run on containers keeps none."
    return "By default a run without a violation keeps them only if it sends at most 500 requests."


def _remedy(run: RunView) -> str:
    """Return how to get the messages. A command with a seed makes the same run again only in the simulator."""
    again = "Run it again" if run.backend == "sim" else "Run it again, which may give another run,"
    return f"{again} with --trace on to keep all."
