"""Server-sent events about the list of runs, over real connections."""

from __future__ import annotations

import http.client
import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from harness.serve import events
from harness.serve.guard import Guard
from tests.serve import stores
from tests.serve.asking import request, serve_store

EVIL = "<img src=x onerror=alert(1)>"


@contextmanager
def stream(base: str) -> Iterator[http.client.HTTPResponse]:
    """An open connection to the events."""
    connection = http.client.HTTPConnection(urlsplit(base).netloc, timeout=60)
    connection.request("GET", "/events")
    try:
        yield connection.getresponse()
    finally:
        connection.close()


def next_event(answer: http.client.HTTPResponse) -> dict[str, int]:
    """Return the data of the next event; fail if the stream ends."""
    while line := answer.readline():
        if line.startswith(b"data: "):
            data: dict[str, int] = json.loads(line.removeprefix(b"data: "))
            return data
    raise AssertionError("the stream ended")


def test_a_new_run_is_an_event(tmp_path: Path) -> None:
    stores.add(tmp_path, 0)
    with serve_store(tmp_path) as base, stream(base) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["cache-control"] == "no-store"
        assert next_event(answer) == {"runs": 1, "running": 0}
        stores.add(tmp_path, 1)
        assert next_event(answer) == {"runs": 2, "running": 0}


def test_an_event_has_numbers_only(tmp_path: Path) -> None:
    folder = stores.add(tmp_path, 0)
    document = json.loads((folder / "results.json").read_text())
    (folder / "results.json").write_text(json.dumps({**document, "lock": EVIL, "summary": f"{EVIL}\n\ndata: x"}))
    with serve_store(tmp_path) as base, stream(base) as answer:
        data = next_event(answer)
    assert {type(value) for value in data.values()} == {int}


def test_events_of_a_foreign_host_or_method_are_refused(app: Guard) -> None:
    assert request(app, "/events", headers={"host": "evil.example"}).status == 400
    assert request(app, "/events", "POST").status == 405
    head = request(app, "/events", "HEAD")
    assert (head.status, head.body) == (200, b"")
    assert head.headers["content-security-policy"].startswith("default-src 'none'")
    assert head.headers["cross-origin-resource-policy"] == "same-origin", "no other site may read them"


def test_too_many_streams_are_refused_and_a_closed_one_makes_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "PERIOD_S", 0.05)
    monkeypatch.setattr(events, "SILENCE_S", 0.1)
    stores.add(tmp_path, 0)
    with serve_store(tmp_path) as base, ExitStack() as open_streams:
        for _ in range(events.MOST_STREAMS):
            assert next_event(open_streams.enter_context(stream(base)))["runs"] == 1
        with stream(base) as refused:
            assert refused.status == 503
            assert b"64 live pages" in refused.read()
        with stream_page(base) as page:
            assert page.status == 200, "pages are answered beside as many streams"
        open_streams.close()
        while True:  # the server notices a closed connection when it writes; the test's own limit ends this
            with stream(base) as again:
                if again.status == 200:
                    break
            time.sleep(0.05)


@contextmanager
def stream_page(base: str) -> Iterator[http.client.HTTPResponse]:
    connection = http.client.HTTPConnection(urlsplit(base).netloc, timeout=60)
    connection.request("GET", "/")
    yield connection.getresponse()
    connection.close()


def test_a_client_that_reads_nothing_disturbs_nobody(tmp_path: Path) -> None:
    stores.add(tmp_path, 0)
    with serve_store(tmp_path) as base, socket.create_connection(("127.0.0.1", int(base.rpartition(":")[2]))) as deaf:
        deaf.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        with stream(base) as answer:
            assert next_event(answer)["runs"] == 1
            stores.add(tmp_path, 1)
            assert next_event(answer)["runs"] == 2
