"""The documented failures of Redis locks as plans: for each the lock that has it, and its corrected counterpart under
the same fault.

Ids are those of the project's table of anomalies. Every story is triggered by events, so that it happens in every seed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from harness.plan import FaultSpec, Plan

MUTANTS: Final = "tests.anomalies.mutants"
Faults = tuple[FaultSpec, ...]


@dataclass(frozen=True)
class Row:
    """``broken`` and ``fixed`` are plans; ``checker`` says invalid of the first and valid of the second."""

    id: str
    checker: str
    broken: Plan
    fixed: Plan
    also: dict[str, bool] = field(default_factory=dict)
    """Other checkers' verdicts on the broken plan."""
    sim: bool = True
    """Is it a story of the simulator too?"""
    real: str = "long"
    """On containers: seen in every CI run (``ci``), when somebody asks for it (``long``), or not at all."""


def spec(fault: str, on: str | None = None, **more: Any) -> FaultSpec:
    """A fault; ``delay_`` is the fault's own parameter, where ``delay`` is the time between event and fault."""
    names = {"node", "nth", "times", "delay", "for_", "at", "every", "tolerated"} | ({"client"} if on else set())
    own = {key: value for key, value in more.items() if key in names}
    params = {key.removesuffix("_"): value for key, value in more.items() if key not in names}
    return FaultSpec(fault, on=on, params=params, **own)


def both(id_: str, checker: str, broken: str, fixed: str, faults: Faults = (), **shared: Any) -> Row:
    """A row whose two plans differ in the lock, and in what ``fixed_with`` says."""
    fixed_with = shared.pop("fixed_with", {})
    also = shared.pop("also", {})
    where = {name: shared.pop(name) for name in ("sim", "real") if name in shared}
    if any((fault.on or "").startswith(("request:", "reply:")) for fault in (*faults, *fixed_with.get("faults", ()))):
        where["real"] = ""  # nobody reads along between real clients and servers
    base = {"clients": 3, "time_limit": 20.0, "faults": faults, **shared}
    return Row(id_, checker, Plan(lock=broken, **base), Plan(lock=fixed, **{**base, **fixed_with}), also, **where)


FENCED: Final = {"fencing": "on"}
MINTED: Final = f"{MUTANTS}:MintedFence"
LATE_WRITER = (spec("client-pause", "read", client=0, nth=2, for_=3.0),)
ONE_CRASH = (spec("client-crash", "acquire", client=0, nth=2),)
AWAY_FROM_45 = spec("partition-clients", at=0.0, clients="c0", servers="n4,n5")


def minority_lost(fault: FaultSpec) -> Faults:
    """c0 wins n1, n2 and n3 only; then something befalls n3 while it holds the lock."""
    return (AWAY_FROM_45, fault)


