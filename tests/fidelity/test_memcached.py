"""The simulated memcached and Debian's give the same answers to the same steps."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator

import pytest

from harness.fidelity.comparison import Step
from harness.fidelity.memcached import MemcachedComparison
from harness.fidelity.memcached.commands import DELAYED_FLUSHES, LENGTH, LONG, VOCABULARY, lock_commands, steps
from harness.fidelity.memcached.pair import (
    MINUS,
    PADDING,
    MemcachedPair,
    Player,
    RealSide,
    SimulatedSide,
    without_padding,
)
from harness.sim.servers.memcached.commands import NOT_A_NUMBER, CommandHandler
from harness.sim.servers.memcached.server import MemcachedServer
from harness.sim.servers.memcached.store import ItemStore
from tests.fidelity.documented import documented
from tests.fidelity.real import assert_agreement, same, started
from tests.fidelity.record_memcached import record
from tests.sim.redis_client import DirectConn
from tests.sim.redis_stub import StubWorld

QUICK_SEEDS = range(7)
"""None of them waits for the clock."""
MANY_SEEDS = range(1000, 1025)


@pytest.fixture(scope="module")
def pair() -> Iterator[MemcachedPair]:
    with started(MemcachedComparison()) as found:
        yield found


def get(key: str) -> Step:
    return ("send", 0, b"get %b\r\n" % key.encode())


@pytest.mark.real
def test_random_steps_get_the_answers_of_a_real_server(pair: MemcachedPair) -> None:
    assert_agreement(pair, QUICK_SEEDS, sum(len(steps(seed)) for seed in QUICK_SEEDS))


@pytest.mark.real
@pytest.mark.slow
def test_many_random_steps_get_the_answers_of_a_real_server(pair: MemcachedPair) -> None:
    assert_agreement(pair, MANY_SEEDS)


@pytest.mark.slow
@pytest.mark.real
def test_item_expires_at_the_tick_of_its_second(pair: MemcachedPair) -> None:
    assert same(
        pair,
        ("send", 0, b"add a 0 1 1\r\nx\r\n"),
        ("send", 0, b"add b 0 {now+1} 1\r\nx\r\n"),
        ("send", 0, b"add c 0 {now} 1\r\nx\r\n"),
        ("send", 0, b"add lock 0 -1 1\r\nx\r\n"),
        ("send", 0, b"get a b c lock\r\n"),
        ("tick", 1),
        ("send", 0, b"get a b c lock\r\n"),
    )[4:] == [repr(b"VALUE a 0 1\r\nx\r\nVALUE b 0 1\r\nx\r\nEND\r\n"), "done", repr(b"END\r\n")]


@pytest.mark.slow
@pytest.mark.real
def test_sequence_ends_where_the_real_clock_ticks_between_two_steps(
    pair: MemcachedPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine may be so slow, and the items of both sides then expire at different steps."""
    sequence = [("tick", 1), ("send", 0, b"set a 0 {now+1} 1\r\nx\r\n"), get("a"), get("a")]
    run = Player.run

    def slow(player: Player, step: Step) -> str:
        if step[0] == "send" and isinstance(player.side, RealSide):
            player.side.wait(int(step == get("a")))
        return run(player, step)

    monkeypatch.setattr(Player, "run", slow)
    found = list(pair.run(sequence))
    assert [answers.real == answers.simulated for answers in found] == [True, True]


@pytest.mark.real
def test_restart_loses_all_items_and_cas_numbers(pair: MemcachedPair) -> None:
    stored = ("send", 0, b"set a 0 0 1\r\nx\r\n")
    found = same(pair, stored, ("send", 0, b"gets a\r\n"), ("fault", "restart", "without data"), get("a"), stored)
    assert found[3] == repr(b"END\r\n")


@pytest.mark.real
def test_number_keeps_the_length_of_its_value(pair: MemcachedPair) -> None:
    found = same(pair, ("send", 0, b"set a 0 0 3\r\n 10\r\n"), ("send", 0, b"decr a 1\r\nget a\r\n"))
    assert found[1] == repr(b"9\r\nVALUE a 0 3\r\n9  \r\nEND\r\n")


@pytest.mark.real
def test_key_that_is_too_long_discards_the_unsent_answers(pair: MemcachedPair) -> None:
    found = same(pair, ("send", 0, b"delete a\r\nget " + b"k" * 251 + b"\r\n"))
    assert found == [repr(b"CLIENT_ERROR bad command line format\r\n")]


def test_spaces_after_a_number_are_a_known_difference() -> None:
    padded = repr(b"TOUCHED\r\nVALUE b 0 21 #37\r\n0                    \r\nEND\r\n")
    assert without_padding(padded) == without_padding(repr(b"TOUCHED\r\nVALUE b 0 1 #37\r\n0\r\nEND\r\n"))
    assert PADDING in documented("memcached")
    assert without_padding(padded) != without_padding(repr(b"TOUCHED\r\nVALUE b 0 1 #37\r\n1\r\nEND\r\n"))


