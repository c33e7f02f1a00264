"""Random sequences of steps: commands of three clients that meet, clock moves to the edge of leases, and faults."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Final

from harness.fidelity.comparison import Step

from .commands import KEYS, VALUES, RedisCommandGenerator, Words
from .vocabulary import Vocabulary

LENGTH: Final = 300
RESP3: Final = frozenset({"c"})
"""Connections that speak RESP3. The others speak RESP2."""
_CONNECTIONS: Final = "aaaaabbbcc"
_MOVES_MS: Final = (1, 1, 1, 9, 10, 11, 50, 99, 100, 101, 500, 1000, 1001, 10_000, 30_000, -1, -100)
"""Clock moves to just before, at, and just after the ends of the leases and time-outs below."""
_LEASES_MS: Final = ("1", "10", "50", "100", "101", "500", "1000", "10000", "30000")
_WAITS: Final = frozenset({"subscribe", "psubscribe", "blpop", "brpop", "blmove", "brpoplpush", "wait"})
_TIMEOUTS_S: Final = ("0.01", "0.1", "0.101", "0.5", "1", "10")
_CHANNELS: Final = ("c1", "c2", "lk")


def steps(seed: int) -> list[Step]:
    """Return the sequence of a seed. Each fourth one has restarts; they take most of its time."""
    return StepGenerator(seed).sequence()


class StepGenerator:
    """Draws steps: half of them commands that lock libraries send, the rest all that the simulated server has."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(f"redis/{seed}")
        self.any_command = RedisCommandGenerator(seed)
        self.lock_command = Vocabulary(self.rng)
        self.restarts = seed % 4 == 0
        self.due: dict[str, int] = {}
        """Connections that wait or are subscribed → the number of steps after which they do something else."""

    def sequence(self) -> list[Step]:
        found: list[Step] = [("a", *words) for words in self.lock_command.loads()]
        while len(found) < LENGTH:
            found += self._next()
            self._note(found[-1])
            found += self._ended_waits()
        return found

    def _note(self, step: Step) -> None:
        name, word = step[0], str(step[1]).lower() if len(step) > 1 else ""
        if name in _CONNECTIONS and word in _WAITS:
            self.due.setdefault(name, self.rng.randint(1, 8))

    def _ended_waits(self) -> Iterator[Step]:
        """Yield what ends the waits that are due, so that clients do not wait for most of a sequence."""
        for name in list(self.due):
            self.due[name] -= 1
            if self.due[name] < 0:
                del self.due[name]
                endings: list[list[Step]] = [
                    [("close", name)],
                    [("clock", 10_001), (name, "reset")],
                    [(name, "unsubscribe"), ("close", name)],
                ]
                yield from self.rng.choice(endings)

    def _next(self) -> list[Step]:
        rng = self.rng
        kind = rng.random()
        name = rng.choice(_CONNECTIONS)
        if kind < 0.45:
            return [(name, *self.lock_command.draw())]
        if kind < 0.8:
            return [(name, *self.any_command.command())]
        if kind < 0.86:
            return [(name, *self._lease())]
        if kind < 0.92:
            return self._clock()
        if kind < 0.98:
            return [(name, *self._meeting())]
        if kind < 0.985:
            return [("close", name)]
        if kind < 0.992:
            return self._transaction(name)
        return self._fault()

    def _lease(self) -> Words:
        rng, key, lease = self.rng, self.rng.choice(KEYS), self.rng.choice(_LEASES_MS)
        return rng.choice(
            [
                ["set", key, rng.choice(VALUES), "NX", "PX", lease], ["pexpire", key, lease], ["pttl", key],
                ["pexpire", key, lease, rng.choice(["NX", "XX", "GT", "LT"])], ["ttl", key], ["exists", key],
                ["psetex", key, lease, "x"], ["getex", key, "PX", lease], ["pexpiretime", key], ["get", key],
                ["pexpireat", key, str(1_767_225_600_000 + int(lease))], ["watch", key], ["dbsize"], ["time"],
            ]
        )  # fmt: skip

    def _meeting(self) -> Words:
        """Return a command by which clients wait for each other."""
        rng = self.rng
        timeout, channel = rng.choice(_TIMEOUTS_S), rng.choice(_CHANNELS)
        return rng.choice(
            [
                ["blpop", "lk", timeout], ["brpop", rng.choice(KEYS), "lk", timeout], ["rpush", "lk", "x", "y"],
                ["blmove", "lk", rng.choice(["lk", "l2", "hk"]), rng.choice(["LEFT", "RIGHT"]), "LEFT", timeout],
                ["brpoplpush", "lk", "l2", timeout], ["lpush", "lk", "z"], ["lpush", "l2", "z"],
                ["subscribe", channel], ["subscribe", "c1", "c2"], ["psubscribe", "c*"], ["unsubscribe"],
                ["unsubscribe", channel], ["punsubscribe"], ["publish", channel, rng.choice(VALUES)],
                ["publish", channel, "x"], ["pubsub", "numsub", channel], ["pubsub", "numpat"],
                ["multi"], ["exec"], ["watch", "a", "b"], ["wait", rng.choice("01"), rng.choice(_LEASES_MS)],
                ["wait", "1", "100"], ["reset"],
            ]
        )  # fmt: skip

    def _transaction(self, name: str) -> list[Step]:
        """Return a transaction as drivers send it, with what another client or the clock does meanwhile."""
        rng = self.rng
        key, other = rng.choice(KEYS), rng.choice(_CONNECTIONS)
        meanwhile: list[Step] = rng.choice(
            [[], [(other, "set", key, "x")], [(other, "del", key)], [(other, "touch", key)], self._clock()]
        )
        lease: list[Step] = rng.choice([[], [("a", "set", key, "v", "PX", rng.choice(_LEASES_MS[:5]))]])
        return [
            *lease, (name, "watch", key), (name, "get", key), *meanwhile, (name, "multi"),
            (name, *self.lock_command.draw()), (name, "set", key, "y", "KEEPTTL"), (name, "exec"),
        ]  # fmt: skip

    def _clock(self) -> list[Step]:
        move: Step = ("clock", self.rng.choice(_MOVES_MS))
        return [move, ("expire",)] if self.rng.random() < 0.3 else [move]

    def _fault(self) -> list[Step]:
        rng = self.rng
        if self.restarts and rng.random() < 0.6:
            return [("fault", "restart", rng.choice(["with data", "with data", "without data"]))]
        name = rng.choice(_CONNECTIONS)
        commands: list[Step] = [(name, *self.lock_command.draw()) for _ in range(rng.randint(1, 3))]
        return [("fault", "pause"), *commands, *self._clock()[:1], ("fault", "resume")]