LEASES: Final = [
    both(
        "ttl-pause-write",
        "resource",
        "redis-token",
        "redis-fenced",
        LATE_WRITER,
        fixed_with=FENCED,
        also={"mutual-exclusion": False},
        real="ci",
    ),
    both(
        "ttl-check-then-pause",
        "resource",
        "redis-token",
        "redis-fenced",
        discipline="checking",
        fixed_with=FENCED,
        faults=(spec("client-pause", "check", client=0, nth=2, for_=3.0),),
    ),
    both(
        "ttl-net-delay",
        "resource",
        "redis-token",
        "redis-fenced",
        fixed_with=FENCED,
        faults=(spec("delayed-request", "read", client=0, nth=2, server="resource", containing="write", delay_=3.0),),
    ),
    both("ttl-overrun", "mutual-exclusion", "redis-token", "redis-watchdog", hold=3.0, also={"resource": False}),
    both("setnx-crash", "deadlock", "redis-setnx", "redis-token", ONE_CRASH),
    Row(
        "setnx-expire-gap",
        "deadlock",
        Plan(
            lock="redis-setnx-expire",
            clients=3,
            time_limit=20.0,
            faults=(spec("client-crash", "request:EXPIRE", client=0),),
        ),
        Plan(lock="redis-token", clients=3, time_limit=20.0, faults=ONE_CRASH),
    ),
    both(
        "del-foreign",
        "ownership",
        "redis-set-ex",
        "redis-token",
        hold=1.5,
        holds={"c0": 3.0},
        rest=1.0,
        time_limit=40.0,
    ),
    Row(
        "get-del-gap",
        "ownership",
        Plan(
            lock="redis-token-getdel",
            clients=3,
            time_limit=20.0,
            hold=1.5,
            holds={"c0": 0.1},
            faults=(spec("client-pause", "reply:GET", client=0, for_=3.0),),
        ),
        Plan(
            lock="redis-token",
            clients=3,
            time_limit=20.0,
            hold=1.5,
            holds={"c0": 0.1},
            faults=(spec("client-pause", "reply:EVALSHA", client=0, for_=3.0),),
        ),
    ),
    Row(
        "lost-reply-acquire",
        "deadlock",
        Plan(
            lock="redis-setnx",
            clients=3,
            time_limit=20.0,
            faults=(spec("lost-reply", "acquire:invoke", client=0, nth=2, containing=":1\r\n"),),
        ),
        Plan(
            lock="redis-token",
            clients=3,
            time_limit=20.0,
            faults=(spec("lost-reply", "acquire:invoke", client=0, nth=2, containing="OK"),),
        ),
    ),
    both("watchdog-zombie", "liveness", "redis-watchdog", "redis-token", (spec("client-hang", "acquire", client=0),)),
    both(
        "late-acquire",
        "liveness",
        "redis-setnx",
        "redis-token",
        clients=2,
        hold=0.02,
        rest=2.0,
        slack=3.0,
        time_limit=30.0,
        faults=(spec("delayed-request", "acquire:invoke", client=0, nth=2, containing="SET", delay_=5.3),),
    ),
    both(
        "random-token-cas",
        "resource",
        f"{MUTANTS}:RandomTokenFence",
        f"{MUTANTS}:RandomTokenFence",
        LATE_WRITER,
        fixed_with={"fencing": "cas"},
        also={"mutual-exclusion": False, "fencing": True},
    ),
    both(
        "clock-local-deadline",
        "resource",
        f"{MUTANTS}:WallClockDeadline",
        "redis-token",
        discipline="checking",
        holds={"c0": 3.0},
        faults=(spec("clock-jump", "acquire", client=0, target="c0", seconds=-60.0),),
    ),
]

SERVERS: Final = [
    both(
        "redis-async-failover",
        "mutual-exclusion",
        "redis-token",
        "redis-wait",
        kind="redis-sentinel",
        hold=0.5,
        holds={"c0": 5.0},
        ttl=8.0,
        time_limit=40.0,
        stagger=0.5,
        faults=(
            # Until a replica is promoted: what a killed process has sent, its kernel delivers as soon as it can.
            spec("partition-replicas", "acquire:invoke", client=0, for_=4.0),
            spec("failover", "acquire", client=0, for_=8.0),
        ),
        real="ci",
    ),
    both(
        "redis-restart-empty",
        "mutual-exclusion",
        "redis-token",
        "redis-token",
        hold=0.5,
        faults=(spec("kill-amnesia", "acquire", nth=3, for_=0.02),),
        fixed_with={"faults": (spec("kill-amnesia", "acquire", nth=3, for_=2.1),)},
    ),
    both(
        "redis-clock-fwd",
        "mutual-exclusion",
        "redis-token",
        "redlock",
        hold=0.5,
        stagger=0.3,
        faults=(spec("clock-jump", "acquire", client=0, target="n1", seconds=3.0),),
    ),
    both(
        "redis-clock-back",
        "deadlock",
        "redis-token",
        "redlock",
        faults=(
            spec("clock-jump", "acquire", client=0, target="n1", seconds=-3600.0),
            spec("client-crash", "acquire", client=0),
        ),
    ),
    both(
        "getset-client-skew",
        "mutual-exclusion",
        "redis-getset",
        "redis-token",
        hold=0.5,
        faults=(spec("clock-offset", at=0.0, target="c1", seconds=60.0),),
    ),
    both(
        "getset-loser-extends",
        "liveness",
        f"{MUTANTS}:GetsetByValue",
        "redis-getset",
        ttl=8.0,
        hold=1.0,
        time_limit=40.0,
        faults=(spec("client-crash", "acquire", client=0, nth=2), spec("client-pause", "request:GETSET", for_=0.5)),
    ),
    Row(
        "setnx-del-takeover",
        "mutual-exclusion",
        Plan(
            lock=f"{MUTANTS}:DelTakeover",
            clients=3,
            time_limit=20.0,
            hold=1.5,
            faults=(spec("client-crash", "acquire"), spec("client-pause", "request:DEL", for_=0.5)),
        ),
        Plan(
            lock="redis-getset",
            clients=3,
            time_limit=20.0,
            hold=1.5,
            faults=(spec("client-crash", "acquire"), spec("client-pause", "request:GETSET", for_=0.5)),
        ),
    ),
    Row(
        "getset-unlock-late",
        "ownership",
        Plan(
            lock="redis-getset",
            clients=3,
            time_limit=20.0,
            hold=1.5,
            faults=(spec("client-pause", "request:DEL", client=0, for_=1.0),),
        ),
        Plan(
            lock="redis-token",
            clients=3,
            time_limit=20.0,
            hold=1.5,
            faults=(spec("client-pause", "request:EVALSHA", client=0, for_=1.0),),
        ),
    ),
    both("seed002-compare", "deadlock", f"{MUTANTS}:Seed002", "redis-getset", ONE_CRASH),
    both("seed004-unlock", "liveness", f"{MUTANTS}:Seed004", "redis-getset", ttl=4.0),
]

