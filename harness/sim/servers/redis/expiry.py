"""Redis' periodic work, ten times a second: delete expired keys (expire.c) and unblock clients after their time-out.

The expire cycle checks 20 random keys with an expiry in each database, and repeats while more than a tenth of them had
expired. It runs only while there is something to do.
"""

from __future__ import annotations

from operator import itemgetter

from .keyspace import Database
from .state import NS_PER_MS, ServerState

PERIOD_NS = 100 * NS_PER_MS
SAMPLE = 20
ROUNDS = 16


def expire_cycle(engine: ServerState) -> None:
    """Delete expired keys of all databases; does nothing on a replica."""
    if engine.is_replica:
        return
    for db in engine.databases:
        if db.expires:
            _expire_some(engine, db)


def _expire_some(engine: ServerState, db: Database) -> None:
    for _ in range(ROUNDS):
        keys = list(db.expires)
        if len(keys) > SAMPLE:
            keys = engine.host.rng.sample(keys, SAMPLE)
        expired = sum([db.has_expired(key) for key in keys])
        if expired * 10 <= len(keys):
            return


def end_timed_out_waits(engine: ServerState) -> None:
    """Unblock the clients whose time-out has passed on the wall clock, which Redis uses here.

    At the very ms of its end a wait has not timed out. The wait that ends first is answered first (timeout.c).
    """
    now = engine.now_ms()
    due = [
        (blocked.deadline_ms, client)
        for client in engine.blocked
        if (blocked := client.blocked) is not None and blocked.deadline_ms is not None and now > blocked.deadline_ms
    ]
    for _, client in sorted(due, key=itemgetter(0)):
        if client.blocked is not None:
            engine.unblock(client, client.blocked.on_timeout())


def has_work(engine: ServerState) -> bool:
    """Return True while the periodic work has anything to do."""
    if any(client.blocked and client.blocked.deadline_ms is not None for client in engine.blocked):
        return True
    return not engine.is_replica and any(db.expires for db in engine.databases)
