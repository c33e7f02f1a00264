"""Locks in Node: the conformance suite on real servers, and the program's answers when the library's promises are
late, never settled, or rejected with an unknown outcome."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from harness.clusters.docker.images import npm
from harness.clusters.docker.images.contexts import context_folder
from harness.lock_impls.base import Endpoints, Indeterminate, LockClass, LockError
from harness.lock_impls.thirdparty.node_redlock import NodeRedlock
from tests.conftest import Servers
from tests.locks import conformance
from tests.locks.programs import OwnProgramPerLock, answers
from tests.locks.toy_redis import CloseConnection, ScriptedAnswer, ToyRedis

COMMAND_TIMEOUT_S = 0.3
PATIENCE_S = 4.0
"""How long the program waits for a promise that is not settled."""
# the environment that builds images has what is needed: npm, and the packages that it fetches
needs_npm = pytest.mark.docker


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    folder = tmp_path_factory.mktemp("node") / "program"
    npm.install(context_folder("node"), folder)
    return ("node", str(folder / "program.js"))


@pytest.fixture
def node_redlock(command: tuple[str, ...]) -> Iterator[OwnProgramPerLock]:
    with OwnProgramPerLock(NodeRedlock, command) as per_lock:
        yield per_lock


def refuses_late_release(lock: LockClass, where: Endpoints) -> None:
    """As in the conformance suite, but with a longer second lease, because this release is tried for two seconds."""
    late, other = lock.open(where, "late", conformance.TTL_S), lock.open(where, "late", 30.0)
    assert late.acquire(0)
    time.sleep(conformance.TTL_S + conformance.SLACK_S)
    assert other.acquire(0)
    with pytest.raises(LockError):
        late.release()
    assert lock.open(where, "late", 1.0).acquire(0) is None
    other.release()


USUAL = [prop for prop in conformance.properties_of(NodeRedlock) if prop is not conformance.refuses_late_release]
PROPERTIES = [*USUAL, refuses_late_release, conformance.extends]


@needs_npm
@pytest.mark.parametrize("real_redis", ["container"], indirect=True)
@pytest.mark.parametrize("prop", PROPERTIES, ids=lambda prop: prop.__name__)
def test_lock(prop: conformance.Property, node_redlock: OwnProgramPerLock, real_redis: Servers) -> None:
    prop(node_redlock, Endpoints("redis-independent", real_redis))


# On toy servers whose answers a test decides

Opened = Callable[..., tuple[NodeRedlock, list[ToyRedis]]]


@pytest.fixture
def opened(node_redlock: OwnProgramPerLock) -> Iterator[Opened]:
    """Opens a lock on toy servers with the given answers, one for each server."""
    made: list[ToyRedis] = []

    def open_on(
        *scripted: ScriptedAnswer, ttl: float = 2.0, command_timeout: float = COMMAND_TIMEOUT_S
    ) -> tuple[NodeRedlock, list[ToyRedis]]:
        servers = [ToyRedis(one) for one in scripted]
        made.extend(servers)
        where = Endpoints("redis-independent", tuple(server.address for server in servers))
        return node_redlock.open(where, "k", ttl, command_timeout=command_timeout), servers

    yield open_on
    for server in made:
        server.close()


def answer_one(script: str, value: str) -> int:
    return 1


def answer_zero(script: str, value: str) -> int:
    return 0


def silent(script: str, value: str) -> None:
    """Accept the request, and do not answer."""


def silent_at_release(script: str, value: str) -> int | None:
    return None if script == "release" else 1


def seconds_of(call: Callable[[], Any]) -> float:
    began = time.monotonic()
    call()
    return time.monotonic() - began


@needs_npm
def test_tie_is_never_settled_and_its_outcome_is_unknown(opened: Opened) -> None:
    """nrl-tie: the library neither resolves nor rejects its promise, and takes nothing back."""
    mine, (first, second) = opened(answer_one, answer_zero)

    def acquire() -> None:
        with pytest.raises(Indeterminate, match="has not settled"):
            mine.acquire(0)

    assert PATIENCE_S <= seconds_of(acquire) < PATIENCE_S + 1
    assert (first.scripts, second.scripts) == (["acquire"], ["acquire"])


@needs_npm
def test_lost_try_keeps_its_keys_until_the_last_try(opened: Opened) -> None:
    """nrl-tie: the script also refuses its own key, so the first server, which has our key, refuses too."""
    keys: list[str] = []

    def first(script: str, value: str) -> int:
        if script == "release":
            return 1
        keys.append(value)
        return int(len(keys) == 1)

    tries = iter([0])
    mine, (server, *_) = opened(first, lambda *_: next(tries, 1), answer_zero)
    assert mine.acquire(0.5) is None
    assert server.scripts[:2] == ["acquire", "acquire"]
    assert server.scripts[-1] == "release"
    assert keys[0] == keys[1]


@needs_npm
def test_acquired_lock_may_have_expired(opened: Opened) -> None:
    """nrl-expired: the time is taken before the first of many tries."""
    tries = iter([0] * 4)
    mine, (server,) = opened(lambda _script, _value: next(tries, 1), ttl=0.5)
    grant = mine.acquire(2)
    assert grant
    assert server.scripts == ["acquire"] * 5
    assert grant.valid_for is not None
    assert grant.valid_for < 0
    assert not mine.still_valid()
    assert not mine.extend(), "its key has just been set, and it cannot be extended"


@needs_npm
def test_silent_minority_does_not_matter(opened: Opened) -> None:
    mine, _ = opened(answer_one, answer_one, answer_one, silent, silent)
    assert seconds_of(lambda: mine.acquire(0)) < COMMAND_TIMEOUT_S
    assert mine.extend()
    mine.release()


@needs_npm
def test_silent_majority_is_not_a_refusal(opened: Opened) -> None:
    mine, _ = opened(answer_one, answer_zero, silent, silent, silent)
    with pytest.raises(Indeterminate, match="may be set on"):
        mine.acquire(0)


@needs_npm
def test_released_keys_do_not_count_as_held(opened: Opened) -> None:
    """The answers to the acquire come too late, and are followed, on the same connection, by those to its release."""

    def scripted(script: str, value: str) -> int:
        if script == "acquire":
            time.sleep(COMMAND_TIMEOUT_S * 1.5)
        return 1

    mine, servers = opened(scripted, scripted, scripted)
    with pytest.raises(LockError):
        mine.acquire(0)
    assert [server.scripts for server in servers] == [["acquire", "release"]] * 3


@needs_npm
def test_unanswered_release_is_unknown_and_refused_release_did_not_happen(opened: Opened) -> None:
    mine, _ = opened(*[silent_at_release] * 3)
    assert mine.acquire(0)
    with pytest.raises(Indeterminate):
        mine.release()
    late, _ = opened(*[lambda script, _: int(script == "acquire")] * 3)
    assert late.acquire(0)
    with pytest.raises(LockError):
        late.release()


@needs_npm
def test_repeated_release_may_have_happened(opened: Opened) -> None:
    """The connection breaks after the key was deleted; ioredis repeats the request, and finds no key."""
    deleted = iter([False])

    def scripted(script: str, _value: str) -> int:
        if script == "acquire":
            return 1
        if not next(deleted, True):
            raise CloseConnection
        return 0

    mine, _ = opened(scripted)
    assert mine.acquire(0)
    with pytest.raises(Indeterminate):
        mine.release()


@needs_npm
def test_releases_on_a_majority_in_several_tries_count(opened: Opened) -> None:
    """Each try is counted separately: what the first has deleted, the second does not find."""
    turns = {"first": iter([1]), "second": iter([0, 1])}

    def scripted(turn: str) -> ScriptedAnswer:
        return lambda script, _: 1 if script == "acquire" else next(turns[turn], 0)

    mine, _ = opened(scripted("first"), scripted("second"), answer_zero)
    assert mine.acquire(0)
    mine.release()


@needs_npm
def test_lock_that_arrives_after_the_call_ended_is_given_back(opened: Opened) -> None:
    def late(*_: str) -> int:
        time.sleep(max(0.0, began + PATIENCE_S + 0.5 - time.monotonic()))
        return 1

    mine, (server,) = opened(late, command_timeout=2 * PATIENCE_S)
    began = time.monotonic()
    with pytest.raises(Indeterminate):
        mine.acquire(0)
    assert server.scripts == ["acquire"]
    time.sleep(1.0)
    assert server.scripts == ["acquire", "release"]


@needs_npm
def test_requests_are_answered_in_their_order(node_redlock: OwnProgramPerLock, opened: Opened) -> None:
    def slow(*_: str) -> int:
        time.sleep(0.1)
        return 1

    _, (server,) = opened(slow)
    said = answers(node_redlock.program(), [
        {"op": "open", "lock": "node-redlock", "kind": "redis-single", "addresses": [server.address], "ttl": 1.0},
        {"op": "acquire", "key": "ключ \n k", "timeout": 0},
        {"op": "still_valid", "key": "ключ \n k"},
        {"op": "sing"},
        {"op": "release", "key": "ключ \n k"},
        {"op": "close"},
    ])  # fmt: skip
    assert "ok" in said[1]
    assert said[2]["ok"] is True
    assert said[3] == {"id": 3, "error": "unknown op 'sing'"}
