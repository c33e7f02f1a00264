"""The servers' own counters, by service, and how they compare to the requests of a run's packets."""

from __future__ import annotations

import http.client
import re
import socket
import time
from collections import Counter
from collections.abc import Callable, Collection
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from harness.clusters.docker.cluster import DockerCluster
from harness.trace.decoding import Exchange

from .counted import Count, CountedRun, Counts, Differences


class ServersCount(NamedTuple):
    """``count`` asks the servers for their counters, and ``differences`` compares them with the packets of a run.
    ``uncounted`` are names of requests that no counter counts, or not by themselves."""

    count: Count
    differences: Callable[[CountedRun], Differences]
    uncounted: Callable[[CountedRun], Collection[str]] = lambda run: ()
    subtracts: bool = False
    """The servers also count what they do when they start."""


def differing(sent: Counts, counted: Counts) -> Differences:
    return {one: (sent[one], counted[one]) for one in sorted(sent.keys() | counted.keys()) if sent[one] != counted[one]}


def _asked(cluster: DockerCluster, host: str, request: bytes, end: bytes = b"") -> str:
    """Return a server's answer up to ``end``, or else to the end of the connection."""
    answer = b""
    with cluster.servers.gate.open(), socket.create_connection(cluster.servers.reached(host), 10) as connection:
        connection.sendall(request)
        while part := connection.recv(1 << 16):
            answer += part
            if end and answer.endswith(end):
                break
    return answer.decode()


def _page(cluster: DockerCluster, host: str, path: str) -> str:
    connection = http.client.HTTPConnection(*cluster.servers.reached(host), timeout=10)
    with cluster.servers.gate.open():
        connection.request("GET", path)
        return connection.getresponse().read().decode()


# Redis: INFO commandstats.

_REDIS_STATISTIC: Final = re.compile(r"cmdstat_([^:]+):calls=(\d+)")
_CALLED: Final = re.compile(rb"call\(\s*['\"](\w+)['\"]")
_LAST: Final = frozenset({"info", "quit"})
"""Commands that ask for the counters."""


def _redis_counts(cluster: DockerCluster) -> Counts:
    found: Counts = Counter()
    for host in cluster.servers.data_hosts:
        text = _asked(cluster, host, b"*2\r\n$4\r\nINFO\r\n$12\r\ncommandstats\r\n*1\r\n$4\r\nQUIT\r\n")
        found.update({name: int(calls) for name, calls in _REDIS_STATISTIC.findall(text)})
    return found


def _redis_differences(run: CountedRun) -> Differences:
    sent: Counts = Counter(name.lower().replace(" ", "|") for one, name in run.named() if not _is_unknown(one))
    scripted = _in_scripts(run)
    return {
        name: numbers
        for name, numbers in differing(sent, run.counted).items()
        if name not in _LAST and not (name in scripted and numbers[0] <= numbers[1])
    }


def _is_unknown(one: Exchange) -> bool:
    return b"".join(one.replies).startswith(b"-ERR unknown subcommand")


def _in_scripts(run: CountedRun) -> set[str]:
    """Return the commands that the run's scripts call; the server counts these calls, too. A script may have the name
    as an argument."""
    scripts = [one.words for one in run.requests if one.words[0].upper() in (b"EVAL", b"EVALSHA", b"SCRIPT")]
    called = {name.lower() for words in scripts for word in words for name in _CALLED.findall(word)}
    passed = {word.lower() for words in scripts for word in words[1:]}
    return {name for name in run.counted if name.encode() in called | passed}


def _redis_uncounted(run: CountedRun) -> set[str]:
    return {name.upper() for name in _in_scripts(run)} | {name for one, name in run.named() if _is_unknown(one)}


# memcached: stats.


def _memcached_counts(cluster: DockerCluster) -> Counts:
    found = _asked(cluster, "n1", b"stats\r\n", b"END\r\n")
    return Counter({name: int(value) for name, value in re.findall(r"STAT ((?:cmd|delete)_\w+) (\d+)", found)})


def _memcached_differences(run: CountedRun) -> Differences:
    names, counted = run.names(), run.counted
    sent = {
        "set": sum(names[name] for name in ("SET", "ADD", "CAS", "REPLACE", "APPEND", "PREPEND")),
        "get": sum(len(one.words) - 1 for one in run.requests if one.words[0] in (b"get", b"gets")),
        "delete": names["DELETE"],
    }
    deleted = counted["delete_hits"] + counted["delete_misses"]
    return differing(Counter(sent), Counter({"set": counted["cmd_set"], "get": counted["cmd_get"], "delete": deleted}))


# MariaDB and MySQL: SHOW GLOBAL STATUS.

_STATEMENTS: Final = {
    "SELECT": "select", "INSERT": "insert", "UPDATE": "update", "DELETE": "delete", "COMMIT": "commit",
    "ROLLBACK": "rollback", "BEGIN": "begin", "SET": "set_option", "CREATE": "create_table",
}  # fmt: skip


