"""Engines behind ssh and TLS: the command that forwards a socket, and what is refused. No ssh server is needed."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.clusters.docker.containers.engine import connect
from harness.clusters.docker.containers.ssh_engine import ssh_command
from harness.errors import EnvironmentLacking, UsageError
from harness.fidelity.processes import free_ports

LOCAL = Path("/run/engine")


@pytest.mark.parametrize(
    ("url", "forwarded", "told"),
    [
        ("ssh://server", "/run/engine:/var/run/docker.sock", ["--", "server"]),
        ("ssh://me@server:2222", "/run/engine:/var/run/docker.sock", ["-l", "me", "-p", "2222", "--", "server"]),
        ("ssh://server/run/user/7/docker.sock", "/run/engine:/run/user/7/docker.sock", ["--", "server"]),
    ],
)
def test_the_socket_of_the_engine_is_forwarded(url: str, forwarded: str, told: list[str]) -> None:
    command = ssh_command(url, LOCAL)
    at = command.index("-L")
    assert command[at + 1] == forwarded
    assert command[at + 2 : -1] == told


@pytest.mark.parametrize("url", ["ssh://", "ssh://server:many", "ssh://-oProxyCommand=run"])
def test_what_is_no_address_of_a_machine_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match=r"DOCKER_HOST: got .*, expected ssh://"):
        ssh_command(url, LOCAL)


def test_a_machine_without_an_ssh_server_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"ssh://127.0.0.1:{free_ports(1)[0]}")
    with pytest.raises(EnvironmentLacking, match=r"ssh does not connect to ssh://127\.0\.0\.1:\d+: .*refused"):
        connect()


def test_an_engine_that_demands_tls_is_refused_with_a_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:2376")
    monkeypatch.setenv("DOCKER_TLS_VERIFY", "1")
    with pytest.raises(EnvironmentLacking, match="demands TLS, which is not supported: use DOCKER_HOST=ssh://"):
        connect()
