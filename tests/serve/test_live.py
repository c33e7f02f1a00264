"""The live data of a run in progress: states and figures, and that only new parts of the history are read."""

from __future__ import annotations

import json
import os
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.history import History, HistoryWriter
from harness.history.tail import Tail
from harness.reports import live
from harness.reports.live import GrowingHistory
from harness.run.store import HISTORY, RESULTS
from harness.serve import live as pages
from harness.serve.app import application
from tests.checkers.story import Story
from tests.reports.packed import unpacked
from tests.serve.asking import Answer, request
from tests.serve.writing import Recording, history_of, recorded_run


@pytest.fixture
def recording(tmp_path: Path) -> Recording:
    return Recording(tmp_path / "store")


def data(recording: Recording, known: int = -1) -> dict[str, Any]:
    answer = request_live(recording, f"data.json?from={known}")
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    told: dict[str, Any] = json.loads(answer.body)
    return told


def request_live(recording: Recording, rest: str = "") -> Answer:
    if not hasattr(recording, "app"):
        recording.app = application(recording.folder.parent.parent)  # type: ignore[attr-defined]
    return request(recording.app, recording.address + rest)  # type: ignore[attr-defined]


def old(*paths: Path) -> None:
    for path in paths:
        os.utime(path, (1, 1))


def test_states_go_from_starting_to_the_verdict(recording: Recording) -> None:
    begun = data(recording)
    assert (begun["state"], begun["timeline"], begun["moment"]["granted"]) == ("starting", None, 0)
    recording.until(2.5)
    early = data(recording)
    recording.until(6.0)
    later = data(recording, early["read"])
    assert early["state"] == later["state"] == "running"
    assert 0 < early["moment"]["granted"] < later["moment"]["granted"]
    assert 2.0 < early["moment"]["elapsed"] <= 2.5 < later["moment"]["elapsed"] <= 6.0
    assert unpacked(early["timeline"]).data["end"] < unpacked(later["timeline"]).data["end"]
    assert later["verdict"] is None
    recording.until(1e9)
    recording.writer.close()
    assert data(recording)["state"] == "checking"
    recording.end()
    over = data(recording)
    assert over["state"] == "over"
    assert over["verdict"]["judgement"] == "invalid"
    assert over["verdict"]["summary"] == recording.result.document["summary"]
    assert over["moment"]["granted"] == recording.result.document["stats"]["acquires_ok"]


def test_live_data_name_the_holders_and_the_active_fault(recording: Recording) -> None:
    """The two holders of the violation, while they hold, and the pause that caused it."""
    [overlap, *_] = recording.result.verdicts["mutual-exclusion"].evidence
    recording.until((overlap.from_ns - recording.ops[0].time) / 1e9)
    moment = data(recording)["moment"]
    [key] = moment["keys"]
    assert {client for client, _ in key["holders"]} == {hold["client"] for hold in overlap.involved}
    [fault] = moment["faults"]
    assert (fault["fault"], fault["seen"]) == ("client-pause", True)
    assert fault["observed"]
    assert moment["p50"] is not None
    assert moment["p50"] <= moment["p99"] < 10
    assert moment["calls_per_second"] > 1


def test_live_data_have_the_running_verdict(recording: Recording) -> None:
    [overlap, *_] = recording.result.verdicts["mutual-exclusion"].evidence
    begin = (overlap.from_ns - recording.ops[0].time) / 1e9
    recording.until(begin - 0.001)
    early = data(recording)["moment"]
    assert (early["violation"], early["watched"]) == (None, True)
    recording.until(begin + 0.5)
    violation = data(recording)["moment"]["violation"]
    assert violation["since"] == pytest.approx(begin)
    assert "held k0" in violation["sentence"]
    recording.end()
    assert data(recording)["moment"]["violation"]["since"] == violation["since"]


def test_on_containers_an_overlap_is_a_violation_once_both_holders_were_heard(tmp_path: Path) -> None:
    """An entry of a paused client may still be on its way, and it may be a release."""
    told = Story().acquire("c0", 1.0, 1.1).acquire("c1", 2.0, 2.1).release("c1", 3.0).release("c0", 4.0)
    history = told.history()
    text = lines(history, tmp_path / HISTORY)
    early = text.splitlines(keepends=True)[: sum(op.time < 3.9e9 for op in history)]
    reader = GrowingHistory()
    reader.take(BytesIO(b"".join(early)))
    assert [client for key in reader.moment().keys for client, _ in key.holders] == ["c0"], "c1 has released"
    assert reader.moment().violation is None
    reader.take(BytesIO(text))
    found = reader.moment().violation
    assert found is not None
    assert found.sentence.startswith("Two clients held k0 at the same time")


def test_a_run_without_two_holders_has_no_violation(tmp_path: Path) -> None:
    reader = GrowingHistory()
    reader.take(BytesIO(lines(history_of(20, 10), tmp_path / HISTORY)))
    assert (reader.moment().violation, reader.moment().watched) == (None, True)