def _mysql_counts(cluster: DockerCluster) -> Counts:
    def read(connection: Any) -> list[tuple[str, str]]:
        with connection.cursor() as cursor:
            cursor.execute("SHOW GLOBAL STATUS LIKE 'Com\\_%'")
            return list(cursor.fetchall())

    servers: Any = cluster.servers
    return Counter({name.removeprefix("Com_").lower(): int(value) for name, value in servers._ask("n1", read)})


def _mysql_differences(run: CountedRun) -> Differences:
    names = run.names()
    sent = Counter({counter: names[word] for word, counter in _STATEMENTS.items()})
    return differing(sent, Counter({counter: run.counted[counter] for counter in _STATEMENTS.values()}))


# ZooKeeper: packets received.


def _zookeeper_counts(cluster: DockerCluster) -> Counts:
    servers: Any = cluster.servers
    return Counter(
        {host: int(re.findall(r"Received: (\d+)", servers._status(host))[0]) for host in cluster.servers.roles}
    )


def _zookeeper_differences(run: CountedRun) -> Differences:
    """The harness asks by four-letter words, which are not decoded. A member counts them once it serves."""
    sent = Counter(one.connection.server for one, _ in run.named())
    for recording in run.recordings:
        sent[recording.host] += sum(one.what == "out" and b"Received: " in one.data for one in recording.events)
    return differing(sent, run.counted)


# etcd: grpc_server_started_total.

_STARTED: Final = re.compile(r'grpc_server_started_total\{grpc_method="(\w+)".*\} (\d+)')
_STREAMS: Final = frozenset({"Watch", "LeaseKeepAlive"})
"""Methods whose calls have several requests; the server counts calls."""
_HTTP: Final = frozenset({"GET", "PUT", "POST"})


def _etcd_counts(cluster: DockerCluster) -> Counts:
    found: Counts = Counter()
    for host in cluster.servers.data_hosts:
        text = _page(cluster, host, "/metrics")
        found.update({method: int(number) for method, number in _STARTED.findall(text)})
    return found


def _etcd_differences(run: CountedRun) -> Differences:
    """A server does not count a call that its client gave up before it began. Such a call has no reply."""
    without_reply = Counter(name for one, name in run.named() if not one.replies)
    return {
        name: (sent, counted)
        for name, (sent, counted) in differing(run.names(), run.counted).items()
        if name not in _HTTP
        and not (name in _STREAMS and sent > counted)
        and not 0 < sent - counted <= without_reply[name]
    }


def _etcd_uncounted(run: CountedRun) -> Collection[str]:
    return _STREAMS | {name for name, (sent, counted) in differing(run.names(), run.counted).items() if sent > counted}


# PostgreSQL: the log of its statements.

_EXECUTED: Final = re.compile(r"LOG:  (?:statement|execute [^:]*): (\w+)")
_NO_STATEMENTS: Final = frozenset({"STARTUP", "END", "PARSE", "CANCEL", "ENCRYPTION", "SYNC", "QUERY"})


def _postgres_counts(cluster: DockerCluster) -> Counts:
    return Counter(name.upper() for text in cluster.logs(0).values() for name in _EXECUTED.findall(text))


def _postgres_differences(run: CountedRun) -> Differences:
    sent = Counter({name: number for name, number in run.names().items() if name not in _NO_STATEMENTS})
    return differing(sent, run.counted)


# Consul: its metrics of the HTTP API.

_METRICS: Final = "/v1/agent/metrics"
_SERVED: Final = re.compile(r'^consul_api_http_count\{method="(\w+)",path="(\w+)"\} (\d+)$', re.MULTILINE)


def _consul_counts(cluster: DockerCluster) -> Counts:
    """Numbers of requests by method and path; the path is the one that Consul registered, such as ``v1_kv_``."""
    text = _page(cluster, "n1", f"{_METRICS}?format=prometheus")
    return Counter({(method, path): int(number) for method, path, number in _SERVED.findall(text)})


def _consul_differences(run: CountedRun) -> Differences:
    sent: Counts = Counter()
    paths = {path for _, path in run.counted}
    for one in run.requests:
        method, target = one.words[0].decode(), urlsplit(one.words[1].decode()).path
        path = target.removeprefix("/").replace("/", "_")
        known = [name for name in paths if path == name or (name.endswith("_") and path.startswith(name))]
        if target != _METRICS:
            sent[method, max(known, key=len, default=path)] += 1
    return differing(sent, run.counted)


# NATS: /connz of the monitoring port.


def _nats_counts(cluster: DockerCluster) -> Counts:
    """Numbers of messages by server, address of the client, and direction. Closed connections are among them."""
    servers: Any = cluster.servers
    found: Counts = Counter()
    for host in servers.data_hosts:
        for one in servers._ask(host, "connz?state=any&limit=10000")["connections"]:
            found[host, one["ip"], "in"] += one["in_msgs"]
            found[host, one["ip"], "out"] += one["out_msgs"]
    return found


