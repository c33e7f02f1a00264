"""The rules of the simulated memcached that random commands do not show: time, memory, and its end."""

from __future__ import annotations

import pytest

from harness.sim.servers.memcached.server import LONGEST_LINE, MemcachedServer
from harness.sim.servers.memcached.store import MONTH, Store, chunk_sizes
from tests.sim.redis_client import DirectConn
from tests.sim.redis_stub import EPOCH_NS, S, StubHost, World


class Bench:
    """A server that has run for 0.4 s, and a connection to it."""

    def __init__(self, memory: int = 2, smallest_chunk: int = 1024) -> None:
        self.world = World()
        self.server = MemcachedServer(memory=memory, smallest_chunk=smallest_chunk)
        self.host: StubHost = self.world.host("n1", self.server)
        self.conn = DirectConn(self.server)
        self.world.run(0.4)

    def __call__(self, *lines: str) -> str:
        return self.conn.raw("".join(f"{line}\r\n" for line in lines).encode()).decode().replace("\r\n", " ").strip()

    def set(self, key: str, expiry: int = 0, value: str = "x") -> str:
        return self(f"set {key} 0 {expiry} {len(value)}", value)

    def there(self, key: str) -> bool:
        return self(f"get {key}") != "END"


@pytest.fixture
def mc() -> Bench:
    return Bench()


def test_an_item_with_an_expiry_of_two_seconds_lives_for_as_long_as_two_ticks_of_the_clock_take(mc: Bench) -> None:
    mc.set("k", 2)
    mc.world.run(1.59)
    assert mc.there("k")
    mc.world.run(0.02)  # two seconds after the start of the process: 1.6 s of two
    assert not mc.there("k")


def test_a_jump_of_the_wall_clock_moves_no_relative_expiry(mc: Bench) -> None:
    mc.set("k", 100)
    for offset in (3600, -3600):
        mc.host.offset_ns = EPOCH_NS + offset * S
        mc.world.run(2)
        assert mc.there("k")
    mc.world.run(100)
    assert not mc.there("k")


def test_a_date_is_compared_with_the_wall_clock_as_it_was_at_the_start(mc: Bench) -> None:
    date = EPOCH_NS // S + 10
    assert date > MONTH
    mc.host.offset_ns += 3600 * S
    mc.set("k", date)
    mc.set("late", EPOCH_NS // S - 1)
    assert mc.there("k")
    assert not mc.there("late")
    mc.world.run(9.61)
    assert not mc.there("k")


def test_a_negative_expiry_is_over_at_once_and_so_frees_a_key_for_add(mc: Bench) -> None:
    mc.set("k", 100)
    assert mc("add k 0 100 1", "y") == "NOT_STORED"
    number = mc("gets k").split()[4]
    assert mc(f"cas k 0 -1 0 {number}", "") == "STORED"
    assert not mc.there("k")
    assert mc("add k 0 100 1", "y") == "STORED"
    assert mc(f"cas k 0 -1 0 {number}", "") == "EXISTS"


def test_a_delayed_flush_takes_what_was_there_before_it(mc: Bench) -> None:
    mc.set("old")
    assert mc("flush_all 3") == "OK"
    mc.world.run(1)
    assert mc.there("old")
    mc.world.run(2)
    mc.set("new")
    assert (mc.there("old"), mc.there("new")) == (False, True)


def test_who_is_oldest_is_evicted_and_who_is_read_often_is_spared(mc: Bench) -> None:
    mc.set("first")
    mc.set("read")
    mc.set("second")
    mc("get read", "get read")
    room = 2 * 1024
    for number in range(room - 3):
        mc.set(f"entry{number}", 60)
    assert "evictions 0" in mc("stats")
    mc.set("more")
    assert (mc.there("first"), mc.there("read"), mc.there("second")) == (False, True, True)
    mc.set("yet-more")
    assert "evictions 2" in mc("stats")
    assert (mc.there("read"), mc.there("second")) == (True, False)


def test_what_has_expired_makes_room_and_counts_as_reclaimed() -> None:
    mc = Bench()
    mc.set("late", 1)
    mc.world.run(2)
    for number in range(2 * 1024):
        mc.set(f"entry{number}")
    assert "evictions 0" in mc("stats")
    assert "items:1:reclaimed 1" in mc("stats items")


def test_classes_evict_only_their_own() -> None:
    mc = Bench()
    mc.set("small")
    mc.set("large", value="x" * 1200)
    for number in range(3 * 1024):
        mc.set(f"entry{number}")
    assert not mc.there("small")
    assert mc.there("large")
    assert "items:2:evicted 0" in mc("stats items")


def test_the_classes_are_those_of_the_real_one() -> None:
    """As ``stats slabs`` of 1.6.18 names them, with its usual growth of 1.25."""
    assert chunk_sizes(96)[:8] == (96, 120, 152, 192, 240, 304, 384, 480)
    assert chunk_sizes(96)[-1] == 524288
    assert Store(2, 1024, 0, EPOCH_NS).slabs[0].per_page == 1024


def test_all_is_lost_at_a_kill_and_the_numbers_begin_again(mc: Bench) -> None:
    mc.set("a")
    mc.set("b")
    assert mc("gets b").split()[4] == "2"
    mc.server.stop()
    mc.server.start(mc.host, wiped=False)
    mc.conn = DirectConn(mc.server)
    assert not mc.there("b")
    mc.set("c")
    assert mc("gets c").split()[4] == "1"


def test_a_line_without_end_closes_the_connection_but_a_long_list_of_keys_does_not(mc: Bench) -> None:
    keys = b"get " + b" ".join([b"key"] * LONGEST_LINE)
    assert mc.conn.raw(keys) == b""
    assert not mc.conn.closed
    assert mc.conn.raw(b"\r\n") == b"END\r\n"
    mc.conn.raw(b"x" * (LONGEST_LINE + 1))
    assert mc.conn.closed


def test_commands_are_told_of_before_their_answers_leave(mc: Bench) -> None:
    told: list[tuple[str, str]] = []
    mc.server.on_command = lambda peer, command: told.append((peer, command))
    mc("add k 0 0 1", "x", "gets k", "nonsense")
    assert told == [("client", "ADD"), ("client", "GETS"), ("client", "NONSENSE")]

    def end(peer: str, command: str) -> None:
        mc.server.stop()

    mc.server.on_command = end
    assert mc("delete k") == ""
