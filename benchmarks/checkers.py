"""Measure the checkers: ``python -m benchmarks.checkers [OPERATIONS]`` (default: 100,000 lock operations).

Each checker alone on a history it has not seen, best of five; the goal for the lock checkers is 0.2 s for 100,000.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from harness.checkers import catalogue
from harness.history import History, Op, OpType

CLIENTS = 5


def history(operations: int) -> History:
    """Clients in turn acquire, read, write and release one key; ``operations`` acquires and releases, no violation."""
    start = {
        "clients": [f"c{n}" for n in range(CLIENTS)],
        "servers": ["n1"],
        "discipline": "trusting",
        "fencing": "off",
    }
    past = History(
        [Op(0, 0, 0, -1, "info", "start", None, {**start, "ttl": 2.0, "hold": 0.1, "slack": 1.0, "stock": {}})]
    )

    def entry(client: int, type_: OpType, f: str, value: Any = None) -> None:
        index = len(past)
        past.append(Op(index, index * 1000, index * 1000, client, type_, f, "k0", value, None, f"c{client}"))

    for n in range(operations // 2):
        client = n % CLIENTS
        entry(client, "invoke", "acquire", {"timeout": 1.0})
        entry((n + 1) % CLIENTS, "invoke", "acquire", {"timeout": 1.0})
        entry(client, "ok", "acquire", {"fence": n, "valid_for": 2.0})
        entry((n + 1) % CLIENTS, "fail", "acquire")
        entry(client, "invoke", "read", {"fence": n})
        entry(client, "ok", "read", {"value": n, "arrival": 2 * n})
        entry(client, "invoke", "write", {"fence": n, "value": n + 1})
        entry(client, "ok", "write", {"arrival": 2 * n + 1})
        entry(client, "invoke", "release")
        entry(client, "ok", "release")
    last = len(past)
    past.append(Op(last, last * 1000, last * 1000, -1, "info", "stop", None, {"reason": "time limit"}))
    return past


def main() -> None:
    """Print a line a checker."""
    operations = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    for checker in catalogue.all():
        times = []
        for _ in range(5):
            past = history(operations)
            began = time.perf_counter()
            verdict = checker.check(past)
            times.append(time.perf_counter() - began)
            assert verdict.valid is True, f"{checker.name}: {verdict.explanation}"
        print(f"{checker.name:<20} {operations:>10,} lock operations, {len(past):,} entries: {min(times):.3f} s")


if __name__ == "__main__":
    main()
