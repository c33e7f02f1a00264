"""A directed network link between two hosts: its delay, and the faults on it (cuts, loss, latency, message traps)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random
from typing import Final

from .kernel import MILLISECOND, SECOND

RESEND: Final = 200 * MILLISECOND
"""A lost packet is sent again after this time, ns; the time doubles with each attempt."""
GIVE_UP: Final = 120 * SECOND
"""A packet is not sent again once the pause has reached this length, ns."""
BASE_LATENCY: Final = 100_000
"""One way, ns. With the jitter a round trip takes about 0.25 ms, as between two containers on one machine."""
BASE_JITTER: Final = 50_000
LOST: Final = -1
"""A delay that means "dropped for ever"."""


@dataclass(slots=True)
class SimMessageTrap:
    """Delays the first message on a link that contains ``needle``.

    ``delay_ns`` is in nanoseconds; :data:`LOST` drops the message. With ``catch_all`` every such message is caught.
    ``used`` is True once a message was caught.
    """

    needle: bytes
    delay_ns: int
    used: bool = False
    armed: bool = True
    catch_all: bool = False

    def catch(self, data: bytes) -> bool:
        """Return True, and set ``used``, if the trap catches this message."""
        if not self.would_catch(data):
            return False
        self.used = True
        return True

    def would_catch(self, data: bytes) -> bool:
        return self.armed and (self.catch_all or not self.used) and self.needle in data

    def cancel(self) -> None:
        self.armed = False


@dataclass(frozen=True, slots=True, eq=False)
class Impairment:
    """Slowness and loss that a fault adds to a link. ``loss`` is a probability from 0 to 1."""

    latency_ns: int = 0
    jitter_ns: int = 0
    loss: float = 0.0
    bytes_per_second: float = math.inf


class SimLink:
    """One direction between two hosts.

    ``cuts`` counts the partitions that cut the link; it carries nothing until all are healed. Impairments combine:
    times are added, losses are independent, and the slowest rate applies. ``messages`` counts those that were sent.
    """

    __slots__ = (
        "_base_ns",
        "_delays",
        "_impairments",
        "_jitter_ns",
        "_loss",
        "_random",
        "_rate",
        "cuts",
        "messages",
        "traps",
    )

    def __init__(self, rng: Random) -> None:
        self.cuts = 0
        self.traps: list[SimMessageTrap] = []
        self._random = rng.random
        self._impairments: list[Impairment] = []
        self._delays: dict[int, int] = {}
        self.messages = 0
        self._combine()

    def delay_message(self, nth: int, ns: int) -> None:
        """Delay the ``nth`` message sent (counted from 1) by ``ns`` nanoseconds. Delays of one message add up."""
        self._delays[nth] = self._delays.get(nth, 0) + ns

    def loses(self, data: bytes) -> bool:
        """Say whether this data would be lost if it were sent now. Nothing is sent, and no trap is used up."""
        caught = next((trap for trap in self.traps if trap.would_catch(data)), None)
        return bool(self.cuts) or (caught is not None and caught.delay_ns == LOST)

    def add_impairment(self, impairment: Impairment) -> None:
        """Add an impairment; it applies to packets sent from now on."""
        self._impairments.append(impairment)
        self._combine()

    def remove_impairment(self, impairment: Impairment) -> None:
        """Remove an impairment. Does nothing if it was not added."""
        self._impairments = [other for other in self._impairments if other is not impairment]
        self._combine()

    def _combine(self) -> None:
        impairments = self._impairments
        self._base_ns = BASE_LATENCY + sum(impairment.latency_ns for impairment in impairments)
        self._jitter_ns = BASE_JITTER + sum(impairment.jitter_ns for impairment in impairments)
        self._loss = 1 - math.prod(1 - impairment.loss for impairment in impairments)
        self._rate = min((impairment.bytes_per_second for impairment in impairments), default=math.inf)

    def delay(self, size: int) -> int:
        """Return how long the next ``size`` bytes take, ns. Draws jitter and losses from the link's generator."""
        ns = self._base_ns + int(self._random() * self._jitter_ns)
        if self._loss:
            resend = RESEND
            while resend < GIVE_UP and self._random() < self._loss:
                ns += resend
                resend *= 2
        if self._rate != math.inf:
            ns += int(size / self._rate * SECOND)
        if size:
            self.messages += 1
            if self._delays:
                ns += self._delays.get(self.messages, 0)
        return ns
