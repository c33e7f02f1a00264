"""The documented failures of ZooKeeper locks; see :mod:`tests.anomalies.rows`.

A session of 2 s ends 2 to 2.5 s after its last heartbeat: the servers look every half second.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from .rows import FENCED, LATE_WRITER, Row, both, spec

MUTANTS: Final = "tests.anomalies.zookeeper_mutants"
LOST_CREATE: Final = (
    spec("lost-reply", "acquire:invoke", client=0, nth=2, containing="-lock-", for_=0.2),
    # An answer is lost with its connection: kazoo would take the next one for it, and stop working.
    spec("connection-reset", "acquire:invoke", client=0, nth=2, target="c0", delay=0.3),
)
row = partial(both, kind="zookeeper", time_limit=10.0, hold=0.3)

ROWS: Final[list[Row]] = [
    row(
        "zk-pause",
        "resource",
        "zookeeper-sequential",
        "zookeeper-sequential",
        LATE_WRITER,
        fixed_with=FENCED,
        also={"mutual-exclusion": False},
        real="ci",
    ),
    row(
        "ttl-check-then-pause/zookeeper",
        "resource",
        "zookeeper-sequential",
        "zookeeper-sequential",
        (spec("client-pause", "check", client=0, nth=2, for_=3.0),),
        discipline="checking",
        fixed_with=FENCED,
    ),
    row(
        "chubby-late/zookeeper",
        "resource",
        "zookeeper-sequential",
        "chubby-zookeeper",
        (
            spec("delayed-request", "read", client=0, nth=2, server="resource", containing="write", delay_=4.0),
            spec("client-pause", "write:invoke", client=0, nth=2, delay=0.1, for_=6.0),
        ),
        fixed_with=FENCED,
    ),
    row(
        "zk-stale-flag",
        "resource",
        "kazoo-lock",
        "zookeeper-sequential",
        LATE_WRITER,
        discipline="checking",
        hold=0.5,
        also={"mutual-exclusion": False},
        real="ci",
    ),
    row(
        "zk-create-lost-reply",
        "liveness",
        f"{MUTANTS}:NoGuid",
        "zookeeper-sequential",
        LOST_CREATE,
    ),
    row("zk-abort-orphan", "liveness", f"{MUTANTS}:LeavesItsNode", "zookeeper-sequential", wait=0.3, hold=0.5),
    row("zk-order", "mutual-exclusion", f"{MUTANTS}:TextOrder", "zookeeper-sequential", clients=5),
    row("zk-seq-reset", "fencing", f"{MUTANTS}:Tidy", f"{MUTANTS}:TidyByCzxid", clients=2, rest=0.3),
    row(
        "zk-lost-wake",
        "liveness",
        f"{MUTANTS}:ForgetsItsWatch",
        "zookeeper-sequential",
        (spec("connection-reset", "acquire", client=0, nth=2, target="clients", for_=0.1),),
        hold=0.5,
        wait=6.0,
        time_limit=14.0,
    ),
]
