"""Known failures that many Redis locks share, each with the command that demonstrates it, and texts that they share.

Nothing here needs redis-py.
"""

from __future__ import annotations

from typing import Final

from .base import Failure

SINGLE_KEY_KINDS: Final = ("redis-single", "redis-sentinel")
ONE_SLOT_KINDS: Final = (*SINGLE_KEY_KINDS, "redis-cluster")
"""For locks whose requests name one key only, so that one node of a Redis Cluster executes them."""
EXPIRES: Final = "expiry: its key expires after the ttl"
ONE_PRIMARY: Final = "unavailable until the server is back; with sentinels or a cluster, until a replica is promoted"


def one_server(name: str, *, replicated: bool = True) -> tuple[Failure, ...]:
    """Failures of every lock whose key is on one server only; ``replicated``: it also runs behind sentinels."""
    run = f"harness run {name}"
    failover = Failure(
        "redis-async-failover",
        "the primary dies before a replica has the key",
        f"{run} --topology sentinel --nemesis failover --ttl 10s --hold 4s",
    )
    return (
        Failure("ttl-pause-write", "the holder is paused for longer than the ttl", f"{run} --nemesis client-pause"),
        Failure("redis-restart-empty", "the server restarts without its data", f"{run} --nemesis kill-amnesia"),
        *([failover] if replicated else []),
    )


def expiring(name: str, *, replicated: bool = True) -> tuple[Failure, ...]:
    """Failures of every lock that is a key with a ttl; ``replicated``: it also runs behind sentinels."""
    run = f"harness run {name}"
    return (
        *one_server(name, replicated=replicated),
        Failure(
            "redis-clock-fwd",
            "the server's clock jumps forward, so the key expires early",
            f"{run} --nemesis clock-skew",
        ),
        Failure("redis-evict", "memory runs out, and the server evicts the key", f"{run} --nemesis eviction"),
    )


def overrun(name: str) -> Failure:
    """Failure of a lock whose lease is not renewed."""
    return Failure("ttl-overrun", "the work takes longer than the ttl", f"harness run {name} --hold 3s")


def foreign_delete(name: str) -> Failure:
    """Failure of a lock whose release does not check the owner."""
    return Failure("del-foreign", "a late release deletes another client's key", f"harness run {name} --hold 3s")


def redlocks(name: str) -> tuple[Failure, ...]:
    """Failures of every lock that is a majority of independent servers."""
    run = f"harness run {name}"
    return (
        Failure("ttl-pause-write", "the holder is paused for longer than the ttl", f"{run} --nemesis client-pause"),
        Failure(
            "rl-clock-jump", "servers' clocks jump, so the key expires early on some", f"{run} --nemesis clock-skew"
        ),
        Failure("rl-restart", "servers restart empty and vote a second time", f"{run} --nemesis kill-amnesia"),
        overrun(name),
    )