def test_an_unchanged_history_gives_an_answer_without_timeline(recording: Recording) -> None:
    recording.until(4.0)
    first = data(recording)
    again = request_live(recording, f"data.json?from={first['read']}")
    assert json.loads(again.body)["timeline"] is None
    assert len(again.body) < 1000
    assert data(recording, 5)["timeline"] == first["timeline"], "another page gets the same"


def test_a_killed_run_is_reported_as_interrupted(recording: Recording) -> None:
    recording.until(4.0)
    recording.writer.close()
    assert data(recording)["state"] == "running", "it may just be opened again"
    old(recording.folder / HISTORY)
    told = data(recording)
    assert told["state"] == "interrupted"
    assert "interrupted or killed" in told["said"]
    recording.until(0)
    with (recording.folder / HISTORY).open("ab") as file:
        file.write(b'{"index": 9, "ti')
    assert data(recording)["moment"]["trouble"] == "", "half a line is waited for"


def test_a_run_killed_during_checking_is_reported_as_interrupted(recording: Recording) -> None:
    recording.until(1e9)
    recording.writer.close()
    old(recording.folder / HISTORY)
    assert data(recording)["state"] == "interrupted"


def test_the_page_shows_the_plan_of_the_run(recording: Recording) -> None:
    page = request_live(recording)
    assert page.status == 200
    for words in ("redis-token", "client-pause", "of 8 s", "script-src 'sha256-"):
        assert words in page.text + page.headers["content-security-policy"]
    (recording.folder / "plan.toml").write_text("lock = [")
    assert "client-pause" not in request_live(recording).text


@pytest.mark.parametrize("rest", ["data.json?from=x", "data.json?from=" + "9" * 40, "data.json?from=٣"])
def test_an_invalid_position_is_refused(rest: str, recording: Recording) -> None:
    assert request_live(recording, rest.replace("٣", "%D9%A3")).status == 400


@pytest.mark.parametrize("address", ["nowhere/run", "sweeps/20261121T210000Z-redis-token", "latest/plan.toml", "a/.."])
@pytest.mark.parametrize("rest", ["", "data.json"])
def test_unknown_runs_give_404(address: str, rest: str, recording: Recording) -> None:
    request_live(recording)
    answer = request(recording.app, f"/live/{address}/{rest}")  # type: ignore[attr-defined]
    assert answer.status in (400, 404)


def test_only_the_most_recent_runs_stay_in_memory(tmp_path: Path) -> None:
    watching = pages.LivePages(tmp_path)
    for number in range(3 * pages.KEPT):
        watching._of("lock", f"{number}")
    assert len(watching._watched) == pages.KEPT
    assert watching._of("lock", f"{3 * pages.KEPT - 1}") is watching._of("lock", f"{3 * pages.KEPT - 1}")


# A growing history.


def lines(history: History, path: Path) -> bytes:
    history.save(path)
    return path.read_bytes()


def test_reading_in_pieces_of_any_size_gives_the_same_state(tmp_path: Path) -> None:
    text = lines(recorded_run().history, tmp_path / HISTORY)
    whole, pieces = GrowingHistory(), GrowingHistory()
    whole.take(BytesIO(text))
    for end in (1, 10, 999, 1000, 20_000, 20_000, len(text) - 3, len(text)):
        pieces.take(BytesIO(text[:end]))
    assert pieces.moment() == whole.moment()
    assert pieces.timeline() == whole.timeline()
    assert pieces.read == len(text)


def test_a_file_that_became_shorter_is_read_again(tmp_path: Path) -> None:
    text = lines(recorded_run().history, tmp_path / HISTORY)
    one, other = GrowingHistory(), GrowingHistory()
    one.take(BytesIO(text))
    for reader in (one, other):
        reader.take(BytesIO(text[: text.index(b"\n", 5000) + 1]))
    assert one.moment() == other.moment()


DEEP = b'{"index":1,"time":1,"wall":1,"process":0,"type":"ok","f":"x","value":' + b"[" * 100_000


@pytest.mark.parametrize("line", [b"garbage", b'{"index":1}', b"\xff\xfe", DEEP])
def test_a_damaged_history_is_reported_without_an_error(line: bytes, recording: Recording) -> None:
    recording.until(3.0)
    granted = sum(op.f == "acquire" and op.type == "ok" for op in recording.ops[: recording.written])
    with (recording.folder / HISTORY).open("ab") as file:
        file.write(line + b"\n")
    for _ in range(2):
        told = data(recording)
        assert "cannot be understood" in told["moment"]["trouble"]
        assert (told["behind"], told["moment"]["granted"]) == (None, granted)


