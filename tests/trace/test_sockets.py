"""Clients' sockets are logged where the lock's code sends, and put together with packets captured at the servers."""

from __future__ import annotations

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import pytest

from harness.clusters.wire import WireEvent, WireRecording
from harness.history.socket_entries import OPENED, PLACE, RECEIVED, SENT, SOURCE, Entry
from harness.trace.recordings import recorded_messages
from harness.trace.sockets import ClientLogs
from harness.trace.streams import Connection, read_streams
from harness.worker.socket_log import SocketLog


def talk(address: tuple[str, int]) -> int:
    """Send two lines and read the answers; return the port of the client."""
    with socket.create_connection(address) as connection:
        connection.sendall(b"one\n")
        assert connection.recv(100) == b"ONE\n"
        connection.send(b"twice\n")
        buffer = bytearray(100)
        assert connection.recv_into(buffer) == 6
        return int(connection.getsockname()[1])


def of_client(entries: list[Entry], port: int) -> list[Entry]:
    """The entries of the client's connection: the server of the test is in the same process."""
    number = next(entry[1] for entry in entries if entry[0] == OPENED and entry[2] == port)
    return [entry for entry in entries if entry[0] in (OPENED, SENT, RECEIVED) and entry[1] == number]


def test_what_a_socket_sends_and_receives_is_logged(log: SocketLog, server: tuple[str, int]) -> None:
    log.note_call("invoke", "acquire", 7)
    port = talk(server)
    log.note_call("ok", "acquire", 7)
    entries = log.take()
    found = of_client(entries, port)
    assert [entry[0] for entry in found] == [OPENED, SENT, RECEIVED, SENT, RECEIVED]
    assert found[0][2:] == [port, *server]
    assert [entry[3] for entry in found[1:]] == [4, 4, 6, 6]
    assert [entry[4] for entry in found if entry[0] == SENT] == [7, 7]
    times = [entry[2] for entry in found[1:]]
    assert times == sorted(times)
    places = [entry[1:] for entry in entries if entry[0] == PLACE]
    text = next(entry[2] for entry in entries if entry[0] == SOURCE)
    lines = text.splitlines()
    sent = [lines[places[entry[5]][1] - 1] for entry in found if entry[0] == SENT]
    assert [line.strip() for line in sent] == [r'connection.sendall(b"one\n")', r'connection.send(b"twice\n")']
    of_lines = [places[entry[5]] for entry in found if entry[0] == SENT]
    assert [(file, function) for file, _, function in of_lines] == [("tests/trace/test_sockets.py", "talk")] * 2


def test_a_coroutine_that_sends_has_its_line(log: SocketLog, server: tuple[str, int]) -> None:
    async def converse() -> int:
        reader, writer = await asyncio.open_connection(*server)
        writer.write(b"three\n")
        assert await reader.readline() == b"THREE\n"
        port = int(writer.get_extra_info("sockname")[1])
        writer.close()
        await writer.wait_closed()
        return port

    with ThreadPoolExecutor(1) as own:  # browsers of other tests leave an event loop running in this thread
        port = own.submit(asyncio.run, converse()).result()
    entries = log.take()
    places = [entry[1:] for entry in entries if entry[0] == PLACE]
    (sent,) = (entry for entry in of_client(entries, port) if entry[0] == SENT)
    assert places[sent[5]][2].endswith("converse")


def test_other_sockets_are_not_logged(log: SocketLog) -> None:
    one, other = socket.socketpair()
    with one, other:
        one.sendall(b"x")
        assert other.recv(1) == b"x"
    assert log.take() == []


def test_peeking_receives_nothing(log: SocketLog, server: tuple[str, int]) -> None:
    with socket.create_connection(server) as connection:
        connection.sendall(b"x\n")
        assert connection.recv(10, socket.MSG_PEEK) == b"X\n"
        assert connection.recv(10) == b"X\n"
        port = connection.getsockname()[1]
    assert [entry[0] for entry in of_client(log.take(), port)] == [OPENED, SENT, RECEIVED]


