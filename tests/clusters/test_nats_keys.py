"""The reader of locks' keys on NATS."""

from __future__ import annotations

import asyncio
import socket

import pytest

from harness.clusters.docker.services.nats_keys import NatsKeyReader
from harness.clusters.key_watch import NoAnswer


def test_a_reader_that_cannot_connect_closes_its_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many readers are made while a server is down."""
    loops: list[asyncio.AbstractEventLoop] = []
    make = asyncio.new_event_loop

    def note() -> asyncio.AbstractEventLoop:
        loops.append(make())
        return loops[-1]

    monkeypatch.setattr(asyncio, "new_event_loop", note)
    with socket.socket() as refusing:
        refusing.bind(("127.0.0.1", 0))
        with pytest.raises(NoAnswer):
            NatsKeyReader(*refusing.getsockname())
    assert [loop.is_closed() for loop in loops] == [True]
