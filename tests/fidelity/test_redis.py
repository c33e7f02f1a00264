"""The simulated Redis and a redis-server of this machine give the same answers to the same steps."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest
from redis import Connection

from harness.fidelity.comparison import AnswerPair, Step, compare
from harness.fidelity.processes import Place, ServerProcess
from harness.fidelity.redis import RedisComparison
from harness.fidelity.redis.commands import RedisCommandGenerator
from harness.fidelity.redis.known import CURSORS
from harness.fidelity.redis.pair import RedisPair
from harness.fidelity.redis.real import RealRedis
from harness.fidelity.redis.steps import LENGTH, steps
from harness.protocols.redis_replies import replies
from harness.sim.servers.redis import expiry, transactions
from harness.sim.servers.redis.keyspace import Database
from harness.sim.servers.redis.protocol import encode_command
from harness.sim.servers.redis.sentinel import SentinelServer
from harness.sim.servers.redis.server import RedisServer
from tests.conftest import redis_command
from tests.fidelity.documented import documented
from tests.fidelity.real import assert_agreement, same, started
from tests.sim.redis_client import DirectConn
from tests.sim.redis_stub import StubWorld

SEEDS = range(6)
MANY_SEEDS = range(1000, 1040)
SLOW = pytest.mark.slow


@pytest.fixture(scope="module")
def pair() -> Iterator[RedisPair]:
    with started(RedisComparison()) as found:
        yield found


@pytest.mark.real
def test_random_steps_get_the_answers_of_a_real_server(pair: RedisPair) -> None:
    assert_agreement(pair, SEEDS, sum(len(steps(seed)) for seed in SEEDS))


@pytest.mark.real
@pytest.mark.slow
def test_many_random_steps_get_the_answers_of_a_real_server(pair: RedisPair) -> None:
    assert_agreement(pair, MANY_SEEDS)


@pytest.mark.real
@pytest.mark.parametrize("server", [RedisServer(), SentinelServer(primary=("n1", 6379), peers=[])])
def test_lacking_commands_are_those_that_only_the_real_server_has(server: RedisServer) -> None:
    """A sentinel has its own, which a server of the same release lists if it runs as one."""
    with ServerProcess("redis-server", partial(_command_line, sentinel=isinstance(server, SentinelServer))) as process:
        host, port = process.place.address
        connection = Connection(host=host, port=port)  # type: ignore[no-untyped-call]
        connection.send_command("COMMAND")  # type: ignore[no-untyped-call]
        entries = connection.read_response()
        connection.disconnect()  # type: ignore[no-untyped-call]
    real = {name for entry in entries for name in (entry[0], *[sub[0] for sub in entry[9]])}
    ours = {one.full_name for found in server.commands.values() for one in (found, *(found.subcommands or {}).values())}
    missing = real - ours
    assert server.lacking == {name for name in missing if name.split(b"|")[0] not in missing - {name}}


def _command_line(place: Place, *, sentinel: bool) -> list[str]:
    command = redis_command(place)
    if not sentinel:
        return command
    configuration = place.folder / "sentinel.conf"
    configuration.write_text("sentinel monitor mymaster 127.0.0.1 1 2\n")
    return [command[0], str(configuration), *command[1:-2], "--sentinel"]


@pytest.mark.real
def test_a_killed_server_leaves_no_shared_memory() -> None:
    redis = RealRedis()
    redis.start()
    try:
        redis.reset(1_700_000_000_000)
        pids = [redis.process.pid]
        before = [path.name for path in Path("/dev/shm").glob(f"*faketime_*_{pids[0]}")]
        redis.restart(with_data=True)
        pids.append(redis.process.pid)
    finally:
        redis.stop()
    assert len(before) == 2
    assert not [path for pid in pids for path in Path("/dev/shm").glob(f"*faketime_*_{pid}")]


@pytest.mark.real
def test_lease_ends_after_its_last_millisecond(pair: RedisPair) -> None:
    assert same(
        pair, ("a", "set", "k", "v", "PX", "100"), ("clock", 99), ("a", "pttl", "k"), ("clock", 1), ("a", "get", "k"),
        ("a", "pttl", "k"), ("clock", 1), ("a", "dbsize"), ("a", "get", "k"), ("a", "dbsize"),
    ) == ["a: +OK", "", "a: :1", "", "a: 'v'", "a: :0", "", "a: :1", "a: nil", "a: :0"]  # fmt: skip


@pytest.mark.real
def test_expired_keys_are_deleted_by_the_servers_timer(pair: RedisPair) -> None:
    found = same(pair, ("a", "set", "k", "v", "PX", "100"), ("a", "set", "l", "v"), ("clock", 101), ("expire",))
    assert found[-1] == " keys 1"


@pytest.mark.real
def test_wait_of_a_blocked_client_ends_after_its_last_millisecond(pair: RedisPair) -> None:
    found = same(pair, ("b", "blpop", "l", "0.1"), ("clock", 100), ("clock", 1))
    assert found == ["", "", "b: nil array"]


@pytest.mark.real
def test_clock_that_goes_back_prolongs_a_lease(pair: RedisPair) -> None:
    found = same(pair, ("a", "set", "k", "v", "PX", "100"), ("clock", -1000), ("a", "pttl", "k"))
    assert found[-1] == "a: :1100"


@pytest.mark.real
def test_blocked_client_gets_the_item_of_another_client(pair: RedisPair) -> None:
    found = same(pair, ("a", "brpop", "x", "l", "0"), ("c", "blpop", "l", "0"), ("b", "rpush", "l", "1", "2"))
    assert found == ["", "", "a: ['l', '2']; b: :2; c: ['l', '1']"]


@pytest.mark.real
def test_blocked_client_does_not_look_at_its_other_keys(pair: RedisPair) -> None:
    found = same(pair, ("a", "blpop", "h", "l", "0"), ("b", "hset", "h", "f", "v"), ("b", "rpush", "l", "1"))
    assert found[-1] == "a: ['l', '1']; b: :1"


@pytest.mark.real
def test_time_out_of_a_blocking_move_is_a_null_array(pair: RedisPair) -> None:
    found = same(pair, ("a", "blmove", "l", "m", "LEFT", "LEFT", "0.1"), ("clock", 200))
    assert found == ["", "a: nil array"]


@pytest.mark.real
def test_message_reaches_the_subscribers_of_both_protocols(pair: RedisPair) -> None:
    found = same(pair, ("a", "subscribe", "ch"), ("c", "psubscribe", "c*"), ("b", "publish", "ch", "x"))
    assert found[-1] == "a: ['message', 'ch', 'x']; b: :2; c: >['pmessage', 'c*', 'ch', 'x']"


@pytest.mark.real
def test_subscriber_is_told_the_whole_name_of_a_subcommand(pair: RedisPair) -> None:
    found = same(pair, ("a", "subscribe", "ch"), ("a", "client", "getname"))
    assert found[-1].startswith("a: -ERR Can't execute 'client|getname'")


@pytest.mark.real
@pytest.mark.parametrize("nested", [("multi", "x"), ("watch",), ("get",), ("nonsense",)])
def test_command_that_is_rejected_in_multi_makes_exec_fail(pair: RedisPair, nested: tuple[str, ...]) -> None:
    found = same(pair, ("a", "multi"), ("a", *nested), ("a", "exec"))
    assert found[-1] == "a: -EXECABORT Transaction discarded because of previous errors."


@pytest.mark.real
@pytest.mark.parametrize("nested", [("multi",), ("watch", "k")])
def test_command_that_fails_in_multi_leaves_exec_alone(pair: RedisPair, nested: tuple[str, ...]) -> None:
    assert same(pair, ("a", "multi"), ("a", *nested), ("a", "exec"))[-1] == "a: []"


@pytest.mark.real
def test_watched_key_that_another_client_changes_stops_a_transaction(pair: RedisPair) -> None:
    found = same(pair, ("a", "watch", "k"), ("b", "set", "k", "1"), ("a", "multi"), ("a", "get", "k"), ("a", "exec"))
    assert found[-1] == "a: nil array"


@pytest.mark.real
def test_restart_keeps_keys_and_leases_or_loses_both(pair: RedisPair) -> None:
    lease: Step = ("a", "set", "k", "v", "PX", "100")
    assert same(
        pair, lease, ("fault", "restart", "with data"), ("clock", 100), ("a", "pttl", "k"), ("clock", 1),
        ("a", "get", "k"),
    )[1:] == [" keys 1", "", "a: :0", "", "a: nil"]  # fmt: skip
    assert same(pair, lease, ("fault", "restart", "without data"), ("a", "get", "k"))[1:] == [" keys 0", "a: nil"]


@pytest.mark.real
def test_command_sent_during_a_pause_does_not_see_a_lease_that_ended_in_it(pair: RedisPair) -> None:
    found = same(
        pair, ("a", "set", "k", "v", "PX", "100"), ("fault", "pause"), ("a", "get", "k"), ("clock", 101),
        ("b", "get", "k"), ("fault", "resume"), ("b", "get", "k"),
    )  # fmt: skip
    assert found == ["a: +OK", "", "", "", "", "a: nil", "b: nil"]


@pytest.mark.real
def test_sent_commands_are_dropped_with_a_closed_connection(pair: RedisPair) -> None:
    found = same(
        pair, ("b", "blpop", "l", "0"), ("close", "b"), ("a", "rpush", "l", "x"), ("a", "llen", "l"), ("a", "quit"),
    )  # fmt: skip
    assert found == ["", "", "a: :1", "a: :1", "a: +OK; a closed"]


def never_end_waits(_engine: object) -> None:
    """Mutant: no blocked client times out."""


@pytest.mark.few(1)
@pytest.mark.real
@pytest.mark.parametrize(
    ("mutant", "seeds"),
    [("time-outs", range(20, 22)), ("watch", range(20, 26)), pytest.param("lease", range(20, 22), marks=SLOW)],
)
def test_mutant_of_the_simulated_server_is_found_and_shrunk(
    pair: RedisPair, mutant: str, seeds: range, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each mutant breaks one rule; its divergence is shrunk to the few steps that show it."""
    if mutant == "time-outs":
        monkeypatch.setattr("harness.fidelity.redis.pair.end_timed_out_waits", never_end_waits)
        monkeypatch.setattr(expiry, "end_timed_out_waits", never_end_waits)
    elif mutant == "watch":
        monkeypatch.setattr(transactions, "_watched_expired", lambda _client: True)
    else:
        monkeypatch.setattr(Database, "has_expired", lambda db, key: db.owner.now_ms() >= db.expires.get(key, math.inf))
    found = compare("redis", pair, seeds)
    assert found.unknown
    assert min(len(one.steps) for one in found.unknown) <= 8