def test_a_large_number_before_a_minus_sign_is_a_known_difference(pair: MemcachedPair) -> None:
    """The real server looks for the sign beyond the value, where an older item was."""
    number = str((1 << 64) - 1).encode()
    steps = [
        ("send", 0, b"set c 0 0 30\r\n" + b"-" * 30 + b"\r\n"), ("send", 0, b"delete c\r\n"),
        ("send", 0, b"set c 0 0 20\r\n" + number + b"\r\n"), ("send", 0, b"decr c 7\r\n"),
    ]  # fmt: skip
    *_, found = pair.run(steps)
    assert (found.real, found.simulated) == (repr(NOT_A_NUMBER), repr(str((1 << 64) - 8).encode() + b"\r\n"))
    assert pair.known(steps[-1], found) == MINUS
    assert not pair.known(steps[-1], found._replace(simulated=repr(b"7\r\n")))
    assert MINUS in documented("memcached")


# Mutants of the simulated server.


def _expire_a_second_late(patch: pytest.MonkeyPatch) -> None:
    expiry_second = ItemStore.expiry_second
    patch.setattr(ItemStore, "expiry_second", lambda store, time: expiry_second(store, time) + (1 if time > 0 else 0))


def _keep_cas_numbers(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ItemStore, "next_cas", lambda _: 1)


def _do_not_pad(patch: pytest.MonkeyPatch) -> None:
    def add(handler: CommandHandler, key: bytes, delta: int | None, sign: int) -> bytes:
        answer = add_delta(handler, key, delta, sign)
        item = handler.store.find_live(key)
        if item is not None and answer[:1].isdigit():
            item.value = item.value.rstrip()
        return answer

    add_delta = CommandHandler._add_delta
    patch.setattr(CommandHandler, "_add_delta", add)


def _survive_a_restart(patch: pytest.MonkeyPatch) -> None:
    start = MemcachedServer.start

    def again(server: MemcachedServer, host: object, *, wiped: bool) -> None:
        if server._host is None:
            start(server, host, wiped=wiped)  # type: ignore[arg-type]

    patch.setattr(MemcachedServer, "start", again)
    patch.setattr(MemcachedServer, "stop", lambda _: None)


_NUMBER: tuple[Step, ...] = (("send", 0, b"set a 0 0 3\r\n 10\r\n"), ("send", 0, b"decr a 1\r\nget a\r\n"))
_EXPIRY: tuple[Step, ...] = (("send", 0, b"set a 0 1 1\r\nx\r\n"), ("tick", 1), get("a"))
_CAS: tuple[Step, ...] = (("send", 0, b"set a 0 0 1\r\nx\r\n"), ("send", 0, b"set b 0 0 1\r\nx\r\ngets a b\r\n"))
_RESTART: tuple[Step, ...] = (("send", 0, b"set a 0 0 1\r\nx\r\n"), ("fault", "restart", "without data"), get("a"))
MUTANTS: list[tuple[Callable[[pytest.MonkeyPatch], None], tuple[Step, ...]]] = [
    (_expire_a_second_late, _EXPIRY),
    (_keep_cas_numbers, _CAS),
    (_do_not_pad, _NUMBER),
    (_survive_a_restart, _RESTART),
]


@pytest.mark.few(1)
@pytest.mark.real
@pytest.mark.parametrize(("mutant", "steps_of_it"), MUTANTS, ids=lambda part: getattr(part, "__name__", ""))
def test_mutant_is_noticed(
    mutant: Callable[[pytest.MonkeyPatch], None],
    steps_of_it: tuple[Step, ...],
    pair: MemcachedPair,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mutant(monkeypatch)
    assert any(one.real != one.simulated for one in pair.run(steps_of_it))


# Without a real server.


@pytest.mark.parametrize("seed", [0, 7])
def test_steps_give_the_same_answers_twice(seed: int) -> None:
    def answers() -> list[str]:
        player = Player(SimulatedSide(), timed=seed == 7)
        return [player.run(step) for step in steps(seed)]

    assert answers() == answers()


@pytest.mark.slow
def test_steps_are_the_same_in_each_call_and_of_all_kinds() -> None:
    assert steps(3) == steps(3)
    assert len(steps(0)) == LENGTH
    many = [step for seed in range(64) for step in steps(seed)]
    assert {step[0] for step in many} == {"send", "interrupted", "tick", "fault"}
    assert {step[1] for step in many if step[0] == "fault"} == {"pause", "restart"}


def test_no_delayed_flush_follows_another_flush() -> None:
    found = 0
    for seed in range(64):
        sent = b"".join(part for step in steps(seed) for part in step if isinstance(part, bytes))
        delayed = [flush in DELAYED_FLUSHES for flush in re.findall(rb"flush_all[^\r]*\r\n", sent)]
        assert not any(delayed[1:])
        found += sum(delayed)
    assert found > 0


def test_commands_may_arrive_in_pieces() -> None:
    def connection() -> DirectConn:
        server = MemcachedServer(memory=64)
        StubWorld().host("n1", server)
        return DirectConn(server)

    sent = [step[2] for step in steps(0) if step[0] == "send"]
    # A key that is too long discards the answers to what arrived together with it.
    data = b"".join(one for one in sent if len(one) < 2000 and b"{" not in one and LONG not in one)
    pieces = connection()
    assert b"".join([pieces.raw(data[at : at + 7]) for at in range(0, len(data), 7)]) == connection().raw(data)


@pytest.mark.slow
def test_every_command_of_every_lock_is_recorded() -> None:
    now = record()
    assert now == json.loads(VOCABULARY.read_text(encoding="utf-8")), "run: python -m tests.fidelity.record_memcached"
    assert {form.split()[0] for form in lock_commands()} >= {"add", "gets", "cas", "delete", "touch"}
