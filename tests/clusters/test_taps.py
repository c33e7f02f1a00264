"""Taps at the proxies of clients. Here a proxy is a socket of this process."""

from __future__ import annotations

import socket
from types import SimpleNamespace
from typing import Any

import pytest

from harness.clusters.docker.commands import RedisCommands
from harness.clusters.docker.containers.toxiproxy import SidecarError
from harness.clusters.docker.taps import CommandTap
from harness.clusters.gate import NOWHERE, NetworkGate

PATIENCE_S = 60.0


def client(name: str) -> Any:
    return SimpleNamespace(name=name, kills=0, box=SimpleNamespace(ip=name))


def test_a_tap_is_closed_though_that_of_the_next_client_failed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        proxy.settimeout(PATIENCE_S)
        gate = NetworkGate()
        gate.route = lambda ip, _: proxy.getsockname() if ip == "c0" else NOWHERE
        clients = {name: client(name) for name in ("c0", "c1")}
        taps = CommandTap(clients, frozenset({"n1"}), RedisCommands, gate, lambda name: False)
        with pytest.raises(SidecarError, match="the tap of the proxy"):
            taps.tap(lambda *_: None)
        with proxy.accept()[0] as connection:
            connection.settimeout(PATIENCE_S)
            taps.tap(None)
            assert connection.recv(1) == b""