HOSTS = {"10.0.0.1": "n1", "10.0.0.2": "n2", "10.0.1.0": "c0"}


def recorded(port: int, *pieces: tuple[int, str, bytes]) -> WireRecording:
    """A recording of n1 with a connection from c0 and one from n2."""
    events = [
        WireEvent(time=1, what="open", connection=1, peer=f"10.0.1.0:{port}"),
        WireEvent(time=1, what="open", connection=2, peer="10.0.0.2:4000"),
        WireEvent(time=2, what="in", connection=2, data=b"of a server"),
    ]
    events += [WireEvent(time=time, what=what, connection=1, data=data) for time, what, data in pieces]  # type: ignore[arg-type]
    return WireRecording(schema=1, host="n1", kind="redis", wall_ns=0, events=tuple(events))


LOGGED: list[list[Any]] = [
    [OPENED, 0, 5000, "10.0.0.1", 6379],
    [SOURCE, "lock.py", "text"],
    [PLACE, "lock.py", 3, "acquire"],
    [SENT, 0, 5, 2, 11, 0],
    [SENT, 0, 6, 3, 12, -1],
    [RECEIVED, 0, 30, 4],
]
PIECES = ((10, "in", b"abcde"), (20, "out", b"re"), (21, "out", b"ply"))


def joined(recording: WireRecording, logs: dict[str, list[list[Any]]]) -> Connection:
    found = recorded_messages([recording], HOSTS, logs)
    (connection,) = read_streams(found.batches, found.places).connections
    assert (connection.client, connection.server, connection.name) == ("c0", "n1", "c0>n1")
    return connection


@pytest.mark.parametrize("port", [5000, 6000], ids=["same port", "port of a proxy"])
def test_packets_and_sockets_are_put_together(port: int) -> None:
    pieces = joined(recorded(port, *PIECES), {"c0": [LOGGED]}).pieces
    assert [(one.data, one.to_server, one.sent, one.arrived, one.process) for one in pieces] == [
        (b"ab", True, 5, 10, 11),
        (b"cde", True, 6, 10, 12),
        (b"re", False, 20, 30, None),
        (b"ply", False, 21, None, None),  # the client had received only its first two bytes
    ]
    assert pieces[0].place == ("lock.py", 3, "acquire")
    assert pieces[1].place is None


def test_a_log_without_its_end_is_used_as_far_as_it_goes() -> None:
    pieces = joined(recorded(5000, *PIECES, (40, "in", b"more")), {"c0": [LOGGED]}).pieces
    assert [one.sent for one in pieces if one.to_server] == [5, 6, None]


def test_sockets_of_another_connection_are_left_out() -> None:
    too_much = ((10, "in", b"abcdef"),)
    for recording, logs in (
        (recorded(6000, *too_much), [LOGGED]),  # more arrived than was sent
        (recorded(6000, (10, "in", b"ab"), (20, "out", b"re")), [LOGGED]),  # more was received than was sent
        (recorded(5000, *PIECES), [[[OPENED, 0, 5000, "10.0.0.2", 6379], *LOGGED[1:]]]),  # to another server
        (recorded(5000, *PIECES), []),
    ):
        pieces = joined(recording, {"c0": logs}).pieces
        assert [one.sent for one in pieces if one.to_server] == [None] * sum(one.to_server for one in pieces)
        assert all(one.arrived is None for one in pieces if not one.to_server)


def test_places_of_several_processes_keep_their_sources() -> None:
    second = [[SOURCE, "other.py", "more"], [PLACE, "other.py", 9, "release"]]
    logs = ClientLogs({"c0": [LOGGED, second]}, HOSTS)
    assert logs.places == [("lock.py", 3, "acquire"), ("other.py", 9, "release")]
    assert logs.sources == {"lock.py": "text", "other.py": "more"}


def test_a_full_recording_says_since_when() -> None:
    cut = msgspec.structs.replace(recorded(5000, *PIECES), cut_ns=99)
    found = recorded_messages([cut], HOSTS, {"c0": [LOGGED]})
    assert read_streams(found.batches, found.places).full_ns == 99
