"""The documented failure of Hazelcast's lock; see :mod:`tests.anomalies.rows`. There is no simulated Hazelcast, and no
lock of its AP kind any more (ILock went with version 4)."""

from __future__ import annotations

from typing import Final

from .rows import FENCED, Row, both, spec

ROWS: Final[list[Row]] = [
    both(
        "hz-lock",
        "resource",
        "hazelcast-fenced",
        "hazelcast-fenced",
        (spec("client-pause", "read", client=0, nth=2, for_=9.0),),
        kind="hazelcast",
        ttl=6.0,
        time_limit=30.0,
        fixed_with=FENCED,
        also={"mutual-exclusion": False},
        sim=False,
        real="ci",
    ),
]
