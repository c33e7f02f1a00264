"""Effects of the proxy of docker/toxiproxy on connections to a Redis server, on loopback without containers."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import redis

from harness.clusters.docker.containers import toxiproxy
from harness.clusters.docker.containers.toxiproxy import ClientLinks, ProxiedLink, SidecarError
from harness.fidelity.processes import free_ports

pytestmark = pytest.mark.docker
SOURCE = Path(__file__).parents[2] / "docker" / "toxiproxy"


def stop(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def wait(condition: Callable[[], object], seconds: float = 60.0) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


@pytest.fixture(scope="module")
def binary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not shutil.which("go") or not shutil.which("redis-server"):
        pytest.skip("needs go and redis-server")
    path = tmp_path_factory.mktemp("toxiproxy") / "toxiproxy"
    subprocess.run(["go", "build", "-o", path, "."], cwd=SOURCE, check=True, env={**os.environ, "CGO_ENABLED": "0"})
    return path


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Port of a redis-server."""
    number = free_ports(1)[0]
    command = ["redis-server", "--port", str(number), "--save", "", "--dir", str(tmp_path_factory.mktemp("redis"))]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    assert wait(lambda: socket.socket().connect_ex(("127.0.0.1", number)) == 0)
    yield number
    stop(process)


Start = Callable[[], ClientLinks]


@pytest.fixture
def sidecar(binary: Path, port: int) -> Iterator[Start]:
    """Start a proxy with two links, s1 and s2, to the same server."""
    with ExitStack() as stack:

        def start() -> ClientLinks:
            api = free_ports(1)[0]
            stack.callback(stop, subprocess.Popen([binary, "-port", str(api)]))
            links = ClientLinks(
                ("127.0.0.1", api),
                [ProxiedLink(name, "127.0.0.1", port, free_ports(1)[0]) for name in ("s1", "s2")],
            )
            links.start()
            return links

        yield start


@pytest.fixture
def links(sidecar: Start) -> ClientLinks:
    return sidecar()


@pytest.fixture
def direct(port: int) -> redis.Redis:
    client = redis.Redis(port=port, decode_responses=True)
    client.flushall()
    return client


def through(links: ClientLinks, server: str = "s1", timeout: float = 1.5) -> redis.Redis:
    """Return a client with one open connection that never retries."""
    port = links.links[server].listen
    retry = redis.retry.Retry(redis.backoff.NoBackoff(), 0)
    client = redis.Redis(
        port=port, socket_timeout=timeout, retry=retry, single_connection_client=True, decode_responses=True
    )
    client.ping()
    return client


def took(call: Callable[[], object]) -> float:
    started = time.monotonic()
    call()
    return time.monotonic() - started


def test_shapes_add_up_and_go_away(links: ClientLinks, direct: redis.Redis) -> None:
    client, other = through(links, timeout=60), through(links, "s2", timeout=60)
    undo = [links.shape("s1", "request", 1.0, 0.0, None), links.shape("s1", "reply", 0.5, 0.0, None)]
    undo.append(links.shape("s1", "request", 1.0, 0.0, None))
    assert took(client.ping) >= 2.5
    assert took(other.ping) < 0.5
    undo[0]()
    undo[0]()
    assert 1.5 <= took(client.ping) < 2.5
    for call in undo:
        call()
    assert took(client.ping) < 0.5
    assert set(links.toxics("s1")) == {"snare_request", "snare_reply"}


def test_jitter_only_makes_later(links: ClientLinks) -> None:
    client = through(links, timeout=60)
    links.shape("s1", "reply", 0.02, 0.06, None)
    times = [took(client.ping) for _ in range(25)]
    assert min(times) >= 0.02
    assert max(times) - min(times) > 0.02


def test_rate(links: ClientLinks, direct: redis.Redis) -> None:
    direct.set("big", "x" * 10_000)
    client = through(links, timeout=60)
    undo = links.shape("s1", "reply", 0.0, 0.0, 20_000)
    assert took(lambda: client.get("big")) >= 0.4
    undo()
    assert took(lambda: client.get("big")) < 0.4


def test_reset(links: ClientLinks) -> None:
    clients = [through(links, server) for server in ("s1", "s1", "s2")]
    links.reset(["s1"])
    for client in clients[:2]:
        with pytest.raises(redis.ConnectionError):
            client.ping()
        assert client.ping()
    assert clients[2].ping()
    links.reset()
    with pytest.raises(redis.ConnectionError):
        clients[2].ping()
    assert clients[2].ping()


def test_black_hole(links: ClientLinks, direct: redis.Redis) -> None:
    client = through(links)
    undo = links.black_hole("s1")
    with pytest.raises(redis.TimeoutError):
        client.set("k", "v")
    with pytest.raises(redis.TimeoutError):
        through(links)
    assert direct.get("k") is None
    assert through(links, "s2").ping()
    undo()
    undo()
    assert through(links).ping()


def test_a_lost_reply_was_executed(links: ClientLinks, direct: redis.Redis) -> None:
    client = through(links)
    trap = links.trap_message("s1", "reply", b"", None)
    assert not trap.used
    with pytest.raises(redis.TimeoutError):
        client.set("k", "v")
    assert trap.used
    assert direct.get("k") == "v"
    assert client.get("k") == "v"
    trap.cancel()
    assert trap.used


