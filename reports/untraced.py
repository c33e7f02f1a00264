"""Messages between clients and servers that a report does not show: why, and how to get them."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from harness.documents import MessageTrace
from harness.wording import counted

from . import words
from .model import RunView
from .sequence_groups import MOST_GROUPS

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


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Sentences about the messages that the viewer leaves out, and the commands that put all messages into it."""

    sentences: tuple[str, ...]
    commands: tuple[str, ...] = ()


def left_out(run: RunView) -> LeftOut:
    """Return what the message viewer leaves out; without sentences if that is nothing."""
    if run.trace is None:
        return LeftOut(())
    sentences = (*_violations_left_out(run), *_messages_left_out(run, run.trace))
    if not run.trace.windows or len(run.trace.messages) == run.trace.total:
        return LeftOut(sentences)
    folder = shlex.join(shlex.split(run.replay)[2:3]) or "RUN"
    return LeftOut(sentences, (f"harness trace {folder} --all", f"harness report {folder}"))


def _violations_left_out(run: RunView) -> Iterator[str]:
    listed = len(run.evidence)
    if run.found > listed:
        yield f"This page has {listed:,} of {counted(run.found, 'violation')}, those that results.json lists."
    if listed > MOST_GROUPS:
        yield f"The first {MOST_GROUPS} can be shown with their messages."


def _messages_left_out(run: RunView, trace: MessageTrace) -> Iterator[str]:
    kept = len(trace.messages)
    if kept < trace.total:
        which = "those around violations" if trace.windows else "the first ones"
        yield f"This page has {kept:,} of {counted(trace.total, 'message')}, {which}."
    if trace.windows and trace.dropped:
        yield f"Around violations these are the first {kept:,}; {trace.dropped:,} later ones are left out."
    if trace.full_ns:
        yield f"After {words.at(trace.full_ns, run.history.origin)} nothing was recorded, since the log was full."


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
