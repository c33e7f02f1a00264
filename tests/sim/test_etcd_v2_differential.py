"""The same random requests over HTTP to the simulated etcd's v2 API and to a real one: the same answers, refusals and
indexes, and keys that end."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator
from random import Random
from typing import Any
from urllib.parse import urlencode

import pytest

from harness.sim.servers.etcd import v2_store
from tests.clusters.real import servers
from tests.sim.etcd_world import EtcdWorld

LENGTH = 150
SEEDS = range(4)
LONG = 100
"""Seconds of a ttl that nobody sees the end of."""
PORT = 2379
Asked = tuple[str, str, dict[str, str]]
"""Method, key and fields; ``+N`` as an index is N after that of the beginning."""


def requests(seed: int) -> list[Asked]:
    rng = Random(seed)

    def one() -> Asked:
        key, value = rng.choice("abc"), rng.choice("xyz")
        condition = rng.choice([
            {}, {"prevExist": "false"}, {"prevExist": "true"}, {"prevValue": rng.choice("xyz")},
            {"prevValue": rng.choice("xyz"), "prevExist": "true"}, {"prevIndex": f"+{rng.randint(1, 40)}"},
            {"prevValue": rng.choice("xyz"), "prevIndex": f"+{rng.randint(1, 40)}"},
        ])  # fmt: skip
        ttl = rng.choice([{}, {"ttl": str(LONG)}])
        wrong = rng.choice([
            {"ttl": "2.0"}, {"ttl": "soon"}, {"prevIndex": "x"}, {"prevValue": ""}, {"prevExist": "maybe"},
            {"refresh": "true"}, {"refresh": "true", "ttl": "9", "value": ""}, {"refresh": "true", "prevExist": "true"},
        ])  # fmt: skip
        return rng.choice([
            ("PUT", key, {"value": value, **condition, **ttl}), ("PUT", key, {"value": value, **condition, **ttl}),
            ("PUT", key, {"value": value, "prevExist": "false", **ttl}), ("DELETE", key, condition),
            ("PUT", key, {"refresh": "true", "ttl": str(LONG), **condition}),
            ("DELETE", key, {"prevValue": value}), ("GET", key, {}), ("GET", key, {"quorum": "true"}),
            ("PUT", key, {"value": value, **wrong}), ("PUT", key, {"refresh": "true", "prevExist": "true"}),
        ])  # fmt: skip

    ends = [("PUT", "a", {"value": "x", "ttl": "1"}), ("PUT", "b", {"value": "x", "prevExist": "false", "ttl": "1"})]
    after = [("WAIT", "", {}), ("GET", "a", {}), ("PUT", "b", {"value": "y", "prevExist": "false"}), ("GET", "b", {})]
    return [one() for _ in range(LENGTH)] + [("DELETE", "b", {})] + ends + after


class Caller:
    """Asks one member, over one connection."""

    def __init__(self, host: str, port: int) -> None:
        self._connection = http.client.HTTPConnection(host, port, timeout=10)
        for key in "abc":
            self._ask("DELETE", key, {})
        self._base = self._ask("GET", "a", {})[1]["index"]

    def play(self, asked: list[Asked]) -> list[Any]:
        told = []
        for method, key, fields in asked:
            if method == "WAIT":
                time.sleep(2.6)  # a second, and the leader looks every half
                continue
            absolute = {name: str(self._base + int(v)) if v.startswith("+") else v for name, v in fields.items()}
            told.append(self._relative(*self._ask(method, key, absolute)))
        self._connection.close()
        return told

    def _ask(self, method: str, key: str, fields: dict[str, str]) -> tuple[int, dict[str, Any], int]:
        form = urlencode(fields)
        path = f"/v2/keys/{key}"
        if method == "PUT":
            header = {"Content-Type": "application/x-www-form-urlencoded"}
            self._connection.request(method, path, form, header)
        else:
            self._connection.request(method, f"{path}?{form}")
        answer = self._connection.getresponse()
        return answer.status, json.loads(answer.read()), int(answer.headers["X-Etcd-Index"])

    def _relative(self, status: int, told: dict[str, Any], index: int) -> Any:
        """Indexes since the beginning, and no moments: those of two clusters differ."""
        if "errorCode" in told:
            cause = " ".join(self._since(word) for word in told["cause"].split())
            return status, told["errorCode"], told["message"], cause, told["index"] and told["index"] - self._base
        nodes = [self._node(told.get(name)) for name in ("node", "prevNode")]
        return status, told["action"], nodes, index - self._base

    def _since(self, word: str) -> str:
        bare = word.strip("[]")
        return word.replace(bare, f"+{int(bare) - self._base}") if bare.isdigit() else word

    def _node(self, node: dict[str, Any] | None) -> Any:
        if node is None:
            return None
        kept = {name: value for name, value in node.items() if name != "expiration"}
        for name in ("modifiedIndex", "createdIndex"):
            kept[name] -= self._base
        if kept.get("ttl", 0) > LONG / 2:
            kept["ttl"] = LONG
        return {**kept, "ends": "expiration" in node}


def simulated(seed: int, nodes: int) -> list[Any]:
    world = EtcdWorld(nodes)
    told: list[Any] = world.run(lambda: Caller("n1", PORT).play(requests(seed)))[0]
    return told


@pytest.fixture(scope="module", params=[1, 3])
def real_etcd(request: pytest.FixtureRequest) -> Iterator[tuple[tuple[str, int], int]]:
    """One member of a cluster of that many."""
    with servers("etcd", request.param) as cluster:
        yield cluster.endpoints().addresses[0], request.param


@pytest.mark.docker
@pytest.mark.parametrize("seed", SEEDS)
def test_random_requests(seed: int, real_etcd: tuple[tuple[str, int], int]) -> None:
    (host, port), nodes = real_etcd
    want = Caller(host, port).play(requests(seed))
    asked = [one for one in requests(seed) if one[0] != "WAIT"]
    for number, (expected, got) in enumerate(zip(want, simulated(seed, nodes), strict=True)):
        assert got == expected, (seed, number, asked[number])


def test_the_requests_meet_most_of_what_it_can_answer() -> None:
    """And one member's answers are those of three, twice."""
    told = [one for seed in SEEDS for one in simulated(seed, 1)]
    assert told == [one for seed in SEEDS for one in simulated(seed, 3)]
    codes = {one[1] for one in told if isinstance(one[1], int)}
    assert codes == set(v2_store.MESSAGES) - {300}
    actions = {one[1] for one in told if isinstance(one[1], str)}
    assert actions == {"get", "set", "create", "update", "compareAndSwap", "delete", "compareAndDelete"}


def test_a_key_is_over_by_the_leaders_clock_and_was_told_its_end_by_anothers() -> None:
    """What the real one does where clocks are apart: as far as the leader's is ahead, keys end early."""
    world = EtcdWorld(3)
    seen: list[int] = []

    def story() -> None:
        leader = world.leader()
        other = next(name for name in ("n1", "n2") if name != leader)
        connection = http.client.HTTPConnection(other, PORT, timeout=10)
        for ahead in (0, 60):
            world.hosts[leader].set_clock(ahead * v2_store.NS_PER_S)
            connection.request("PUT", f"/v2/keys/k{ahead}", "value=x&ttl=30")
            connection.getresponse().read()
            time.sleep(1.0)
            connection.request("GET", f"/v2/keys/k{ahead}?quorum=true")
            answer = connection.getresponse()
            answer.read()
            seen.append(answer.status)

    world.run(story)
    assert seen == [200, 404]
