"""The simulated Consul: sessions, lock-delays, blocking queries and restarts, with a real client."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import consul
import pytest

from harness.sim.servers.consul.values import parse_duration
from tests.clusters.bench import make, on


def with_client(program: Callable[[Any, Any], None]) -> None:
    """Run ``program(client, cluster)`` on a simulated client of one server."""
    cluster = make("consul", clients=1)
    host, port = ("n1", 8500)

    def main() -> None:
        client = consul.Consul(host, port, connections_timeout=5)
        assert cluster.spawn("c0", lambda checkpoint: program(client, cluster))(3600)

    on(cluster, main)


def session(client: Any, lock_delay: float = 0, **options: Any) -> str:
    found: str = client.session.create(ttl=10, lock_delay=lock_delay, **options)
    return found


def test_a_session_ends_after_twice_its_ttl_and_its_lock_after_the_lock_delay() -> None:
    def program(client: Any, cluster: Any) -> None:
        mine, other = session(client, 3), client.session.create()
        assert client.kv.put("k", "a", acquire=mine)
        assert not client.kv.put("k", "b", acquire=other)
        time.sleep(9)
        client.session.renew(mine)
        time.sleep(19.9)
        assert client.kv.get("k")[1]["Session"] == mine
        time.sleep(0.2)
        assert "Session" not in client.kv.get("k")[1]
        with pytest.raises(consul.base.ConsulException, match="not found"):
            client.session.renew(mine)
        assert not client.kv.put("k", "b", acquire=other)
        time.sleep(2.7)
        assert not client.kv.put("k", "b", acquire=other)
        time.sleep(0.2)
        assert client.kv.put("k", "b", acquire=other)
        assert client.kv.get("k")[1]["LockIndex"] == 2
        with pytest.raises(consul.base.ConsulException, match="invalid session"):
            client.kv.put("k", "a", acquire=mine)

    with_client(program)


def test_a_release_causes_no_lock_delay_and_a_destroyed_session_does() -> None:
    def program(client: Any, cluster: Any) -> None:
        mine, other = session(client, 3), session(client)
        assert client.kv.put("k", "a", acquire=mine)
        assert not client.kv.put("k", "a", release=other)
        assert client.kv.put("k", "a", release=mine)
        assert client.kv.put("k", "b", acquire=other)
        assert client.kv.put("k", "b", release=other)
        assert client.kv.put("k", "a", acquire=mine)
        client.session.destroy(mine)
        assert not client.kv.put("k", "b", acquire=other)
        time.sleep(3)
        assert client.kv.put("k", "b", acquire=other)

    with_client(program)


def test_a_session_can_delete_its_keys() -> None:
    def program(client: Any, cluster: Any) -> None:
        mine = session(client, behavior="delete")
        assert client.kv.put("k", "a", acquire=mine)
        first = client.kv.get("k")[1]["ModifyIndex"]
        client.session.destroy(mine)
        assert client.kv.get("k")[1] is None
        other = session(client)
        assert client.kv.put("k", "b", acquire=other)
        entry = client.kv.get("k")[1]
        assert entry["LockIndex"] == 1, "the LockIndex begins anew, so it is no fence"
        assert entry["ModifyIndex"] > first

    with_client(program)


def test_a_blocking_query_answers_at_a_change_or_after_its_wait() -> None:
    def program(client: Any, cluster: Any) -> None:
        mine, other = session(client), client.session.create()
        assert client.kv.put("k", "a", acquire=mine)
        index, _ = client.kv.get("k")
        began = time.monotonic()
        same, _ = client.kv.get("k", index=index, wait="4s")
        assert same == index
        assert 4 <= time.monotonic() - began < 4.3
        changed, entry = client.kv.get("k", index=index, wait="60s")
        assert int(changed) > int(index)
        assert "Session" not in entry
        assert 19.9 <= time.monotonic() - began < 20.1
        client.kv.put("other", "x")
        absent, _ = client.kv.get("absent")
        began = time.monotonic()
        assert client.kv.get("absent", index=absent, wait="2s")[1] is None
        assert time.monotonic() - began >= 2
        assert client.session.info(other)[1]["ID"] == other

    with_client(program)


def test_a_restart_keeps_sessions_and_ends_lock_delays() -> None:
    def program(client: Any, cluster: Any) -> None:
        gone, mine = session(client, 60), session(client)
        assert client.kv.put("delayed", "", acquire=gone)
        assert client.kv.put("k", "", acquire=mine)
        client.session.destroy(gone)
        assert not client.kv.put("delayed", "", acquire=mine)
        time.sleep(15)
        cluster.kill("n1")
        cluster.start("n1", wiped=False)
        client.http.session.close()
        began = time.monotonic()
        assert client.kv.put("delayed", "", acquire=mine)
        assert 0.9 < time.monotonic() - began < 2.1, "it waits for the election"
        time.sleep(18)
        assert client.kv.get("k")[1]["Session"] == mine, "the TTL began anew"
        time.sleep(3)
        assert "Session" not in client.kv.get("k")[1]

    with_client(program)


def test_invalid_ttls_and_conditions_are_refused() -> None:
    def program(client: Any, cluster: Any) -> None:
        for body, text in (('{"TTL": "9s"}', "between"), ('{"Behavior": "keep"}', "Behavior"), ("[", "decode")):
            answer = client.http.session.put("http://n1:8500/v1/session/create", data=body)
            assert answer.status_code in (400, 500)
            assert text in answer.text
        with pytest.raises(consul.base.ConsulException, match="Conflicting"):
            client.kv.put("k", "", acquire="a", release="b")
        with pytest.raises(consul.base.ConsulException, match="not simulated"):
            client.kv.get("k", recurse=True)

    with_client(program)


@pytest.mark.parametrize(
    ("text", "ns"),
    [("1m30s", 90 * 10**9), ("0.5s", 5 * 10**8), ("250ms", 25 * 10**7), ("0", 0), ("5", None), ("", None)],
)
def test_durations_are_those_of_go(text: str, ns: int | None) -> None:
    assert parse_duration(text) == ns
