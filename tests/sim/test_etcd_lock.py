"""The Lock service of simulated etcd, and what 3.4 does wrong in it (row etcd-11456)."""

from __future__ import annotations

import threading
import time
from typing import Any

import grpc
import pytest

from harness.sim.servers.etcd.lock import MESSAGES
from tests.sim.etcd_world import EtcdWorld, client


def ask(etcd: Any, method: str, timeout: float | None = None, **fields: Any) -> Any:
    call = etcd.channel.unary_unary(
        f"/v3lockpb.Lock/{method}",
        MESSAGES[f"{method}Request"].SerializeToString,
        MESSAGES[f"{method}Response"].FromString,
    )
    return call(MESSAGES[f"{method}Request"](**fields), timeout)


def test_waiters_are_served_in_the_order_in_which_they_came() -> None:
    world, held = EtcdWorld(), []

    def work(number: int) -> None:
        etcd = client(f"n{number + 1}")
        time.sleep(0.1 * number)
        for _ in range(3):
            key = ask(etcd, "Lock", name=b"l", lease=etcd.lease(10).id).key
            held.append((number, "takes"))
            time.sleep(0.5)
            held.append((number, "gives"))
            ask(etcd, "Unlock", key=key)

    world.run(*[lambda number=number: work(number) for number in range(3)])
    assert held == [(number, what) for _ in range(3) for number in range(3) for what in ("takes", "gives")]


def test_the_same_lease_takes_a_lock_twice() -> None:
    def main() -> Any:
        etcd = client()
        lease = etcd.lease(10).id
        keys = [ask(etcd, "Lock", name=b"l", lease=lease).key for _ in range(2)]
        return keys == [b"l/%x" % lease] * 2

    assert EtcdWorld(1).run(main) == [True]


def test_without_a_lease_it_is_held_for_a_minute() -> None:
    def main() -> Any:
        etcd = client()
        ask(etcd, "Lock", name=b"l")
        began = time.monotonic()
        ask(etcd, "Lock", name=b"l")
        return time.monotonic() - began

    assert 59.9 < EtcdWorld(1).run(main)[0] < 61


def test_who_gives_up_takes_its_key_along() -> None:
    def main() -> Any:
        etcd = client()
        ask(etcd, "Lock", name=b"l", lease=etcd.lease(10).id)
        with pytest.raises(grpc.RpcError):
            ask(etcd, "Lock", timeout=2, name=b"l", lease=etcd.lease(10).id)
        time.sleep(0.1)
        return len(list(etcd.get_prefix("l/")))

    assert EtcdWorld(1).run(main) == [1]


def expired_in_the_queue(connect: Any = client) -> tuple[bytes, bytes, list[bytes]]:
    """The keys that two waiters were given at the same time, and those that there are then."""
    first, second, third = connect(), connect(), connect()
    held = ask(first, "Lock", name=b"l", lease=first.lease(30).id).key
    got: dict[str, bytes] = {}
    lease = second.lease(2).id

    def wait() -> None:
        got["second"] = ask(second, "Lock", name=b"l", lease=lease).key

    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(5)
    ask(first, "Unlock", key=held)
    thread.join()
    got["third"] = ask(third, "Lock", timeout=3, name=b"l", lease=third.lease(30).id).key
    keys = [meta.key for _, meta in third.get_prefix("l/")]
    ask(third, "Unlock", key=got["third"])
    return got["second"], got["third"], keys


def test_a_waiter_whose_lease_has_expired_is_granted_the_lock_too() -> None:
    second, third, keys = EtcdWorld(1).run(expired_in_the_queue)[0]
    assert second != third
    assert keys == [third]
