"""The answers of locks as columns: tokens, leases, and whether the lock is still held."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import Any, Final

import msgspec
import numpy as np

from . import SECOND
from .calls import NEVER, NO_FENCE, NONE, Ints, Marks

ANSWERS: Final = frozenset({"acquire", "lock", "extend", "check"})
"""The functions whose answers may contain a grant."""
WHOLE: Final = "tokens of this model must be whole numbers (of at most 63 bits), and leases seconds"


class GrantFields(msgspec.Struct, gc=False):
    """The fields that are read from an answer to acquire, extend or check. ``valid_for`` is in seconds."""

    fence: Any = None
    valid_for: float | None = None
    extended: bool | None = None
    valid: bool | None = None


class TokenError(ValueError):
    """A token that is not a whole number, or is too large."""


def grant_columns(grants: Sequence[Any], *, tokens: bool) -> tuple[Ints, Ints, Marks]:
    """Return ``fence``, ``lease`` and ``good`` of :class:`.calls.Calls` for these answers.

    Any other answer is a token. Without ``tokens``, tokens are not read and ``fence`` has NO_FENCE
    only. With ``tokens``, raises :class:`TokenError` for a token that is not a whole number of at most 63 bits.
    """
    count = len(grants)
    whole = [given if type(given) is GrantFields else GrantFields(given) for given in grants]
    leases = [NEVER if grant.valid_for is None else _lease(grant.valid_for) for grant in whole]
    goods = [_good(grant) for grant in whole]
    return (
        np.fromiter([_token(grant.fence) for grant in whole] if tokens else repeat(NO_FENCE), np.int64, count),
        np.fromiter(leases, np.int64, count),
        np.fromiter(goods, np.int8, count),
    )


def _token(fence: Any) -> int:
    if fence is None:
        return NO_FENCE
    if type(fence) is not int or not NO_FENCE < fence < -NO_FENCE:
        raise TokenError(f"{fence!r} is no token")
    return fence


def _lease(seconds: float) -> int:
    return int(seconds * SECOND) if abs(seconds) * SECOND < NEVER else NEVER


def _good(grant: GrantFields) -> int:
    good = grant.valid if grant.extended is None else grant.extended
    return NONE if good is None else int(good)
