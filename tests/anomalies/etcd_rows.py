"""The documented failures of etcd locks; see :mod:`tests.anomalies.rows`. Those that are a few requests in a fixed
order are in ``test_etcd_stories.py``.

A lease of 2 s is the shortest, and its keys go within a second of its end.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from .rows import FENCED, Row, both, spec

MUTANTS: Final = "tests.anomalies.etcd_mutants"
row = partial(both, kind="etcd", hold=0.2, rest=0.3, time_limit=10.0)
LATE_WRITER: Final = (spec("client-pause", "read", client=0, nth=2, for_=5.0),)
ONE_DELETED: Final = "\x10\x01"
"""In an answer to DeleteRange: field 2, ``deleted``, is 1. (HTTP/2 has frames of its own, lost as easily.)"""
CRASHED_HOLDER: Final = spec("client-crash", "acquire", client=0)


ROWS: Final[list[Row]] = [
    # c1 queues, stands still until its lease has ended, and goes on waiting for c0. c2 has a key.
    row(
        "etcd-11456",
        "mutual-exclusion",
        "etcd-mutex-unsafe",
        "etcd-mutex",
        (spec("client-pause", "acquire:invoke", client=1, delay=0.5, for_=4.0),),
        hold=6.5,
        holds={"c1": 1.0, "c2": 1.0},
        stagger=0.3,
        wait=10.0,
        time_limit=12.0,
        lock_options={"keep_alive": True},
        fixed_with={"lock_options": {}},
        real="ci",
    ),
    row(
        "etcd-pause",
        "resource",
        "etcd-mutex",
        "etcd-mutex",
        LATE_WRITER,
        fixed_with=FENCED,
        also={"mutual-exclusion": False},
    ),
    row(
        "etcd-pause/chubby",
        "resource",
        "chubby-etcd",
        "chubby-etcd",
        LATE_WRITER,
        fixed_with=FENCED,
        also={"mutual-exclusion": False},
    ),
    # c0's unlock is carried out, and its answer lost. c0 locks again in the same session, and then unlocks once more.
    row(
        "etcd-stale-unlock",
        "mutual-exclusion",
        f"{MUTANTS}:UnlocksOnceMore",
        "etcd-mutex",
        (spec("lost-reply", "release:invoke", client=0, containing=ONE_DELETED),),
        clients=2,
        ttl=6.0,
        holds={"c0": 3.0},
        time_limit=16.0,
    ),
    # c0 releases while c1 stands still; when c1 goes on its time is over, and its turn has come.
    row(
        "etcd-cancel",
        "mutual-exclusion",
        f"{MUTANTS}:CancelledAtHandOver",
        "etcd-mutex",
        (spec("client-pause", "acquire:invoke", client=1, delay=0.5, for_=3.0),),
        ttl=6.0,
        wait=2.0,
        hold=1.0,
        holds={"c0": 2.5},
        stagger=0.3,
    ),
    # c1 gives up, and never asks again: its thread hangs, and its keep-alive does not.
    row(
        "etcd-cancel/clean-up",
        "liveness",
        f"{MUTANTS}:LeavesItsKey",
        "etcd-mutex",
        (spec("client-hang", "acquire:fail", client=1),),
        hold=0.5,
        holds={"c0": 3.0},
        stagger=0.3,
        wait=1.0,
    ),
    # c1's packets take their time. c0 releases between c1's try and its watch, and does not come again.
    row(
        "pyetcd-missed-delete",
        "liveness",
        "etcd3-lock",
        "etcd-mutex",
        (spec("latency", at=0.0, clients="c1", delay_=0.15, jitter=0.0, for_=1.6),),
        clients=2,
        stagger=0.5,
        hold=1.5,
        rest=20.0,
        wait=14.0,
        slack=1.0,
        time_limit=20.0,
    ),
    row(
        "fo-equality",
        "fencing",
        f"{MUTANTS}:LeaseAsFence",
        "etcd-mutex",
        fencing="on",
        clients=5,
        time_limit=6.0,
    ),
    # A lease that was granted before the clocks go back lives for longer, by as much. Forward nothing ends early; one
    # was seen to end 5.5 s late, hence the slack.
    row(
        "etcd-lease-clock-back",
        "deadlock",
        "etcd-mutex",
        "etcd-mutex",
        (spec("clock-jump", "acquire", client=0, target="servers", seconds=-20.0), CRASHED_HOLDER),
        slack=8.0,
        time_limit=30.0,
        also={"mutual-exclusion": True},
        fixed_with={
            "faults": (spec("clock-jump", "acquire", client=0, target="servers", seconds=20.0), CRASHED_HOLDER)
        },
        real="ci",
    ),
    # Leases of any service.
    row(
        "ttl-net-delay/etcd",
        "resource",
        "etcd-mutex-unsafe",
        "etcd-mutex-unsafe",
        (spec("delayed-request", "read", client=0, nth=2, server="resource", containing="write", delay_=4.0),),
        fixed_with=FENCED,
    ),
    row("ttl-overrun/etcd", "resource", "etcd3-lock", "etcd-mutex", hold=4.0, time_limit=14.0),
    row(
        "lost-reply-acquire/etcd",
        "liveness",
        f"{MUTANTS}:ForgetsItsKey",
        "etcd-mutex",
        (spec("lost-reply", "acquire:invoke", client=0, nth=2, containing="k0/"),),
        hold=0.3,
    ),
    row(
        "watchdog-zombie/etcd",
        "liveness",
        "etcd-mutex",
        "etcd-mutex-unsafe",
        (spec("client-hang", "acquire", client=0),),
    ),
]  # fmt: skip
