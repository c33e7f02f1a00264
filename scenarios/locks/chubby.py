"""A Chubby lock with a documented mistake, for the scenario chubby-jeopardy."""

from __future__ import annotations

from typing import ClassVar

from harness.lock_impls.chubby import ChubbyLock
from harness.lock_impls.origins import mistake


class GoesOnInJeopardy(ChubbyLock):
    """chubby-jeopardy: the holder only checks whether its session has expired, and so goes on in jeopardy."""

    origin: ClassVar = mistake(
        "a holder that goes on while its session is in jeopardy",
        "Burrows, 'The Chubby lock service for loosely-coupled distributed systems', OSDI 2006, section 2.9",
    )
    kinds: ClassVar = ("chubby",)

    def still_valid(self) -> bool:
        return self._held and self._session is not None and self._session.state != "expired"
