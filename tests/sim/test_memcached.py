"""Behaviour of the simulated memcached that random commands do not cover: time, memory, kills."""

from __future__ import annotations

import pytest

from harness.sim.servers.memcached.server import MAX_LINE_LENGTH, MemcachedServer
from harness.sim.servers.memcached.store import MAX_RELATIVE_EXPIRY_S, ItemStore, chunk_sizes
from tests.sim.redis_client import DirectConn
from tests.sim.redis_stub import EPOCH_NS, S, StubHost, StubWorld


class MemcachedBench:
    """A server that has run for 0.4 s, and a connection to it."""

    def __init__(self, memory: int = 2, smallest_chunk: int = 1024) -> None:
        self.world = StubWorld()
        self.server = MemcachedServer(memory=memory, smallest_chunk=smallest_chunk)
        self.host: StubHost = self.world.host("n1", self.server)
        self.conn = DirectConn(self.server)
        self.world.run(0.4)

    def __call__(self, *lines: str) -> str:
        return self.conn.raw("".join(f"{line}\r\n" for line in lines).encode()).decode().replace("\r\n", " ").strip()

    def set(self, key: str, expiry: int = 0, value: str = "x") -> str:
        return self(f"set {key} 0 {expiry} {len(value)}", value)

    def exists(self, key: str) -> bool:
        return self(f"get {key}") != "END"


@pytest.fixture
def mc() -> MemcachedBench:
    return MemcachedBench()


def test_expiry_is_counted_in_ticks_of_the_process_clock(mc: MemcachedBench) -> None:
    mc.set("k", 2)
    mc.world.run(1.59)
    assert mc.exists("k")
    mc.world.run(0.02)  # two seconds after the start of the process, 1.6 s after the set
    assert not mc.exists("k")


def test_wall_clock_jump_does_not_change_a_relative_expiry(mc: MemcachedBench) -> None:
    mc.set("k", 100)
    for offset in (3600, -3600):
        mc.host.offset_ns = EPOCH_NS + offset * S
        mc.world.run(2)
        assert mc.exists("k")
    mc.world.run(100)
    assert not mc.exists("k")


def test_expiry_date_is_compared_with_the_wall_clock_at_the_start(mc: MemcachedBench) -> None:
    date = EPOCH_NS // S + 10
    assert date > MAX_RELATIVE_EXPIRY_S
    mc.host.offset_ns += 3600 * S
    mc.set("k", date)
    mc.set("late", EPOCH_NS // S - 1)
    assert mc.exists("k")
    assert not mc.exists("late")
    mc.world.run(9.61)
    assert not mc.exists("k")


def test_item_with_a_negative_expiry_expires_at_once(mc: MemcachedBench) -> None:
    mc.set("k", 100)
    assert mc("add k 0 100 1", "y") == "NOT_STORED"
    number = mc("gets k").split()[4]
    assert mc(f"cas k 0 -1 0 {number}", "") == "STORED"
    assert not mc.exists("k")
    assert mc("add k 0 100 1", "y") == "STORED"
    assert mc(f"cas k 0 -1 0 {number}", "") == "EXISTS"


def test_delayed_flush_removes_older_items(mc: MemcachedBench) -> None:
    mc.set("old")
    assert mc("flush_all 3") == "OK"
    mc.world.run(1)
    assert mc.exists("old")
    mc.world.run(2)
    mc.set("new")
    assert (mc.exists("old"), mc.exists("new")) == (False, True)


def test_oldest_item_is_evicted_unless_read_often(mc: MemcachedBench) -> None:
    mc.set("first")
    mc.set("read")
    mc.set("second")
    mc("get read", "get read")
    room = 2 * 1024
    for number in range(room - 3):
        mc.set(f"entry{number}", 60)
    assert "evictions 0" in mc("stats")
    mc.set("more")
    assert (mc.exists("first"), mc.exists("read"), mc.exists("second")) == (False, True, True)
    mc.set("yet-more")
    assert "evictions 2" in mc("stats")
    assert (mc.exists("read"), mc.exists("second")) == (True, False)


def test_expired_item_is_reclaimed_instead_of_evicting() -> None:
    mc = MemcachedBench()
    mc.set("late", 1)
    mc.world.run(2)
    for number in range(2 * 1024):
        mc.set(f"entry{number}")
    assert "evictions 0" in mc("stats")
    assert "items:1:reclaimed 1" in mc("stats items")


def test_slab_classes_evict_only_their_own_items() -> None:
    mc = MemcachedBench()
    mc.set("small")
    mc.set("large", value="x" * 1200)
    for number in range(3 * 1024):
        mc.set(f"entry{number}")
    assert not mc.exists("small")
    assert mc.exists("large")
    assert "items:2:evicted 0" in mc("stats items")


def test_chunk_sizes_are_those_of_memcached() -> None:
    """``stats slabs`` of 1.6.18 reports these sizes, with the default growth factor of 1.25."""
    assert chunk_sizes(96)[:8] == (96, 120, 152, 192, 240, 304, 384, 480)
    assert chunk_sizes(96)[-1] == 524288
    assert ItemStore(2, 1024, 0, EPOCH_NS).slabs[0].chunks_per_page == 1024


def test_kill_loses_all_items_and_restarts_cas_numbers(mc: MemcachedBench) -> None:
    mc.set("a")
    mc.set("b")
    assert mc("gets b").split()[4] == "2"
    mc.server.stop()
    mc.server.start(mc.host, wiped=False)
    mc.conn = DirectConn(mc.server)
    assert not mc.exists("b")
    mc.set("c")
    assert mc("gets c").split()[4] == "1"


def test_overlong_line_closes_the_connection_unless_it_lists_keys(mc: MemcachedBench) -> None:
    keys = b"get " + b" ".join([b"key"] * MAX_LINE_LENGTH)
    assert mc.conn.raw(keys) == b""
    assert not mc.conn.closed
    assert mc.conn.raw(b"\r\n") == b"END\r\n"
    mc.conn.raw(b"x" * (MAX_LINE_LENGTH + 1))
    assert mc.conn.closed


def test_commands_are_reported_before_their_answers(mc: MemcachedBench) -> None:
    reported: list[tuple[str, str]] = []
    mc.server.on_command = lambda peer, command: reported.append((peer, command))
    mc("add k 0 0 1", "x", "gets k", "nonsense")
    assert reported == [("client", "ADD"), ("client", "GETS"), ("client", "NONSENSE")]

    def end(peer: str, command: str) -> None:
        mc.server.stop()

    mc.server.on_command = end
    assert mc("delete k") == ""


@pytest.mark.parametrize(
    ("data", "lacking"),
    [
        (b"mg k v\r\n", ["the memcached command mg"]),
        (b"stats settings\r\n", ["the memcached command stats settings"]),
        (b"\x80\x00" + bytes(22), ["the binary protocol of memcached"]),
        (b"stats nope\r\n", []),
        (b"nope\r\n", []),
        (b"set k 0 0 1\r\n\x80\r\n", []),
    ],
)
def test_commands_that_only_the_real_server_has_are_noted(mc: MemcachedBench, data: bytes, lacking: list[str]) -> None:
    mc.conn.raw(data)
    assert [what for _, what in mc.host.lacking] == lacking
