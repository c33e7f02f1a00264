"""Locks in Node: what every lock must do, on real servers; and what the program says where the library's promises are
late, never settled, or rejected although nobody knows what became of the request."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from harness.containers import npm
from harness.containers.images import context_folder
from lock_impls.base import Endpoints, Indeterminate, LockClass, LockError
from lock_impls.thirdparty.node_redlock import NodeRedlock
from tests.conftest import Servers
from tests.locks import conformance
from tests.locks.programs import Apart, answers
from tests.locks.toy_redis import Closes, Says, ToyRedis

COMMAND_TIMEOUT_S = 0.3
PATIENCE_S = 4.0
"""Of the program, with a promise that is not settled."""
needs_npm = pytest.mark.docker  # what builds the images of real clusters is there: npm, and the packages it fetches


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    folder = tmp_path_factory.mktemp("node") / "program"
    npm.install(context_folder("node"), folder)
    return ("node", str(folder / "program.js"))


@pytest.fixture
def node_redlock(command: tuple[str, ...]) -> Iterator[Apart]:
    with Apart(NodeRedlock, command) as apart:
        yield apart


def refuses_late_release(lock: LockClass, where: Endpoints) -> None:
    """As in the conformance suite; but this release is tried for two seconds, and the other lease is longer."""
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
def test_lock(prop: conformance.Property, node_redlock: Apart, real_redis: Servers) -> None:
    prop(node_redlock, Endpoints("redis-independent", real_redis))


# On servers that say what a test tells them.

Opened = Callable[..., tuple[NodeRedlock, list[ToyRedis]]]


@pytest.fixture
def opened(node_redlock: Apart) -> Iterator[Opened]:
    """Opens a lock on servers that say what is given, one for each."""
    made: list[ToyRedis] = []

    def open_on(
        *says: Says, ttl: float = 2.0, command_timeout: float = COMMAND_TIMEOUT_S
    ) -> tuple[NodeRedlock, list[ToyRedis]]:
        servers = [ToyRedis(one) for one in says]
        made.extend(servers)
        where = Endpoints("redis-independent", tuple(server.address for server in servers))
        return node_redlock.open(where, "k", ttl, command_timeout=command_timeout), servers

    yield open_on
    for server in made:
        server.close()


def yes(script: str, value: str) -> int:
    return 1


def no(script: str, value: str) -> int:
    return 0


def silent(script: str, value: str) -> None:
    """Takes the request, and says nothing."""


def silent_at_release(script: str, value: str) -> int | None:
    return None if script == "release" else 1


def timed(call: Callable[[], Any]) -> float:
    began = time.monotonic()
    call()
    return time.monotonic() - began


@needs_npm
def test_a_tie_is_never_settled_and_nobody_knows(opened: Opened) -> None:
    """nrl-tie: the library neither resolves nor rejects, and takes nothing back."""
    mine, (first, second) = opened(yes, no)

    def acquire() -> None:
        with pytest.raises(Indeterminate, match="has not settled"):
            mine.acquire(0)

    assert PATIENCE_S <= timed(acquire) < PATIENCE_S + 1
    assert (first.asked, second.asked) == (["acquire"], ["acquire"])


@needs_npm
def test_a_lost_try_keeps_what_it_has_set_until_the_last_one_is_lost(opened: Opened) -> None:
    """nrl-tie: and the script refuses a key that is there, so that the first server, whose key is ours, is lost too."""
    keys: list[str] = []

    def first(script: str, value: str) -> int:
        if script == "release":
            return 1
        keys.append(value)
        return int(len(keys) == 1)

    tries = iter([0])
    mine, (server, *_) = opened(first, lambda *_: next(tries, 1), no)
    assert mine.acquire(0.5) is None
    assert server.asked[:2] == ["acquire", "acquire"]
    assert server.asked[-1] == "release"
    assert keys[0] == keys[1]


@needs_npm
def test_what_is_acquired_may_have_expired(opened: Opened) -> None:
    """nrl-expired: the time is noted before the first of many tries."""
    tries = iter([0] * 4)
    mine, (server,) = opened(lambda _script, _value: next(tries, 1), ttl=0.5)
    grant = mine.acquire(2)
    assert grant
    assert server.asked == ["acquire"] * 5
    assert grant.valid_for is not None
    assert grant.valid_for < 0
    assert not mine.still_valid()
    assert not mine.extend(), "its key has just been set, and it cannot be extended"


@needs_npm
def test_a_minority_that_is_silent_does_not_matter(opened: Opened) -> None:
    mine, _ = opened(yes, yes, yes, silent, silent)
    assert timed(lambda: mine.acquire(0)) < COMMAND_TIMEOUT_S
    assert mine.extend()
    mine.release()


@needs_npm
def test_no_answers_of_a_majority_are_no_refusal(opened: Opened) -> None:
    mine, _ = opened(yes, no, silent, silent, silent)
    with pytest.raises(Indeterminate, match="may be set on"):
        mine.acquire(0)


@needs_npm
def test_what_was_surely_taken_back_is_not_held(opened: Opened) -> None:
    """The answers to the acquire come too late, and after them, on the same connection, those to its release."""

    def says(script: str, value: str) -> int:
        if script == "acquire":
            time.sleep(COMMAND_TIMEOUT_S * 1.5)
        return 1

    mine, servers = opened(says, says, says)
    with pytest.raises(LockError):
        mine.acquire(0)
    assert [server.asked for server in servers] == [["acquire", "release"]] * 3


@needs_npm
def test_a_release_that_nobody_answers_is_unknown_and_one_that_is_refused_did_not_happen(opened: Opened) -> None:
    mine, _ = opened(*[silent_at_release] * 3)
    assert mine.acquire(0)
    with pytest.raises(Indeterminate):
        mine.release()
    late, _ = opened(*[lambda script, _: int(script == "acquire")] * 3)
    assert late.acquire(0)
    with pytest.raises(LockError):
        late.release()


@needs_npm
def test_a_release_that_was_sent_twice_may_have_happened(opened: Opened) -> None:
    """The connection breaks when the key is gone; ioredis sends the request again, and is told that there is no key."""
    deleted = iter([False])

    def says(script: str, _value: str) -> int:
        if script == "acquire":
            return 1
        if not next(deleted, True):
            raise Closes
        return 0

    mine, _ = opened(says)
    assert mine.acquire(0)
    with pytest.raises(Indeterminate):
        mine.release()


@needs_npm
def test_releases_that_are_a_majority_together_have_released(opened: Opened) -> None:
    """Each try counts by itself: what the first has deleted, the second does not find."""
    turns = {"first": iter([1]), "second": iter([0, 1])}

    def says(turn: str) -> Says:
        return lambda script, _: 1 if script == "acquire" else next(turns[turn], 0)

    mine, _ = opened(says("first"), says("second"), no)
    assert mine.acquire(0)
    mine.release()


@needs_npm
def test_a_lock_that_comes_when_nobody_waits_any_more_is_given_back(opened: Opened) -> None:
    def late(*_: str) -> int:
        time.sleep(max(0.0, began + PATIENCE_S + 0.5 - time.monotonic()))
        return 1

    mine, (server,) = opened(late, command_timeout=2 * PATIENCE_S)
    began = time.monotonic()
    with pytest.raises(Indeterminate):
        mine.acquire(0)
    assert server.asked == ["acquire"]
    time.sleep(1.0)
    assert server.asked == ["acquire", "release"]


@needs_npm
def test_requests_are_answered_in_their_order(node_redlock: Apart, opened: Opened) -> None:
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
