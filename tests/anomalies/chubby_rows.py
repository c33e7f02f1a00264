"""The documented failures of a Chubby lock; see :mod:`tests.anomalies.rows`. There is no Chubby to run but ours."""

from __future__ import annotations

from functools import partial
from typing import Final

from .rows import FENCED, LATE_WRITER, Row, both, spec

MUTANTS: Final = "tests.anomalies.chubby_mutants"
row = partial(both, kind="chubby", real="", time_limit=14.0)

LATE: Final = spec("delayed-request", "read", client=0, nth=2, server="resource", containing="write", delay_=6.0)
"""c0's second write to the resource takes 6 s to arrive."""
UNREACHABLE: Final = spec("partition-clients", "read", client=0, nth=2, clients="c0", servers="servers", for_=5.0)
"""c0 and the cell lose each other. (It does not die: with it would go what its kernel has still to send.)"""
MASTER_LOST: Final = spec("leader-loss", "acquire", client=0, for_=5.0)
CUT_OFF: Final = spec("partition-clients", "acquire", client=0, clients="c0", servers="servers", for_=9.0)
"""c0 does not find the new master, and others get the lock when it has ended c0's session."""

ROWS: Final[list[Row]] = [
    row(
        "chubby-late",
        "resource",
        "chubby",
        "chubby",
        (LATE, UNREACHABLE),
        fixed_with=FENCED,
        also={"mutual-exclusion": False},
    ),
    row(  # the control: a lock-delay that is longer than any request takes protects a resource that checks nothing
        "chubby-late/lock-delay",
        "resource",
        "chubby",
        "chubby",
        (LATE, UNREACHABLE),
        lock_options={"lock_delay": 2.0},
        fixed_with={"lock_options": {"lock_delay": 5.0}},
    ),
    row(
        "chubby-jeopardy",
        "mutual-exclusion",
        "chubby",
        "chubby",
        (MASTER_LOST, CUT_OFF),
        time_limit=12.0,
        holds={"c0": 7.0},
        also={"resource": False},
        fixed_with={"discipline": "checking"},
    ),
    row(
        "chubby-jeopardy/blind",
        "resource",
        f"{MUTANTS}:GoesOnInJeopardy",
        "chubby",
        (MASTER_LOST, CUT_OFF),
        time_limit=12.0,
        holds={"c0": 7.0},
        discipline="checking",
    ),
    row(
        "chubby-jeopardy/fenced",
        "resource",
        f"{MUTANTS}:GoesOnInJeopardy",
        f"{MUTANTS}:GoesOnInJeopardy",
        (MASTER_LOST, CUT_OFF),
        time_limit=12.0,
        holds={"c0": 7.0},
        discipline="checking",
        fixed_with=FENCED,
    ),
    row(
        "ttl-pause-write/chubby",
        "resource",
        "chubby",
        "chubby",
        LATE_WRITER,
        fixed_with=FENCED,
        also={"mutual-exclusion": False},
    ),
    row(
        "ttl-check-then-pause/chubby",
        "resource",
        "chubby",
        "chubby",
        (spec("client-pause", "check", client=0, nth=2, for_=4.0),),
        discipline="checking",
        fixed_with=FENCED,
    ),
]
