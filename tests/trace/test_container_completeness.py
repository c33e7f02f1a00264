"""The trace of a run on containers has as many commands as its servers counted, besides those of the harness.

The servers' counters do not tell who sent a command. So the packets of all connections are decoded: those of clients,
which the trace has, and those of the harness, which watches keys and waits for the servers' start.
"""

from __future__ import annotations

import re
import socket
import time
import urllib.request
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from harness.clusters.docker.cluster import DockerCluster
from harness.clusters.docker.services import postgres
from harness.clusters.kinds import KINDS
from harness.clusters.wire import WireRecording, unpack
from harness.documents import MessageTrace
from harness.plan import Plan
from harness.protocols.messages import Request
from harness.run.opening import open_containers
from harness.run.runs import run
from harness.run.store import WIRE
from harness.trace.decoding import Exchange, decode
from harness.trace.reading import load_trace
from harness.trace.recordings import recorded_messages
from harness.trace.streams import read_streams
from harness.trace.texts import texts_of

pytestmark = pytest.mark.docker
Counts = Counter[str]


class Run(NamedTuple):
    """A finished run: what its servers counted, its trace, and what all connections to its servers carried."""

    counted: Counts
    trace: MessageTrace
    recordings: list[WireRecording]
    everyone: list[Exchange]
    """In the order of their arrival, up to the moment at which the servers counted."""

    @property
    def requests(self) -> list[Request]:
        return [one.request for one in self.everyone if one.request is not None]

    def names(self) -> Counts:
        """The commands of all connections."""
        texts = texts_of(KINDS.find(self.trace.kind).service)
        return Counter(texts.name(one) for one in self.requests)

    def traced(self) -> Counts:
        return Counter(one.name for one in self.trace.messages if one.arrived is not None)


def run_counted(plan: Plan, store: Path, count: Callable[[DockerCluster], Counts]) -> Run:
    """Run a plan on containers; ``count`` asks the servers when the clients have ended."""
    counted = Counts()
    ended: list[int] = []

    def opened(plan: Plan, report: Callable[[str], None]) -> Any:
        cluster: Any = open_containers(plan, report)
        simulate = cluster.run

        def run_and_count(main: Callable[[], None]) -> None:
            def both() -> None:
                main()
                cluster._key_watch.stop()
                counted.update(count(cluster))
                ended.append(time.monotonic_ns())

            simulate(both)

        cluster.run = run_and_count
        return cluster

    result = run(plan, store=store, trace="on", record_wire=True, open_cluster=opened)
    assert result.folder is not None
    trace = load_trace(result.folder)
    assert trace is not None
    assert trace.undecoded == ()
    files = sorted((result.folder / WIRE).iterdir())
    recordings = [unpack(file.read_bytes(), file.name) for file in files]
    assert [one.lost for one in recordings] == [0] * len(recordings)
    assert counted
    everyone = [one for one in all_exchanges(recordings, KINDS.find(result.plan.kind).service) if one.since <= ended[0]]
    return Run(counted, trace, recordings, everyone)


def all_exchanges(recordings: list[WireRecording], service: str) -> list[Exchange]:
    peers = {event.peer.rpartition(":")[0] for one in recordings for event in one.events if event.what == "open"}
    messages = recorded_messages(recordings, {peer: peer for peer in peers}, dict.fromkeys(peers, ()))
    return decode(read_streams(messages.batches, ()).connections, service, simulated=False).exchanges


def whole(found: Run) -> None:
    """The trace has the clients' commands, fewer than all; their times, calls and lines are known."""
    assert found.traced().total() > 20
    assert found.traced() <= found.names()
    assert found.traced().total() < found.names().total(), "the harness sends commands, too"
    for one in found.trace.messages:
        times = [time for time in (one.sent, one.arrived, one.executed, one.replied) if time is not None]
        assert times == sorted(times)


def with_lines(found: Run) -> None:
    """Nearly all messages of clients in Python have their four times, their call and their line."""
    messages = [one for one in found.trace.messages if one.arrived is not None]
    placed = [one for one in messages if one.sent and one.arrived and one.executed and one.replied and one.file]
    assert len(placed) > 0.9 * len(messages)
    for one in placed:
        assert len(found.trace.sources[one.file].splitlines()) >= one.line


def asked(cluster: DockerCluster, request: bytes, end: bytes = b"") -> str:
    """Return a server's answer up to ``end``, or else to the end of the connection."""
    answer = b""
    with cluster.servers.gate.open(), socket.create_connection(cluster.servers.reached("n1"), 10) as connection:
        connection.sendall(request)
        while part := connection.recv(1 << 16):
            answer += part
            if end and answer.endswith(end):
                break
    return answer.decode()


REDIS_STATISTIC = re.compile(r"cmdstat_([^:]+):calls=(\d+)")
IN_SCRIPTS = frozenset({"get", "del", "pexpire"})
"""Commands that scripts of the lock call; the server counts these calls, too."""


def redis_counts(cluster: DockerCluster) -> Counts:
    found = asked(cluster, b"*2\r\n$4\r\nINFO\r\n$12\r\ncommandstats\r\n*1\r\n$4\r\nQUIT\r\n")
    return Counter({name: int(calls) for name, calls in REDIS_STATISTIC.findall(found)})


@pytest.mark.parametrize("lock", ["redis-token", "redis-py-asyncio-lock"])
def test_redis(tmp_path: Path, lock: str) -> None:
    found = run_counted(Plan(lock=lock, cluster="docker", clients=2, time_limit=3.0), tmp_path, redis_counts)
    whole(found)
    sent = Counter(
        texts_of("redis").name(one.request).lower().replace(" ", "|")
        for one in found.everyone
        if one.request is not None and not b"".join(one.replies).startswith(b"-ERR unknown subcommand")
    )
    last = {"info", "quit"}  # the commands that ask for the numbers
    compared = (sent.keys() | found.counted.keys()) - last - IN_SCRIPTS
    assert {name: sent[name] for name in compared} == {name: found.counted[name] for name in compared}
    for name in IN_SCRIPTS:
        assert found.counted[name] >= sent[name]


