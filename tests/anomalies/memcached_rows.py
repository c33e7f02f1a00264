"""The documented failures of memcached locks; see :mod:`tests.anomalies.rows`.

A memcached lease lasts up to a second longer than it was asked for, hence the longer pauses.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from .rows import FENCED, ONE_CRASH, Row, both, spec

MUTANTS: Final = "tests.anomalies.memcached_mutants"
CAS_FENCE: Final = f"{MUTANTS}:CasFence"
row = partial(both, kind="memcached", time_limit=16.0)

ROWS: Final[list[Row]] = [
    row(
        "ttl-pause-write/memcached",
        "resource",
        "memcached-token",
        CAS_FENCE,
        (spec("client-pause", "read", client=0, nth=2, for_=4.5),),
        fixed_with=FENCED,
        also={"mutual-exclusion": False},
    ),
    row(
        "ttl-overrun/memcached",
        "resource",
        "memcached-token",
        CAS_FENCE,
        hold=4.0,
        fixed_with=FENCED,
        also={"mutual-exclusion": False},
    ),
    row("setnx-crash/memcached", "deadlock", f"{MUTANTS}:Forever", "memcached-add", ONE_CRASH),
    row(
        "del-foreign/memcached",
        "ownership",
        "memcached-add",
        "memcached-token",
        hold=1.5,
        holds={"c0": 4.0},
        rest=1.0,
        time_limit=40.0,
    ),
    row(
        "get-del-gap/memcached",
        "ownership",
        f"{MUTANTS}:GetAndDelete",
        "memcached-token",
        (spec("client-pause", "reply:GET", client=0, for_=6.0),),
        ttl=4.0,
        hold=3.5,
        holds={"c0": 0.1},
        rest=0.5,
        time_limit=40.0,
        fixed_with={"faults": (spec("client-pause", "reply:GETS", client=0, for_=6.0),)},
    ),
    row(
        "lost-reply-acquire/memcached",
        "deadlock",
        f"{MUTANTS}:Forever",
        "memcached-token",
        (spec("lost-reply", "acquire:invoke", client=0, nth=2, containing="STORED"),),
        clients=1,  # the answer to a busy lock is NOT_STORED
    ),
    row(
        "late-acquire/memcached",
        "liveness",
        f"{MUTANTS}:Forever",
        "memcached-token",
        clients=2,
        hold=0.02,
        rest=2.0,
        slack=3.0,
        time_limit=30.0,
        faults=(spec("delayed-request", "acquire:invoke", client=0, nth=2, containing="add ", delay_=5.3),),
    ),
    row("whole-seconds/memcached", "mutual-exclusion", f"{MUTANTS}:ThisSecond", "memcached-token", ttl=1.0, hold=0.8),
    row(
        "mc-evict",
        "resource",
        "memcached-add",
        CAS_FENCE,
        (spec("eviction", "read", client=0, nth=2, for_=1.0),),
        hold=1.0,
        time_limit=24.0,
        fixed_with=FENCED,
        also={"mutual-exclusion": False},
        real="ci",
    ),
    row(
        "mc-restart-rehash/restart",
        "resource",
        "memcached-add",
        f"{MUTANTS}:CountedElsewhere",
        (spec("kill-amnesia", "read", client=0, nth=2, for_=0.02, target="n1"),),
        nodes=2,
        hold=1.0,
        time_limit=24.0,
        fixed_with=FENCED,
        also={"mutual-exclusion": False},
    ),
    row(
        "mc-restart-rehash/its-own-fence",
        "fencing",
        CAS_FENCE,
        f"{MUTANTS}:CountedElsewhere",
        (spec("kill-amnesia", "read", client=0, nth=2, for_=0.02, target="n1"),),
        nodes=2,
        hold=1.0,
        time_limit=24.0,
        fencing="on",
    ),
    row(
        "mc-restart-rehash/rehash",
        "mutual-exclusion",
        f"{MUTANTS}:Rehashing",
        f"{MUTANTS}:StaysWithItsServer",
        (spec("partition-clients", "acquire", client=0, nth=2, clients="c1", servers="n1", for_=4.0),),
        clients=2,
        nodes=2,
        hold=1.0,
    ),
]
