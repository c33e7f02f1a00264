"""Recorded traffic of ZooKeeper servers: what the simulated server can explain, and what it cannot."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from harness.clusters.wire import WireRecording
from harness.documents.trace import ServerTrace
from harness.fidelity.trace.check import check_recordings
from harness.sim.servers.zookeeper import jute
from harness.sim.servers.zookeeper.jute import OPEN_ACL, Acl, Code, OpCode
from harness.sim.servers.zookeeper.prepare import Preparer
from harness.sim.servers.zookeeper.server import ZooKeeperServer
from harness.sim.servers.zookeeper.sessions import SessionTracker
from harness.sim.servers.zookeeper.tree import Tree
from harness.sim.servers.zookeeper.watches import WatchManager
from tests.fidelity.traffic import Traffic, runs_of, servers_of

TIMEOUT_MS = 2_000
EPHEMERAL = 1
PASSWORD = b"p" * 16


def check(*recordings: WireRecording, **options: Any) -> ServerTrace:
    (found,) = check_recordings(recordings, options)
    return found


class Server:
    """Builds the recording of a server. All times are ms; ``zxid`` is that of a reply, None without one."""

    def __init__(self, host: str = "n1") -> None:
        self._host = host
        self.traffic = Traffic("zookeeper")

    def connect(self, connection: int, arrived: float, session: int, resumes: bool = False) -> Server:
        """Open a session, or resume it."""
        asked, password = (session, PASSWORD) if resumes else (0, bytes(16))
        request = struct.pack("!iqiq", 0, 0, TIMEOUT_MS, asked) + jute.buffer(password) + b"\0"
        reply = struct.pack("!iiq", 0, TIMEOUT_MS, session) + jute.buffer(PASSWORD) + b"\0"
        self.traffic.bytes(connection, arrived, arrived + 1, jute.frame(request), jute.frame(reply))
        return self

    def ask(
        self, connection: int, arrived: float, op: int, body: bytes, zxid: int | None, code: int = 0, reply: bytes = b""
    ) -> Server:
        """Send a request with its operation's number as xid. The reply comes after 1 ms."""
        request = jute.frame(struct.pack("!ii", op, op) + body)
        replied = None if zxid is None else arrived + 1
        self.traffic.bytes(connection, arrived, replied, request, jute.reply(op, zxid or 0, code, reply))
        return self

    def create(self, connection: int, arrived: float, path: str, zxid: int | None, code: int = 0) -> Server:
        body = jute.string(path) + jute.buffer(b"") + jute.acls([OPEN_ACL]) + jute.integer(EPHEMERAL)
        return self.ask(connection, arrived, OpCode.CREATE, body, zxid, code, jute.string(path))

    def children(
        self, connection: int, arrived: float, path: str, zxid: int, *names: str, watch: bool = False
    ) -> Server:
        body = jute.string(path) + jute.boolean(watch)
        return self.ask(connection, arrived, OpCode.GETCHILDREN, body, zxid, 0, jute.strings(list(names)))

    def recording(self) -> WireRecording:
        return msgspec.structs.replace(self.traffic.recording(), host=self._host)


def state(server: Server) -> str:
    return check(server.recording()).state


def two_sessions() -> Server:
    """Return a server with sessions 7 and 8, whose transactions are the first two."""
    return Server().connect(1, 1, 7).connect(2, 3, 8)


# Traffic of real servers.


@pytest.mark.few(2)
@pytest.mark.parametrize("name", runs_of("zookeeper"))
def test_traffic_of_real_servers_is_possible(name: str) -> None:
    found = check(*servers_of(name))
    assert (found.state, found.why, found.difference) == ("possible", "", None)
    assert found.requests > 200
    assert found.steps < 2 * found.requests


# Order.


def test_concurrent_creates_have_one_winner_in_the_order_of_zxids() -> None:
    def both(first: tuple[int, int], second: tuple[int, int]) -> str:
        return state(two_sessions().create(1, 5, "/k", *first).create(2, 5, "/k", *second))

    exists = Code.NODE_EXISTS
    assert both((3, 0), (4, exists)) == both((4, exists), (3, 0)) == "possible"
    assert both((3, 0), (4, 0)) == both((3, exists), (4, 0)) == "impossible"


def test_zxids_are_given_without_gaps_and_once() -> None:
    assert state(two_sessions().create(1, 5, "/k", 4)) == "impossible"
    assert state(two_sessions().create(1, 5, "/k", 3).create(2, 5, "/l", 3)) == "impossible"


def test_write_is_executed_after_those_that_were_answered_before_it_arrived() -> None:
    assert state(two_sessions().create(1, 5, "/k", 4).create(2, 5.5, "/l", 3)) == "possible"
    assert state(two_sessions().create(1, 5, "/k", 4).create(2, 7, "/l", 3)) == "impossible"


def test_server_answers_a_read_with_all_that_it_has_answered_before() -> None:
    created = two_sessions().create(1, 5, "/k", 3)
    assert state(created.children(2, 7, "/", 3, "k", "zookeeper")) == "possible"
    assert state(two_sessions().create(1, 5, "/k", 3).children(2, 7, "/", 2, "zookeeper")) == "impossible"


def test_follower_answers_a_read_with_a_state_that_is_behind() -> None:
    ahead = Server().connect(1, 3, 7).create(1, 10, "/k", 3)
    behind = Server("n2").connect(1, 1, 8).children(1, 15, "/", 2, "zookeeper")
    behind.children(1, 20, "/", 3, "k", "zookeeper")
    assert check(ahead.recording(), behind.recording()).state == "possible"
    behind.children(1, 25, "/", 2, "zookeeper")
    assert check(ahead.recording(), behind.recording()).state == "impossible"


