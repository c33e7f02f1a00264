"""A small simulated lock service with clients, pauses, crashes, lost replies and bugs. It records what really
happened."""

from __future__ import annotations

import heapq
from collections.abc import Generator
from dataclasses import dataclass, field
from itertools import count
from random import Random

from harness.history import History
from tests.checkers.story import SECOND, Story

Steps = Generator[float, None, None]


@dataclass
class Server:
    """A server of one key. ``owner`` is a token. Without a ttl the key never expires; a trusting server accepts a
    release by any client."""

    ttl: float | None
    trusts: bool
    grants_all: bool
    owner: int | None = None
    since: float = 0.0
    skew: float = 0.0
    foreign: list[tuple[float, int, int]] = field(default_factory=list)
    """The truth: when a release removed another's key, whose, and by whom."""

    def acquire(self, token: int, now: float) -> bool:
        self._expire(now)
        if self.owner is not None and not self.grants_all:
            return False
        self.owner, self.since = token, now + self.skew
        return True

    def release(self, token: int, now: float) -> bool:
        self._expire(now)
        if self.owner is None or (self.owner != token and not self.trusts):
            return self.trusts
        if self.owner != token:
            self.foreign.append((now, self.owner, token))
        self.owner = None
        return True

    def _expire(self, now: float) -> None:
        if self.ttl is not None and self.owner is not None and now + self.skew >= self.since + self.ttl:
            self.owner = None


@dataclass
class World:
    """Three or four clients for ``span`` seconds. Probabilities decide what goes wrong."""

    seed: int
    ttl: float | None = 2.0
    trusts: bool = False
    grants_all: bool = False
    pauses: float = 0.0
    jumps: bool = False
    crashes: float = 0.0
    losses: float = 0.0
    span: float = 25.0

    def __post_init__(self) -> None:
        self.rng = Random(self.seed)
        self.server = Server(self.ttl, self.trusts, self.grants_all)
        self.story = Story(ttl=2.0, slack=1.0, hold=0.5)
        self.now = 0.01
        self.tokens = count()
        self.faults = count()
        self.crashed: list[float] = []

    def run(self) -> History:
        order = count()
        queue = [(self.rng.uniform(0.02, 0.1), next(order), self.client(f"c{n}")) for n in range(4)]
        if self.jumps:
            queue.append((0.02, next(order), self.clock()))
        heapq.heapify(queue)
        while queue and queue[0][0] < self.span:
            self.now, _, steps = heapq.heappop(queue)
            wait = next(steps, None)
            if wait is not None:
                heapq.heappush(queue, (self.now + wait, next(order), steps))
        return self.story.history(self.span)

    def clock(self) -> Steps:
        while True:
            yield self.rng.uniform(2, 6)
            self.server.skew += 60
            seen = {"clock_ns": {"n1": round(self.server.skew * SECOND)}}
            self.story.fault(next(self.faults), "clock-jump", ["n1"], self.now, self.now + 0.002, observed=seen)

    def client(self, name: str) -> Steps:
        while True:
            token = next(self.tokens)
            granted = yield from self.acquire(name, token)
            if granted:
                yield from self.critical(name)
                if self.rng.random() < self.crashes:
                    self.crash(name)
                    return
                yield from self.release(name, token)
            yield self.rng.uniform(0.001, 0.3)

    def acquire(self, name: str, token: int) -> Generator[float, None, bool]:
        story, until = self.story, self.now + 4
        story.entry(self.now, name, "invoke", "acquire", "k0", {"timeout": 4.0})
        while self.now < until:
            asked = self.now
            yield self.latency()
            granted = self.server.acquire(token, self.now)
            yield self.latency()
            if granted and self.rng.random() < self.losses:
                story.entry(self.now, name, "info", "acquire", "k0", None, "reply lost")
                return False
            if granted:
                left = None if self.ttl is None else asked + self.ttl - self.now
                story.entry(self.now, name, "ok", "acquire", "k0", {"fence": None, "valid_for": left})
                return True
            yield 0.02
        story.entry(self.now, name, "fail", "acquire", "k0")
        return False

    def critical(self, name: str) -> Steps:
        yield self.rng.uniform(0.05, 0.5)
        if self.rng.random() < self.pauses:
            pause = self.rng.uniform(1.5, 4.5)
            self.story.fault(next(self.faults), "client-pause", [name], self.now, self.now + pause)
            yield pause

    def crash(self, name: str) -> None:
        self.crashed.append(self.now)
        self.story.crash(self.now, name)

    def release(self, name: str, token: int) -> Steps:
        self.story.entry(self.now, name, "invoke", "release", "k0")
        yield self.latency()
        released = self.server.release(token, self.now)
        yield self.latency()
        if self.rng.random() < self.losses:
            self.story.entry(self.now, name, "info", "release", "k0", None, "reply lost")
        else:
            self.story.entry(self.now, name, "ok" if released else "fail", "release", "k0")

    def latency(self) -> float:
        return self.rng.uniform(0.001, 0.01)
