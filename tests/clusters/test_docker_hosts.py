"""Hosts in containers: simultaneous faults on one host, and recording of client programs."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import pytest

from harness.clusters import real_cluster
from harness.clusters.client_host import ANSWER, ClientError, Entries, end_histories
from harness.clusters.conversation import Conversation, Unanswered
from harness.clusters.docker import cluster as docker_cluster
from harness.clusters.docker import hosts
from harness.clusters.docker.cluster import DockerCluster
from harness.clusters.docker.container_needs import Clients
from harness.clusters.docker.containers.engine import ContainerError
from harness.clusters.docker.containers.helper_client import Helper
from harness.clusters.docker.hosts import ContainerClient, ServerHost
from harness.clusters.docker.site import RESOURCE
from harness.clusters.programs import LocalProgram
from harness.clusters.real_cluster import RealCluster
from harness.errors import UNKNOWN

Step = Callable[[DockerCluster, str], None]


class FakeChannel:
    """A program that answers pings at once unless it is cut off or ``deaf``."""

    errors = ("Killed",)
    alive = True
    deaf = False

    def __init__(self, on_line: Callable[[bytes], None], on_end: Callable[[], None]) -> None:
        self.say, self.end = on_line, on_end

    def pid(self) -> int:
        return 1

    def send(self, line: bytes) -> None:
        if not self.alive:
            self.end()
            raise BrokenPipeError
        if b'"ping"' in line and not self.deaf:
            number = line.split(b'"id":')[1].split(b",")[0].rstrip(b"}")
            self.say(b'{"id": %s, "ok": null}' % number)

    def close(self) -> None:
        self.end()


class FakeBox:
    ip = ""

    def start(self, command: Any, on_line: Any, *, on_end: Any = lambda: None, environment: Any = None) -> FakeChannel:
        del command, environment
        self.channel = FakeChannel(on_line, on_end)
        return self.channel


def client(entries: Entries, name: str = "c0") -> tuple[ContainerClient, FakeBox]:
    box = FakeBox()
    made = ContainerClient(name, box, entries, {})  # type: ignore[arg-type]
    made.start(lambda box, pids: None)
    return made, box


def test_only_a_client_program_that_ends_by_itself_is_a_failure() -> None:
    one, box = client(Entries())
    join = one.launch({}, lambda **entry: None)
    box.channel.end()
    assert join(1)
    assert one.failure is not None
    assert "the client program on c0 failed: the program has ended; it said: Killed" in one.failure
    two, box = client(Entries())
    join = two.launch({}, lambda **entry: None)
    two.expect_kill()
    old = box.channel
    two.start(lambda box, pids: None)
    old.end()
    assert join(1)
    assert two.failure is None


def test_a_line_that_is_no_json_object_is_a_failure_and_later_lines_are_read() -> None:
    one, box = client(Entries())
    one.launch({}, lambda **entry: None)
    for line in (b"debug: connected", b"[1]", b'{"id": "\xff"}', b"x" * 1000):
        one.failure = None
        box.channel.say(line)
        assert one.failure is not None
        assert one.failure.startswith("the client program on c0 failed: expected JSON objects on its standard output")
        assert line[:100].decode(errors="replace") in one.failure
        assert len(one.failure) < 400
    assert one.conversation.ask("ping", patience=60) is None
    assert one.alive


def test_half_a_line_of_a_program_that_a_fault_has_killed_is_no_failure() -> None:
    one, box = client(Entries())
    one.expect_kill()
    box.channel.say(b'{"entry": {"ti')
    assert one.failure is None


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_the_end_of_a_program_is_noticed_after_an_error_in_the_reader_of_its_output() -> None:
    def fail(line: bytes) -> None:
        raise ValueError(line)

    ended = threading.Event()
    program = LocalProgram([sys.executable, "-c", "print('x')"], fail, ended.set)
    assert ended.wait(60)
    program.close()


def test_an_event_of_a_dead_program_does_not_resume_the_next_one() -> None:
    entries = Entries()
    one, box = client(entries)
    one.launch({}, lambda **entry: None)
    old = box.channel
    one.start(lambda box, pids: None)
    sent: list[bytes] = []
    box.channel.send = sent.append  # type: ignore[method-assign,assignment]
    old.say(b'{"entry": {"time": 1}, "waits": true}')
    take = entries.get()
    assert take is not None
    take()
    assert sent == []


def test_all_client_histories_end_at_the_same_moment() -> None:
    entries = Entries()
    one, box = client(entries)
    heard: list[int] = []
    one.launch({}, lambda **entry: heard.append(entry["time"]))
    before = time.monotonic_ns()

    def thaw() -> None:
        box.channel.say(b'{"entry": {"time": %d}}' % before)
        box.channel.say(b'{"entry": {"time": %d}}' % time.monotonic_ns())

    assert end_histories([one], thaw, 1.0) == []
    for _ in range(2):
        take = entries.get()
        assert take is not None
        take()
    assert heard == [before]


class EndedCluster(RealCluster):
    """A cluster whose run is over."""

    def __init__(self, *clients: ContainerClient) -> None:
        super().__init__()
        self._clients = clients

    @property
    def hosts(self) -> tuple[ContainerClient, ...]:
        return self._clients


def test_a_starved_client_is_awaited_at_the_end() -> None:
    """Its release would be missing, while the next client's acquire is there."""
    one, box = client(Entries())
    answer, box.channel.send = box.channel.send, lambda line: later.start()  # type: ignore[method-assign]
    later = threading.Timer(2 * ANSWER, lambda: answer(b'{"op":"ping","id":2}'))
    cluster = EndedCluster(one)
    cluster._end_histories(lambda: None)
    assert cluster.unheard() == []
    assert later.finished.is_set()