def test_a_lost_request_was_not_and_only_what_has_the_needle_is_lost(links: ClientLinks, direct: redis.Redis) -> None:
    client, other = through(links), through(links)
    trap = links.trap_message("s1", "request", b"SET", None)
    assert client.get("k") is None
    assert not trap.used
    with pytest.raises(redis.TimeoutError):
        client.set("k", "v")
    assert trap.used
    assert direct.get("k") is None
    assert other.set("k", "other")


def test_a_request_held_back_is_executed_although_its_client_is_gone(links: ClientLinks, direct: redis.Redis) -> None:
    client = through(links, timeout=0.5)
    before = links.shape("s1", "request", 0.001, 0.0, None)
    trap = links.trap_message("s1", "request", b"SET", 3.0)
    started = time.monotonic()
    with pytest.raises(redis.TimeoutError):
        client.set("k", "late")
    client.close()
    assert trap.used
    trap.cancel()
    # What comes and goes meanwhile does not let it go early, nor lose it.
    before()
    links.shape("s1", "request", 0.001, 0.0, None)()
    assert through(links).set("other", "v")
    assert direct.get("k") is None
    assert wait(lambda: direct.get("k") == "late")
    assert time.monotonic() - started >= 3.0


def test_a_reply_held_back_delays_only_its_connection(links: ClientLinks) -> None:
    client, other = through(links, timeout=60), through(links, timeout=60)
    links.trap_message("s1", "reply", b"PONG", 3.0)
    slow: list[float] = []
    thread = threading.Thread(target=lambda: slow.append(took(client.ping)))
    thread.start()
    time.sleep(0.1)
    assert took(other.ping) < 2.0
    thread.join()
    assert slow[0] >= 3.0


def test_a_cancelled_trap_catches_nothing_and_several_traps_coexist(links: ClientLinks) -> None:
    client = through(links)
    cancelled, get, ping = (links.trap_message("s1", "request", needle, None) for needle in (b"SET", b"GET", b"PING"))
    cancelled.cancel()
    cancelled.cancel()
    assert client.set("k", "v")
    assert not cancelled.used
    with pytest.raises(redis.TimeoutError):
        client.ping()
    assert (get.used, ping.used) == (False, True)


def test_two_proxies_at_once(sidecar: Start) -> None:
    both = [sidecar(), sidecar()]
    clients = [through(links, timeout=60) for links in both]

    def shape_often(links: ClientLinks, latency: float) -> None:
        for _ in range(20):
            links.shape("s1", "reply", latency, 0.0, None)()
        links.shape("s1", "reply", latency, 0.0, None)

    threads = [threading.Thread(target=shape_often, args=pair) for pair in zip(both, (0.1, 3.0), strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [list(links.toxics("s1")).count("latency21") for links in both] == [1, 1]
    assert 0.1 <= took(clients[0].ping) < 3.0
    assert took(clients[1].ping) >= 3.0


def test_damage_is_applied_again_to_a_restarted_proxy(binary: Path, port: int) -> None:
    api = free_ports(1)[0]
    links = ClientLinks(("127.0.0.1", api), [ProxiedLink("s1", "127.0.0.1", port, free_ports(1)[0])])
    first = subprocess.Popen([binary, "-port", str(api)])
    links.start()
    undo = links.shape("s1", "reply", 0.5, 0.0, None)
    trap = links.trap_message("s1", "request", b"DEL", None)  # "SET" is in a new connection's CLIENT SETINFO
    stop(first)
    with pytest.raises(SidecarError, match="Toxiproxy"):
        trap.used  # noqa: B018
    second = subprocess.Popen([binary, "-port", str(api)])
    try:
        links.start()
        links.start()
        client = through(links)
        assert took(client.ping) >= 0.5
        with pytest.raises(redis.TimeoutError):
            client.delete("k")
        assert trap.used
        undo()
        assert took(through(links).ping) < 0.5
    finally:
        stop(second)


def test_a_proxy_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toxiproxy, "PATIENCE", 0.2)
    with pytest.raises(SidecarError, match=r"within 0\.2 s"):
        ClientLinks(("127.0.0.1", free_ports(1)[0]), []).start()


def test_a_port_that_is_taken(sidecar: Start, port: int, links: ClientLinks) -> None:
    again = ClientLinks(links._api, [ProxiedLink("s3", "127.0.0.1", port, port)])
    with pytest.raises(SidecarError, match=str(port)):
        again.start()


def test_redirects() -> None:
    links = ClientLinks(
        ("10.0.0.9", 8474),
        [ProxiedLink("s1", "10.0.0.2", 6379, 20001), ProxiedLink("s2", "10.0.0.3", 6379, 20002)],
    )
    script = links.redirects()
    assert "meta skuid != 65533 ip daddr 10.0.0.3 tcp dport 6379 redirect to :20002" in script
    assert script.startswith(f"add table ip {toxiproxy.TABLE}\ndelete table ip {toxiproxy.TABLE}\n")
