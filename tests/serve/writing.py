"""Runs in progress for tests: a history that is written entry by entry."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from harness.history import History, HistoryWriter, Op
from harness.plan import FaultSpec, Plan, dump
from harness.run.runs import run
from harness.run.store import HISTORY, PLAN, write_results
from harness.run.verdicts.judging import Result

PLAN_OF_TESTS = Plan(
    lock="redis-token", faults=(FaultSpec("client-pause", on="acquire", for_=3.0),), time_limit=8.0, clients=3
)


@cache
def recorded_run(plan: Plan = PLAN_OF_TESTS) -> Result:
    """Return a finished run whose history is written again."""
    return run(plan)


class Recording:
    """The folder of a run in progress. Write entries, then call :meth:`end`, or only close it."""

    def __init__(self, store: Path, name: str = "20261121T200000Z-0", result: Result | None = None) -> None:
        self.result = result or recorded_run()
        self.folder = store / self.result.plan.lock / name
        self.folder.mkdir(parents=True)
        (self.folder / PLAN).write_text(dump(self.result.plan))
        self.writer = HistoryWriter(self.folder / HISTORY)
        self.ops: Sequence[Op] = list(self.result.history)
        self.written = 0

    @property
    def address(self) -> str:
        return f"/live/{self.folder.parent.name}/{self.folder.name}/"

    def until(self, seconds: float) -> None:
        """Write the entries of the first ``seconds``."""
        origin = self.ops[0].time
        while self.written < len(self.ops) and self.ops[self.written].time <= origin + seconds * 1e9:
            self.writer.write(self.ops[self.written])
            self.written += 1

    def end(self) -> None:
        """Write the remaining entries and the results."""
        self.until(float("inf"))
        self.writer.close()
        write_results(self.folder, self.result.document)


def history_of(seconds: int, rate: int) -> History:
    """Return a run of this many seconds with ``rate`` critical sections a second, of two clients and two keys in
    turn."""
    history = History()
    start = {"clients": ["c0", "c1"], "servers": ["n1"], "discipline": "trusting", "ttl": 2.0, "hold": 0.1}

    def add(time: int, process: int, type_: str, f: str, value: object = None) -> None:
        node, key = (None, None) if process < 0 else (f"c{process}", f"k{process}")
        history.append(Op(len(history), time, time, process, type_, f, key, value, None, node))  # type: ignore[arg-type]

    add(1, -1, "info", "start", start)
    step = 1_000_000_000 // rate
    for number in range(seconds * rate):
        at, who = 1 + number * step, number % 2
        add(at, who, "invoke", "acquire", {"timeout": 2.0})
        add(at + step // 4, who, "ok", "acquire", {"fence": number, "valid_for": 2.0})
        add(at + step // 2, who, "invoke", "release")
        add(at + step // 2 + step // 4, who, "ok", "release")
    return history