def test_only_a_living_client_that_does_not_answer_is_unheard(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is missing of one that was killed, or that has only been started."""
    monkeypatch.setattr(real_cluster, "REVIVAL", 0.05)
    (heard, box), (deaf, _), (killed, killed_box) = (client(Entries(), name) for name in ("c0", "c1", "c2"))
    box.channel.deaf = False
    monkeypatch.setattr(FakeChannel, "deaf", True)
    new, _ = client(Entries(), "c3")
    cluster = EndedCluster(heard, deaf, killed, new)
    cluster._end_histories(killed_box.channel.end)
    assert cluster.unheard() == ["c1"]


def test_a_request_to_a_program_that_ends_is_unanswered() -> None:
    channel: list[FakeChannel] = []

    def begin(on_line: Any, on_end: Any) -> Any:
        channel.append(FakeChannel(on_line, on_end))
        return channel[0]

    conversation = Conversation(begin, lambda event: None)
    channel[0].alive = False
    future: Future[Any] = conversation.request("run")
    assert isinstance(future.exception(1), Unanswered)


class SlowPrograms(DockerCluster):
    """A cluster whose client and resource do not start in time."""

    def __init__(self) -> None:
        one, box = client(Entries())
        box.channel.deaf = True
        self._names = ["c0"]
        self._hosts = {"c0": one}
        self._boxes = {RESOURCE: FakeBox()}  # type: ignore[dict-item]
        self._resource_config = ""
        self._closing = ExitStack()

    def _prepare(self, client: ContainerClient) -> Future[Any] | None:
        """Have no lock to open."""


def test_a_client_that_does_not_start_in_time_is_an_error_with_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docker_cluster, "PREPARED", 0.01)
    with pytest.raises(ClientError, match=r"no answer to 'ping' within 0\.01 s; it said: Killed") as caught:
        SlowPrograms()._prepare_clients()
    assert caught.value.exit_status == UNKNOWN


def test_a_resource_that_does_not_start_in_time_is_an_error_with_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docker_cluster, "PREPARED", 0.01)
    with pytest.raises(ContainerError, match="the resource does not start: Killed") as caught:
        SlowPrograms()._start_resource()
    assert caught.value.exit_status == UNKNOWN


def test_a_server_without_a_standby_is_an_error_with_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts, "REVIVAL", 0.01)
    server = ServerHost("n1", "server", FakeBox(), ([], {}))  # type: ignore[arg-type]
    with pytest.raises(ContainerError, match="nothing stands by on n1"):
        server.start("kept", lambda box, pids: None)


def test_a_kill_through_a_helper_that_has_ended_is_an_error_with_one_message() -> None:
    box, resumed = FakeBox(), list[str]()
    helper = Helper(SimpleNamespace(box=lambda *_, **__: box), "image")  # type: ignore[arg-type]
    box.channel.end()
    with pytest.raises(ContainerError, match=r"the helper container does not work: .*the program has ended"):
        helper.kill(SimpleNamespace(pid=1), lambda: resumed.append("c0"))  # type: ignore[arg-type]
    assert resumed == ["c0"], "a paused process dies only when it is resumed"


@pytest.fixture(scope="module")
def cluster() -> Iterator[DockerCluster]:
    cluster = DockerCluster(
        kind="redis-single",
        nodes=0,
        clients=Clients(1),
        seed=0,
        resource='{"fencing": "off", "stock": {}}',
        options={},
        needs=frozenset(),
    )
    try:
        cluster.start_all()
        yield cluster
    finally:
        cluster.stop_all()


def pause(cluster: DockerCluster, host: str) -> None:
    cluster.pause(host)


def resume(cluster: DockerCluster, host: str) -> None:
    cluster.resume(host)


def kill(cluster: DockerCluster, host: str) -> None:
    cluster.kill(host)


def start(cluster: DockerCluster, host: str) -> None:
    cluster.start(host, wiped=False)


@pytest.mark.docker
@pytest.mark.parametrize("host", ["n1", "c0"])
@pytest.mark.parametrize(
    "steps",
    [(kill, pause, start), (pause, kill, start), (kill, start, pause, kill, start), (kill, start, pause)],
    ids=lambda steps: "-".join(step.__name__ for step in steps),
)
def test_a_host_that_is_killed_and_paused_comes_back(
    cluster: DockerCluster, host: str, steps: tuple[Step, ...]
) -> None:
    """The engine waits for ever for a program that it is starting while the container is frozen."""
    began = time.monotonic()
    for step in steps:
        step(cluster, host)
    assert cluster.state(host) == "paused"
    resume(cluster, host)
    deadline = time.monotonic() + 60
    while cluster.state(host) != "running":
        assert time.monotonic() < deadline
    assert time.monotonic() - began < 120
