"""What the clusters in containers, of the user's servers and on the user's machines have in common."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.clusters.client_host import ClientError, ClientHost, Entries
from harness.clusters.conversation import Refused
from harness.clusters.docker import processes as docker_processes
from harness.clusters.docker.cluster import DockerCluster
from harness.clusters.host_clocks import HostClocks
from harness.clusters.program_faults import ProgramFaults
from harness.clusters.real_cluster import ClusterError, RealCluster, dated
from harness.clusters.servers import cluster as servers_cluster
from harness.clusters.servers.clients import LocalClient
from harness.clusters.servers.cluster import DirectCluster
from harness.clusters.ssh import processes as ssh_processes


class Programs(ProgramFaults):
    """Programs that note what is done to them."""

    def __init__(self) -> None:
        super().__init__()
        self.done: list[str] = []
        self.dead: set[str] = set()

    def _freeze(self, host: str) -> None:
        self.done.append(f"freeze {host}")

    def _thaw(self, host: str) -> None:
        self.done.append(f"thaw {host}")

    def _kill_program(self, host: str) -> None:
        self.done.append(f"kill {host}")
        self.dead.add(host)

    def _revive(self, host: str, *, wiped: bool) -> None:
        self.done.append(f"start {host}{' without data' if wiped else ''}")
        self.dead.remove(host)

    def incarnation(self, host: str) -> int | None:
        return None if host in self.dead else 1

    def _client(self, name: str) -> ClientHost:
        raise NotImplementedError


def test_overlapping_pauses_freeze_once_and_the_last_resume_thaws() -> None:
    programs = Programs()
    for verb in (programs.pause, programs.pause, programs.resume):
        verb("n1")
    assert programs.done == ["freeze n1"]
    programs.resume("n1")
    assert programs.done == ["freeze n1", "thaw n1"]


def test_a_resume_without_a_pause_does_nothing() -> None:
    programs = Programs()
    programs.resume("n1")
    programs.pause("n1")
    assert programs.done == ["freeze n1"], "it is not counted either"


def test_overlapping_kills_are_over_with_the_last_start() -> None:
    programs = Programs()
    programs.kill("n1")
    programs.kill("n1")
    programs.start("n1", wiped=False)
    assert programs.done == ["kill n1", "kill n1"]
    programs.start("n1", wiped=False)
    programs.start("n1", wiped=False)
    assert programs.done == ["kill n1", "kill n1", "start n1"]


def test_a_kill_for_good_is_undone_by_any_start() -> None:
    programs = Programs()
    programs.kill("n1", for_good=True)
    programs.kill("n1")
    programs.start("n1", wiped=False)
    assert programs.done[-1] == "start n1"


def test_data_that_one_of_two_faults_removes_is_lost_at_the_start_and_only_then() -> None:
    programs = Programs()
    programs.kill("n1")
    programs.kill("n1")
    programs.start("n1", wiped=True)
    programs.start("n1", wiped=False)
    assert programs.done[-1] == "start n1 without data"
    programs.kill("n1")
    programs.start("n1", wiped=False)
    assert programs.done[-1] == "start n1"


def test_a_program_that_starts_during_a_pause_is_paused() -> None:
    programs = Programs()
    programs.pause("n1")
    programs.kill("n1")
    programs.start("n1", wiped=False)
    assert programs.done == ["freeze n1", "kill n1", "start n1", "freeze n1"]


def test_every_paused_program_is_continued_at_the_end() -> None:
    programs = Programs()
    for host in ("n2", "n1", "n1", "n3"):
        programs.pause(host)
    programs.resume("n3")
    programs.done.clear()
    programs._thaw_all()
    assert programs.done == ["thaw n1", "thaw n2"]


class SlowServers(DirectCluster):
    def __init__(self) -> None:
        self._clients = {"c0": cast("LocalClient", None)}

    def _prepare(self, client: LocalClient) -> Future[Any]:
        return Future()


def test_a_lock_that_is_not_prepared_in_time_is_reported_with_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers_cluster, "PREPARED", 0.01)
    with pytest.raises(ClientError, match=r"^the lock could not be made ready: no answer within 40 s$"):
        SlowServers()._prepare_clients()


class NumberedProgram:
    """A client program that answers at once. ``on_ping`` is called when it gets its first request."""

    errors = ()

    def __init__(self, number: int, on_line: Callable[[bytes], None], on_ping: Callable[[], None]) -> None:
        self._number, self._on_line, self._on_ping = number, on_line, on_ping

    def send(self, line: bytes) -> None:
        request = json.loads(line)
        if request["op"] == "ping":
            self._on_ping()
        self._on_line(json.dumps({"id": request["id"], "ok": self._number}).encode())

    def close(self) -> None:
        pass


class NumberedClient(LocalClient):
    """Notes the group that is found while each program is being started."""

    def __init__(self) -> None:
        super().__init__("c0", Entries(), [], {})
        self.found: list[int] = []

    def _begin(self, on_line: Any, on_end: Any) -> Any:
        del on_end
        number = len(self.found) + 1
        return NumberedProgram(number, on_line, lambda: self.found.append(self.find_group()))


def test_the_group_of_a_client_that_is_being_started_is_not_that_of_its_last_program() -> None:
    """Otherwise a fault or a watch takes the id of a process that is dead, perhaps another's by now."""
    client = NumberedClient()
    client.start()
    assert client.find_group() == 1
    client.start()
    assert client.found == [1, 2]


