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

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    @property
    def start(self) -> str:
        """Shell command that starts the server in the background."""
        settings = f"--port {self.port} --bind 127.0.0.1 --dir {self.folder} --daemonize yes --pidfile {self.pid_file}"
        return f"{program_path('redis-server')} {settings} --save ''"

    @property
    def pid_file(self) -> Path:
        return self.folder / f"{self.port}.pid"

    @property
    def kill(self) -> str:
        return f"kill -9 $(cat {self.pid_file})"

    @property
    def restart(self) -> str:
        """Shell command that kills the server, so that its data is lost, and waits until it answers again."""
        return f"{self.kill}; {self.start}; until {self.ask} ping | grep -q PONG; do sleep 0.02; done"

    @property
    def ask(self) -> str:
        return f"redis-cli -p {self.port}"

    @property
    def run_id(self) -> str:
        """Shell command whose output differs after each start."""
        return f"{self.ask} info server | grep run_id"


@contextmanager
def daemon_redis(folder: Path) -> Iterator[DaemonRedis]:
    (port,) = free_ports(1)
    redis = DaemonRedis(folder, port)
    try:
        subprocess.run(redis.start, shell=True, check=True, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + PATIENCE_S
        while not accepts_connections(Place(folder, (port,))):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        yield redis
    finally:
        subprocess.run(redis.kill, shell=True, check=False, stderr=subprocess.DEVNULL)
