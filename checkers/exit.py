"""Check that a client's process is gone soon after its main thread has ended (``EX``).

The interpreter waits for threads that are no daemons, and for the functions of ``atexit``. A lock whose thread goes on,
for example to renew the lease, keeps the process, and may keep the lock. Each process must be gone ``ttl`` + ``slack``
after its entry ``exit``; time in which a fault counts for the client (:mod:`.excuses`) is left out. If the
history ends before, or the process crashes meanwhile, that exit shows nothing.

Whether the key gets free is judged by :mod:`.deadlock` and :mod:`.liveness`.
"""

from __future__ import annotations

from harness.history import History, Op
from harness.wording import counted, in_seconds, listed

from .base import Verdict, Violation, conclude, no_lock_taken, not_applicable
from .excuses import Excuses
from .view import View, view


class ExitChecker:
    """A process is gone within ttl + slack after its main thread ended, unless a fault excuses it."""

    name = "exit"

    def check(self, history: History) -> Verdict:
        if (lockless := no_lock_taken(history)) is not None:
            return lockless
        exits = history.nemesis("exit")
        if not exits:
            return not_applicable(history, "no process of a client ended")
        columns = view(history)
        ttl, slack = columns.seconds("ttl"), columns.seconds("slack")
        if ttl is None or slack is None:
            return Verdict(None, "the start entry does not state ttl and slack")
        excuses, violations, known = Excuses(history), [], 0
        for exit_ in exits:
            over = _end_of(exit_, history)
            ended = over is not None and over.f == "exited"
            known += ended
            due, until = exit_.time + ttl + slack, columns.end if over is None else over.time
            if until > due and not _is_excused(columns, excuses, exit_, due):
                violations.append(_violation(columns, exit_, due, until, ended=ended))
        doubt = None if known or violations else "the run ended before any process was gone"
        return conclude(
            history,
            violations,
            fine=f"{known:,} of {counted(len(exits), 'exit')} ended with the process gone in time",
            doubts=(doubt,),
            stats={"exits": len(exits), "gone": known},
        )


def _end_of(exit_: Op, history: History) -> Op | None:
    """Return the entry at which the process was gone or crashed, None if there is none."""
    ends = history.nemesis("exited", "crash")
    return next((op for op in ends if op.node == exit_.node and op.index > exit_.index), None)


def _is_excused(columns: View, excuses: Excuses, exit_: Op, due: int) -> bool:
    """Return whether a fault counts for the client after its exit, which itself counts as one at that moment."""
    mine = [number for number, name in enumerate(columns.names) if name == exit_.node]
    return bool(mine) and excuses.any(mine[0], exit_.time + 1, due)


def _violation(columns: View, exit_: Op, due: int, until: int, *, ended: bool) -> Violation:
    value = exit_.value or {}
    stayed = in_seconds(until - exit_.time)
    harm = f"The process of {exit_.node} " + (f"ended only after {stayed}" if ended else f"went on for {stayed}")
    threads = listed([str(name) for name in value.get("threads") or ()])
    waits = f"it waited for the thread{'s' * (len(value.get('threads') or ()) > 1)} {threads}" if threads else ""
    sentence = f"{harm}: its main thread had ended at {columns.at(exit_.time)} by {value.get('by')}"
    involved = {"client": exit_.node, "process": exit_.process, "indices": [exit_.index], "f": "exit"}
    return Violation(
        "process-stays", None, f"{sentence}; {waits}" if waits else sentence, due, until, (involved,), "service",
        harm=harm, cause=waits,
    )  # fmt: skip