QUORUMS: Final = [
    both(
        "rl-clock-jump",
        "resource",
        "redlock",
        MINTED,
        hold=0.5,
        stagger=0.3,
        fixed_with=FENCED,
        also={"mutual-exclusion": False},
        faults=minority_lost(spec("clock-jump", "read", client=0, target="n3", seconds=3.0)),
        real="ci",
    ),
    both(
        "rl-restart",
        "mutual-exclusion",
        "redlock",
        "redlock",
        hold=0.5,
        stagger=0.3,
        faults=minority_lost(spec("kill-amnesia", "acquire", client=0, target="n3", for_=0.02)),
        fixed_with={"faults": minority_lost(spec("kill-amnesia", "acquire", client=0, target="n3", for_=2.1))},
    ),
    both(
        "rl-pause-inflight",
        "mutual-exclusion",
        f"{MUTANTS}:NoElapsedCheck",
        "redlock",
        hold=0.5,
        stagger=0.2,
        faults=(spec("client-pause", "reply:SET", client=0, nth=5, for_=3.0),),
    ),
    both(
        "rl-pause-after",
        "resource",
        "redlock",
        MINTED,
        LATE_WRITER,
        fixed_with=FENCED,
        also={"mutual-exclusion": False},
    ),
    both(
        "rl-client-clock",
        "resource",
        f"{MUTANTS}:RedlockPy",
        "redlock",
        discipline="checking",
        hold=0.3,
        holds={"c0": 3.0},
        faults=(spec("clock-jump", "reply:SET", client=0, times=1000, every=0.05, target="c0", seconds=-60.0),),
    ),
    both("rl-split-vote", "liveness", f"{MUTANTS}:FixedDelay", "redlock", clients=5),
    both(
        "rl-orphan-minority",
        "liveness",
        f"{MUTANTS}:BailOut",
        "redlock",
        clients=2,
        nodes=3,
        ttl=4.0,
        hold=0.05,
        rest=2.0,
        stagger=0.4,
        faults=(
            spec("delayed-request", "acquire:invoke", client=0, server="n3", containing="\r\nSET\r\n", delay_=0.15),
            spec("kill", "release", client=0, delay=0.2, target="n2", tolerated=True),
        ),
    ),
    both(
        "rlcpp-seconds",
        "resource",
        f"{MUTANTS}:WholeSeconds",
        "redlock",
        discipline="checking",
        ttl=1.0,
        hold=0.1,
        rest=0.5,
        holds={"c0": 0.9},
        faults=(spec("latency", at=0.0, clients="c0", servers="servers", delay_=0.06, jitter=0.0),),
    ),
]

ROWS: Final = [*LEASES, *SERVERS, *QUORUMS]
