"""Random HTTP requests get the same answers and expiries from the simulated etcd's v2 API and from a real one."""

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
"""Seconds of a ttl that does not end during the test."""
PORT = 2379
V2RequestSpec = tuple[str, str, dict[str, str]]
"""Method, key and fields; ``+N`` as an index is N above the index at the start."""


def requests(seed: int) -> list[V2RequestSpec]:
    rng = Random(seed)

    def one() -> V2RequestSpec:
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


class V2Caller:
    """Sends requests to one member over one connection."""

    def __init__(self, host: str, port: int) -> None:
        self._connection = http.client.HTTPConnection(host, port, timeout=10)
        for key in "abc":
            self._ask("DELETE", key, {})
        self._base = self._ask("GET", "a", {})[1]["index"]

    def send_all(self, requests_sent: list[V2RequestSpec]) -> list[Any]:
        answers = []
        for method, key, fields in requests_sent:
            if method == "WAIT":
                time.sleep(2.6)  # the ttl of a second, plus the leader's check every half second
                continue
            absolute = {name: str(self._base + int(v)) if v.startswith("+") else v for name, v in fields.items()}
            answers.append(self._relative(*self._ask(method, key, absolute)))
        self._connection.close()
        return answers

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

    def _relative(self, status: int, body: dict[str, Any], index: int) -> Any:
        """Make indexes relative to the start and drop times, because two clusters differ in both."""
        if "errorCode" in body:
            cause = " ".join(self._since(word) for word in body["cause"].split())
            return status, body["errorCode"], body["message"], cause, body["index"] and body["index"] - self._base
        nodes = [self._node(body.get(name)) for name in ("node", "prevNode")]
        return status, body["action"], nodes, index - self._base

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


def simulate_answers(seed: int, nodes: int) -> list[Any]:
    world = EtcdWorld(nodes)
    answers: list[Any] = world.run(lambda: V2Caller("n1", PORT).send_all(requests(seed)))[0]
    return answers


@pytest.fixture(scope="module", params=[1, 3])
def real_etcd(request: pytest.FixtureRequest) -> Iterator[tuple[tuple[str, int], int]]:
    """Start a real cluster; yield one member's address and the number of members."""
    with servers("etcd", request.param) as cluster:
        yield cluster.endpoints().addresses[0], request.param


@pytest.mark.docker
@pytest.mark.parametrize("seed", SEEDS)
def test_random_requests(seed: int, real_etcd: tuple[tuple[str, int], int]) -> None:
    (host, port), nodes = real_etcd
    want = V2Caller(host, port).send_all(requests(seed))
    requests_sent = [one for one in requests(seed) if one[0] != "WAIT"]
    for number, (expected, got) in enumerate(zip(want, simulate_answers(seed, nodes), strict=True)):
        assert got == expected, (seed, number, requests_sent[number])


def test_random_requests_cover_all_answers() -> None:
    """Also, one member and three members give the same answers."""
    answers = [one for seed in SEEDS for one in simulate_answers(seed, 1)]
    assert answers == [one for seed in SEEDS for one in simulate_answers(seed, 3)]
    codes = {one[1] for one in answers if isinstance(one[1], int)}
    assert codes == set(v2_store.MESSAGES) - {300}
    actions = {one[1] for one in answers if isinstance(one[1], str)}
    assert actions == {"get", "set", "create", "update", "compareAndSwap", "delete", "compareAndDelete"}


def test_key_expires_early_if_the_leaders_clock_is_ahead() -> None:
    """As on a real cluster, keys expire early by as much as the leader's clock is ahead of the serving member's."""
    world = EtcdWorld(3)
    seen: list[int] = []

    def requests_with_two_clocks() -> None:
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

    world.run(requests_with_two_clocks)
    assert seen == [200, 404]