class FailedClient(LocalClient):
    def __init__(self, failure: str | None) -> None:
        self.failure = failure


class Finished(RealCluster):
    """A cluster whose run is over."""

    def __init__(self, *failures: str | None) -> None:
        super().__init__()
        self._failures = failures

    @property
    def hosts(self) -> list[ClientHost]:
        return [FailedClient(failure) for failure in self._failures]


def test_a_client_program_that_failed_is_reported_after_the_run() -> None:
    Finished(None, None)._raise_failure()
    with pytest.raises(ClientError, match=r"^c1 failed$"):
        Finished(None, "c1 failed")._raise_failure()


def test_an_entry_that_could_not_be_recorded_is_reported_before_a_client() -> None:
    cluster = Finished("c0 failed")
    cluster._entries.error = OSError("disk full")
    with pytest.raises(OSError, match="disk full"):
        cluster._raise_failure()


class Unmovable:
    """A helper that cannot set clocks."""

    def move(self, host: str, offset_ns: int, rate: float, since_ns: int) -> None:
        raise Refused("no memory")

    def setting(self, host: str) -> int:
        return 0


class Restarted(Finished):
    """A cluster whose server n1 has restarted, with a fault of its clock that is active."""

    def __init__(self) -> None:
        super().__init__()
        self.dead = False
        self.servers = SimpleNamespace(answers=lambda host: True)
        self._wall_clocks = HostClocks(
            Unmovable(), lambda host: None, lambda *setting: False, lambda *what, **setting: contextlib.nullcontext()
        )
        with pytest.raises(Refused):
            self._wall_clocks.set("n1", 5.0, 0.0)

    def incarnation(self, host: str) -> int | None:
        return None if self.dead else 1

    def forget(self) -> None:
        self._wall_clocks.forget()


def docker_restart(cluster: Restarted) -> None:
    docker_processes.ProcessMethods._set_clock_again(cast("Any", cluster), "n1")


def ssh_restart(cluster: Restarted) -> None:
    ssh_processes.ProcessMethods._restore_clock(cast("Any", cluster), "n1")


@pytest.mark.parametrize("restart", [docker_restart, ssh_restart])
def test_a_clock_that_cannot_be_set_again_is_reported_after_the_run(restart: Callable[[Restarted], None]) -> None:
    cluster = Restarted()
    restart(cluster)
    with pytest.raises(ClusterError, match=r"^the wall clock of n1 could not be set again after its .*: no memory$"):
        cluster._raise_failure()


@pytest.mark.parametrize("restart", [docker_restart, ssh_restart])
def test_a_clock_of_a_run_that_is_over_is_no_failure(
    restart: Callable[[Restarted], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Restarted()

    def end_run(*setting: Any) -> None:
        cluster.forget()
        raise Refused("no such container")

    monkeypatch.setattr(Unmovable, "move", end_run)
    restart(cluster)
    cluster._raise_failure()


def test_a_clock_of_a_program_that_is_dead_again_is_no_failure() -> None:
    cluster = Restarted()
    cluster.dead = True
    ssh_restart(cluster)
    cluster._raise_failure()


class Deaf:
    """Servers that cannot act on the first line of a log."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def on_log_line(self, host: str, line: str) -> None:
        self.heard.append(line)
        if len(self.heard) == 1:
            raise Refused("no memory")


def test_a_line_of_a_server_that_cannot_be_acted_on_is_reported_after_the_run() -> None:
    cluster, servers = Finished(), Deaf()
    cluster.servers = servers  # type: ignore[attr-defined]
    for line in ("one", "two"):
        DockerCluster._hear_server(cast("Any", cluster), "s1", line)
    assert servers.heard == ["one", "two"]
    with pytest.raises(ClusterError, match=r"^a line of the log of s1 could not be acted on: no memory$"):
        cluster._raise_failure()


def test_lines_of_a_log_begin_with_the_seconds_since_its_origin() -> None:
    assert dated([(1_500_000_000, "ready"), (2_000_000_000, "")], 1_000_000_000) == (
        "     0.500 s  ready\n     1.000 s  \n"
    )
