"""Results of the Redis locks on lost answers, refusals and partial success. Over a scripted client; no server."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import redis
from redis.backoff import NoBackoff
from redis.exceptions import BusyLoadingError
from redis.retry import Retry

from harness.lock_impls import polling
from harness.lock_impls.base import Indeterminate, LockError
from harness.lock_impls.redis_client import COMPARE_AND_DELETE, RedisClient
from harness.lock_impls.redis_fenced import RedisFencedLock
from harness.lock_impls.redis_getset import GetsetLock
from harness.lock_impls.redis_setnx_expire import SetnxExpireLock
from harness.lock_impls.redis_token import RedisTokenLock
from harness.lock_impls.redis_wait import WaitLock
from harness.lock_impls.redlock import Redlock


class Scripted:
    """A tiny Redis in memory.

    ``lose`` and ``refuse`` name the commands whose answer is lost, or that are never sent; ``resend`` names those whose
    answer is lost once and that redis-py then repeats by itself.
    """

    def __init__(self) -> None:
        self.data: dict[str, str] = {}
        self.sent: list[str] = []
        self.unanswered = 0
        self.lose: set[str] = set()
        self.refuse: set[str] = set()
        self.resend: set[str] = set()
        self.replicas = 2
        self.delay_s = 0.0

    def _do(self, command: str, effect: Callable[[], Any]) -> Any:
        if command in self.refuse:
            raise redis.ConnectionError("Connection refused")
        self.sent.append(command)
        time.sleep(self.delay_s)
        answer = effect()
        if command in self.resend:
            self.unanswered += 1
            return effect()
        if command in self.lose:
            self.unanswered += 1
            raise redis.TimeoutError("Timeout reading from socket")
        return answer

    def _put(self, key: str, value: str, nx: bool = False) -> bool | None:
        if nx and key in self.data:
            return None
        self.data[key] = value
        return True

    def set(self, key: str, value: str, nx: bool = False, px: int = 0, ex: int = 0) -> bool | None:
        return self._do("set", lambda: self._put(key, value, nx))  # type: ignore[no-any-return]

    def setnx(self, key: str, value: str) -> bool:
        return bool(self._do("setnx", lambda: self._put(key, value, nx=True)))

    def expire(self, key: str, seconds: int) -> Any:
        return self._do("expire", lambda: 1)

    def get(self, key: str) -> Any:
        return self._do("get", lambda: self.data.get(key))

    def getset(self, key: str, value: str) -> Any:
        return self._do("getset", lambda: (self.data.get(key), self._put(key, value))[0])

    def delete(self, key: str) -> Any:
        return self._do("del", lambda: int(self.data.pop(key, None) is not None))

    def acknowledged(self, key: str, replicas: int, milliseconds: int) -> Any:
        return self._do("wait", lambda: self.replicas)

    def register_script(self, text: str) -> Any:
        def run(keys: Sequence[str], args: Sequence[Any], client: Scripted = self) -> Any:
            assert text == COMPARE_AND_DELETE
            mine = client.data.get(keys[0]) == args[0]
            return client._do("script", lambda: int(mine and client.data.pop(keys[0], None) is not None))

        return run


@pytest.fixture
def server() -> Any:
    return Scripted()


def test_a_lost_answer_is_indeterminate(server: Any) -> None:
    server.lose = {"set"}
    with pytest.raises(Indeterminate):
        RedisTokenLock(server, "k", 1).acquire(0)


def test_unsent_request_is_known_not_to_have_happened(server: Any) -> None:
    server.refuse = {"set"}
    with pytest.raises(LockError):
        RedisTokenLock(server, "k", 1).acquire(0)


def test_busy_because_of_own_key_is_unknown(server: Any) -> None:
    server.resend = {"set"}
    with pytest.raises(Indeterminate, match="this very client"):
        RedisTokenLock(server, "k", 1).acquire(0)


def test_busy_is_not_acquired(server: Any) -> None:
    server.data["k"] = "theirs"
    assert RedisTokenLock(server, "k", 1).acquire(0) is None


def test_release_resent_after_a_lost_answer_is_indeterminate(server: Any) -> None:
    lock = RedisTokenLock(server, "k", 1)
    lock.acquire(0)
    server.resend = {"script"}
    with pytest.raises(Indeterminate):
        lock.release()


def test_setnx_without_its_expire_is_indeterminate_even_if_expire_was_not_sent(server: Any) -> None:
    server.refuse = {"expire"}
    with pytest.raises(Indeterminate):
        SetnxExpireLock(server, "k", 1).acquire(0)
    assert "k" in server.data


def test_getset_takes_over_only_a_past_deadline(server: Any) -> None:
    server.data["k"] = repr(time.time() + 5)
    assert GetsetLock(server, "k", 1).acquire(0) is None
    assert "getset" not in server.sent
    server.data["k"] = repr(time.time() - 5)
    assert GetsetLock(server, "k", 1).acquire(0) is not None


def test_getset_loser_does_not_acquire(server: Any) -> None:
    """Another client's GETSET came between this one's GET and GETSET; the loser has overwritten the winner's time."""
    server.data["k"] = repr(time.time() - 5)
    original = server.getset

    def beaten(key: str, value: str) -> Any:
        server.data[key] = repr(time.time() + 5)
        return original(key, value)

    server.getset = beaten
    assert GetsetLock(server, "k", 60).acquire(0) is None
    assert float(server.data["k"]) > time.time() + 50


