"""Links: one direction between two hosts, and what faults do to it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random
from typing import Final

from .kernel import MILLISECOND, SECOND

RESEND: Final = 200 * MILLISECOND
GIVE_UP: Final = 120 * SECOND
"""No packet is sent again after a pause of this length."""
BASE_LATENCY: Final = 100_000
"""One way, ns. With the jitter on top a round trip takes about 0.25 ms, as between two containers of one machine."""
BASE_JITTER: Final = 50_000


LOST: Final = -1


@dataclass(slots=True)
class Snare:
    """Catches one piece of data that contains ``needle`` and delays it by ``hold_ns``; :data:`LOST` means for ever. One
    that is ``insatiable`` catches all such pieces."""

    needle: bytes
    hold_ns: int
    used: bool = False
    armed: bool = True
    insatiable: bool = False

    def catch(self, data: bytes) -> bool:
        if not self.armed or (self.used and not self.insatiable) or self.needle not in data:
            return False
        self.used = True
        return True

    def cancel(self) -> None:
        self.armed = False


@dataclass(frozen=True, slots=True, eq=False)
class Weight:
    """What a fault puts on a link: time in ns, ``loss`` 0 to 1, bytes a second."""

    latency_ns: int = 0
    jitter_ns: int = 0
    loss: float = 0.0
    bytes_per_second: float = math.inf


class Link:
    """One direction between two hosts. ``cuts`` counts the partitions that cut it: it carries nothing until all are
    mended. Weights add up: times are summed, losses are independent, the slowest rate counts."""

    __slots__ = ("_base_ns", "_jitter_ns", "_late", "_loss", "_random", "_rate", "_sent", "_weights", "cuts", "snares")

    def __init__(self, rng: Random) -> None:
        self.cuts = 0
        self.snares: list[Snare] = []
        self._random = rng.random
        self._weights: list[Weight] = []
        self._late: dict[int, int] = {}
        self._sent = 0
        self._weigh()

    def hold_up(self, nth: int, ns: int) -> None:
        """The ``nth`` message that is sent (from 1 on) takes so much longer."""
        self._late[nth] = self._late.get(nth, 0) + ns

    def burden(self, weight: Weight) -> None:
        self._weights.append(weight)
        self._weigh()

    def relieve(self, weight: Weight) -> None:
        """Take a weight away; harmless if it is not there."""
        self._weights = [other for other in self._weights if other is not weight]
        self._weigh()

    def _weigh(self) -> None:
        weights = self._weights
        self._base_ns = BASE_LATENCY + sum(weight.latency_ns for weight in weights)
        self._jitter_ns = BASE_JITTER + sum(weight.jitter_ns for weight in weights)
        self._loss = 1 - math.prod(1 - weight.loss for weight in weights)
        self._rate = min((weight.bytes_per_second for weight in weights), default=math.inf)

    def delay(self, size: int) -> int:
        """How long the next ``size`` bytes take, ns."""
        ns = self._base_ns + int(self._random() * self._jitter_ns)
        if self._loss:
            resend = RESEND
            while resend < GIVE_UP and self._random() < self._loss:
                ns += resend
                resend *= 2
        if self._rate != math.inf:
            ns += int(size / self._rate * SECOND)
        if self._late and size:
            self._sent += 1
            ns += self._late.get(self._sent, 0)
        return ns
