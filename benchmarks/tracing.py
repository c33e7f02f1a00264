"""Measure what a trace costs: ``python -m benchmarks.tracing [LOCK ...]``.

Processor time of a simulation without and with the log of its messages, in turn, and of decoding all of them.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Final

import msgspec

from harness.clusters.kinds import KINDS
from harness.documents.messages import pack_messages
from harness.history import History, Op
from harness.plan import Plan
from harness.run import simulated
from harness.run.completion import complete
from harness.run.lock_facts import find_facts
from harness.trace.building import build
from harness.trace.streams import read_streams
from harness.worker.channel import Channel, Frame

ROUNDS: Final = 3
SECONDS: Final = 30.0


class _Collected(Channel):
    """Keeps the entries and the log, as the harness does."""

    def __init__(self) -> None:
        self.sent = 0
        self.entries: list[bytes] = []
        self.batches: list[bytes] = []

    def send(self, kind: Frame, body: bytes) -> None:
        if kind is Frame.ENTRY:
            self.entries.append(body)
        elif kind is Frame.MESSAGES:
            self.batches.append(body)


def timed(work: Callable[[], object]) -> float:
    """Return the processor seconds of this process that ``work`` takes."""
    began = time.process_time()
    work()
    return time.process_time() - began


def measure(name: str) -> str:
    """Return the figures of a lock as a line."""
    facts = find_facts(name)
    plan = complete(Plan(lock=name, time_limit=SECONDS), facts)
    off: list[float] = []
    on: list[float] = []
    found = _Collected()
    for _ in range(ROUNDS):
        for logs, times in ((False, off), (True, on)):
            found = _Collected()
            request = simulated.SimulatedRequest(plan=plan, lock=facts, watches_keys=True, logs_messages=logs)
            argument = msgspec.json.encode(request)
            times.append(timed(lambda argument=argument, found=found: simulated.run(argument, found)))  # type: ignore[misc]
    history = History(msgspec.json.decode(entry, type=Op) for entry in found.entries)
    decoding = timed(lambda: decode(plan, history, found.batches))
    total = decode(plan, history, found.batches)
    more = min(on) / min(off) - 1
    return (
        f"{name:<20} {min(off):6.2f} s, with the log {more:+.1%}, "
        f"decoding {total:,} messages {decoding:.2f} s ({1e6 * decoding / max(1, total):.0f} µs each)"
    )


def decode(plan: Plan, history: History, batches: list[bytes]) -> int:
    """Decode and pack all messages; return their number."""
    service = KINDS.find(plan.kind).service
    trace = build(
        read_streams(batches), kind=plan.kind, service=service, backend="sim", mode="on", history=history,
        violations=(),
    )  # fmt: skip
    assert trace is not None
    pack_messages(trace)
    return trace.total


def main() -> None:
    """Print a line for each lock."""
    parser = argparse.ArgumentParser(description="What a trace of the messages costs.")
    parser.add_argument("locks", nargs="*", default=["redlock", "redis-token"], help="else redlock and redis-token")
    for name in parser.parse_args().locks:
        print(measure(name), flush=True)


if __name__ == "__main__":
    main()
