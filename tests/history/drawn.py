"""Random histories, and comparison of calls."""

from __future__ import annotations

from dataclasses import fields
from random import Random
from typing import Any

import numpy as np

from harness.history import NEMESIS, History, Op, OpType
from harness.history.calls import NEVER, Calls

VALUES: tuple[Any, ...] = (None, 0, 3, -7, 1.5, True, "a b", 'q"\\\n9', [1, [2, None]], {"fence": 7, "odd key 1": [0]})


def draw_history(seed: int, *, keys: int = 1, tidy: bool = True, entries: int = 60) -> History:
    """Draw a history of clients on three hosts, some of which die. With ``tidy`` all entries are ordered by time,
    otherwise only those of each process."""
    random = Random(seed)
    history = History()
    idle = {process: f"c{process % 3}" for process in range(4)}
    busy: dict[int, tuple[str, str, str]] = {}
    last: dict[int, int] = {}
    next_process = 4
    now = 0

    def add(process: int, kind: OpType, f: str, key: str | None, value: Any, node: str | None) -> None:
        last[process] = max(now, last.get(process, 0))
        history.append(Op(len(history), last[process], 5, process, kind, f, key, value, None, node))

    add(NEMESIS, "info", "start", None, {"clients": ["c0", "c1", "c2"], "workload": "locks", "ttl": 2.0}, None)
    for _ in range(entries):
        now += random.randrange(3) if tidy else random.randrange(-2, 4)
        if random.random() < 0.05:
            host = f"c{random.randrange(3)}"
            add(NEMESIS, "info", "crash", None, {"host": host}, host)
        elif random.random() < 0.05:
            add(NEMESIS, "ok", "heal", None, {"id": 3, "hosts": ["n1"]}, None)
        elif idle and (not busy or random.random() < 0.5):
            process = random.choice(sorted(idle))
            f, key = random.choice(("acquire", "release", "read", "write", "check")), f"k{random.randrange(keys)}"
            busy[process] = (idle.pop(process), f, key)
            asked = {"fence": 1, "value": random.choice(VALUES)} if f == "write" else None
            add(process, "invoke", f, key, asked, busy[process][0])
        else:
            process = random.choice(sorted(busy))
            node, f, key = busy.pop(process)
            outcome: OpType = random.choice(("ok", "ok", "ok", "fail", "info"))
            add(process, outcome, f, key, _answer(random, f) if outcome == "ok" else None, node)
            if outcome == "info" and f != "read":
                process, next_process = next_process, next_process + 1
            idle[process] = node
    return history


def _answer(random: Random, f: str) -> Any:
    if f == "acquire":
        lease = random.choice((None, 1.25, 2.0))
        return random.choice((None, {"fence": random.choice((None, random.randrange(99))), "valid_for": lease}))
    return {"read": {"value": random.choice(VALUES), "arrival": 1}, "check": {"valid": random.random() < 0.5}}.get(f)


def plain(calls: Calls) -> list[dict[str, Any]]:
    """Return the calls by name, as plain data."""
    rows = []
    for row in range(len(calls)):
        returned, ended = int(calls.returned[row]), int(calls.ended[row])
        rows.append(
            {
                "f": calls.fs[calls.f[row]],
                "key": calls.keys[calls.key[row]],
                "client": (int(calls.client[row]), calls.clients[calls.client[row]]),
                "process": int(calls.process[row]),
                "known": bool(calls.known[row]),
                "invoked": int(calls.invoked[row]),
                "returned": None if returned == NEVER else returned,
                "began": int(calls.began[row]),
                "ended": None if ended == NEVER else ended,
                "argument": calls.argument_of(row),
                "result": calls.result_of(row),
            }
        )
    return rows


def assert_same(one: Calls, other: Calls) -> None:
    """Compare column by column."""
    for column in fields(Calls):
        left, right = getattr(one, column.name), getattr(other, column.name)
        if isinstance(left, np.ndarray):
            assert left.dtype == right.dtype, column.name
            assert left.tolist() == right.tolist(), column.name
        else:
            assert left == right, column.name
