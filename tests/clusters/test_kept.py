"""Reused containers: the next run is unaffected by the damage of the one before."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from harness.clusters.abilities import ABILITIES, DISKS, FAILOVER, MEMORY, PEERS
from harness.clusters.abilities.network import LinkShape
from harness.clusters.base import names
from harness.clusters.docker.cluster import DockerCluster
from harness.clusters.docker.container_needs import Clients
from harness.clusters.docker.containers.toxiproxy import STREAM
from harness.clusters.docker.images.requirements import requirements_of
from harness.clusters.docker.wire import WireRecorder
from harness.clusters.host_clocks import HostClocks
from harness.errors import HarnessError
from harness.lock_impls import catalogue
from harness.plan import Plan
from harness.run.containers.cluster_pool import ClusterPool
from harness.run.processes.signals import FORCED_EXIT_INTERRUPTS, sigterm_interrupts
from harness.worker.client_program import ClientJob

LOCKS = {
    "redis-single": "redis-token",
    "redis-independent": "redlock",
    "redis-sentinel": "redis-token",
    "redis-cluster": "redis-token",
    "mysql-single": "mysql-ttl",
    "mysql-replicated": "mysql-ttl",
    "mysql-galera": "mysql-ttl",
    "memcached": "memcached-token",
    "postgres": "postgres-advisory",
    "postgres-pgbouncer": "postgres-advisory-xact",
    "postgres-replicated": "postgres-unique",
    "zookeeper": "zookeeper-sequential",
    "etcd": "etcd-mutex",
    "consul": "consul-session",
    "nats": "nats-kv",
    "kubernetes": "client-go-leader",
    "hazelcast": "hazelcast-fenced",
    "chubby": "chubby",
}
KINDS = [pytest.param(kind, marks=pytest.mark.docker if kind == "redis-single" else pytest.mark.long) for kind in LOCKS]
MANAGED = ("mysql-replicated", "postgres-replicated")
"""Kinds whose sentinel is a failover manager, which has no clock to ask for."""
LATENCY = 0.3
TRUE_NS = 50_000_000
AHEAD = 100.0


@pytest.fixture
def kept() -> Iterator[ClusterPool]:
    with ClusterPool() as kept:
        yield kept


def open_cluster(kept: ClusterPool, kind: str, *, clients: int = 2, damaged: bool = True) -> DockerCluster:
    """Return a cluster that supports all faults, or one without the expensive abilities."""
    requirements, source = requirements_of(LOCKS[kind])
    return DockerCluster(
        kind=kind,
        nodes=0,
        clients=Clients(clients, requirements, source, catalogue.description(LOCKS[kind]).runtime),
        seed=0,
        resource='{"fencing": "off", "stock": {}}',
        options={},
        needs=frozenset(ABILITIES) if damaged else frozenset({DISKS}),
        sites=kept,
    )


def acquires(cluster: DockerCluster, seconds: float = 20.0) -> None:
    """Start all clients and wait until one of them acquires the lock."""
    got: list[str] = []

    def record(**entry: Any) -> None:
        if (entry["type_"], entry["f"]) == ("ok", "acquire"):
            got.append(entry["node"])

    plan = Plan(lock=LOCKS[cluster.kind], kind=cluster.kind, cluster="docker", ttl=5.0, hold=0.1, time_limit=1000.0)
    for client in names(cluster.hosts, "client"):
        began = time.monotonic_ns()
        cluster.launch(client, ClientJob.on(cluster, plan, client, began), record)
    deadline = time.monotonic() + seconds
    while not got:
        assert time.monotonic() < deadline, "nobody gets the lock"
        time.sleep(0.02)


def strike(cluster: DockerCluster) -> None:
    """Inject every fault of links, clocks and memory, and heal none."""
    first, *others = names(cluster.hosts, "server")
    one, two = names(cluster.hosts, "client")
    both = [(one, first), (first, one)]
    if MEMORY.find(cluster):
        assert MEMORY.of(cluster).flood(first)["entries"]
        assert MEMORY.of(cluster).flooded(first)
    for host in cluster.hosts:
        cluster.set_clock(host.name, AHEAD, 0.01)
        if host.role != "sentinel" or cluster.kind not in MANAGED:
            assert cluster.read_clock(host.name) > AHEAD * 0.9e9
    cluster.trap_message(one, first, b"nobody says this", None)
    cluster.shape(both, LinkShape(LATENCY, 0.0, 0.0, 1000.0))
    cluster.shape([(first, two)], LinkShape(loss=0.99))
    if PEERS.find(cluster):
        cluster.shape([(others[0], first)], LinkShape(LATENCY, 0.0, 0.0, None))
        reached = cluster.reaches(first, others[0], 2.0)
        assert reached is None or reached > LATENCY * 0.9
    cluster.black_hole(two, first)
    cluster.cut(both)
    assert cluster.reaches(one, first, 0.3) is None
    assert cluster.reaches(two, first, 0.3) is None


def leave_without_power(cluster: DockerCluster) -> None:
    """Leave dead servers, one server without its disk, and one that just restarted without its data and with a moved
    clock."""
    strike(cluster)
    first, *others = names(cluster.hosts, "server")
    one, two = names(cluster.hosts, "client")
    for host in others[1:] or others:
        cluster.kill(host)
        cluster.start(host, wiped=True)
    cluster.pause(one)
    cluster.kill(one)
    cluster.hang(two)
    if DISKS.find(cluster):
        DISKS.of(cluster).lose_power(first)
        assert DISKS.of(cluster).disk(first) == "fails"
    else:
        cluster.kill(first)
    assert cluster.incarnation(first) is None


def leave_frozen(cluster: DockerCluster) -> None:
    """Leave a server that just restarted and whose disk is stalled, paused hosts, and files of clients."""
    strike(cluster)
    first = names(cluster.hosts, "server")[0]
    one, _ = names(cluster.hosts, "client")
    cluster._boxes[one].output(["sh", "-c", "echo left >/root/left; echo left >/dev/shm/left"])
    cluster.kill(first)
    cluster.start(first, wiped=False)
    if DISKS.find(cluster):
        DISKS.of(cluster).stall(first)
    for host in cluster.hosts:
        cluster.pause(host.name)


def processes(cluster: DockerCluster, host: str) -> int:
    """Return how many processes a host has beside those of sessions: a PostgreSQL has one for each, and its manager
    opens sessions all the time."""

    def count() -> int:
        time.sleep(0.03)
        return len(cluster._helper.members(cluster._boxes[host]))

    return min(count() for _ in range(5))


def server_state(cluster: DockerCluster) -> dict[str, Any]:
    """Return the state of the servers at the start of a run."""
    servers, clients = names(cluster.hosts, "server"), names(cluster.hosts, "client")
    everybody = [host.name for host in cluster.hosts]
    links = [(a, b) for a in everybody for b in everybody if a < b]
    api = cluster._engine.api
    changed = {name: {each["Path"] for each in api.diff(cluster._boxes[name].id) or ()} for name in servers}
    return {
        "about": cluster.about(),
        "hosts": [(host.name, host.role) for host in cluster.hosts],
        "states": {name: cluster.state(name) for name in everybody},
        "processes": {name: processes(cluster, name) for name in everybody},
        "true": {name: abs(cluster.read_clock(name)) < TRUE_NS for name in everybody},
        "sizes": {name: cluster.key_count(name) for name in servers},
        "flooded": [MEMORY.of(cluster).flooded(name) for name in servers] if MEMORY.find(cluster) else [],
        "far": [link for link in links if (cluster.reaches(*link, LATENCY) or 1.0) > LATENCY / 2],
        "disks": [DISKS.of(cluster).disk(name) for name in servers] if DISKS.find(cluster) else [],
        "toxics": {
            (client, name): {kind: (about.get("traps") or {}) for kind, about in proxy.toxics(name).items()}
            for client, proxy in cluster._link_faults._proxies.items()
            for name in servers
        },
        "primary": failover.primary() if (failover := FAILOVER.find(cluster)) else None,
        "files": {name: {path for path in paths if "hsperfdata" not in path} for name, paths in changed.items()},
        "clients": clients,
    }


@pytest.mark.timeout(400)
@pytest.mark.parametrize("kind", KINDS)
def test_no_state_of_a_run_reaches_the_next(kept: ClusterPool, kind: str) -> None:
    seen: list[dict[str, Any]] = []
    boxes: list[dict[str, str]] = []
    logs: list[dict[str, str]] = []

    def run_once(spoil: Callable[[DockerCluster], None]) -> dict[str, Any]:
        cluster = open_cluster(kept, kind)
        began = time.monotonic_ns()

        def main() -> None:
            seen.append(server_state(cluster))
            boxes.append({name: box.id for name, box in cluster._boxes.items()})
            acquires(cluster)
            spoil(cluster)

        cluster.run(main)
        logs.append(cluster.logs(began))
        return cluster.about()

    for spoil in (leave_without_power, leave_frozen, lambda cluster: None):
        assert "started_again" not in run_once(spoil)
        assert not kept.failures
    assert seen[0]["far"] == []
    assert all(seen[0]["true"].values())
    assert all(set(toxics) == {f"snare_{way}" for way in STREAM} for toxics in seen[0]["toxics"].values())
    assert seen[1] == seen[0]
    assert seen[2] == seen[0]
    assert boxes[1] == boxes[0], "they are kept"
    assert boxes[2] == {**boxes[0], "c0": boxes[2]["c0"]}
    assert boxes[2]["c0"] != boxes[0]["c0"], "files had been left there"
    for log in logs:
        assert not any(line.lstrip().startswith("-") for text in log.values() for line in text.splitlines())


@pytest.mark.docker
def test_changed_or_used_up_client_containers_are_replaced(kept: ClusterPool) -> None:
    boxes: list[dict[str, str]] = []

    def run_once(cluster: DockerCluster, spoil: Callable[[], None] = lambda: None) -> None:
        def main() -> None:
            boxes.append({name: box.id for name, box in cluster._boxes.items()})
            spoil()

        cluster.run(main)

    run_once(open_cluster(kept, "redis-single", clients=1, damaged=False))
    cluster = open_cluster(kept, "redis-single", clients=2, damaged=False)
    run_once(cluster)
    assert boxes[1]["n1"] == boxes[0]["n1"]
    assert boxes[1]["c0"] == boxes[0]["c0"]
    cluster.deployment.drop("n1")  # nobody notices before the next run needs it
    cluster = open_cluster(kept, "redis-single", clients=1, damaged=False)
    run_once(cluster)
    assert "would not do" in cluster.about()["started_again"]
    assert not set(boxes[2].values()) & set(boxes[1].values())
    gone = cluster.deployment.drop
    run_once(open_cluster(kept, "redis-single", clients=1, damaged=False), lambda: gone("resource"))
    assert len(kept.failures) == 1, "it could not be made ready"
    with pytest.raises(ZeroDivisionError):
        run_once(open_cluster(kept, "redis-single", clients=1, damaged=False), lambda: print(1 / 0))
    run_once(open_cluster(kept, "redis-single", clients=1, damaged=False))
    assert len({run["n1"] for run in boxes[3:]}) == 3, "a new one after each"
    assert "started_again" not in open_cluster(kept, "redis-single", clients=1).about()


class FakeSite:
    """Fake of the containers of a run. ``left`` lists what happened to them."""

    def __init__(self, engine: Any, wanted: Any) -> None:
        self.wanted, self.left = wanted, ""

    def fits(self, wanted: Any) -> bool:
        return bool(wanted == self.wanted)

    def reset(self) -> None:
        if self.wanted == "stubborn":
            raise RuntimeError("a server does not die")
        self.left += "vacated "

    def close(self) -> None:
        self.left += "closed"


class TestContainerReuse:
    @pytest.fixture(autouse=True)
    def _no_containers(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("harness.clusters.docker.site.Site", FakeSite)

    def take(self, kept: ClusterPool, wanted: str) -> Any:
        return kept.take(None, wanted)  # type: ignore[arg-type]

    def test_containers_of_a_sound_run_are_reused_until_the_end(self) -> None:
        with ClusterPool() as kept:
            site = self.take(kept, "redis")
            kept.give_back(site, sound=True)
            assert self.take(kept, "redis") is site
            kept.give_back(site, sound=True)
        assert site.left == "vacated vacated closed"

    def test_containers_of_another_kind_are_removed(self) -> None:
        with ClusterPool() as kept:
            site = self.take(kept, "redis")
            kept.give_back(site, sound=True)
            assert self.take(kept, "etcd") is not site
            assert site.left == "vacated closed"

    def test_containers_of_a_failed_run_are_removed(self) -> None:
        with ClusterPool() as kept:
            site = self.take(kept, "redis")
            kept.give_back(site, sound=False)
            assert site.left == "closed"
            assert self.take(kept, "redis") is not site

    def test_containers_that_were_never_given_back_are_removed(self) -> None:
        with ClusterPool() as kept:
            site = self.take(kept, "redis")
            assert self.take(kept, "redis") is not site
            assert site.left == "closed"

    def test_containers_that_cannot_be_reset_are_removed_and_reported(self) -> None:
        with ClusterPool() as kept:
            site = self.take(kept, "stubborn")
            kept.give_back(site, sound=True)
            assert site.left == "closed"
        assert kept.failures == ["RuntimeError: a server does not die"]

    def test_an_interrupt_removes_them(self) -> None:
        sites: list[Any] = []

        def interrupted() -> None:
            with ClusterPool() as kept:
                sites.append(self.take(kept, "redis"))
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            interrupted()
        assert sites[0].left == "closed"

    @pytest.mark.parametrize("signals", [1, FORCED_EXIT_INTERRUPTS - 1, FORCED_EXIT_INTERRUPTS])
    def test_only_a_third_interrupt_cuts_their_removal_short(
        self, signals: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        removed: list[str] = []

        def close(self: FakeSite) -> None:
            for _ in range(signals):
                signal.raise_signal(signal.SIGINT)
            removed.append(self.wanted)

        monkeypatch.setattr(FakeSite, "close", close)
        with pytest.raises(KeyboardInterrupt), ClusterPool() as kept:
            self.take(kept, "redis")
        assert removed == ([] if signals == FORCED_EXIT_INTERRUPTS else ["redis"])

    def test_an_interrupt_during_the_removal_of_other_containers_ends_the_command(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(FakeSite, "close", lambda _: signal.raise_signal(signal.SIGTERM))
        with sigterm_interrupts(), ClusterPool() as kept:
            self.take(kept, "redis")
            with pytest.raises(KeyboardInterrupt):
                self.take(kept, "etcd")


def test_a_clock_is_not_set_again_when_the_run_is_over() -> None:
    """A fault that waits for a server to restart might otherwise set the clock of the next run's server."""
    moved: list[str] = []

    def own(host: str, offset_ns: int, rate: float, since_ns: int) -> bool:
        moved.append(host)
        return True

    clocks = HostClocks(None, lambda host: None, own, WireRecorder().noting)  # type: ignore[arg-type]
    clocks.set("n1", AHEAD, 0.0)
    clocks.set_again("n1")
    assert moved == ["n1", "n1"]
    clocks.forget()
    clocks.set_again("n1")
    assert moved == ["n1", "n1"]


def no_entries(*_: Any, **__: Any) -> list[Any]:
    return []


@pytest.mark.long
@pytest.mark.parametrize(
    ("where", "what"),
    [
        ("harness.clusters.docker.site", "remove_packet_rules"),
        ("harness.clusters.docker.site", "forget"),
        ("harness.clusters.docker.site.Site", "_changed"),
        ("harness.clusters.docker.containers.helper_client.Helper", "empty"),
    ],
)
def test_each_step_of_the_reset_is_needed(
    kept: ClusterPool, monkeypatch: pytest.MonkeyPatch, where: str, what: str
) -> None:
    """Control: without the step, the next run finds remains, or its start fails."""
    monkeypatch.setattr(f"{where}.{what}", no_entries)
    with pytest.raises((AssertionError, HarnessError)):
        test_no_state_of_a_run_reaches_the_next(kept, "redis-single")
