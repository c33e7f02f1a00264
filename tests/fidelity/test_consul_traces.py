"""Recorded traffic of a Consul: what the simulated server can explain, and what it cannot."""

from __future__ import annotations

import json
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import pytest

from harness.documents.trace import ServerTrace
from harness.fidelity.trace.check import check_recording
from harness.sim.servers.consul.store import ConsulStore
from tests.fidelity.traffic import Traffic, recorded, runs_of

KV = "/v1/kv/k"


def response(status: int, body: Any = None, index: int | None = None, *, chunked: bool = False) -> bytes:
    """Return a response; a text is sent as it is, everything else as JSON."""
    text = b"" if body is None else body.encode() if isinstance(body, str) else json.dumps(body).encode() + b"\n"
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}"]
    lines += [f"X-Consul-Index: {index}"] if index is not None else []
    if chunked:
        text = b"%x\r\n%s\r\n0\r\n\r\n" % (len(text), text)
    lines.append("Transfer-Encoding: chunked" if chunked else f"Content-Length: {len(text)}")
    return "\r\n".join([*lines, "", ""]).encode() + text


def entry(session: str = "", *, modified: int, created: int = 20, lock_index: int = 1) -> list[dict[str, Any]]:
    """Return the body of the reply to a GET of the key."""
    holder = {"Session": session} if session else {}
    fixed = {"LockIndex": lock_index, "Key": "k", "Flags": 0, "Value": None}
    return [{**fixed, **holder, "CreateIndex": created, "ModifyIndex": modified}]


def session(name: str, index: int) -> list[dict[str, Any]]:
    """Return the body of the reply to a renewal."""
    fixed = {"Name": "", "Node": "n1", "LockDelay": 15_000_000_000, "Behavior": "release", "TTL": "10s"}
    checks = {"NodeChecks": ["serfHealth"], "ServiceChecks": None}
    return [{**fixed, **checks, "ID": name, "CreateIndex": index, "ModifyIndex": index}]


class Server:
    """Builds the recording of a server with a session of each client. All times are ms; without ``replied`` there is no
    reply."""

    def __init__(self, lock_delay: str = "15s") -> None:
        self.traffic = Traffic("consul")
        for client in (1, 2):
            body = json.dumps({"TTL": "10s", "LockDelay": lock_delay})
            self.ask(client, client, client + 0.5, "PUT", "/v1/session/create", {"ID": f"s{client}"}, body=body)

    def ask(
        self, client: int, arrived: float, replied: float | None, method: str, target: str, reply: Any = None, *,
        status: int = 200, index: int | None = None, body: str = "", chunked: bool = False,
    ) -> Server:  # fmt: skip
        head = f"{method} {target} HTTP/1.1\r\nHost: n1\r\nContent-Length: {len(body)}\r\n\r\n{body}"
        answer = response(status, reply, index, chunked=chunked)
        self.traffic.bytes(client, arrived, replied, head.encode(), answer)
        return self

    def acquire(self, client: int, arrived: float, replied: float | None, *, granted: bool = True) -> Server:
        return self.ask(client, arrived, replied, "PUT", f"{KV}?acquire=s{client}", granted)

    def release(self, client: int, arrived: float, replied: float | None, *, done: bool = True) -> Server:
        return self.ask(client, arrived, replied, "PUT", f"{KV}?release=s{client}", done)

    def get(self, client: int, arrived: float, replied: float, query: str, reply: Any, index: int) -> Server:
        return self.ask(client, arrived, replied, "GET", f"{KV}{query}", reply, index=index)

    def check(self) -> ServerTrace:
        return check_recording(self.traffic.recording(), {})

    @property
    def state(self) -> str:
        return self.check().state


@pytest.mark.parametrize("name", runs_of("consul"))
def test_traffic_of_a_real_server_is_possible(name: str) -> None:
    found = check_recording(recorded(name), {})
    assert (found.state, found.why, found.difference) == ("possible", "", None)
    assert found.requests > 100


@pytest.mark.parametrize("granted", [False, True])
def test_key_that_is_held_is_refused_and_one_that_is_free_is_acquired(granted: bool) -> None:
    def tried(*, released: bool) -> str:
        server = Server().acquire(1, 10, 11)
        if released:
            server.release(1, 12, 13)
        return server.acquire(2, 14, 15, granted=granted).state

    assert (tried(released=granted), tried(released=not granted)) == ("possible", "impossible")


