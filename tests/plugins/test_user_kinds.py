"""A user's kind of cluster, one file outside the repository, is used by name in plans and on the command line."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.clusters.kinds import KINDS
from harness.faults.catalogue import FAULTS
from harness.history.lock_keys import read_keys
from tests.cli.commands import harness
from tests.plugins.test_user_plugins import distribution, results

TINY_KIND = '''
"""A lock server that answers lines: "LOCK name ttl_ms" and "UNLOCK name". A client host is an owner."""

import dataclasses
import socket
import time
from typing import ClassVar, Protocol, runtime_checkable

from harness.clusters.abilities import Ability
from harness.clusters.kinds import Kind
from harness.clusters.server_options import WHOLE
from harness.clusters.sim.kinds import SimServers
from harness.faults.base import Damage, Fault, Observation
from harness.history.lock_keys import KeyObservation
from harness.lock_impls.base import Grant, Indeterminate, LockError, LockInfo


class TinyServer:
    def __init__(self, port, extra_ms):
        self.port, self.extra_ms = port, extra_ms

    def start(self, host, *, wiped):
        self.host, self.held = host, {}

    def stop(self):
        self.held = {}

    def opened(self, conn):
        conn.session = b""

    def closed(self, conn):
        pass

    def received(self, conn, data):
        *lines, conn.session = (conn.session + data).split(b"\\n")
        for line in lines:
            conn.send(self.answer(conn.peer, *line.decode().split()) + b"\\n")

    def answer(self, owner, command, name, *ttl_ms):
        holder, end_ns = self.held.get(name, ("", 0))
        busy = end_ns > self.host.monotonic_ns()
        if command == "UNLOCK":
            return b"YES" if busy and holder == owner and self.held.pop(name) else b"NO"
        if busy and holder != owner:
            return b"NO"
        life_ns = (int(ttl_ms[0]) + self.extra_ms) * 1_000_000
        self.held[name] = owner, self.host.monotonic_ns() + life_ns
        return b"YES"

    def look(self, name):
        holder, end_ns = self.held.get(name, ("", 0))
        left = end_ns - self.host.monotonic_ns()
        return KeyObservation(holder, left, holder) if left > 0 else None


class TinyServers(SimServers):
    program = TinyServer
    lapses = True

    def install(self):
        self.programs = {}
        for host in self.hosts:
            server = self.programs[host.name] = self.program(self.port, self.options.get("extra_ms", 0))
            host.install(server)
            self.key_count[host.name] = lambda server=server: len(server.held)
            self.look[host.name] = server.look

    def forget(self, host):
        self.programs[host].held.clear()


@runtime_checkable
class Forgets(Protocol):
    def forget(self, host): ...


FORGETS = Ability("forget", Forgets)


class Forget(Fault):
    name: ClassVar = "forget"
    summary: ClassVar = "the server forgets its locks"
    needs: ClassVar = frozenset({FORGETS})
    schedule: ClassVar = {"on": "acquire", "nth": 5}

    def inject(self, scene):
        scene.part(FORGETS).forget("n1")
        return Damage(["n1"], lambda: Observation({"n1": True}, {}, "it forgot"), lambda: None)


class TinyLock:
    info = LockInfo("tiny-lock", "a lock on a tiny server", "one line", "this file", "E", ("tiny_kind:TINY",))

    @classmethod
    def open(cls, endpoints, key, ttl):
        return cls(endpoints.addresses[0], key, ttl)

    def __init__(self, address, key, ttl):
        self.address, self.key, self.ttl = address, key, ttl

    def ask(self, line):
        try:
            with socket.create_connection(self.address, 0.5) as connection:
                connection.sendall(line.encode() + b"\\n")
                return connection.makefile().readline().strip() == "YES"
        except OSError as error:
            raise Indeterminate(str(error)) from error

    def acquire(self, timeout):
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            if self.ask(f"LOCK {self.key} {self.ttl * 1000:.0f}"):
                return Grant()
            time.sleep(0.05)
        return None

    def release(self):
        if not self.ask(f"UNLOCK {self.key}"):
            raise LockError("somebody else holds it")


class Named(TinyLock):
    info = dataclasses.replace(TinyLock.info, kinds=("tiny",))


TINY = Kind(name="tiny", about="a tiny lock server", port=7777, sim=TinyServers, options={"extra_ms": WHOLE})


class Raises(TinyServers):
    def install(self):
        raise ZeroDivisionError("by nought")


class CrashingServer(TinyServer):
    def answer(self, owner, command, name, *ttl_ms):
        raise ZeroDivisionError("by nought")


class Crashes(TinyServers):
    program = CrashingServer


def broken(**fields):
    return dataclasses.replace(TINY, **fields)


PORTLESS = broken(port="7777")
NOWHERE = broken(sim="")
UNRULY = broken(options={"extra_ms": "a number"})
ELSEWHERE = broken(sim="tiny_kind:NoSuch")
NO_SERVERS = broken(sim=TinyServer)
RAISES = broken(sim=Raises)
CRASHES = broken(sim=Crashes)
for name in ("PORTLESS", "NOWHERE", "UNRULY", "ELSEWHERE", "NO_SERVERS", "RAISES", "CRASHES"):
    info = dataclasses.replace(TinyLock.info, kinds=(f"tiny_kind:{name}",))
    globals()[f"On{name}"] = type(f"On{name}", (TinyLock,), {"info": info})
'''
SHORT = ("--time-limit", "6s", "--seed", "3")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty working directory with the plug-in."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    (tmp_path / "tiny_kind.py").write_text(TINY_KIND)
    yield tmp_path
    sys.modules.pop("tiny_kind", None)
    KINDS.forget()
    FAULTS.forget()


def error_of(capsys: pytest.CaptureFixture[str]) -> str:
    """The one line of errors."""
    (line,) = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("cluster:")]
    return line


@pytest.mark.slow
def test_a_lock_runs_on_a_users_kind_and_is_found_wanting_under_a_fault() -> None:
    assert harness("run", "tiny_kind:TinyLock", *SHORT) == 0
    found = results()
    assert found["cluster"]["kind"] == "tiny_kind:TINY"
    assert found["cluster"]["servers"] == ["n1"]
    assert found["stats"]["acquires_ok"] > 5
    states, flaw = read_keys(Path("store/latest/keys.jsonl"))
    assert ({"c0", "c1", "c2"} <= {state.owner for state in states}, flaw) == (True, "")
    assert harness("run", "tiny_kind:TinyLock", "--nemesis", "kill-amnesia", *SHORT) == 1
    assert results()["checkers"]["mutual-exclusion"]["valid"] is False


@pytest.mark.slow
def test_a_users_kind_is_named_in_a_plan(capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine.toml").write_text(
        'lock = "tiny_kind:TinyLock"\nkind = "tiny_kind:TINY"\nnodes = 2\ntime_limit = "6s"\n'
        "[server_options]\nextra_ms = 400\n"
    )
    assert harness("replay", "mine.toml") == 2
    assert "cluster kind tiny_kind:TINY" in capsys.readouterr().err
    assert harness("replay", "mine.toml", "--trust") == 0
    assert results()["cluster"]["servers"] == ["n1", "n2"]
    Path("mine.toml").write_text(Path("mine.toml").read_text().replace("400", "0"))
    capsys.readouterr()
    assert harness("replay", "mine.toml", "--trust") == 2
    assert "server_options: extra_ms must be a whole number from 1, got 0" in error_of(capsys)


@pytest.mark.slow
def test_a_stored_run_on_a_users_kind_is_checked_without_its_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert harness("run", "tiny_kind:TinyLock", *SHORT) == 0
    Path("tiny_kind.py").write_text("raise AssertionError('imported')")
    del sys.modules["tiny_kind"]
    KINDS.forget()
    assert harness("report", "store/latest") == 0
    assert "tiny_kind" not in sys.modules


@pytest.mark.slow
def test_an_entry_point_names_a_kind(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    distribution(folder / "site", "tiny", "[lock_harness.kinds]\ntiny = tiny_kind:TINY\ntorn = tiny_kind:NO_SUCH\n")
    monkeypatch.syspath_prepend(str(folder / "site"))
    assert harness("run", "tiny_kind:Named", *SHORT) == 0
    assert harness("run", "tiny_kind:Named", "--kind", "tiny", *SHORT) == 0
    assert harness("run", "tiny_kind:Named", "--kind", "tiny_kind:TINY", *SHORT) == 0
    assert harness("run", "tiny_kind:TinyLock", "--kind", "tiny", *SHORT) == 0
    capsys.readouterr()
    assert harness("list", "kinds", "--json") == 0
    listed: dict[str, Any] = {row["name"]: row["about"] for row in json.loads(capsys.readouterr().out)}
    assert listed["tiny"] == "a tiny lock server; default: 1 server"
    assert listed["torn"].startswith("cannot be used: ")
    assert "redis-single" in listed


def test_a_users_fault_uses_an_ability_that_only_a_users_kind_has(capsys: pytest.CaptureFixture[str]) -> None:
    assert harness("run", "tiny_kind:TinyLock", "--nemesis", "tiny_kind:Forget", *SHORT) == 1
    assert results()["checkers"]["mutual-exclusion"]["valid"] is False
    capsys.readouterr()
    assert harness("run", "redis-token", "--nemesis", "tiny_kind:Forget", *SHORT) == 2
    assert "needs forget, which redis-single on sim cannot do" in error_of(capsys)


@pytest.mark.slow
def test_a_hunt_searches_on_a_users_kind() -> None:
    """It finds what a server without a disk forgets."""
    size = ("--rounds", "1", "--schedules", "20")
    assert harness("hunt", "tiny_kind:TinyLock", "--faults", "kill-amnesia", *size, "--quiet") == 1


@pytest.mark.few(5)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("OnPORTLESS",), "the cluster kind tiny_kind:PORTLESS: port must be a whole number from 1, got '7777'"),
        (("OnNOWHERE",), "the cluster kind tiny_kind:NOWHERE: neither sim nor docker names a class of servers"),
        (("OnUNRULY",), "the cluster kind tiny_kind:UNRULY: options must map names to functions, got"),
        (("OnELSEWHERE",), "sim is 'tiny_kind:NoSuch': module 'tiny_kind' has no attribute 'NoSuch'"),
        (("OnNO_SERVERS",), "the cluster kind tiny_kind:NO_SERVERS: sim must be a subclass of SimServers, got"),
        (("OnRAISES",), "the cluster kind tiny_kind:RAISES: ZeroDivisionError: by nought"),
        (("OnCRASHES",), "the cluster kind tiny_kind:CRASHES: ZeroDivisionError: by nought"),
        (("TinyLock", "--kind", "tiny_kind:NO_SUCH"), "tiny_kind has no Kind called 'NO_SUCH'"),
        (("TinyLock", "--kind", "tiny_kind:TinyServers"), "tiny_kind has a class, not a Kind, called 'TinyServers'"),
        (("TinyLock", "--kind", "tiny_kind:NOWHERE"), "neither sim nor docker names a class"),
        (("TinyLock", "--kind", "redis-single"), "tiny_kind:TinyLock runs on tiny_kind:TINY, not on 'redis-single'"),
        (("TinyLock", "--cluster", "docker"), "runs on tiny_kind:TINY, which is a tiny lock server; use --cluster sim"),
        (("TinyLock", "--kind", "tiny_kind:TINY", "--topology", "single"), "--kind says more than --topology"),
        (
            ("TinyLock", "--nemesis", "failover"),
            "nemesis 'failover' needs failover, which tiny_kind:TINY on sim cannot do; "
            "it supports cancel, clock, cut, hang",
        ),
    ],
)
def test_a_kind_that_cannot_be_used_is_one_line_and_exit_2(
    arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lock, *rest = arguments
    assert harness("run", f"tiny_kind:{lock}", *rest, *SHORT) == 2
    assert message in error_of(capsys)
