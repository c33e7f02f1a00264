"""Ours beside Porcupine on logs of real runs: ``python -m benchmarks.linearizability.etcd_logs FOLDER``.

FOLDER has the logs of Jepsen's test of etcd that are test data of Porcupine, ``etcd_000.log`` and so on. Either program
decides each log as a register with cas, with failed cas as evidence (it says that the value was another one). Only the
verdict is measured, in seconds of the processor, the median of some rounds. One process of ours decides all logs, after
a first one that is not counted, so that machine code is loaded. The exit status is 1 if the verdicts differ, or a log
was not decided.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks.linearizability.measure import Porcupine
from benchmarks.linearizability.ours import decide
from harness.checkers.models import CasRegister, WithRefusals
from harness.history import compiled
from harness.history.files import read_calls

LINE: Final = re.compile(r"INFO\s+jepsen\.util - (\d+)\s+:(invoke|ok|fail|info)\s+:(read|write|cas)\s+(.*)")
ROUNDS: Final = 5
MODEL: Final = "cas-register"


def convert(log: Path, history: Path) -> None:
    """Write the calls of ``log`` as a history of ours, with the number of the line as the time (ms)."""
    with history.open("w", encoding="utf-8") as file:
        for number, line in enumerate(log.read_text(encoding="utf-8").splitlines()):
            if (found := LINE.match(line)) is None:
                continue
            process, kind, f, said = found.groups()
            value = json.loads(said.replace(" ", ", ")) if said[0] in "[0123456789" else None
            entry = {"index": number, "time": number * 10**6, "process": int(process), "type": kind, "f": f}
            file.write(json.dumps({**entry, "value": value}) + "\n")


def warm(history: Path, seconds: float) -> None:
    """Load the machine code, by a check that uses nothing else."""
    usual, compiled.limits = compiled.limits, compiled.ALWAYS
    ours(history, seconds)
    compiled.limits = usual


def ours(history: Path, seconds: float) -> tuple[str, float]:
    """Return the verdict, and the seconds of the processor that it took."""
    model = WithRefusals(CasRegister())
    calls = read_calls(history, model.wants, refusals=model.model.refusals)
    took: list[float] = []
    for _ in range(ROUNDS):
        begun = time.process_time()
        valid = decide(calls, model, seconds)
        took.append(time.process_time() - begun)
    return {True: "Ok", False: "Illegal", None: "Unknown"}[valid], statistics.median(took)


def summary(name: str, took: Sequence[tuple[str, float]]) -> str:
    seconds = [one for _, one in took]
    verdicts = [verdict for verdict, _ in took]
    counts = ", ".join(f"{verdicts.count(one)} {one}" for one in ("Ok", "Illegal", "Unknown") if one in verdicts)
    middle = statistics.median(seconds) * 1e3
    return f"{name}: {counts}; median {middle:.3f} ms, total {sum(seconds):.3f} s, longest {max(seconds):.3f} s"


def main() -> int:
    """Print a line for each program."""
    parser = argparse.ArgumentParser(description="Ours beside Porcupine on its logs of etcd.")
    parser.add_argument("folder", type=Path, help="a folder with etcd_*.log")
    parser.add_argument("--seconds", type=float, default=60.0, help="time for one check")
    asked = parser.parse_args()
    logs = sorted(asked.folder.glob("etcd_*.log"))
    if not logs:
        parser.error(f"no etcd_*.log in {asked.folder}")
    with tempfile.TemporaryDirectory() as temporary:
        histories = [Path(temporary) / f"{log.stem}.jsonl" for log in logs]
        for log, history in zip(logs, histories, strict=True):
            convert(log, history)
        porcupine = Porcupine(asked.seconds, Path(temporary))
        warm(histories[0], asked.seconds)
        found = [ours(history, asked.seconds) for history in histories]
        theirs = [porcupine.measure(history, MODEL, evidence=True) for history in histories]
    print(summary("ours", found))
    print(summary(porcupine.version, [(one.verdict, one.decide) for one in theirs]))
    different = [log.name for log, (mine, _), one in zip(logs, found, theirs, strict=True) if mine != one.verdict]
    if different:
        print(f"different verdicts: {', '.join(different)}", file=sys.stderr)
    return int(bool(different) or any(verdict == "Unknown" for verdict, _ in found))


if __name__ == "__main__":
    sys.exit(main())
