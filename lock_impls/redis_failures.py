"""What locks on one key of one Redis have in common: how they die, and the commands that show it."""

from __future__ import annotations

from typing import Final

from lock_impls.base import Failure

EXPIRES: Final = "the ttl: its key expires"
ONE_PRIMARY: Final = "nobody gets it until the server is back; with sentinels, until a replica is promoted"


def one_server(name: str) -> tuple[Failure, ...]:
    """Of every lock that is known to one server."""
    run = f"harness run {name}"
    return (
        Failure("ttl-pause-write", "its holder stands still for longer than the ttl", f"{run} --nemesis client-pause"),
        Failure("redis-restart-empty", "the server comes back without data", f"{run} --nemesis kill-amnesia"),
        Failure(
            "redis-async-failover",
            "the primary dies before a replica has the key",
            f"{run} --topology sentinel --nemesis failover --ttl 10s --hold 4s",
        ),
    )


def expiring(name: str) -> tuple[Failure, ...]:
    """Of every lock that is a key with a ttl."""
    run = f"harness run {name}"
    return (
        *one_server(name),
        Failure("redis-clock-fwd", "the server's clock jumps: the key expires early", f"{run} --nemesis clock-skew"),
        Failure("redis-evict", "memory runs out, and the key is evicted", f"{run} --nemesis eviction"),
    )


def overrun(name: str) -> Failure:
    """Of one that nobody renews."""
    return Failure("ttl-overrun", "the work takes longer than the ttl", f"harness run {name} --hold 3s")


def foreign_delete(name: str) -> Failure:
    """Of one whose release asks for no owner."""
    return Failure("del-foreign", "a late release ends somebody else's hold", f"harness run {name} --hold 3s")


def redlocks(name: str) -> tuple[Failure, ...]:
    """Of every lock that is a majority of independent servers."""
    run = f"harness run {name}"
    return (
        Failure("ttl-pause-write", "its holder stands still for longer than the ttl", f"{run} --nemesis client-pause"),
        Failure("rl-clock-jump", "servers' clocks jump: the key expires on some", f"{run} --nemesis clock-skew"),
        Failure("rl-restart", "servers come back empty and vote again", f"{run} --nemesis kill-amnesia"),
        overrun(name),
    )
