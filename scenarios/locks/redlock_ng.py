"""redlock-ng's own Redlock in a program that extends its lock, and the cure."""

from __future__ import annotations

import time
from typing import ClassVar, Final

from harness.lock_impls.base import Grant
from harness.lock_impls.origins import use_of
from harness.lock_impls.thirdparty.redlock_ng import RedlockNg

MORE_S: Final = 1.0


class AsksForOneMoreSecond(RedlockNg):
    """rlng-valid: the program asks for one more second as soon as it has the lock. ``extend`` with
    ``additional_ttl=1000`` replaces the remaining time by a second, and ``valid`` stays True until the lock is
    released."""

    origin: ClassVar = use_of(
        "redlock-ng", "2.0.4", "an extension by additional_ttl as soon as it has the lock", "redlock/lock.py, line 105"
    )

    def acquire(self, timeout: float) -> Grant | None:
        grant, granted = super().acquire(timeout), time.monotonic()
        if grant is None or grant.valid_for is None:
            return None
        self._manager.extend(self._held, self.additional_ms())
        return Grant(valid_for=grant.valid_for + MORE_S - (time.monotonic() - granted))

    def additional_ms(self) -> int:
        """Return the argument of the extension, ms."""
        return int(MORE_S * 1000)


class AsksForWholeTime(AsksForOneMoreSecond):
    """rlng-valid, cured: the program asks for all of the time that it wants from now on."""

    origin: ClassVar = AsksForOneMoreSecond.origin.fixed("the program asks for the sum of both times")

    def additional_ms(self) -> int:
        return self._ttl_ms + super().additional_ms()