def test_getset_leaves_the_key_after_its_own_deadline(server: Any) -> None:
    lock = GetsetLock(server, "k", 0.01)
    lock.acquire(0)
    time.sleep(0.02)
    with pytest.raises(LockError):
        lock.release()
    assert "k" in server.data


@pytest.mark.parametrize(("acknowledged", "held"), [(2, True), (1, False)])
def test_wait_counts_replicas_and_cleans_up(server: Any, acknowledged: int, held: bool) -> None:
    server.replicas = acknowledged
    lock = WaitLock(server, "k", 1, numreplicas=2)
    assert (lock.acquire(0) is not None) is held
    assert ("k" in server.data) is held


def test_wait_unanswered_is_indeterminate(server: Any) -> None:
    server.refuse = {"wait"}
    with pytest.raises(Indeterminate):
        WaitLock(server, "k", 1).acquire(0)


def test_wait_on_a_new_connection_does_not_count(server: Any) -> None:
    server.resend = {"wait"}
    with pytest.raises(Indeterminate):
        WaitLock(server, "k", 1).acquire(0)
    assert "k" not in server.data


def test_fence_is_the_scripts_number(server: Any) -> None:
    lock = RedisFencedLock(server, "k", 1)
    lock._lock_and_count = lambda keys, args: 41 if keys == ["k", "k:fence"] else None  # type: ignore[assignment]
    grant = lock.acquire(0)
    assert grant is not None
    assert grant.fence == 41


# Redlock


def nodes(count: int = 5) -> list[Any]:
    return [Scripted() for _ in range(count)]


def test_redlock_needs_a_majority() -> None:
    servers = nodes()
    servers[0].refuse = servers[1].refuse = {"set"}
    assert Redlock(servers, "k", 1).acquire(0) is not None
    other = nodes()
    for node in other[:3]:
        node.data["k"] = "theirs"
    assert Redlock(other, "k", 1).acquire(0) is None
    assert [node.data.get("k") for node in other] == ["theirs"] * 3 + [None] * 2


def test_redlock_uses_one_value_and_asks_all() -> None:
    servers = nodes()
    lock = Redlock(servers, "k", 1)
    lock.acquire(0)
    assert {node.data["k"] for node in servers} == {lock.value}
    lock.release()
    assert all(node.sent == ["set", "script"] for node in servers)


def test_redlock_refuses_without_validity() -> None:
    servers = nodes()
    for node in servers:
        node.delay_s = 0.02
    assert Redlock(servers, "k", 0.1).acquire(0) is None
    assert all("k" not in node.data for node in servers)


