"""A Chubby lock that is wrong on purpose."""

from __future__ import annotations

from typing import ClassVar

from lock_impls.chubby import ChubbyLock


class GoesOnInJeopardy(ChubbyLock):
    """chubby-jeopardy: asks whether the session has expired, and takes jeopardy for a good sign."""

    kinds: ClassVar = ("chubby",)

    def still_valid(self) -> bool:
        return self._held and self._session is not None and self._session.state != "expired"
