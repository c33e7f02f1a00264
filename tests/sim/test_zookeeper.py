"""The rules of one ZooKeeper server, by the wire."""

from __future__ import annotations

from typing import Any

import pytest

from harness.sim.servers.zookeeper import jute
from tests.sim.zookeeper_client import Client, Event, Reply, Stat
from tests.sim.zookeeper_stub import Alone, DirectStream

NO_NODE, BAD_VERSION, NO_CHILDREN, EXISTS, NOT_EMPTY, EXPIRED = -101, -103, -108, -110, -111, -112
CREATED, DELETED, CHANGED, CHILDREN = 1, 2, 3, 4
PLAIN, EPHEMERAL, SEQUENTIAL = 0, 1, 2


def short(heard: list[Any]) -> list[Any]:
    """Events as (kind, path), replies as the name of the operation, or (name, code) of an error; None at the end."""
    told: list[Any] = []
    for item in heard:
        if isinstance(item, Reply):
            told.append((item.op, item.code) if item.code else item.op)
        else:
            told.append(tuple(item) if isinstance(item, Event) else item)
    return told


def heard(client: Client) -> list[Any]:
    """What the server has told a client that asked for nothing."""
    client.send(("ping",))
    told = short(client.until_answered())
    assert told.pop() == "ping"
    return told


def test_a_node_and_its_stat() -> None:
    alone = Alone()
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
        (("create", "/c", b"", 4), -6),
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
def test_errors_use_up_a_zxid_where_they_are_writes(op: Any, code: int) -> None:
    client = Alone().client()
    for path, flags in (("/a", PLAIN), ("/a/b", PLAIN), ("/e", EPHEMERAL)):
        client("create", path, b"", flags)
    before = client.zxid
    assert client(*op) == code
    client("ping")
    assert client.zxid == before + (op[0] in ("create", "delete", "set"))


def test_sequential_names_count_the_children_ever_made_in_that_parent() -> None:
    client = Alone().client()
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


def test_sequence_numbers_end_at_two_to_the_31() -> None:
    """Seen on a real 3.8.0: the parent's counter stays at 2147483647, so the next create finds its own name taken.
    Negative numbers are given out only while a create of the same parent is on its way: in one transaction, say."""
    alone = Alone()
    client = alone.client()
    client("create", "/q", b"", PLAIN)
    alone.server.tree.nodes["/q"].creates = 2**31 - 2
    assert [client("create", "/q/s", b"", SEQUENTIAL) for _ in range(3)] == [
        "/q/s2147483646", "/q/s2147483647", EXISTS,
    ]  # fmt: skip
    parts = client("multi", [("create", "/q/t", b"", SEQUENTIAL)] * 3)
    assert [name for _, _, name in parts] == ["/q/t2147483647", "/q/t-2147483648", "/q/t-2147483647"]


def test_a_watch_is_told_once_and_before_the_reply_of_whoever_caused_it() -> None:
    alone = Alone()
    one, two = alone.client(), alone.client()
    one("create", "/a", b"", PLAIN)
    for client in (one, two):
        client.send(("get", "/a", "watch"), ("children", "/a", "watch"), ("exists", "/a/b", "watch"))
        client.until_answered()
    one.send(
        ("set", "/a", b"1", -1), ("set", "/a", b"2", -1), ("create", "/a/b", b"", PLAIN), ("create", "/a/c", b"", 0)
    )
    assert short(one.until_answered()) == [
        (CHANGED, "/a"), "set", "set", (CREATED, "/a/b"), (CHILDREN, "/a"), "create", "create",
    ]  # fmt: skip
    assert heard(two) == [(CHANGED, "/a"), (CREATED, "/a/b"), (CHILDREN, "/a")]


def test_a_deletion_is_told_once_to_whoever_watches_node_and_children() -> None:
    alone = Alone()
    one, two = alone.client(), alone.client()
    one("create", "/a", b"", PLAIN)
    two("exists", "/a", "watch")
    two("children", "/a", "watch")
    two("children", "/", "watch")
    one("delete", "/a", -1)
    assert heard(two) == [(DELETED, "/a"), (CHILDREN, "/")]
    one("create", "/a", b"", PLAIN)
    assert heard(two) == []


def test_watches_end_with_their_connection_and_are_set_anew_by_the_next() -> None:
    alone = Alone()
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
    assert short(back.until_answered()) == [
        (CHANGED, "/a"), (DELETED, "/b"), (CREATED, "/c"), (DELETED, "/b"), "setwatches",
    ]  # fmt: skip
    one("create", "/d", b"", PLAIN)
    one("create", "/c/d", b"", PLAIN)
    one("set", "/c", b"", -1)
    assert heard(back) == [(CREATED, "/d"), (CHILDREN, "/c"), (CHANGED, "/c")]


def test_a_transaction_is_done_whole_or_not_at_all() -> None:
    client = Alone().client()
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