def memcached_counts(cluster: DockerCluster) -> Counts:
    found = asked(cluster, b"stats\r\n", b"END\r\n")
    return Counter({name: int(value) for name, value in re.findall(r"STAT ((?:cmd|delete)_\w+) (\d+)", found)})


def test_memcached(tmp_path: Path) -> None:
    plan = Plan(lock="memcached-token", cluster="docker", clients=2, time_limit=3.0)
    found = run_counted(plan, tmp_path, memcached_counts)
    whole(found)
    with_lines(found)
    sent = found.names()
    stored = sum(sent[name] for name in ("SET", "ADD", "CAS", "REPLACE", "APPEND", "PREPEND"))
    keys = sum(len(one.words) - 1 for one in found.requests if one.words[0] in (b"get", b"gets"))
    assert (found.counted["cmd_set"], found.counted["cmd_get"]) == (stored, keys)
    assert found.counted["delete_hits"] + found.counted["delete_misses"] == sent["DELETE"]


STATEMENTS = {
    "SELECT": "select", "INSERT": "insert", "UPDATE": "update", "DELETE": "delete", "COMMIT": "commit",
    "ROLLBACK": "rollback", "BEGIN": "begin", "SET": "set_option", "CREATE": "create_table",
}  # fmt: skip


def mysql_counts(cluster: DockerCluster) -> Counts:
    def read(connection: Any) -> list[tuple[str, str]]:
        with connection.cursor() as cursor:
            cursor.execute("SHOW GLOBAL STATUS LIKE 'Com\\_%'")
            return list(cursor.fetchall())

    servers: Any = cluster.servers
    return Counter({name.removeprefix("Com_").lower(): int(value) for name, value in servers._ask("n1", read)})


@pytest.mark.parametrize("lock", ["mysql-get-lock", "mysql-for-update"])
def test_mysql(tmp_path: Path, lock: str) -> None:
    found = run_counted(Plan(lock=lock, cluster="docker", clients=2, time_limit=3.0), tmp_path, mysql_counts)
    whole(found)
    with_lines(found)
    sent = found.names()
    differ = {
        name: (sent[word], found.counted[name])
        for word, name in STATEMENTS.items()
        if name not in ("create_table", "set_option") and sent[word] != found.counted[name]
    }
    assert differ == {}, (found.counted, sent)


def zookeeper_counts(cluster: DockerCluster) -> Counts:
    servers: Any = cluster.servers
    return Counter(
        {host: int(re.findall(r"Received: (\d+)", servers._status(host))[0]) for host in cluster.servers.roles}
    )


@pytest.mark.parametrize("lock", ["zookeeper-sequential", "kazoo-lock"])
def test_zookeeper(tmp_path: Path, lock: str) -> None:
    found = run_counted(Plan(lock=lock, cluster="docker", clients=2, time_limit=3.0), tmp_path, zookeeper_counts)
    # The harness asks by four-letter words, which are not decoded. A member counts them once it serves.
    words = sum(event.what == "out" and b"Received: " in event.data for one in found.recordings for event in one.events)
    assert found.names().total() + words == found.counted.total()
    assert found.traced().total() > 20
    with_lines(found)


STARTED = re.compile(r'grpc_server_started_total\{grpc_method="(\w+)".*\} (\d+)')


def etcd_counts(cluster: DockerCluster) -> Counts:
    found = Counts()
    for name in cluster.servers.data_hosts:
        host, port = cluster.servers.reached(name)
        with cluster.servers.gate.open(), urllib.request.urlopen(f"http://{host}:{port}/metrics", timeout=10) as page:
            found.update({method: int(number) for method, number in STARTED.findall(page.read().decode())})
    return found


STREAMS = frozenset({"Watch", "LeaseKeepAlive"})
"""Methods whose calls have several requests; the server counts calls."""


@pytest.mark.parametrize("lock", ["etcd-mutex", "etcd3-lock"])
def test_etcd(tmp_path: Path, lock: str) -> None:
    found = run_counted(Plan(lock=lock, cluster="docker", clients=2, time_limit=3.0), tmp_path, etcd_counts)
    assert found.traced().total() > 20
    sent = found.names()
    for method in (found.counted.keys() | sent.keys()) - STREAMS - {"GET", "PUT", "POST"}:
        assert sent[method] == found.counted[method], (method, sent, found.counted)
    for method in STREAMS:
        assert sent[method] >= found.counted[method]


EXECUTED = re.compile(r"LOG:  (?:statement|execute [^:]*): (\w+)")


def postgres_counts(cluster: DockerCluster) -> Counts:
    return Counter(name.upper() for text in cluster.logs(0).values() for name in EXECUTED.findall(text))


@pytest.mark.parametrize("lock", ["postgres-advisory", "postgres-row"])
def test_postgres(tmp_path: Path, lock: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(postgres.SETTINGS, "log_statement", "all")
    plan = Plan(lock=lock, cluster="docker", clients=2, time_limit=3.0)
    found = run_counted(plan, tmp_path, postgres_counts)
    whole(found)
    with_lines(found)
    unlike = ("STARTUP", "END", "PARSE", "CANCEL", "ENCRYPTION", "SYNC", "QUERY")
    sent = Counter({name: number for name, number in found.names().items() if name not in unlike})
    assert sent == found.counted
