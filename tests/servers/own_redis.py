"""Redis servers of this machine that stand for a user's own, for tests."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from harness.clusters.redis_admin import RedisConnection
from harness.fidelity.processes import (
    PATIENCE_S,
    Place,
    ServerProcess,
    accepts_connections,
    free_ports,
    program_path,
)


def url(server: ServerProcess) -> str:
    return f"redis://127.0.0.1:{server.place.address[1]}"


@contextmanager
def asking(server: ServerProcess) -> Iterator[RedisConnection]:
    """A connection of a test to the server itself."""
    with RedisConnection(*server.place.address, database=0, answer_s=60.0) as ask:
        yield ask


def keys(server: ServerProcess) -> set[bytes]:
    """Names of all keys of the server."""
    with asking(server) as ask:
        found = ask("KEYS", "*")
    assert isinstance(found, list)
    return {name for name in found if isinstance(name, bytes)}


@dataclass(frozen=True)
class DaemonRedis:
    """A Redis without persistence that shell commands kill and start again, as the hooks of a user do."""

    folder: Path
    port: int
    more: str = ""
    """Path of a file with further settings."""
    tls: bool = False
    login: str = ""
    """Options of redis-cli for the user and the password."""

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    @property
    def start(self) -> str:
        """Shell command that starts the server in the background."""
        port = f"--port 0 --tls-port {self.port}" if self.tls else f"--port {self.port}"
        settings = f"{port} --bind 127.0.0.1 --dir {self.folder} --daemonize yes --pidfile {self.pid_file}"
        return f"{program_path('redis-server')} {self.more} {settings} --save ''"

    @property
    def pid_file(self) -> Path:
        return self.folder / f"{self.port}.pid"

    @property
    def kill(self) -> str:
        return f"kill -9 $(cat {self.pid_file})"

    @property
    def resume(self) -> str:
        """Shell command that ends a pause of the server."""
        return f"kill -CONT $(cat {self.pid_file})"

    @property
    def restart(self) -> str:
        """Shell command that kills the server, so that its data is lost, and waits until it answers again.

        On a busy machine the killed server still has its port for a moment, and the next one would not start."""
        answers, pause = f"{self.ask} ping | grep -q PONG", "do sleep 0.02; done"
        return f"{self.kill}; while {answers}; {pause}; {self.start}; until {answers}; {pause}"

    @property
    def ask(self) -> str:
        return f"redis-cli -p {self.port} {self.login}".rstrip()

    @property
    def run_id(self) -> str:
        """Shell command whose output differs after each start."""
        return f"{self.ask} info server | grep run_id"


@contextmanager
def daemon_redis(folder: Path, more: str = "", *, tls: bool = False, login: str = "") -> Iterator[DaemonRedis]:
    (port,) = free_ports(1)
    redis = DaemonRedis(folder, port, more, tls, login)
    try:
        subprocess.run(redis.start, shell=True, check=True, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + PATIENCE_S
        while not accepts_connections(Place(folder, (port,))):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        yield redis
    finally:
        subprocess.run(redis.kill, shell=True, check=False, stderr=subprocess.DEVNULL)


@dataclass(frozen=True)
class SentinelSetup:
    """A primary, its replica, and one sentinel that fails over within two seconds."""

    primary: DaemonRedis
    replica: DaemonRedis
    sentinel: DaemonRedis

    @property
    def url(self) -> str:
        return f"redis+sentinel://127.0.0.1:{self.sentinel.port}/mymaster"

    @property
    def named_primary(self) -> str:
        """Shell command whose output is the address of the present primary."""
        return f"{self.sentinel.ask} sentinel get-master-addr-by-name mymaster"

    @property
    def lose_primary(self) -> str:
        """Shell command that kills the primary when its replica has none of its writes, as if it lagged behind."""
        ask = self.replica.ask
        cut = f"{ask} replicaof 127.0.0.1 1 && {ask} config set replica-read-only no && {ask} flushall"
        return f"{cut} && {self.primary.kill}"


@dataclass(frozen=True)
class SentinelPasswords:
    """The password of the servers, and the user and the password of their sentinels."""

    servers: str
    user: str
    sentinels: str

    @property
    def server_settings(self) -> str:
        return f"requirepass {self.servers}\nmasterauth {self.servers}\n"

    @property
    def sentinel_settings(self) -> list[str]:
        return [
            f"sentinel auth-pass mymaster {self.servers}",
            f"user {self.user} on >{self.sentinels} &* +@all", "user default off",
        ]  # fmt: skip


@contextmanager
def sentinel_setup(folder: Path, passwords: SentinelPasswords | None = None) -> Iterator[SentinelSetup]:
    """Start the three servers, and wait until the sentinel knows the replica."""
    more, login = "", ""
    if passwords:
        (folder / "passwords.conf").write_text(passwords.server_settings)
        more, login = str(folder / "passwords.conf"), f"--no-auth-warning -a {passwords.servers}"
    with (
        daemon_redis(folder, more, login=login) as primary,
        daemon_redis(folder, more, login=login) as replica,
    ):
        subprocess.run(f"{replica.ask} replicaof 127.0.0.1 {primary.port}", shell=True, check=True, capture_output=True)
        with daemon_sentinel(folder, primary.port, passwords) as sentinel:
            wait_for(f"{sentinel.ask} sentinel replicas mymaster", str(replica.port))
            wait_for(f"{replica.ask} info replication", "master_link_status:up")
            yield SentinelSetup(primary, replica, sentinel)


@contextmanager
def daemon_sentinel(folder: Path, primary: int, passwords: SentinelPasswords | None = None) -> Iterator[DaemonRedis]:
    """Start a sentinel of the primary at a port, which need not answer."""
    (port,) = free_ports(1)
    login = f"--no-auth-warning --user {passwords.user} --pass {passwords.sentinels}" if passwords else ""
    sentinel = DaemonRedis(folder, port, login=login)
    settings = [
        f"port {port}", "bind 127.0.0.1", f"dir {folder}", "daemonize yes", f"pidfile {sentinel.pid_file}",
        f"sentinel monitor mymaster 127.0.0.1 {primary} 1", "sentinel down-after-milliseconds mymaster 500",
        "sentinel failover-timeout mymaster 5000", *(passwords.sentinel_settings if passwords else []),
    ]  # fmt: skip
    (folder / "sentinel.conf").write_text("\n".join(settings))
    subprocess.run([program_path("redis-server"), str(folder / "sentinel.conf"), "--sentinel"], check=True)
    try:
        wait_for(f"{sentinel.ask} ping", "PONG")
        yield sentinel
    finally:
        subprocess.run(sentinel.kill, shell=True, check=False, stderr=subprocess.DEVNULL)


def wait_for(command: str, output: str) -> None:
    """Repeat a shell command until its output contains a text."""
    deadline = time.monotonic() + PATIENCE_S
    while output not in subprocess.run(command, shell=True, capture_output=True, text=True, check=False).stdout:
        assert time.monotonic() < deadline, f"{command} does not print {output}"
        time.sleep(0.05)


def keys_at(server: DaemonRedis) -> str:
    """Names of all keys of a server."""
    return subprocess.run(
        f"{server.ask} keys '*'", shell=True, capture_output=True, text=True, check=True
    ).stdout.strip()