def test_the_end_of_a_session_takes_its_ephemeral_nodes_and_tells_before_it_answers() -> None:
    alone = Alone()
    one, two = alone.client(), alone.client()
    two("create", "/e", b"", EPHEMERAL)
    for client in (one, two):
        client("exists", "/e", "watch")
    two.send(("close",))
    assert short([*two.until_answered(), two.next()]) == [(DELETED, "/e"), "close", None]
    assert heard(one) == [(DELETED, "/e")]
    again = alone.client(session=two.session, password=two.password, seen=two.zxid)
    assert (again.session, again.timeout, again.next()) == (0, 0, None)


def test_timeouts_are_between_2_and_20_ticks() -> None:
    alone = Alone(tick_ms=500)
    assert [alone.client(timeout=timeout).timeout for timeout in (1, 4000, 99_000)] == [1000, 4000, 10_000]


def test_a_session_ends_at_the_first_tick_after_its_timeout() -> None:
    alone = Alone(tick_ms=500)
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
    assert heard(watcher) == []
    alone.world.run(0.5)  # 2.3 s, and then the next tick
    assert heard(watcher) == [(DELETED, "/s")]
    back = alone.client(session=silent.session, password=silent.password)
    assert back.timeout == 0
    alone.world.run(3)
    assert heard(watcher) == [(DELETED, "/t")]
    assert talking.next() is None, "the server hangs up on a session that is over"


def test_clocks_that_jump_move_the_times_of_nodes_and_no_session() -> None:
    alone = Alone()
    client = alone.client(timeout=4000)
    client("create", "/e", b"", EPHEMERAL)
    alone.host.offset_ns += 86_400 * 10**9
    alone.world.run(3)
    stat = client("set", "/e", b"", -1)
    assert stat.mtime - stat.ctime == 86_403_000
    alone.host.offset_ns -= 2 * 86_400 * 10**9
    alone.world.run(3)
    assert client("exists", "/e", None).owner == client.session


def test_a_session_moves_with_its_password_and_not_without() -> None:
    alone = Alone()
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


def test_a_client_that_has_seen_more_than_the_server_must_go_elsewhere() -> None:
    alone = Alone()
    alone.client()("create", "/a", b"", PLAIN)
    assert alone.client(seen=3).session == 0
    assert alone.client(seen=2).session != 0


def test_other_protection_than_none_is_refused() -> None:
    alone = Alone()
    client = alone.client()
    acl = jute.acls([jute.Acl(31, "digest", "me:x")])
    body = jute.integer(1) + jute.integer(1) + jute.string("/a") + jute.buffer(b"") + acl + jute.integer(0)
    client.sent.append((1, "create"))
    client.stream.sendall(jute.frame(body))
    assert short(client.until_answered()) == [("create", -114)]
    client.sent.append((-4, "auth"))
    client.stream.sendall(jute.frame(jute.integer(-4) + jute.integer(100) + jute.integer(0) + jute.string("digest")))
    assert short([client.next(), client.next()]) == [("auth", -115), None]


def test_an_operation_that_is_not_there_is_refused_and_ends_the_connection() -> None:
    client = Alone().client()
    client.sent.append((1, "addwatch"))
    client.stream.sendall(jute.frame(jute.integer(1) + jute.integer(106) + jute.string("/") + jute.integer(0)))
    assert short([client.next(), client.next()]) == [("addwatch", -6), None]


def test_bytes_that_are_no_request_end_the_connection() -> None:
    alone = Alone()
    for garbage in (b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", jute.frame(b"\0\0\0")):
        client = alone.client()
        client.stream.sendall(garbage)
        assert client.next() is None
    assert alone.client()("exists", "/", None)


def test_pieces_of_any_size_make_no_difference() -> None:
    def tell(size: int) -> bytes:
        stream = DirectStream(Alone().server)
        client = Client(stream)
        ops: list[Any] = [("create", "/a", b"x", 0), ("get", "/a", None), ("ping",)]
        data = b"".join([client.encode(*op) for op in ops])
        for at in range(0, len(data), size):
            stream.sendall(data[at : at + size])
        return stream.recv()

    assert tell(1) == tell(7) == tell(1000)


def test_children_come_in_the_order_of_the_real_servers_hash_table() -> None:
    """Seen on a real 3.8.0."""
    client = Alone().client()
    client("create", "/p", b"", PLAIN)
    for name in ("x", "s2147483646", "s2147483647", "t-2147483647", "t-2147483648", "s-2147483648", "s-2147483647",
                 "s-2147483646", "t2147483647"):  # fmt: skip
        client("create", f"/p/{name}", b"", PLAIN)
    assert client("children", "/p", None) == [
        "s2147483646", "s2147483647", "t-2147483647", "t-2147483648", "x", "s-2147483648", "s-2147483647",
        "s-2147483646", "t2147483647",
    ]  # fmt: skip


def test_names_of_operations_in_what_a_client_sends() -> None:
    sent: list[bytes] = []

    class Recorder(DirectStream):
        def sendall(self, data: bytes) -> None:
            sent.append(data)
            super().sendall(data)

    client = Client(Recorder(Alone().server))
    client.send(("create", "/a", b"", 0), ("children2", "/a", None))
    client.send(("ping",), ("close",))
    assert [list(jute.commands(data)) for data in sent] == [["CONNECT"], ["CREATE", "GETCHILDREN"], ["PING", "CLOSE"]]
    assert list(jute.commands(b"nonsense")) == []
