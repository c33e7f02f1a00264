"""redlock-py's own Redlock in programs that try it at the same time, and the cure."""

from __future__ import annotations

import random
import socket
import time
from typing import ClassVar, Final

from harness.lock_impls.base import Grant
from harness.lock_impls.origins import use_of
from harness.lock_impls.redis_client import RedisClient
from harness.lock_impls.thirdparty.redlock_py import RedlockPy

TICK_S: Final = 1.0
LONGEST_DELAY_S: Final = 1.0
"""More than twice the time of a try, which asks all servers and then deletes its keys."""


class AllAtOnce(RedlockPy):
    """rl-split-vote: each program lists the servers in another order, and all begin at a whole second.

    redlock-py waits for the same time after each lost try, so they stay in step.
    """

    origin: ClassVar = use_of(
        "redlock-py",
        "1.0.8",
        "programs that begin at the same second and list the servers in another order",
        "redlock/__init__.py, line 121",
    )

    def __init__(self, servers: tuple[RedisClient, ...], key: str, ttl: float) -> None:
        turn = int(socket.gethostname()[1:]) % len(servers)
        super().__init__(servers[turn:] + servers[:turn], key, ttl)

    def acquire(self, timeout: float) -> Grant | None:
        pause = min(timeout, TICK_S - time.monotonic() % TICK_S)
        time.sleep(pause)
        self._manager.retry_count = self.tries(timeout - pause)
        return super().acquire(timeout - pause)

    def tries(self, timeout: float) -> int:
        """Return the number of tries of one call of the library."""
        return max(1, int(timeout / self._manager.retry_delay))


class RandomDelay(AllAtOnce):
    """rl-split-vote, cured: the program draws the delay after each try, which redlock-py takes as an argument."""

    origin: ClassVar = AllAtOnce.origin.fixed("the program draws the delay after each try")

    def tries(self, timeout: float) -> int:
        return 1

    def _try(self) -> Grant | None:
        self._manager.retry_delay = random.uniform(0.1, LONGEST_DELAY_S)
        return super()._try()
