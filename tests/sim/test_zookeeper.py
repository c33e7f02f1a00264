"""One simulated ZooKeeper server, tested through its wire protocol."""

from __future__ import annotations

import re
from typing import Any

import pytest

from harness.fidelity.zookeeper.client import OperationReply, RawZooKeeperClient, Stat, WatchEvent
from harness.sim.servers.zookeeper import jute
from tests.sim.zookeeper_stub import InMemoryStream, StandaloneServer

NO_NODE, BAD_VERSION, NO_CHILDREN, EXISTS, NOT_EMPTY, EXPIRED = -101, -103, -108, -110, -111, -112
CREATED, DELETED, CHANGED, CHILDREN = 1, 2, 3, 4
PLAIN, EPHEMERAL, SEQUENTIAL = 0, 1, 2


def short(items: list[Any]) -> list[Any]:
    """Shorten events to (kind, path), replies to the operation's name or (name, error code); None is the end."""
    results: list[Any] = []
    for item in items:
        if isinstance(item, OperationReply):
            results.append((item.op, item.code) if item.code else item.op)
        else:
            results.append(tuple(item) if isinstance(item, WatchEvent) else item)
    return results


def received_events(client: RawZooKeeperClient) -> list[Any]:
    """Return what the server has sent to a client without a request."""
    client.send(("ping",))
    results = short(client.read_replies())
    assert results.pop() == "ping"
    return results


def test_create_and_change_set_the_stat_of_a_node() -> None:
    alone = StandaloneServer()
    client = alone.client()
    assert client("create", "/a", b"one", PLAIN) == "/a"
    made = client.zxid
    alone.world.run(1)
    assert client("set", "/a", b"three", 0)[4] == 1
    set_at = client.zxid
    assert client("create", "/a/e", b"", EPHEMERAL) == "/a/e"
    client("create", "/a/f", b"", PLAIN)
    client("delete", "/a/f", 0)
    data, stat = client("get", "/a", None)
    began = alone.host.wall_ns() // 1_000_000 - 1000
    assert (data, stat) == (b"three", Stat(made, set_at, began, began + 1000, 1, 3, 0, 0, 5, 1, client.zxid))
    assert client("exists", "/a/e", None).owner == client.session
    assert client("children2", "/a", None) == (["e"], stat)
    assert client("exists", "/", None)[4:] == (0, 0, 0, 0, 0, 2, made)
    assert client("getacl", "/a")[1] == stat


def test_configuration_of_a_standalone_server_is_empty() -> None:
    data, stat = StandaloneServer().client()("get", "/zookeeper/config", None)
    assert (data, stat) == (b"", Stat(0, 0, 0, 0, 0, 0, -1, 0, 0, 0, 0))


@pytest.mark.parametrize(
    ("op", "code"),
    [
        (("create", "/a", b"", PLAIN), EXISTS),
        (("create", "/x/y", b"", PLAIN), NO_NODE),
        (("create", "/e/x", b"", PLAIN), NO_CHILDREN),
        (("create", "a", b"", PLAIN), -8),
        (("create", "/a/.", b"", PLAIN), -8),
        (("create", "/a/", b"", PLAIN), -8),
        (("create", "/c", b"", 9), -8),
        (("create", "/c", b"", 5), -6),
        (("delete", "/", -1), -8),
        (("delete", "/a", -1), NOT_EMPTY),
        (("delete", "/a/b", 1), BAD_VERSION),
        (("delete", "/x", -1), NO_NODE),
        (("set", "/a", b"", 3), BAD_VERSION),
        (("set", "/x", b"", -1), NO_NODE),
        (("exists", "/x", None), NO_NODE),
        (("get", "/x", "watch"), NO_NODE),
        (("children", "/x", "watch"), NO_NODE),
    ],
)
def test_failed_writes_use_up_a_zxid(op: Any, code: int) -> None:
    client = StandaloneServer().client()
    for path, flags in (("/a", PLAIN), ("/a/b", PLAIN), ("/e", EPHEMERAL)):
        client("create", path, b"", flags)
    before = client.zxid
    assert client(*op) == code
    client("ping")
    assert client.zxid == before + (op[0] in ("create", "delete", "set"))


def test_create_with_the_flag_of_containers_makes_a_persistent_node() -> None:
    """Observed on 3.8.0: the flag alone makes no container, with create and create2 alike."""
    client = StandaloneServer().client()
    assert client("create", "/c", b"", 4) == "/c"
    assert client("create", "/c/e", b"", EPHEMERAL) == "/c/e"
    assert client("exists", "/c", None).owner == 0