def run_alone(seed: int) -> bytes:
    """Return all that the simulated server sends to one client for the random commands of a seed."""
    world, server = StubWorld(), RedisServer()
    world.host("n1", server)
    connection = DirectConn(server)
    wires = []
    for words in RedisCommandGenerator(seed).sequence(LENGTH):
        wires.append(connection.raw(to_wire(words)))
        if not wires[-1]:
            world.run(1)
            wires.append(connection.sent)
    return b"".join(wires)


def to_wire(words: Sequence[str]) -> bytes:
    return encode_command([word.encode() for word in words])


@pytest.mark.parametrize("seed", SEEDS)
def test_random_commands_give_the_same_bytes_in_each_run(seed: int) -> None:
    assert run_alone(seed) == run_alone(seed)


@pytest.mark.parametrize("seed", range(3))
def test_replies_do_not_depend_on_how_commands_are_split_into_packets(seed: int) -> None:
    sequence = RedisCommandGenerator(seed).sequence(LENGTH)
    data = b"".join(to_wire(words) for words in sequence if not words[0].lower().startswith("b"))
    whole, pieces = connected(), connected()
    assert b"".join([pieces.raw(data[at : at + 7]) for at in range(0, len(data), 7)]) == whole.raw(data)


def connected() -> DirectConn:
    server = RedisServer()
    StubWorld().host("n1", server)
    return DirectConn(server)


