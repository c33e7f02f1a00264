"""The documented failures of database locks as plans; those that are a few statements in a fixed order are stories, in
``test_mysql_stories.py``, and of the plans those that have such a story too are for real servers only."""

from __future__ import annotations

from typing import Any, Final

from tests.anomalies.rows import FENCED, ONE_CRASH, both, spec

MUTANTS: Final = "tests.anomalies.mysql_mutants"
SHORT: Final[dict[str, Any]] = {"time_limit": 8.0}
REPLICATED: Final[dict[str, Any]] = {
    "kind": "mysql-replicated", "hold": 0.3, "holds": {"c0": 5.0}, "ttl": 8.0, "time_limit": 20.0, "stagger": 0.5,
}  # fmt: skip
INSERTED: Final = "\x00\x01\x00\x02"
"""What a server says of one row that was inserted, or deleted: OK, 1 row, no number, autocommit."""
PATIENT: Final = {"server_options": {"semi_sync": True, "semi_sync_timeout": 600.0}}
"""Commits wait for the replica for longer than any failover takes."""
CUT_FROM_REPLICA: Final = spec("partition-replicas", "acquire:invoke", client=0, for_=5.0)
"""Until somebody is promoted: what a killed process has sent, its kernel delivers as soon as it can."""
HOLDER_S_PRIMARY_DIES: Final = spec("failover", "acquire", client=0, for_=8.0)
PRIMARY_DIES: Final = spec("failover", at=2.0, for_=8.0)
"""While c0 holds the lock, or waits for a commit that the replica never hears of: then nobody has acquired."""

ROWS: Final = [
    both("uniq-crash", "deadlock", "mysql-unique", "mysql-ttl", ONE_CRASH, **SHORT),
    both(
        "uniq-cleaner-live",
        "resource",
        "mysql-unique-cleaner",
        "mysql-ttl",
        holds={"c0": 3.0},
        fixed_with=FENCED,
        also={"mutual-exclusion": False},
        **SHORT,
    ),
    both(
        "uniq-del-foreign",
        "ownership",
        "mysql-unique-cleaner",
        "mysql-ttl",
        hold=1.5,
        holds={"c0": 3.0},
        rest=1.0,
        time_limit=14.0,
        real="ci",
    ),
    both(
        "lost-reply-acquire/mysql",
        "deadlock",
        "mysql-unique",
        "mysql-owner",
        (spec("lost-reply", "acquire:invoke", client=0, nth=2, containing=INSERTED),),
        **SHORT,
    ),
    both(
        "ttl-pause-write/mysql",
        "resource",
        "mysql-optimistic",
        "mysql-optimistic",
        (spec("client-pause", "read", client=0, nth=2, for_=3.0),),
        fixed_with=FENCED,
        also={"mutual-exclusion": False},
        **SHORT,
    ),
    both(
        "fu-conn-lost",
        "resource",
        "mysql-for-update",
        f"{MUTANTS}:MintedForUpdate",
        (spec("connection-reset", "read", client=0, nth=2, target="c0", for_=0.1),),
        hold=0.3,
        fixed_with=FENCED,
        also={"mutual-exclusion": False},
        real="ci",
        **SHORT,
    ),
    both(
        "fu-autocommit",
        "mutual-exclusion",
        f"{MUTANTS}:AutocommitForUpdate",
        "mysql-for-update",
        also={"resource": False},
        sim=False,
        **SHORT,
    ),
    both(
        "fu-missing-row",
        "mutual-exclusion",
        f"{MUTANTS}:MissingRow",
        "mysql-for-update",
        also={"resource": False},
        sim=False,
        **SHORT,
    ),
    both(
        "getlock-reconnect",
        "resource",
        f"{MUTANTS}:ReconnectingGetLock",
        "mysql-get-lock",
        (spec("connection-reset", "read", client=0, nth=2, target="c0", for_=0.1),),
        hold=0.3,
        discipline="checking",
        also={"mutual-exclusion": False},
        sim=False,
        **SHORT,
    ),
    both(
        "getlock-idle",
        "resource",
        "mysql-get-lock",
        f"{MUTANTS}:MintedGetLock",
        holds={"c0": 2.5},
        server_options={"wait_timeout": 1.0},
        fixed_with=FENCED,
        also={"mutual-exclusion": False},
        sim=False,
        **SHORT,
    ),
    both(
        "db-async-failover",
        "mutual-exclusion",
        "mysql-ttl",
        "mysql-ttl",
        (CUT_FROM_REPLICA, PRIMARY_DIES),
        also={"fencing": False},
        fixed_with=PATIENT,
        **REPLICATED,
    ),
    both(
        "db-semisync-fallback",
        "mutual-exclusion",
        "mysql-ttl",
        "mysql-ttl",
        (CUT_FROM_REPLICA, HOLDER_S_PRIMARY_DIES),
        server_options={"semi_sync": True, "semi_sync_timeout": 0.5},
        fixed_with={"faults": (CUT_FROM_REPLICA, PRIMARY_DIES), **PATIENT},
        sim=False,
        **REPLICATED,
    ),
]