def test_sequential_names_count_all_children_ever_created() -> None:
    client = StandaloneServer().client()
    for name in ("/q", "/q/x", "/q/y"):
        client("create", name, b"", PLAIN)
    client("delete", "/q/x", -1)
    assert client("create", "/q/s-", b"", SEQUENTIAL) == "/q/s-0000000002"
    assert client("create", "/q/t-", b"", SEQUENTIAL | EPHEMERAL) == "/q/t-0000000003"
    assert client("create", "/q/s-0000000004", b"", PLAIN) == "/q/s-0000000004"
    assert client("create", "/q/s-", b"", SEQUENTIAL) == "/q/s-0000000005"
    for name in client("children", "/q", None):
        client("delete", f"/q/{name}", -1)
    assert client("create", "/q/s-", b"", SEQUENTIAL) == "/q/s-0000000006"
    client("delete", "/q/s-0000000006", -1)
    client("delete", "/q", -1)
    client("create", "/q", b"", PLAIN)
    assert client("create", "/q/s-", b"", SEQUENTIAL) == "/q/s-0000000000", "a new parent counts anew"


def test_sequence_numbers_stop_at_2_to_the_31() -> None:
    """Observed on a real 3.8.0: the parent's counter stays at 2147483647, so the next create fails because its name
    exists. Negative numbers occur only while a create in the same parent is outstanding, for example in one multi."""
    alone = StandaloneServer()
    client = alone.client()
    client("create", "/q", b"", PLAIN)
    alone.server.tree.nodes["/q"].creates = 2**31 - 2
    assert [client("create", "/q/s", b"", SEQUENTIAL) for _ in range(3)] == [
        "/q/s2147483646", "/q/s2147483647", EXISTS,
    ]  # fmt: skip
    parts = client("multi", [("create", "/q/t", b"", SEQUENTIAL)] * 3)
    assert [name for _, _, name in parts] == ["/q/t2147483647", "/q/t-2147483648", "/q/t-2147483647"]


def test_watch_fires_once_and_before_the_reply_to_the_change() -> None:
    alone = StandaloneServer()
    one, two = alone.client(), alone.client()
    one("create", "/a", b"", PLAIN)
    for client in (one, two):
        client.send(("get", "/a", "watch"), ("children", "/a", "watch"), ("exists", "/a/b", "watch"))
        client.read_replies()
    one.send(
        ("set", "/a", b"1", -1), ("set", "/a", b"2", -1), ("create", "/a/b", b"", PLAIN), ("create", "/a/c", b"", 0)
    )
    assert short(one.read_replies()) == [
        (CHANGED, "/a"), "set", "set", (CREATED, "/a/b"), (CHILDREN, "/a"), "create", "create",
    ]  # fmt: skip
    assert received_events(two) == [(CHANGED, "/a"), (CREATED, "/a/b"), (CHILDREN, "/a")]


def test_deletion_sends_one_event_to_a_client_with_both_watches() -> None:
    alone = StandaloneServer()
    one, two = alone.client(), alone.client()
    one("create", "/a", b"", PLAIN)
    two("exists", "/a", "watch")
    two("children", "/a", "watch")
    two("children", "/", "watch")
    one("delete", "/a", -1)
    assert received_events(two) == [(DELETED, "/a"), (CHILDREN, "/")]
    one("create", "/a", b"", PLAIN)
    assert received_events(two) == []


def test_watches_end_with_their_connection_and_can_be_set_again() -> None:
    alone = StandaloneServer()
    one, two = alone.client(), alone.client()
    for path in ("/a", "/b", "/c"):
        one("create", path, b"", PLAIN)
    seen = one.zxid
    two("exists", "/a", "watch")
    two.stream.close()
    one("set", "/a", b"1", -1)
    one("delete", "/b", -1)
    back = alone.client(session=two.session, password=two.password, seen=seen)
    assert back.session == two.session
    back.send(("setwatches", seen, ["/a", "/b", "/c"], ["/d", "/c"], ["/c", "/b"]))
    assert short(back.read_replies()) == [
        (CHANGED, "/a"), (DELETED, "/b"), (CREATED, "/c"), (DELETED, "/b"), "setwatches",
    ]  # fmt: skip
    one("create", "/d", b"", PLAIN)
    one("create", "/c/d", b"", PLAIN)
    one("set", "/c", b"", -1)
    assert received_events(back) == [(CREATED, "/d"), (CHILDREN, "/c"), (CHANGED, "/c")]


