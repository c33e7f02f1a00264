"""Chubby locks that are wrong on purpose, each one mistake of a client."""

from __future__ import annotations

import time
from typing import ClassVar

from lock_impls.chubby import ChubbyLock
from lock_impls.chubby_client import Session


class GoesOnInJeopardy(ChubbyLock):
    """chubby-jeopardy: asks whether the session has expired, and takes jeopardy for a good sign."""

    kinds: ClassVar = ("chubby",)

    def still_valid(self) -> bool:
        return self._held and self._session is not None and self._session.state != "expired"


class CountsFromTheAnswer(Session):
    """The local lease counts from when the answer came, not from when the KeepAlive was sent."""

    def _heard(self, reply: dict[str, object], began: float) -> None:
        super()._heard(reply, time.monotonic())


class NeverInJeopardy(Session):
    """Calls do not wait while the session is in jeopardy."""

    def _wait_until_safe(self, deadline: float) -> bool:
        return True


class NoGrace(Session):
    """Gives its session up as soon as its local lease has ended."""

    @property
    def state(self) -> str:  # type: ignore[override]
        return "safe" if self.left() else "expired"