def test_steps_of_a_seed_are_the_same_in_each_call() -> None:
    assert steps(5) == steps(5) != steps(6)


def test_replies_show_their_types() -> None:
    data = b"+OK\r\n-ERR x\r\n:1\r\n$-1\r\n*-1\r\n_\r\n$1\r\na\r\n*2\r\n:2\r\n~2\r\n:3\r\n:1\r\n%1\r\n+k\r\n,1.5\r\n"
    found, rest = replies(data + b"$5\r\nab")
    assert found == ["+OK", "-ERR x", ":1", "nil", "nil array", "null", "'a'", "[:2, ~[:1, :3]]", "{+k: ,1.5}"]
    assert rest == b"$5\r\nab"
    assert replies(b"*2\r\n:2\r\n:1\r\n", unordered=True) == (["[:1, :2]"], b"")


@pytest.mark.real
def test_cursor_that_no_scan_returned_is_a_documented_difference(pair: RedisPair) -> None:
    steps: list[Step] = [("a", "mset", "sk", "1", "hk", "2", "lk", "3", "b", "4"), ("a", "scan", "10")]
    found = list(pair.run(steps))[-1]
    assert found.real == found.simulated or pair.known(steps[-1], found) == CURSORS
    assert CURSORS in documented("redis")
    assert pair.known(("a", "scan", "0"), AnswerPair("a: [x]", "a: [y]")) == ""
    assert pair.known(("a", "scan", "10"), AnswerPair("a: -ERR", "a: ['0', []]")) == ""
