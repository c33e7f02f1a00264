"""What Redis does by itself ten times a second: delete expired keys (expire.c) and end waits that timed out.

The cycle looks at 20 random keys with an expiry in each database and goes on while more than a tenth of them had
expired. It only runs while there is something to do.
"""

from __future__ import annotations

from harness.sim.servers.redis.keyspace import Database
from harness.sim.servers.redis.state import NS_PER_MS, Server

PERIOD_NS = 100 * NS_PER_MS
SAMPLE = 20
ROUNDS = 16


def expire_cycle(engine: Server) -> None:
    if engine.is_replica:
        return
    for db in engine.databases:
        if db.expires:
            _expire_some(engine, db)


def _expire_some(engine: Server, db: Database) -> None:
    for _ in range(ROUNDS):
        keys = list(db.expires)
        if len(keys) > SAMPLE:
            keys = engine.host.rng.sample(keys, SAMPLE)
        expired = sum([db.has_expired(key) for key in keys])
        if expired * 10 <= len(keys):
            return


def timed_out(engine: Server) -> None:
    """Answer those whose time is up; by the wall clock, as Redis counts it."""
    now = engine.now_ms()
    for client in list(engine.blocked):
        blocked = client.blocked
        if blocked is not None and blocked.deadline_ms is not None and now >= blocked.deadline_ms:
            engine.unblock(client, blocked.on_timeout())


def has_work(engine: Server) -> bool:
    if any(client.blocked and client.blocked.deadline_ms is not None for client in engine.blocked):
        return True
    return not engine.is_replica and any(db.expires for db in engine.databases)
