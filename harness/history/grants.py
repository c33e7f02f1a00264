"""What locks answer, by column: tokens, leases, and whether the lock is still held."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np

from . import SECOND
from .calls import NEVER, NO_FENCE, NONE, Ints, Marks

ANSWERS: Final = frozenset({"acquire", "lock", "extend", "check"})
"""The functions whose answers are read for grants."""
WHOLE: Final = "tokens of this model must be whole numbers (of at most 63 bits), and leases seconds"


class Grant(msgspec.Struct, gc=False):
    """What is read of an answer to acquire, extend or check. ``valid_for`` in seconds."""

    fence: int | None = None
    valid_for: float | None = None
    extended: bool | None = None
    valid: bool | None = None


def grant_columns(grants: Sequence[Grant | int | None]) -> tuple[Ints, Ints, Marks]:
    """``fence``, ``lease`` and ``good`` of :class:`Calls`, of these answers; a bare number is a token. Raises
    OverflowError for a token that is too large."""
    count = len(grants)
    whole = [Grant(given) if given is None or isinstance(given, int) else given for given in grants]
    fences = [NO_FENCE if grant.fence is None else grant.fence for grant in whole]
    leases = [NEVER if grant.valid_for is None else _lease(grant.valid_for) for grant in whole]
    goods = [_good(grant) for grant in whole]
    return (
        np.fromiter(fences, np.int64, count),
        np.fromiter(leases, np.int64, count),
        np.fromiter(goods, np.int8, count),
    )


def _lease(seconds: float) -> int:
    return int(seconds * SECOND) if abs(seconds) * SECOND < NEVER else NEVER


def _good(grant: Grant) -> int:
    good = grant.valid if grant.extended is None else grant.extended
    return NONE if good is None else int(good)