def test_multi_is_atomic() -> None:
    client = StandaloneServer().client()
    client("create", "/a", b"", PLAIN)
    parts = client(
        "multi", [("check", "/a", 0), ("create", "/b", b"", 0), ("create", "/b/c", b"", 2), ("set", "/a", b"x", 0)]
    )
    assert [(op, code) for op, code, _ in parts] == [(13, 0), (1, 0), (1, 0), (5, 0)]
    zxid = client.zxid
    failing = [("create", "/x", b"", 0), ("create", "/x/y", b"", 0), ("set", "/a", b"y", 7), ("delete", "/b", -1)]
    assert client("multi", failing) == [(-1, 0, 0), (-1, 0, 0), (-1, BAD_VERSION, BAD_VERSION), (-1, -2, -2)]
    assert client.zxid == zxid + 1
    assert (client("exists", "/x", None), client("get", "/a", None)[0]) == (NO_NODE, b"x")
    assert client("create", "/x", b"", PLAIN) == "/x", "nothing of it is left"
    assert client("children", "/x", None) == []


def test_closing_a_session_deletes_its_ephemeral_nodes_before_the_reply() -> None:
    alone = StandaloneServer()
    one, two = alone.client(), alone.client()
    two("create", "/e", b"", EPHEMERAL)
    for client in (one, two):
        client("exists", "/e", "watch")
    two.send(("close",))
    assert short([*two.read_replies(), two.next()]) == [(DELETED, "/e"), "close", None]
    assert received_events(one) == [(DELETED, "/e")]
    again = alone.client(session=two.session, password=two.password, seen=two.zxid)
    assert (again.session, again.timeout, again.next()) == (0, 0, None)


def test_session_timeouts_are_between_2_and_20_ticks() -> None:
    alone = StandaloneServer(tick_ms=500)
    assert [alone.client(timeout=timeout).timeout for timeout in (1, 4000, 99_000)] == [1000, 4000, 10_000]


def test_session_expires_at_the_first_tick_after_its_timeout() -> None:
    alone = StandaloneServer(tick_ms=500)
    watcher = alone.client(timeout=10_000)
    silent, talking = alone.client(timeout=2000), alone.client(timeout=2000)
    alone.world.run(0.3)
    for client, path in ((silent, "/s"), (talking, "/t")):
        client("create", path, b"", EPHEMERAL)
        watcher("exists", path, "watch")
    silent.stream.close()
    for _ in range(4):
        alone.world.run(0.499)
        talking("ping")
    assert received_events(watcher) == []
    alone.world.run(0.5)  # 2.3 s, and then the next tick
    assert received_events(watcher) == [(DELETED, "/s")]
    back = alone.client(session=silent.session, password=silent.password)
    assert back.timeout == 0
    alone.world.run(3)
    assert received_events(watcher) == [(DELETED, "/t")]
    assert talking.next() is None, "the server hangs up on a session that is over"


def test_session_that_reconnects_with_a_shorter_timeout_expires_earlier() -> None:
    alone = StandaloneServer(tick_ms=500)
    watcher, before = alone.client(timeout=10_000), alone.client(timeout=10_000)
    before("create", "/s", b"", EPHEMERAL)
    watcher("exists", "/s", "watch")
    alone.client(session=before.session, password=before.password, timeout=1000).stream.close()
    alone.world.run(1.6)
    assert received_events(watcher) == [(DELETED, "/s")]


def test_nodes_of_a_closed_session_are_deleted_in_the_order_of_a_copied_hash_set() -> None:
    """The order was observed on ZooKeeper 3.8.0 with Java 17. Children would be listed as a, b, g."""
    alone = StandaloneServer()
    watcher, owner = alone.client(), alone.client()
    names = ["/a", "/b", "/g"]
    for name in names:
        owner("create", name, b"", EPHEMERAL)
        watcher("exists", name, "watch")
    owner("close")
    assert [path for _, path in received_events(watcher)] == ["/g", "/a", "/b"]


def test_clock_jumps_change_node_times_but_no_session_expiry() -> None:
    alone = StandaloneServer()
    client = alone.client(timeout=4000)
    client("create", "/e", b"", EPHEMERAL)
    alone.host.offset_ns += 86_400 * 10**9
    alone.world.run(3)
    stat = client("set", "/e", b"", -1)
    assert stat.mtime - stat.ctime == 86_403_000
    alone.host.offset_ns -= 2 * 86_400 * 10**9
    alone.world.run(3)
    assert client("exists", "/e", None).owner == client.session