def _is_counted(reply: bytes) -> bool:
    """A server does not count its own message that nobody serves a subject (status 503)."""
    return reply.startswith((b"MSG ", b"HMSG ")) and b"\r\nNATS/1.0 503" not in reply


def _nats_differences(run: CountedRun) -> Differences:
    addresses = {name: address for address, name in run.clients.items()}
    sent: Counts = Counter()
    for one in run.everyone:
        place = one.connection.server, addresses.get(one.connection.client, one.connection.client)
        sent[*place, "in"] += one.request is not None and one.request.words[0] in (b"PUB", b"HPUB")
        sent[*place, "out"] += sum(_is_counted(reply) for reply in one.replies)
    return differing(sent, run.counted)


# Hazelcast: the diagnostics of its members, which have the number of messages of each open connection.

HAZELCAST_DIAGNOSTICS: Final = (
    "-Dhazelcast.diagnostics.enabled=true", "-Dhazelcast.diagnostics.stdout=STDOUT",
    "-Dhazelcast.diagnostics.metrics.period.seconds=1", "-Dhazelcast.metrics.debug.enabled=true",
)  # fmt: skip
_FRAMES: Final = re.compile(
    r"^ *([\d.]+) s  \S+ \S+ (\d+) Metric\[\[pipelineId=/[\d.]+:5701->/([\d.]+):\d+,"
    r"unit=count,metric=tcp\.connection\.in\.normalFramesRead\]=(\d+)\]",
    re.MULTILINE,
)
_DIAGNOSED_S: Final = 4.5


class _Reading(NamedTuple):
    """The number of messages of a connection at some time between two (monotonic, ns)."""

    host: str
    address: str
    since: int
    until: int
    number: int


def _hazelcast_counts(cluster: DockerCluster) -> list[_Reading]:
    """Return what the members report after the run, once a second."""
    ended = time.monotonic_ns()
    time.sleep(_DIAGNOSED_S)
    mono, wall = cluster.clock()
    readings = [
        _Reading(host, address, mono - wall + int(began_ms) * 1_000_000, int(float(logged_s) * 1e9), int(number))
        for host, text in cluster.logs(0).items()
        for logged_s, began_ms, address, number in _FRAMES.findall(text)
    ]
    return [one for one in readings if one.since > ended]


def _hazelcast_differences(run: CountedRun) -> Differences:
    """Clients send heartbeats: a reading is compared if no message arrived between its two times."""
    compared: set[tuple[str, str]] = set()
    differ: Differences = {}
    for client in run.clients.values():
        arrivals = [one for one, _ in run.named() if one.connection.client == client]
        for reading in (one for one in run.counted if run.clients.get(one.address) == client):
            times = [one.since for one in arrivals if one.connection.server == reading.host]
            least, most = (sum(moment <= limit for moment in times) for limit in (reading.since, reading.until))
            if least == most:
                compared.add((client, reading.host))
                if least != reading.number:
                    differ[client, reading.host] = least, reading.number
    expected = {(one.connection.client, one.connection.server) for one, _ in run.named()}
    missing = {pair for pair in expected if pair[0] in run.clients.values()} - compared
    return {**differ, **dict.fromkeys(missing, (-1, -1))}


# Chubby: the replicas' own counters of answers.

_HELD_BACK: Final = "KeepAlive"
"""Requests that the master answers late, and so perhaps after it was asked for its counters."""


def _chubby_counts(cluster: DockerCluster) -> Counts:
    servers: Any = cluster.servers
    found: Counts = Counter()
    for host in servers.data_hosts:
        found.update(servers.status(host).answered)
    return found


def _chubby_differences(run: CountedRun) -> Differences:
    """Messages between replicas, and the harness' knocks, have no name of an operation."""
    compared = ((one, name) for one, name in run.named() if name not in ("", _HELD_BACK))
    answered = Counter(name.upper() for one, name in compared for _ in one.replies)
    return {name: numbers for name, numbers in differing(answered, run.counted).items() if name in answered}


COUNTERS: Final = {
    "redis": ServersCount(_redis_counts, _redis_differences, _redis_uncounted),
    "memcached": ServersCount(_memcached_counts, _memcached_differences),
    "mysql": ServersCount(_mysql_counts, _mysql_differences, lambda _: ("LOGIN", "PING", "QUIT"), subtracts=True),
    "zookeeper": ServersCount(_zookeeper_counts, _zookeeper_differences),
    "etcd": ServersCount(_etcd_counts, _etcd_differences, _etcd_uncounted),
    "postgres": ServersCount(_postgres_counts, _postgres_differences, lambda _: _NO_STATEMENTS),
    "consul": ServersCount(_consul_counts, _consul_differences),
    "nats": ServersCount(_nats_counts, _nats_differences, lambda _: ("CONNECT", "PING", "PONG", "SUB", "UNSUB")),
    "chubby": ServersCount(_chubby_counts, _chubby_differences, lambda _: (_HELD_BACK,)),
    "hazelcast": ServersCount(_hazelcast_counts, _hazelcast_differences),
}
"""By service."""