def test_redlock_validity_allows_for_drift() -> None:
    grant = Redlock(nodes(), "k", 10).acquire(0)
    assert grant is not None
    assert grant.valid_for is not None
    assert 9.5 < grant.valid_for <= 10 - 0.1 - 0.002


def test_redlock_undoes_requests_with_unknown_outcome() -> None:
    servers = nodes()
    for node in servers[:3]:
        node.lose = {"set"}
    assert Redlock(servers, "k", 1).acquire(0) is None
    assert all("k" not in node.data for node in servers)


def test_redlock_that_cannot_undo_a_majority_is_indeterminate() -> None:
    servers = nodes()
    for node in servers[:3]:
        node.lose = {"set"}
        node.refuse = {"script"}
    with pytest.raises(Indeterminate):
        Redlock(servers, "k", 1).acquire(0)


def test_redlock_retries_and_counts_keys_that_a_later_try_deleted() -> None:
    servers = nodes()
    for node in servers[:3]:
        node.lose = {"set"}
        node.refuse = {"script"}
    original = servers[0].set

    def healed(*args: Any, **options: Any) -> Any:
        if servers[0].sent:
            for node in servers[:3]:
                node.lose, node.refuse = set(), set()
        return original(*args, **options)

    servers[0].set = healed
    assert Redlock(servers, "k", 1).acquire(1) is not None


def test_redlock_release() -> None:
    servers = nodes()
    lock = Redlock(servers, "k", 1)
    with pytest.raises(LockError):
        lock.release()
    lock.acquire(0)
    servers[0].refuse = {"script"}
    lock.release()
    lock.acquire(0)
    for node in servers[:3]:
        node.refuse = {"script"}
    with pytest.raises(Indeterminate):
        lock.release()


# The client


@pytest.mark.parametrize(
    ("error", "counted"),
    [
        (redis.TimeoutError("Timeout reading from socket"), 1),
        (redis.ConnectionError("Connection closed by server."), 1),
        (BusyLoadingError("LOADING"), 0),
        (redis.ResponseError("OOM"), 0),
    ],
)
def test_client_counts_lost_answers(monkeypatch: pytest.MonkeyPatch, error: Exception, counted: int) -> None:
    def lost(*_: Any, **__: Any) -> Any:
        raise error

    monkeypatch.setattr(redis.Redis, "parse_response", lost)
    client = RedisClient()
    with pytest.raises(type(error)):
        client.parse_response(None, "SET")
    assert client.unanswered == counted


@pytest.mark.parametrize("transaction", [True, False])
def test_client_counts_lost_answers_of_pipelines(monkeypatch: pytest.MonkeyPatch, transaction: bool) -> None:
    class Silent:
        """A connection that sends, and on which nothing comes back."""

        retry = Retry(NoBackoff(), 0)

        def __getattr__(self, name: str) -> Any:
            return lambda *args, **kwargs: None

        def read_response(self, *args: Any, **kwargs: Any) -> Any:
            raise redis.TimeoutError("Timeout reading from socket")

    client = RedisClient()
    monkeypatch.setattr(client.connection_pool, "get_connection", lambda *args, **kwargs: Silent())
    monkeypatch.setattr(client.connection_pool, "release", lambda *args: None)
    pipeline = client.pipeline(transaction)
    pipeline.set("k", "v")
    with pytest.raises(redis.TimeoutError):
        pipeline.execute()
    assert client.unanswered == 1


def test_poll_tries_once_without_time_and_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    tries: list[float] = []

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    monkeypatch.setattr(polling, "time", SimpleNamespace(monotonic=lambda: now, sleep=sleep))
    assert polling.poll(lambda: tries.append(now), 0) is None
    assert tries == [1000.0]
    assert polling.poll(lambda: tries.append(now), 0.25) is None
    assert tries[-1] == now == pytest.approx(1000.25)
    assert 3 <= len(tries) - 1 <= 7
