"""The helper as a program: requests on its input, answers on its output."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from harness.clusters.docker.helper.nfqueue import CHAIN
from harness.clusters.docker.helper.operations import Operations
from harness.clusters.docker.helper.server import RequestServer

from .hosts import container, network, run, wait

pytestmark = pytest.mark.docker

GENEROUS = 60.0
LONG = 600.0
"""Seconds that no test lasts."""
Answer = dict[str, Any]


class Helper:
    """A newly started helper program."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "harness.clusters.docker.helper"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self.read() == {"ready": True}

    def send(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def read(self) -> Answer:
        assert self.process.stdout is not None
        answer: Answer = json.loads(self.process.stdout.readline())
        return answer

    def ask(self, op: str, **arguments: Any) -> Any:
        self.send(json.dumps({"id": 1, "op": op, **arguments}).encode())
        answer = self.read()
        assert answer.keys() == {"id", "ok"}, answer
        return answer["ok"]

    def end(self) -> int:
        """Close the program's input and return its exit status."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(GENEROUS)


@contextmanager
def running_helper() -> Iterator[Helper]:
    helper = Helper()
    try:
        yield helper
    finally:
        with helper.process:
            helper.process.kill()


@pytest.fixture(scope="module")
def helper() -> Iterator[Helper]:
    with running_helper() as running:
        yield running


@pytest.fixture(scope="module")
def hosts() -> Iterator[list[tuple[int, str]]]:
    with network(3, 2) as made:
        yield made


@pytest.mark.parametrize(
    ("request_line", "expected"),
    [
        (b"{", "JSONDecodeError"),
        (b"\xff", "UnicodeDecodeError"),
        (b"[1]", r"got [1], expected an object"),
        (b"{}", "op: got null, expected one of machine, greet, filter"),
        (b'{"op": "reboot"}', 'op: got "reboot", expected one of machine, greet, filter'),
        (b'{"op": ["ping"]}', "expected one of machine, greet, filter"),
        (b'{"op": "members"}', "members: pid is missing, expected a process id"),
        (b'{"op": "members", "pid": "1"}', 'members: pid: got "1", expected a process id'),
        (b'{"op": "members", "pid": true}', "pid: got true"),
        (b'{"op": "members", "pid": 4999999}', "process 4999999: no pid namespace: No such file"),
        (b'{"op": "kill", "pids": 3}', "pids: got 3, expected a list of process ids"),
        (b'{"op": "ping", "pid": 1, "address": "example", "timeout": 1}', "expected an IPv4 address"),
        (b'{"op": "ping", "pid": 1, "address": "10.0.0.1", "timeout": 0}', "expected seconds above 0"),
        (b'{"op": "ping", "pid": 1, "address": "10.0.0.1", "timeout": Infinity}', "expected seconds above 0"),
        (b'{"op": "connections", "pid": 1, "addresses": [["10.0.0.1"]]}', "[IPv4 address, port]"),
        (b'{"op": "filter", "scripts": {"x": ""}}', "an object of process id to nft script"),
        (b'{"op": "shape", "pid": 1, "sources": [], "seed": 1}', "an object of IPv4 address to"),
        (b'{"op": "shape", "pid": 1, "sources": {"10.0.0.1": {"dealy": 1}}, "seed": 1}', "{delay, jitter"),
        (b'{"op": "shape", "pid": 1, "sources": {"10.0.0.1": {"loss": 7}}, "seed": 1}', "loss: got 7"),
        (b'{"op": "shape", "pid": 1, "sources": {}}', "seed is missing"),
        (b'{"op": "clock", "pids": [], "offset_ns": 0.5, "rate": 1}', "offset_ns: got 0.5, expected a whole"),
    ],
)
def test_invalid_requests_are_answered_with_an_error(helper: Helper, request_line: bytes, expected: str) -> None:
    helper.send(request_line)
    answer = helper.read()
    assert answer["id"] is None
    assert expected in answer["error"]


def test_the_helpers_own_network_and_processes_are_refused(helper: Helper) -> None:
    for request in (
        {"op": "filter", "scripts": {str(os.getpid()): "add table inet test"}},
        {"op": "kill", "pids": [os.getpid()]},
    ):
        helper.send(json.dumps({"id": 5, **request}).encode())
        answer = helper.read()
        assert answer["id"] == 5
        assert f"process {os.getpid()}" in answer["error"]


def test_network_operations(helper: Helper, hosts: list[tuple[int, str]]) -> None:
    (a, to_a), (b, to_b) = hosts
    assert helper.ask("ping", pid=a, address=to_b, timeout=GENEROUS) > 0
    drop = f"table inet test {{ chain c {{ type filter hook input priority 0; ip saddr {to_a} drop; }}; }}"
    assert helper.ask("filter", scripts={str(b): drop, str(a): "add table inet test"}) is None
    assert helper.ask("ping", pid=a, address=to_b, timeout=0.2) is None
    helper.ask("filter", scripts=dict.fromkeys(map(str, (a, b)), "delete table inet test"))
    helper.ask("shape", pid=b, sources={to_a: {"delay": 0.2, "jitter": 0.01, "rate": 1e6}}, seed=1)
    assert helper.ask("ping", pid=a, address=to_b, timeout=GENEROUS) >= 0.2
    helper.ask("shape", pid=b, sources={}, seed=1)
    assert helper.ask("connections", pid=a, addresses=[[to_b, 80]]) == 0


def test_scripts_that_can_be_run_are_run_when_others_fail(helper: Helper, hosts: list[tuple[int, str]]) -> None:
    (a, _), (b, _) = hosts
    scripts = {"4999999": "", str(a): "nonsense", str(b): "add table inet test"}
    helper.send(json.dumps({"id": 1, "op": "filter", "scripts": scripts}).encode())
    said = helper.read()["error"]
    assert "process 4999999" in said
    assert f"process {a}: Error: syntax error" in said
    helper.ask("filter", scripts={str(b): "delete table inet test"})


def test_a_slow_request_does_not_delay_others(helper: Helper, hosts: list[tuple[int, str]]) -> None:
    (a, _), _ = hosts
    slow = {"id": "slow", "op": "ping", "pid": a, "address": "10.77.3.200", "timeout": 3.0}
    quick = {"id": "quick", "op": "connections", "pid": a, "addresses": []}
    helper.send(json.dumps(slow).encode())
    helper.send(json.dumps(quick).encode())
    assert [helper.read(), helper.read()] == [{"id": "quick", "ok": 0}, {"id": "slow", "ok": None}]


def test_process_operations(helper: Helper) -> None:
    with container("sleep", "605") as one, container("sleep", "606") as other:
        found = {}
        for pid in (one, other):
            for _ in wait("a process"):
                if members := helper.ask("members", pid=pid):
                    found[str(pid)] = members
                    break
        assert helper.ask("kill", pids=[one, other]) == found
        assert helper.ask("states", pid=one) == {str(found[str(one)][0]): "Z"}
        assert helper.ask("clock", pids=[one, other], offset_ns=0, rate=0) == {str(one): [], str(other): []}
        helper.send(json.dumps({"id": 1, "op": "offset", "pid": one}).encode())
        assert "no process but the first" in helper.read()["error"]


def test_clocks_are_moved_and_read(helper: Helper) -> None:
    program = "import time\nwhile True: time.time(); time.sleep(0.01)"
    with container(sys.executable, "-c", program) as first:
        for _ in wait("a process"):
            if members := helper.ask("members", pid=first):
                break
        assert helper.ask("clock", pids=[first], offset_ns=5_000_000_000, rate=0.0) == {str(first): members}
        assert abs(helper.ask("offset", pid=first) - 5_000_000_000) < 1_000_000_000


def test_requests_under_way_are_answered_when_no_more_come(hosts: list[tuple[int, str]]) -> None:
    (a, to_a), (b, to_b) = hosts
    with running_helper() as helper:
        helper.ask("shape", pid=b, sources={to_a: {"delay": LONG}}, seed=1)
        late = {"id": 3, "op": "ping", "pid": a, "address": to_b, "timeout": 0.5}
        helper.send(json.dumps(late).encode())
        assert helper.end() == 0
        assert helper.read() == {"id": 3, "ok": None}
        assert CHAIN not in run(b, "iptables", "-t", "mangle", "-S")


def test_packets_pass_after_a_request_to_end(hosts: list[tuple[int, str]]) -> None:
    (_, to_a), (b, _) = hosts
    with running_helper() as helper:
        helper.ask("shape", pid=b, sources={to_a: {"delay": LONG}}, seed=1)
        helper.process.terminate()
        assert helper.process.wait(GENEROUS) == 0
        assert CHAIN not in run(b, "iptables", "-t", "mangle", "-S")


def test_packets_pass_when_it_is_killed_and_the_next_one_cleans_up(hosts: list[tuple[int, str]]) -> None:
    (a, to_a), (b, to_b) = hosts
    with running_helper() as helper:
        helper.ask("shape", pid=b, sources={to_a: {"delay": LONG}}, seed=1)
        helper.process.kill()
        helper.process.wait()
    with running_helper() as helper:
        assert helper.ask("ping", pid=a, address=to_b, timeout=GENEROUS) > 0
        helper.ask("shape", pid=b, sources={to_a: {"delay": 0.1}}, seed=1)
        assert helper.ask("ping", pid=a, address=to_b, timeout=GENEROUS) >= 0.1
        assert helper.end() == 0
    assert CHAIN not in run(b, "iptables", "-t", "mangle", "-S")


def test_a_closed_output_does_not_stop_the_helper() -> None:
    def broken(_line: str) -> None:
        raise BrokenPipeError

    RequestServer(Operations(), broken).serve([b"{}", b"{}"])
    assert not [thread for thread in threading.enumerate() if "_handle" in thread.name]