def test_an_overlong_line_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = lines(recorded_run().history, tmp_path / HISTORY)
    monkeypatch.setattr(live, "AT_ONCE", 8192)
    reader, longer = GrowingHistory(), text[: text.index(b"\n") + 1] + b"x" * 10_000
    for _ in range(3):
        reader.take(BytesIO(longer))
    assert reader.moment().trouble == "after 0 calls there is a line of more than 8,192 bytes"


@pytest.mark.parametrize("value", ['"value":3', '"x":1', '"value":{"id":[]}'])
@pytest.mark.parametrize("f", ["start", "inject", "heal", "stop", "crash"])
def test_unexpected_entries_do_not_raise(f: str, value: str) -> None:
    reader = GrowingHistory()
    line = f'{{"index":0,"time":1,"wall":1,"process":-1,"type":"ok","f":"{f}",{value}}}\n'
    reader.take(BytesIO(line.encode()))
    assert reader.timeline() is None or not reader.trouble
    assert reader.moment().granted == 0


def test_a_long_run_is_read_in_parts_and_drawn_at_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = lines(history_of(130, 4), tmp_path / HISTORY)
    monkeypatch.setattr(live, "AT_ONCE", len(text) // 3)
    reader = GrowingHistory()
    parts = 0
    while reader.take(BytesIO(text)):
        parts += 1
    assert parts == 4
    timeline = reader.timeline()
    assert timeline is not None
    drawn = unpacked(timeline)
    calls = {name: np.array(drawn.column(text)) for name, text in drawn.data["calls"].items()}
    starts = np.cumsum(calls["start"])
    assert reader.moment().granted == 520
    assert reader.moment().cut
    assert starts[1] > 69e6, "what is older than a minute is not drawn"
    assert drawn.data["end"] > 129e6
    # Entry numbers are those of the file, and every completed call is whole.
    invoked, done = np.cumsum(calls["invoked"]), calls["done"]
    numbers = text.splitlines()
    for index, later in zip(invoked[::37], done[::37], strict=True):
        first, second = json.loads(numbers[index]), json.loads(numbers[index + later])
        assert (first["type"], second["type"]) == ("invoke", "ok")
        assert (first["f"], first["process"]) == (second["f"], second["process"])


def test_ended_holds_and_healed_faults_are_dropped_from_the_tail() -> None:
    """A hold that was released, one whose client crashed, and a fault that was healed."""
    told = Story().acquire("c0", 1.0, 1.1).release("c0", 1.5).acquire("c1", 2.0, 2.1).crash(2.5, "c1")
    told.fault(0, "client-pause", ["c2"], 3.0, 4.0).acquire("c2", 30.0, 30.1)
    tail = Tail(5_000_000_000)
    for op in told.history():
        tail.add(op)
    history, _ = tail.history()
    assert [(op.f, op.node) for op in history if op.f != "stop"] == [
        ("start", None),
        ("acquire", "c2"),
        ("acquire", "c2"),
    ]


def test_open_holds_calls_and_faults_stay_in_the_tail(recording: Recording) -> None:
    """A fault in force, a hold and a call that began before what is kept, and the settings."""
    tail = Tail(500_000_000)
    pause = next(i for i, op in enumerate(recording.ops) if op.f == "inject" and op.type == "ok")
    until = recording.ops[pause].time + 1_500_000_000
    for op in recording.ops:
        if op.time <= until:
            tail.add(op)
    history, numbers = tail.history()
    assert history.f[0] == "start"
    assert [op.type for op in history.nemesis("inject")] == ["invoke", "ok"]
    assert numbers == sorted(numbers)
    holder = recording.ops[pause].value["hosts"][0]
    grants = [call for call in history.calls("acquire") if call.invoke.node == holder and call.outcome == "ok"]
    assert len(grants) == 1, "that of the client that is paused"
    waiting = [call for call in history.calls("acquire") if call.done is None]
    assert {call.invoke.node for call in waiting} <= {"c0", "c1", "c2"}


def test_the_tail_keeps_at_most_the_given_number_of_entries(tmp_path: Path) -> None:
    tail = Tail(10**15, most=100)
    for op in history_of(30, 10):
        tail.add(op)
    history, _ = tail.history()
    assert len(history) <= 100 + 2 * 2 + 2
    assert tail.cut


def test_a_rewritten_history_does_not_reset_the_run(recording: Recording) -> None:
    """Entries of clients on containers arrive slightly out of order. At the end the file is rewritten in order."""
    recording.until(1e9)
    before = data(recording)["moment"]
    recording.writer.close()
    with HistoryWriter(recording.folder / HISTORY) as writer:
        writer.write(recording.ops[0])
        assert data(recording)["moment"]["granted"] == 0
        for op in recording.ops[1:]:
            writer.write(op)
        assert data(recording)["moment"] == before
        assert data(recording)["state"] == "checking"
    assert not (recording.folder / RESULTS).exists()