def test_concurrent_requests_have_one_winner_in_either_order() -> None:
    def both(first: bool, second: bool) -> str:
        return Server().acquire(1, 10, 13, granted=first).acquire(2, 11, 12, granted=second).state

    assert both(first=True, second=False) == both(first=False, second=True) == "possible"
    assert both(first=True, second=True) == both(first=False, second=False) == "impossible"


@pytest.mark.parametrize(("at_ms", "expected"), [(19_000, "impossible"), (20_100, "possible"), (60_000, "possible")])
def test_session_ends_after_twice_its_ttl_at_the_earliest(at_ms: float, expected: str) -> None:
    assert Server("0s").acquire(1, 10, 11).acquire(2, at_ms, at_ms + 1).state == expected


def test_renewal_begins_the_ttl_anew() -> None:
    server = Server().acquire(1, 10, 11)
    server.ask(1, 15_000, 15_001, "PUT", "/v1/session/renew/s1", session("s1", 15))
    assert server.acquire(2, 20_100, 20_101).state == "impossible"


@pytest.mark.parametrize(("first", "second"), [(15, 16), (16, 15)])
def test_sessions_that_are_created_at_once_have_either_order(first: int, second: int) -> None:
    server = Server()
    for client, replied in ((3, 13), (4, 12)):
        server.ask(client, 10, replied, "PUT", "/v1/session/create", {"ID": f"s{client}"}, body='{"TTL": "10s"}')
    for client, index in ((3, first), (4, second)):
        server.ask(
            client, 20 + client, 20.5 + client, "PUT", f"/v1/session/renew/s{client}", session(f"s{client}", index)
        )
    assert server.state == "possible"


@pytest.mark.parametrize(
    ("at_ms", "granted", "expected"),
    [
        (900, False, "possible"),
        (900, True, "impossible"),
        (1_150, False, "possible"),
        (1_150, True, "possible"),
        (1_900, False, "impossible"),
        (1_900, True, "possible"),
    ],
)
def test_lock_delay_begins_when_the_session_ends(at_ms: float, granted: bool, expected: str) -> None:
    server = Server("1s").acquire(1, 10, 11).ask(1, 100, 101, "PUT", "/v1/session/destroy/s1", True)
    assert server.acquire(2, at_ms, at_ms + 1, granted=granted).state == expected


def test_release_has_no_lock_delay() -> None:
    server = Server("1s").acquire(1, 10, 11).release(1, 100, 101)
    assert server.acquire(2, 110, 111, granted=False).state == "impossible"


def test_blocking_query_is_answered_when_the_key_has_changed() -> None:
    def waited(replied: float, session: str, modified: int) -> str:
        server = Server().acquire(1, 10, 11).get(2, 12, 13, "", entry("s1", modified=20), 20)
        server.get(2, 14, replied, "?index=20&wait=10s", entry(session, modified=modified), modified)
        return server.release(1, 30, 32).state

    assert waited(31, "", 25) == "possible"
    assert waited(20, "", 25) == waited(31, "s1", 20) == waited(31, "", 19) == "impossible"


@pytest.mark.parametrize(("replied", "expected"), [(500, "impossible"), (1_014, "possible"), (1_100, "possible")])
def test_blocking_query_is_answered_after_its_wait_at_the_earliest(replied: float, expected: str) -> None:
    server = Server().acquire(1, 10, 11).get(2, 12, 13, "", entry("s1", modified=20), 20)
    assert server.get(2, 14, replied, "?index=20&wait=1s", entry("s1", modified=20), 20).state == expected


def test_indexes_have_the_order_of_the_changes() -> None:
    def later(modified: int, created: int = 20) -> str:
        server = Server().acquire(1, 10, 11).get(2, 12, 13, "", entry("s1", modified=20), 20).release(1, 14, 15)
        return server.get(2, 16, 17, "", entry(modified=modified, created=created), modified).state

    assert later(21) == later(1_000) == "possible"
    assert later(20) == later(19) == later(25, created=21) == "impossible"


