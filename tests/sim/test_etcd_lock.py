"""The Lock service of the simulated etcd, including the bug of 3.4 (row etcd-11456)."""

from __future__ import annotations

import threading
import time
from typing import Any

import grpc
import pytest

from harness.sim.servers.etcd import messages
from tests.sim.etcd_world import EtcdWorld, client


def call_lock_service(etcd: Any, method: str, timeout: float | None = None, **fields: Any) -> Any:
    call = etcd.channel.unary_unary(
        f"/v3lockpb.Lock/{method}",
        getattr(messages, f"{method}Request").SerializeToString,
        getattr(messages, f"{method}Response").FromString,
    )
    return call(getattr(messages, f"{method}Request")(**fields), timeout)


def test_waiters_acquire_in_order_of_arrival() -> None:
    world, key_on_lease = EtcdWorld(), []

    def work(number: int) -> None:
        etcd = client(f"n{number + 1}")
        time.sleep(0.1 * number)
        for _ in range(3):
            key = call_lock_service(etcd, "Lock", name=b"l", lease=etcd.lease(10).id).key
            key_on_lease.append((number, "takes"))
            time.sleep(0.5)
            key_on_lease.append((number, "gives"))
            call_lock_service(etcd, "Unlock", key=key)

    world.run(*[lambda number=number: work(number) for number in range(3)])
    assert key_on_lease == [(number, what) for _ in range(3) for number in range(3) for what in ("takes", "gives")]


def test_same_lease_acquires_a_lock_twice() -> None:
    def main() -> Any:
        etcd = client()
        lease = etcd.lease(10).id
        keys = [call_lock_service(etcd, "Lock", name=b"l", lease=lease).key for _ in range(2)]
        return keys == [b"l/%x" % lease] * 2

    assert EtcdWorld(1).run(main) == [True]


def test_lock_without_a_lease_is_held_for_a_minute() -> None:
    def main() -> Any:
        etcd = client()
        call_lock_service(etcd, "Lock", name=b"l")
        began = time.monotonic()
        call_lock_service(etcd, "Lock", name=b"l")
        return time.monotonic() - began

    assert 59.9 < EtcdWorld(1).run(main)[0] < 61


def test_cancelled_waiter_deletes_its_key() -> None:
    def main() -> Any:
        etcd = client()
        call_lock_service(etcd, "Lock", name=b"l", lease=etcd.lease(10).id)
        with pytest.raises(grpc.RpcError):
            call_lock_service(etcd, "Lock", timeout=2, name=b"l", lease=etcd.lease(10).id)
        time.sleep(0.1)
        return len(list(etcd.get_prefix("l/")))

    assert EtcdWorld(1).run(main) == [1]


def lock_granted_twice_after_expiry_in_queue(connect: Any = client) -> tuple[bytes, bytes, list[bytes]]:
    """Let a waiter's lease expire in the queue. Returns the keys granted to two waiters at the same time, and the
    existing keys."""
    first, second, third = connect(), connect(), connect()
    key_on_lease = call_lock_service(first, "Lock", name=b"l", lease=first.lease(30).id).key
    got: dict[str, bytes] = {}
    lease = second.lease(2).id

    def wait() -> None:
        got["second"] = call_lock_service(second, "Lock", name=b"l", lease=lease).key

    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(5)
    call_lock_service(first, "Unlock", key=key_on_lease)
    thread.join()
    got["third"] = call_lock_service(third, "Lock", timeout=3, name=b"l", lease=third.lease(30).id).key
    keys = [meta.key for _, meta in third.get_prefix("l/")]
    call_lock_service(third, "Unlock", key=got["third"])
    return got["second"], got["third"], keys


def test_waiter_with_an_expired_lease_is_granted_the_lock() -> None:
    second, third, keys = EtcdWorld(1).run(lock_granted_twice_after_expiry_in_queue)[0]
    assert second != third
    assert keys == [third]
