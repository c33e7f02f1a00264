"""A Chubby lock with a documented mistake, for the scenario chubby-jeopardy."""

from __future__ import annotations

from typing import ClassVar

from harness.lock_impls.chubby import ChubbyLock


class GoesOnInJeopardy(ChubbyLock):
    """chubby-jeopardy: the holder only checks whether its session has expired, and so goes on in jeopardy."""

    kinds: ClassVar = ("chubby",)

    def still_valid(self) -> bool:
        return self._held and self._session is not None and self._session.state != "expired"
