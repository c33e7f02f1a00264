"""The simulated Redis: expiry by the wall clock, and eviction under maxmemory."""

from __future__ import annotations

import pytest

from tests.sim.redis_stub import S
from tests.sim.test_redis_commands import RedisBench


def test_a_key_expires_when_its_time_has_passed() -> None:
    bench = RedisBench()
    bench.conn("SET", "k", "v", "PX", 1000)
    bench.world.run(1.0)
    assert bench.conn("GET", "k") == b"v", "a key still exists in its last millisecond"
    bench.world.run(0.002)
    assert bench.conn("GET", "k") is None


def test_a_clock_jump_forward_expires_keys_at_once() -> None:
    bench = RedisBench()
    bench.conn("SET", "k", "v", "PX", 30_000)
    bench.host.offset_ns += 60 * S
    assert bench.conn("PTTL", "k") == -2
    assert bench.conn("SET", "k", "other", "NX") == "OK"


def test_a_clock_jump_backward_prolongs_expiry() -> None:
    bench = RedisBench()
    bench.conn("SET", "k", "v", "PX", 2000)
    bench.host.offset_ns -= 3600 * S
    bench.world.run(3.5)
    assert bench.conn("PTTL", "k") == 3_598_500


def test_expired_keys_are_deleted_without_being_read() -> None:
    bench = RedisBench()
    for number in range(100):
        bench.conn("SET", f"k{number}", "v", "PX", 50)
    bench.conn("SET", "kept", "v", "PX", 60_000)
    bench.world.run(2)
    assert bench.conn("DBSIZE") == 1


def test_active_expiry_survives_a_restart() -> None:
    bench = RedisBench()
    bench.conn("SET", "k", "v", "PX", 500)
    bench.host.kill()
    bench.host.restart()
    bench.world.run(1)
    assert bench.server.peek(b"k") == (None, None)


def test_set_removes_the_expiry_and_keepttl_keeps_it() -> None:
    bench = RedisBench()
    bench.conn("SET", "k", "v", "EX", 100)
    bench.conn("SET", "k", "w", "KEEPTTL")
    assert bench.conn("TTL", "k") == 100
    bench.conn("SET", "k", "x")
    assert bench.conn("TTL", "k") == -1


def test_expire_in_the_past_deletes_the_key() -> None:
    bench = RedisBench()
    bench.conn("SET", "k", "v")
    assert bench.conn("EXPIRE", "k", -1) == 1
    assert bench.conn("EXISTS", "k") == 0


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "policy", ["allkeys-lru", "allkeys-lfu", "allkeys-random", "volatile-lru", "volatile-ttl", "volatile-random"]
)
def test_eviction_can_delete_a_lock_key(policy: str) -> None:
    bench = RedisBench(maxmemory=3 << 20, maxmemory_policy=policy)
    bench.conn("SET", "lock", "me", "NX", "PX", 30_000)
    for number in range(4000):
        assert bench.conn("SET", f"cache{number}", "x" * 2000, "EX", 10_000) == "OK"
    assert bench.conn("SET", "lock", "you", "NX", "PX", 30_000) == "OK"


def test_volatile_policies_do_not_evict_keys_without_expiry() -> None:
    bench = RedisBench(maxmemory=2 << 20, maxmemory_policy="volatile-lru")
    bench.conn("SET", "kept", "v")
    for number in range(2000):
        bench.conn("SET", f"cache{number}", "x" * 2000, "EX", 100)
    assert bench.conn("GET", "kept") == b"v"


def test_noeviction_refuses_writes_but_not_releases() -> None:
    bench = RedisBench(maxmemory=1 << 20)
    bench.conn("SET", "lock", "me")
    replies = [bench.conn("SET", f"k{number}", "x" * 2000) for number in range(500)]
    assert replies[-1] == "OOM command not allowed when used memory > 'maxmemory'."
    release = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end"
    assert bench.conn("EVAL", release, 1, "lock", "me") == 1
    assert bench.conn("EVAL", "return redis.call('set',KEYS[1],1)", 1, "lock").startswith("OOM command not allowed")


def test_maxmemory_set_at_run_time_evicts_existing_keys() -> None:
    bench = RedisBench()
    for number in range(1000):
        bench.conn("SET", f"k{number}", "x" * 2000)
    bench.conn("CONFIG", "SET", "maxmemory-policy", "allkeys-lru", "maxmemory", "2mb")
    bench.conn("SET", "one", "more")
    assert bench.conn("DBSIZE") < 900