def test_request_without_a_reply_was_executed_or_not() -> None:
    for zxid, names in ((2, ["zookeeper"]), (3, ["k", "zookeeper"])):
        server = two_sessions().create(1, 5, "/k", None)
        assert state(server.children(2, 7, "/", zxid, *names)) == "possible"
    assert state(two_sessions().create(1, 5, "/k", None).children(2, 7, "/", 3, "zookeeper")) == "impossible"


# Sessions.


@pytest.mark.parametrize(("asked_ms", "expected"), [(2_000, "impossible"), (2_600, "possible")])
def test_session_expires_after_its_timeout_at_the_earliest(asked_ms: float, expected: str) -> None:
    gone = two_sessions().create(1, 5, "/k", 3).children(2, asked_ms, "/", 4, "zookeeper")
    assert state(gone) == expected


def test_session_that_is_heard_from_does_not_expire() -> None:
    server = two_sessions().create(1, 5, "/k", 3).ask(1, 1_500, OpCode.PING, b"", 3)
    assert state(server.children(2, 2_600, "/", 4, "zookeeper")) == "impossible"


def test_session_that_moves_to_another_server_keeps_its_nodes() -> None:
    first = Server().connect(1, 1, 7).create(1, 5, "/k", 2)
    second = Server("n2").connect(1, 10, 7, resumes=True).children(1, 12, "/", 2, "k", "zookeeper")
    assert check(first.recording(), second.recording()).state == "possible"
    second.ask(1, 20, OpCode.CLOSE, b"", 3).connect(2, 30, 8).children(2, 40, "/", 4, "k", "zookeeper")
    assert check(first.recording(), second.recording()).state == "impossible"


def test_watch_tells_of_a_change_before_the_next_reply() -> None:
    def watched(told: bool) -> str:
        server = two_sessions().children(2, 5, "/", 2, "zookeeper", watch=True).create(1, 7, "/k", 3)
        if told:
            server.traffic.add("out", 8, connection=2, data=jute.event(4, "/"))
        return state(server.children(2, 9, "/", 3, "k", "zookeeper"))

    assert (watched(told=True), watched(told=False)) == ("possible", "impossible")


# What cannot be decided.


def test_traffic_is_checked_until_a_client_needs_what_is_not_simulated() -> None:
    closed = jute.string("/c") + jute.buffer(b"") + jute.acls([Acl(1, "digest", "me")]) + jute.integer(0)
    for op, body in ((OpCode.AUTH, b""), (OpCode.CREATE, closed), (19, b"")):
        found = check(two_sessions().create(1, 5, "/k", 3).ask(2, 7, op, body, 99).recording())
        assert (found.state, found.requests) == ("possible", 3)
        assert "lacks" in found.why


def test_refusal_of_a_session_that_is_about_to_end_is_not_decided() -> None:
    server = two_sessions().create(1, 5, "/k", 3).create(1, 7, "/l", 4, Code.SESSION_EXPIRED)
    found = check(server.recording())
    assert found.state == "possible"
    assert "only its beginning is checked" in found.why


def test_ensemble_is_checked_until_a_member_loses_its_data() -> None:
    first, second = two_sessions().create(1, 5, "/k", 3), Server("n2")
    second.traffic.add("kill", 10, 11).add("start", 20, 21, how="wiped")
    first.create(1, 30, "/l", 99)
    found = check(first.recording(), second.recording())
    assert (found.host, found.state, found.requests) == ("n1, n2", "possible", 3)
    assert "later a server lost its data" in found.why


def test_four_letter_words_are_left_out() -> None:
    server = two_sessions()
    server.traffic.bytes(3, 5, 6, b"srvr", b"Zookeeper version: 3.8.0\nMode: standalone\n")
    assert check(server.recording()).requests == 2


# Mistakes in the simulated server are found in the traffic of real ones.


def _late_sessions(patch: pytest.MonkeyPatch) -> None:
    touch = SessionTracker.touch
    patch.setattr(SessionTracker, "touch", lambda self, number, timeout, now: touch(self, number, timeout, now + 1_000))


def _kept_ephemerals(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Tree, "_close", lambda self, txn, paths: self.sessions.pop(txn.session, None))


def _sequence_from_one(patch: pytest.MonkeyPatch) -> None:
    existing = Preparer._existing

    def one_more(self: Any, path: str) -> Any:
        found = existing(self, path)
        return found._replace(creates=found.creates + 1)

    patch.setattr(Preparer, "_existing", one_more)


def _silent_watches(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(WatchManager, "watch_data", lambda self, path, client: None)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("mistake", "names"),
    [
        (_late_sessions, ["zookeeper-client-pause"]),
        (_kept_ephemerals, ["zookeeper-client-pause"]),
        (_sequence_from_one, ["zookeeper-server-pause", "zookeeper-leader-loss"]),
        (_silent_watches, ["zookeeper-server-pause", "zookeeper-leader-loss"]),
    ],
)
def test_mistake_in_the_simulated_server_is_found(
    monkeypatch: pytest.MonkeyPatch, mistake: Callable[[pytest.MonkeyPatch], None], names: list[str]
) -> None:
    mistake(monkeypatch)
    assert {check(*servers_of(name)).state for name in names} == {"impossible"}


def test_simulated_server_that_loses_its_data_in_a_kill_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    start = ZooKeeperServer.start
    monkeypatch.setattr(ZooKeeperServer, "start", lambda self, host, *, wiped: start(self, host, wiped=True))
    assert check(*servers_of("zookeeper-kill")).state == "impossible"
