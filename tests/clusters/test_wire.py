"""Recordings of servers' traffic: packets are put together to streams, and files are read back."""

from __future__ import annotations

import gzip
from itertools import permutations
from pathlib import Path

import pytest

from harness.clusters.docker.helper.capture import FIN, RECORD, RST, SYN
from harness.clusters.docker.wire import connections
from harness.clusters.wire import SCHEMA, WireEvent, WireRecording, pack, unpack
from harness.errors import UsageError
from harness.run.store import write_wire

CLIENT, PORT = bytes([10, 0, 0, 5]), 40_000


def packet(
    moment: int, sequence: int, data: bytes = b"", flags: int = 0, *, out: bool = False, port: int = PORT
) -> bytes:
    return RECORD.pack(moment, out, CLIENT, port, sequence % (1 << 32), flags, len(data)) + data


def opened(into: int = 100, out: int = 900) -> bytes:
    return packet(1, into, flags=SYN) + packet(2, out, flags=SYN, out=True)


def data_of(records: bytes, what: str) -> list[tuple[int, bytes]]:
    return [(event.time, event.data) for event in connections(records) if event.what == what]


def test_connection_has_an_opening_its_data_and_the_ends_of_both_sides() -> None:
    records = opened() + packet(3, 101, b"ask") + packet(4, 901, b"answer", out=True)
    records += packet(5, 104, flags=FIN) + packet(6, 907, flags=FIN, out=True) + packet(7, 105, flags=RST)
    assert list(connections(records)) == [
        WireEvent(time=1, what="open", connection=1, peer="10.0.0.5:40000"),
        WireEvent(time=3, what="in", connection=1, data=b"ask"),
        WireEvent(time=4, what="out", connection=1, data=b"answer"),
        WireEvent(time=5, what="end", connection=1, by="client"),
        WireEvent(time=6, what="end", connection=1, by="server"),
    ]


@pytest.mark.parametrize("order", list(permutations(range(3))))
@pytest.mark.parametrize("first", [100, (1 << 32) - 4])
def test_data_comes_in_the_order_of_sequence_numbers(order: tuple[int, ...], first: int) -> None:
    parts = [(first + 1, b"abc"), (first + 4, b"def"), (first + 7, b"ghi")]
    records = opened(first) + b"".join(packet(10 + at, *parts[number]) for at, number in enumerate(order))
    assert b"".join(data for _, data in data_of(records, "in")) == b"abcdefghi"


def test_data_that_is_sent_again_counts_once_also_with_more_behind_it() -> None:
    records = (
        opened() + packet(3, 101, b"abc") + packet(4, 101, b"abc") + packet(5, 101, b"abcde") + packet(6, 103, b"c")
    )
    assert data_of(records, "in") == [(3, b"abc"), (5, b"de")]


def test_request_behind_a_gap_arrives_when_the_gap_is_filled() -> None:
    records = opened() + packet(3, 104, b"def") + packet(9, 101, b"abc")
    assert data_of(records, "in") == [(9, b"abc"), (9, b"def")]


def test_reply_before_a_gap_was_sent_before_what_follows_the_gap() -> None:
    records = opened() + packet(3, 904, b"def", out=True) + packet(9, 901, b"abc", out=True)
    assert data_of(records, "out") == [(3, b"abc"), (3, b"def")]


@pytest.mark.parametrize("out", [False, True])
def test_times_of_a_connections_packets_do_not_go_back(out: bool) -> None:
    """The kernel dates packets on several processors. In the order of times, a later piece of data came first."""
    first = 901 if out else 101
    records = opened() + packet(9, first, b"abc", out=out) + packet(7, first + 3, b"def", out=out)
    records += packet(8, first + 6, flags=FIN, out=out)
    of_data = sorted(connections(records), key=lambda event: event.time)[1:]
    assert [(event.time, event.data) for event in of_data] == [(9, b"abc"), (9, b"def"), (9, b"")]


def test_gap_that_is_never_filled_ends_the_stream() -> None:
    assert data_of(opened() + packet(3, 101, b"abc") + packet(4, 107, b"jkl"), "in") == [(3, b"abc")]


def test_new_connection_from_the_same_port_is_another_one() -> None:
    records = (
        opened() + packet(3, 101, b"a") + packet(4, 100, flags=SYN) + opened(5_000, 7_000) + packet(5, 5_001, b"b")
    )
    assert [(event.connection, event.data) for event in connections(records) if event.what == "in"] == [
        (1, b"a"), (2, b"b"),
    ]  # fmt: skip


def test_connection_that_was_open_before_the_capture_is_left_out() -> None:
    assert list(connections(packet(3, 101, b"a") + packet(4, 901, b"b", out=True))) == []


def test_recording_is_read_back_as_it_was_packed() -> None:
    events = (WireEvent(time=1, what="in", connection=1, data=b"\x00\xff"), WireEvent(time=2, what="kill", until=3))
    recording = WireRecording(schema=SCHEMA, host="n1", kind="redis-single", wall_ns=5, lost=2, events=events)
    assert unpack(pack(recording), "n1.jsonl.gz") == recording


def test_recording_is_a_file_of_the_run(tmp_path: Path) -> None:
    recording = WireRecording(schema=SCHEMA, host="n1", kind="redis-single", wall_ns=5, cut_ns=7)
    write_wire(tmp_path, {"n1": recording})
    assert unpack((tmp_path / "wire" / "n1.jsonl.gz").read_bytes(), "n1.jsonl.gz") == recording


WHOLE = pack(WireRecording(schema=SCHEMA, host="n1", kind="redis-single", wall_ns=5))


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"no gzip", id="no gzip"),
        pytest.param(gzip.compress(b""), id="no lines"),
        pytest.param(gzip.compress(b"[]\n"), id="no object"),
        pytest.param(gzip.compress(b'{"schema":1}\n'), id="no host"),
        pytest.param(WHOLE[: len(WHOLE) // 2], id="half"),
    ],
)
def test_file_that_is_no_recording_is_refused_with_its_name(content: bytes) -> None:
    with pytest.raises(UsageError, match=r"^n1\.jsonl\.gz: "):
        unpack(content, "n1.jsonl.gz")
