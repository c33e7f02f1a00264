"""Recorded traffic of a memcached: what the simulated server can explain, and what it cannot."""

from __future__ import annotations

from typing import Any

import pytest

from harness.documents.trace import ServerTrace
from harness.fidelity.trace.check import check_recording
from harness.sim.servers.memcached.store import ItemStore
from tests.fidelity.traffic import Traffic, recorded, runs_of


def command(
    traffic: Traffic, connection: int, arrived: float, replied: float | None, words: str, reply: str
) -> Traffic:
    """Add a command to traffic; ``words`` and ``reply`` have ``|`` for line ends."""
    request, answer = (text.replace("|", "\r\n").encode() + b"\r\n" for text in (words, reply))
    return traffic.bytes(connection, arrived, replied, request, answer)


def check(*commands: Any, **fields: Any) -> ServerTrace:
    traffic = Traffic("memcached")
    for one in commands:
        command(traffic, *one)
    return check_recording(traffic.recording(**fields), {})


@pytest.mark.parametrize("name", runs_of("memcached"))
def test_traffic_of_a_real_server_is_possible(name: str) -> None:
    found = check_recording(recorded(name), {})
    assert (found.state, found.difference) == ("possible", None)
    assert found.requests > 100


def test_concurrent_adds_have_one_winner_in_either_order() -> None:
    def both(first: str, second: str) -> str:
        return check((1, 1, 4, "add k 0 0 1|a", first), (2, 2, 3, "add k 0 0 1|b", second)).state

    assert both("STORED", "NOT_STORED") == both("NOT_STORED", "STORED") == "possible"
    assert both("STORED", "STORED") == both("NOT_STORED", "NOT_STORED") == "impossible"


def test_value_with_line_ends_is_one_reply() -> None:
    found = check((1, 1, 2, "set k 0 0 4|a|b", "STORED"), (2, 3, 4, "get k", "VALUE k 0 4|a|b|END"))
    assert (found.state, found.requests) == ("possible", 2)


@pytest.mark.parametrize(
    ("asked_ms", "alive", "gone"),
    [
        (2_000, "possible", "impossible"),
        (3_300, "possible", "possible"),  # when the process counts its seconds is not known
        (4_800, "impossible", "possible"),
    ],
)
def test_item_expires_at_a_tick_of_the_process(asked_ms: float, alive: str, gone: str) -> None:
    def asked(reply: str) -> str:
        return check((1, 700, 701, "set k 0 3 1|v", "STORED"), (1, asked_ms, asked_ms + 1, "get k", reply)).state

    assert (asked("VALUE k 0 1|v|END"), asked("END")) == (alive, gone)


def test_two_items_of_one_second_expire_at_one_tick() -> None:
    def later(first: str, second: str) -> str:
        stored = [(1, 700, 701, "set a 0 3 1|v", "STORED"), (1, 702, 703, "set b 0 3 1|v", "STORED")]
        gone = [(1, 3_300, 3_301, "get a", first), (1, 3_305, 3_306, "get b", second)]
        return check(*stored, *gone).state

    assert later("END", "END") == "possible"
    assert later("END", "VALUE b 0 1|v|END") == "impossible"


def test_restart_loses_all_items() -> None:
    traffic = command(Traffic("memcached"), 1, 1, 2, "set k 0 0 1|v", "STORED")
    traffic.add("kill", 10, 11).add("start", 20, 21, how="kept")
    assert (
        check_recording(command(traffic, 2, 30, 31, "get k", "VALUE k 0 1|v|END").recording(), {}).state == "impossible"
    )


def test_statistics_are_not_compared() -> None:
    assert check((1, 1, 2, "stats", "STAT pid 9|STAT uptime 1|END"), (1, 3, 4, "get k", "END")).state == "possible"


def test_traffic_is_checked_until_items_may_be_evicted() -> None:
    flood = [(1, 10 + n, 10.5 + n, f"set k{n} 0 0 1|v", "STORED") for n in range(600)]
    found = check(*flood, (1, 900, 901, "get k0", "END"))
    assert (found.state, found.requests) == ("possible", 500)
    assert "may have evicted items" in found.why


def test_simulated_items_that_live_a_second_too_long_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    expiry_second = ItemStore.expiry_second
    monkeypatch.setattr(ItemStore, "expiry_second", lambda self, exptime: expiry_second(self, exptime) + 1)
    assert check_recording(recorded("memcached-whole-seconds"), {}).state == "impossible"


def test_simulated_add_that_replaces_an_item_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ItemStore, "find_live", lambda self, key: None)
    assert {check_recording(recorded(name), {}).state for name in runs_of("memcached")} == {"impossible"}
