"""Random steps of several ZooKeeper sessions: what lock libraries send, everything that is simulated, and faults.

Steps, of which each is a tuple of plain data:

- ``("send", session, operation, ...)``: send operations in one piece;
- ``("move", session, paths, paths, paths)``: a new connection of the session, which sets its watches again;
- ``("close", session)``: close the session, and open another in its place;
- ``("reopen", session)``: try to resume the session that was closed last;
- ``("expire", session)``: disconnect until the session has expired, and open another in its place;
- ``("pause", session, operation, ...)``: pause the session's server, send, resume the server;
- ``("restart", data)``: kill the server and start it again, "with data" or "without data".
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from random import Random
from typing import Any, Final

from harness.fidelity.comparison import Step

from .client import Ops

TOP: Final = "/r"
ROOT: Final = "/r/t"
SESSIONS: Final = 3
LENGTH: Final = 300
NAMES: Final = ["a", "b", "c", "Aa", "BB", "x-", "lock-", "ünï", "AaAa", "BBBB"]
ODD: Final = [
    "", "r/t", "/r/t/a/", "/r/t//a", "/r/t/./a", "/r/t/../a", "/r/t/a\x01", "/", "/zookeeper", "/zookeeper/quota",
    "/r/t/a\x7f",
]  # fmt: skip
DATA: Final = [b"", b"x", b"hello", bytes(range(40)), None]
VERSIONS: Final = [-1, -1, -1, 0, 0, 1, 2, 3, 7, -2]
READS: Final = ["exists", "exists", "get", "get", "children", "children", "children2", "getacl"]
EPHEMERAL: Final = 1
SEQUENTIAL: Final = 2
FROM_LOCKS: Final = 0.6
"""Share of operations that lock libraries send."""
MOST_NUMBERS: Final = 6
VOCABULARY: Final = "vocabulary.json"
KEY, NUMBER, NAME = "{key}", "{number}", "{name}"
"""Placeholders in recorded paths: for the lock's key, a sequential node's number, and a random name."""


@cache
def vocabulary() -> tuple[tuple[Any, ...], ...]:
    """Return the operations that lock libraries were recorded to send, each once, with templates for paths."""
    recorded = json.loads(files(__package__).joinpath(VOCABULARY).read_text(encoding="utf-8"))
    return tuple(tuple(operation) for operation in [operation for each in recorded.values() for operation in each])


class StepGenerator:
    """Generates steps from a seed. ``members``: only with one does a restart lose the data of all."""

    def __init__(self, seed: int, members: int = 1) -> None:
        self.rng = Random(seed)
        self._members = members

    def steps(self, length: int = LENGTH) -> list[Step]:
        return [self.step() for _ in range(length)]

    def step(self) -> Step:
        session, chance = self.rng.randrange(SESSIONS), self.rng.random()
        if chance < 0.015:
            return "close", session
        if chance < 0.03:
            return "reopen", session
        if chance < 0.06:
            return "move", session, *[self.paths() for _ in range(3)]
        operations = [self.op() for _ in range(self.rng.choice([1, 1, 1, 2, 3, 6]))]
        if chance < 0.062:
            return "expire", session
        if chance < 0.065:
            return "pause", session, *operations
        if chance < 0.0656:
            return "restart", "without data" if self._members == 1 and self.rng.random() < 0.3 else "with data"
        return "send", session, *operations

    def paths(self) -> list[str]:
        return [self.path() or ROOT for _ in range(self.rng.randrange(4))]

    def path(self) -> str:
        if self.rng.random() < 0.02:
            return self.rng.choice(ODD)
        depth = self.rng.choice([0, 1, 1, 1, 2, 2, 3])
        names = [self.rng.choice(NAMES[:5] if self.rng.random() < 0.7 else NAMES) for _ in range(depth)]
        if names and self.rng.random() < 0.15:
            names[-1] += self.number()
        return "/".join([ROOT, *names])

    def number(self) -> str:
        return f"{self.rng.randrange(MOST_NUMBERS):010d}"

    def recent_path(self) -> str:
        """Return a path that was created in this run; older nodes have another history on a real server."""
        path = self.path()
        return ROOT if path == "/" or path.startswith("/z") else path

    def op(self) -> Ops:
        return self.lock_operation() if self.rng.random() < FROM_LOCKS else self.any_operation()

    def lock_operation(self) -> Ops:
        """Return an operation of a lock library, with a key, numbers and names that other operations also have."""
        op, path, *rest = self.rng.choice(vocabulary())
        path = path.replace(KEY, self.rng.choice(NAMES[:2])).replace(NUMBER, self.number())
        return op, ROOT + path.replace(NAME, self.rng.choice(NAMES[2:5])).rstrip("/"), *map(_argument, rest)

    def any_operation(self) -> Ops:
        chance = self.rng.random()
        if chance < 0.45:
            return self.write()
        if chance < 0.53:
            parts = [
                part for part in [self.write() for _ in range(self.rng.randrange(5))] if part[0] != "setacl" and part[1]
            ]
            if self.rng.random() < 0.5:
                parts.insert(0, ("check", self.recent_path() or ROOT, self.rng.choice(VERSIONS)))
            return "multi", parts
        if chance < 0.57:
            return "sync", self.path()
        if chance < 0.6:
            return ("ping",)
        op, path = self.rng.choice(READS), self.recent_path()
        return (op, path) if op == "getacl" else (op, path, self.rng.choice([None, "watch"]))

    def write(self) -> Ops:
        match self.rng.choice(["create", "create", "create", "create2", "delete", "delete", "set", "setacl"]):
            case "create" | "create2" as op:
                flags = self.rng.choice([0, 0, 0, 1, 1, 2, 3, 3])
                return op, self.recent_path() if flags >= SEQUENTIAL else self.path(), self.rng.choice(DATA), flags
            case "delete":
                return "delete", self.path(), self.rng.choice(VERSIONS)
            case "set":
                return "set", self.recent_path(), self.rng.choice(DATA), self.rng.choice(VERSIONS)
            case op:
                return op, self.recent_path(), self.rng.choice(VERSIONS)


def _argument(recorded: Any) -> Any:
    """Return an argument as the client takes it: data are bytes, recorded as the number of their bytes."""
    return bytes(recorded["bytes"]) if isinstance(recorded, dict) else recorded