def test_response_in_chunks_is_read() -> None:
    server = Server().acquire(1, 10, 11)
    server.ask(2, 12, 13, "GET", KV, entry("s1", modified=20), index=20, chunked=True)
    assert (server.state, server.check().requests) == ("possible", 4)


@pytest.mark.parametrize(("how", "granted"), [("kept", False), ("wiped", True)])
def test_keys_outlive_a_restart_with_the_data(how: str, granted: bool) -> None:
    def tried(*, granted: bool) -> str:
        server = Server().acquire(1, 10, 11)
        server.traffic.add("kill", 20, 21).add("start", 30, 31, how=how)
        server.ask(3, 40, 41, "PUT", "/v1/session/create", {"ID": "s3"})
        return server.acquire(3, 42, 43, granted=granted).state

    assert (tried(granted=granted), tried(granted=not granted)) == ("possible", "impossible")


def test_session_has_its_whole_ttl_after_a_restart() -> None:
    def tried(at_ms: float) -> str:
        server = Server("0s").acquire(1, 10, 11)
        server.traffic.add("kill", 15_000, 15_001).add("start", 15_002, 15_003, how="kept")
        server.ask(3, 16_000, 16_001, "PUT", "/v1/session/create", {"ID": "s3"})
        return server.acquire(3, at_ms, at_ms + 1).state

    assert (tried(30_000), tried(35_100)) == ("impossible", "possible")


def test_server_has_no_leader_until_it_executes_a_request() -> None:
    def refused(*, first: bool) -> str:
        server = Server() if not first else Server().acquire(1, 10, 11).release(1, 12, 13)
        server.traffic.add("kill", 20, 21).add("start", 30, 31, how="kept")
        if first:
            server.ask(3, 32, 33, "PUT", "/v1/session/create", {"ID": "s3"})
        return server.ask(4, 40, 41, "GET", KV, "No cluster leader", status=500).state

    assert (refused(first=False), refused(first=True)) == ("possible", "impossible")


def test_request_without_a_reply_was_executed_or_not() -> None:
    for granted in (True, False):
        assert Server().acquire(1, 10, None).acquire(2, 12, 13, granted=granted).state == "possible"


def test_replies_about_the_process_are_not_compared() -> None:
    server = Server().ask(1, 10, 11, "GET", "/v1/status/leader", "10.0.0.9:8300")
    assert server.ask(1, 12, 13, "GET", "/v1/agent/self", {"Config": {}}).state == "possible"


def test_write_that_the_simulated_server_lacks_is_undecided() -> None:
    server = Server().ask(1, 10, 11, "PUT", "/v1/txn", {"Results": []}, body="[]")
    assert server.state == "possible"
    found = server.acquire(1, 12, 13, granted=False).check()
    assert (found.state, "lacks a request" in found.why) == ("unknown", True)


def test_data_that_is_no_http_is_unknown() -> None:
    traffic = Traffic("consul").bytes(1, 1, 2, b"GET / HTTP/1.1\r\n\r\n", b"SSH-2.0\r\n\r\n")
    found = check_recording(traffic.recording(), {})
    assert (found.state, "not a response of HTTP" in found.why) == ("unknown", True)


def test_a_body_that_cannot_be_unpacked_is_unknown() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\n"
    traffic = Traffic("consul").bytes(1, 1, 2, b"GET / HTTP/1.1\r\n\r\n", head + b"none")
    found = check_recording(traffic.recording(), {})
    assert (found.state, "its gzip data" in found.why) == ("unknown", True)


# Mistakes in the simulated server are found in the traffic of a real one.


def _release_fails(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ConsulStore, "unlock", lambda self, key, value, flags, session: True)


def _session_ends_and_keeps_its_keys(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ConsulStore, "destroy", lambda self, session: (self.sessions.pop(session), []))


@pytest.mark.parametrize(
    ("mistake", "name"),
    [(_release_fails, "consul-kill"), (_session_ends_and_keeps_its_keys, "consul-go-client-crash")],
)
def test_mistake_in_the_simulated_server_is_found(
    monkeypatch: pytest.MonkeyPatch, mistake: Callable[[pytest.MonkeyPatch], None], name: str
) -> None:
    mistake(monkeypatch)
    assert check_recording(recorded(name), {}).state == "impossible"
