"""``harness fidelity --run``: its lines, its document and its exit status; and the counts of a night."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import msgspec
import pytest

from harness.cli.main import main
from harness.clusters.wire import WireRecording, pack
from harness.documents.trace import ServerTrace, TraceDocument, state_of, trace_counts
from harness.plan import Plan, dump
from tests.fidelity.traffic import TRACES, Traffic

Capsys = pytest.CaptureFixture[str]
IMPOSSIBLE = Traffic().redis(1, 1, 4, "SET k a NX", "+OK").redis(2, 2, 3, "SET k b NX", "+OK").recording()


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["fidelity", *map(str, arguments)])
    assert isinstance(ended.value.code, int)
    return ended.value.code


def stored(folder: Path, **recordings: WireRecording) -> Path:
    """Make the folder of a run with these recordings."""
    (folder / "wire").mkdir(parents=True)
    (folder / "history.jsonl").write_text("")
    (folder / "plan.toml").write_text(dump(Plan(lock="redis-token", kind="redis-single")))
    for host, recording in recordings.items():
        packed = pack(msgspec.structs.replace(recording, host=host))
        (folder / "wire" / f"{host}.jsonl.gz").write_bytes(packed)
    return folder


def test_possible_traffic_is_a_line_for_each_server_and_status_0(tmp_path: Path, capsys: Capsys) -> None:
    folder = stored(tmp_path / "run", n2=Traffic().redis(1, 1, 2, "PING", "+PONG").recording())
    shutil.copy(TRACES / "redis-pub-sub.jsonl.gz", folder / "wire" / "n1.jsonl.gz")
    assert run("--run", folder) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("n1: possible, ")
    assert second == "n2: possible, 1 request"


def test_impossible_reply_is_shown_with_the_possible_one_and_is_status_1(tmp_path: Path, capsys: Capsys) -> None:
    assert run("--run", stored(tmp_path / "run", n1=IMPOSSIBLE)) == 1
    assert capsys.readouterr().out.splitlines() == [
        "n1: impossible, 2 requests",
        "  after 0.003 s, 10.0.0.2:1 (connection 2): ['SET', 'k', 'b', 'NX']",
        "  real:      +OK",
        "  simulated: nil",
    ]


def test_traffic_that_cannot_be_checked_is_status_3_with_the_reason(tmp_path: Path, capsys: Capsys) -> None:
    assert run("--run", stored(tmp_path / "run", n1=Traffic("nats").recording())) == 3
    assert capsys.readouterr().out == "n1: unknown (not checked: there is no specification for nats)\n"


def test_document_has_what_is_printed(tmp_path: Path, capsys: Capsys) -> None:
    folder = stored(tmp_path / "run", n1=IMPOSSIBLE)
    assert run("--run", folder, "--json") == 1
    document = msgspec.convert(json.loads(capsys.readouterr().out), TraceDocument)
    assert (document.run, document.kind, document.status) == (str(folder), "redis-single", 1)
    (server,) = document.servers
    assert server.difference is not None
    assert server.difference.possible == ("nil",)


@pytest.mark.parametrize("missing", ["wire", "run"])
def test_folder_without_recordings_is_an_error_that_says_how_to_record(
    tmp_path: Path, capsys: Capsys, missing: str
) -> None:
    folder = tmp_path / "run"
    if missing == "wire":
        stored(folder)
    assert run("--run", folder) == 2
    assert ("--record-wire" if missing == "wire" else "no such run") in capsys.readouterr().err


def test_file_that_is_no_recording_is_an_error(tmp_path: Path, capsys: Capsys) -> None:
    folder = stored(tmp_path / "run")
    (folder / "wire" / "n1.jsonl.gz").write_bytes(b"x")
    assert run("--run", folder) == 2
    assert "n1.jsonl.gz" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--cluster", "sim"], ["--cluster", "docker", "--runs", "2"]])
def test_recording_is_refused_where_it_is_not_possible(
    capsys: Capsys, arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.cli.run_shared.complete_for", lambda plan, cluster: (replace(plan, cluster), ""))
    with pytest.raises(SystemExit) as ended:
        main(["run", "redis-token", "--record-wire", *arguments])
    assert ended.value.code == 2
    assert "--record-wire" in capsys.readouterr().err


def replace(plan: Plan, cluster: str) -> Plan:
    return msgspec.structs.replace(plan, cluster=cluster)


def test_run_is_as_its_worst_server_and_unknown_only_if_no_server_was_checked() -> None:
    def server(state: str) -> ServerTrace:
        return msgspec.convert({"host": "n1", "state": state}, ServerTrace)

    possible, impossible, unknown = map(server, ("possible", "impossible", "unknown"))
    assert state_of((possible, impossible, unknown)) == "impossible"
    assert state_of((unknown, possible)) == "possible"
    assert (state_of((unknown,)), state_of(())) == ("unknown", "unknown")


def test_counts_of_a_night_name_the_reasons_of_runs_that_were_not_checked() -> None:
    possible = ServerTrace(host="n1", state="possible", requests=1_200)
    impossible = ServerTrace(host="n1", state="impossible", requests=300)
    unknown = ServerTrace(host="n1", state="unknown", why="not checked: there is no specification for nats")
    found = trace_counts([(possible, unknown), (impossible,), (unknown,), (unknown, unknown), ()])
    assert (found.checked, found.impossible, found.requests) == (2, 1, 1_500)
    assert found.line == (
        "traffic of 2 runs checked (1,500 requests), 1 impossible; 2 not checked: there is no specification for nats"
    )
    assert not trace_counts([(), ()]).recorded