def test_session_can_be_resumed_only_with_its_password() -> None:
    alone = StandaloneServer()
    one = alone.client()
    one("create", "/e", b"", EPHEMERAL)
    thief = alone.client(session=one.session, password=b"0" * 16)
    assert (thief.session, thief.next()) == (0, None)
    unknown = alone.client(session=one.session + 1, password=one.password)
    assert unknown.session == 0
    two = alone.client(session=one.session, password=one.password, timeout=2000)
    assert (two.session, two.timeout) == (one.session, 2000)
    assert one.next() is None
    assert two("exists", "/e", None).owner == one.session


def test_client_that_is_ahead_of_the_server_is_refused() -> None:
    alone = StandaloneServer()
    alone.client()("create", "/a", b"", PLAIN)
    assert alone.client(seen=3).session == 0
    assert alone.client(seen=2).session != 0


def test_acls_other_than_open_are_refused() -> None:
    alone = StandaloneServer()
    client = alone.client()
    acl = jute.acls([jute.Acl(31, "digest", "me:x")])
    body = jute.integer(1) + jute.integer(1) + jute.string("/a") + jute.buffer(b"") + acl + jute.integer(0)
    client.sent.append((1, "create"))
    client.stream.sendall(jute.frame(body))
    assert short(client.read_replies()) == [("create", -114)]
    client.sent.append((-4, "auth"))
    client.stream.sendall(jute.frame(jute.integer(-4) + jute.integer(100) + jute.integer(0) + jute.string("digest")))
    assert short([client.next(), client.next()]) == [("auth", -115), None]


def test_unknown_operation_is_refused_and_ends_the_connection() -> None:
    client = StandaloneServer().client()
    client.sent.append((1, "addwatch"))
    client.stream.sendall(jute.frame(jute.integer(1) + jute.integer(106) + jute.string("/") + jute.integer(0)))
    assert short([client.next(), client.next()]) == [("addwatch", -6), None]


def test_malformed_bytes_end_the_connection() -> None:
    alone = StandaloneServer()
    for garbage in (b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", jute.frame(b"\0\0\0")):
        client = alone.client()
        client.stream.sendall(garbage)
        assert client.next() is None
    assert alone.client()("exists", "/", None)


def test_requests_may_arrive_in_pieces_of_any_size() -> None:
    def tell(size: int) -> bytes:
        stream = InMemoryStream(StandaloneServer().server)
        client = RawZooKeeperClient(stream)
        ops: list[Any] = [("create", "/a", b"x", 0), ("get", "/a", None), ("ping",)]
        data = b"".join([client.encode(*op) for op in ops])
        for at in range(0, len(data), size):
            stream.sendall(data[at : at + size])
        return stream.recv()

    assert tell(1) == tell(7) == tell(1000)


def test_children_are_listed_in_the_order_of_javas_hash_set() -> None:
    """Observed on a real 3.8.0."""
    client = StandaloneServer().client()
    client("create", "/p", b"", PLAIN)
    for name in ("x", "s2147483646", "s2147483647", "t-2147483647", "t-2147483648", "s-2147483648", "s-2147483647",
                 "s-2147483646", "t2147483647"):  # fmt: skip
        client("create", f"/p/{name}", b"", PLAIN)
    assert client("children", "/p", None) == [
        "s2147483646", "s2147483647", "t-2147483647", "t-2147483648", "x", "s-2147483648", "s-2147483647",
        "s-2147483646", "t2147483647",
    ]  # fmt: skip


def test_operation_names_are_found_in_client_data() -> None:
    sent: list[bytes] = []

    class Recorder(InMemoryStream):
        def sendall(self, data: bytes) -> None:
            sent.append(data)
            super().sendall(data)

    client = RawZooKeeperClient(Recorder(StandaloneServer().server))
    client.send(("create", "/a", b"", 0), ("children2", "/a", None))
    client.send(("ping",), ("close",))
    assert [list(jute.commands(data)) for data in sent] == [["CONNECT"], ["CREATE", "GETCHILDREN"], ["PING", "CLOSE"]]
    assert list(jute.commands(b"nonsense")) == []


def test_srvr_is_answered_with_the_version_and_closes_the_connection() -> None:
    stream = StandaloneServer().stream()
    for part in (b"sr", b"vr"):
        stream.server.received(stream, part)
    assert re.match(rb"Zookeeper version: 3\.8\.0-.*\n", stream.sent)
    assert b"\nMode: standalone\n" in stream.sent
    assert stream.ended
