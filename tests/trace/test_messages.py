"""The trace of a simulated run has times, calls and lines of the lock's source, and changes nothing in the run."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import msgspec
import pytest

from harness.cli.main import main
from harness.documents import DocumentError
from harness.documents.messages import LOG, TRACE, TracedMessage, TraceMode, pack_messages
from harness.errors import USAGE
from harness.history import History
from harness.plan import FaultSpec, Plan
from harness.run.runs import run
from harness.trace.log import LoggedMessages, LogHead, pack_log
from harness.trace.reading import load_trace
from harness.trace.storing import TracedRun, stored_log

from .logged import LoggedRun, run_logged

PLAN = Plan(lock="redis-token", time_limit=3.0, clients=2)


@pytest.fixture(scope="module")
def logged() -> LoggedRun:
    return run_logged(PLAN)


def test_logging_leaves_the_history_as_it_is(logged: LoggedRun) -> None:
    assert run_logged(PLAN, logs=False).entries == logged.entries


def test_the_same_seed_gives_the_same_bytes(logged: LoggedRun) -> None:
    again = run_logged(PLAN)
    assert again.log() == logged.log()
    assert pack_messages(again.trace()) == pack_messages(logged.trace())


def test_times_of_a_message_are_in_order(logged: LoggedRun) -> None:
    for one in logged.trace().messages:
        assert one.sent is not None
        assert one.arrived is not None
        assert one.executed is not None
        assert one.replied is not None
        assert one.sent < one.arrived <= one.executed < one.replied


def test_a_message_belongs_to_the_call_during_which_it_was_sent(logged: LoggedRun) -> None:
    history = logged.history()
    calls = {call.invoke.index: call for call in history.calls("acquire", "release")}
    messages = logged.trace().messages
    for one in messages:
        assert one.call is not None
        call = calls[one.call]
        assert call.invoke.node == one.client
        assert call.invoke.process == one.process
        assert one.sent is not None
        assert call.invoke.time <= one.sent
        assert call.done is None or one.sent <= call.done.time
    assert {history[one.call].f for one in messages if one.name == "SET"} == {"acquire"}  # type: ignore[index]


def test_a_message_names_the_line_of_the_lock_that_sent_it(logged: LoggedRun) -> None:
    trace = logged.trace()
    for one in trace.messages:
        if one.name in ("SET", "EVALSHA"):
            line = trace.sources[one.file].splitlines()[one.line - 1]
            assert (".set(" if one.name == "SET" else "_delete_own(") in line, (one, line)


def test_a_library_that_sends_in_a_task_of_its_own_has_the_line_of_the_lock() -> None:
    """redis-py does so before Python 3.12."""
    trace = run_logged(Plan(lock="redis-py-asyncio-lock", time_limit=1.0, clients=2)).trace()
    assert len(trace.messages) > 20
    for one in trace.messages:
        assert (one.file.endswith("lock.py"), one.call is not None) == (True, True), one
        assert trace.sources[one.file].splitlines()[one.line - 1].strip()


def test_scripts_are_named(logged: LoggedRun) -> None:
    scripts = [one.request.split()[1] for one in logged.trace().messages if one.name == "EVALSHA"]
    assert set(scripts) == {"COMPARE_AND_DELETE"}


def stored(folder: Path | None) -> tuple[TracedMessage, ...] | None:
    assert folder is not None
    trace = load_trace(folder)
    return None if trace is None else trace.messages


@pytest.mark.parametrize("mode", ["on", "off"])
def test_a_stored_run_has_its_trace(tmp_path: Path, mode: str) -> None:
    result = run(PLAN, store=tmp_path, trace=mode)  # type: ignore[arg-type]
    messages = stored(result.folder)
    assert messages is None if mode == "off" else len(messages or ()) > 50


@pytest.mark.slow
def test_only_messages_around_violations_of_a_long_run_are_kept(tmp_path: Path) -> None:
    jump = FaultSpec("clock-jump", every=10.0)
    result = run(Plan(lock="redlock", time_limit=40.0, faults=(jump,)), store=tmp_path)
    assert result.folder is not None
    trace = load_trace(result.folder)
    assert trace is not None
    assert trace.windows
    assert 0 < len(trace.messages) < trace.total / 2
    first = min(one.from_ns for verdict in result.verdicts.values() for one in verdict.evidence)
    around = [one for one in trace.messages if one.executed and abs(one.executed - first) < 1_000_000_000]
    assert len(around) > 10
    for one in trace.messages:
        times = [time for time in (one.sent, one.arrived, one.executed, one.replied) if time is not None]
        assert any(begin <= max(times) and min(times) <= end for begin, end in trace.windows)


def test_a_long_run_without_violations_has_no_trace(tmp_path: Path) -> None:
    assert stored(run(Plan(lock="redlock", time_limit=15.0), store=tmp_path).folder) is None


def test_messages_without_a_decoder_are_kept_only_if_wanted(logged: LoggedRun) -> None:
    def kept(service: str, mode: TraceMode) -> bool:
        run = TracedRun(service, service, "docker", mode)
        return stored_log(LoggedMessages(logged.messages.batches[:1]), run, History(), ()) is not None

    assert kept("redis", "violations")
    assert not kept("kubernetes", "violations")
    assert kept("kubernetes", "on")


def test_a_bad_value_of_the_option_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of("run", "redis-token", "--trace", "yes") == USAGE
    assert "expected on, off or violations, got 'yes'" in capsys.readouterr().err


def log_of(*batches: object) -> bytes:
    head = LogHead(schema=1, kind="redis", service="redis", backend="sim", mode="on")
    return pack_log(head, [msgspec.msgpack.encode(batch) for batch in batches])


@pytest.mark.parametrize("name", [TRACE, LOG])
@pytest.mark.parametrize("content", [b"", b"not gzip", b"\x1f\x8b\x08", gzip.compress(b"{}\n", mtime=0)])
def test_a_broken_file_is_one_clear_error(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DocumentError, match=r"expected the (trace of a run|log of a run's messages)"):
        load_trace(tmp_path, History())


@pytest.mark.parametrize(
    "entry",
    [
        [], [1], [1, 0, 5, b"x", -1, -1], [3, 0, 5], [0, 0, 1, "c0"], 7, [1, "a", None], [2, -1, None, b""],
    ],
)  # fmt: skip
def test_a_malformed_entry_is_one_clear_error(tmp_path: Path, entry: object) -> None:
    (tmp_path / LOG).write_bytes(log_of([entry]))
    with pytest.raises(DocumentError, match="an entry is malformed"):
        load_trace(tmp_path, History())


def test_a_log_with_an_incomplete_batch_is_one_clear_error(tmp_path: Path) -> None:
    whole = gzip.decompress(log_of([[0, 0, 1, "c0", "n1", "c0>n1"]]))
    (tmp_path / LOG).write_bytes(gzip.compress(whole[:-1]))
    with pytest.raises(DocumentError, match="its last batch is incomplete"):
        load_trace(tmp_path, History())


def test_the_file_is_lines_of_json(tmp_path: Path, logged: LoggedRun) -> None:
    (tmp_path / TRACE).write_bytes(pack_messages(logged.trace()))
    head, *lines = gzip.decompress((tmp_path / TRACE).read_bytes()).splitlines()
    assert json.loads(head)["schema"] == 1
    assert len(lines) == len(logged.trace().messages)
    assert load_trace(tmp_path) == logged.trace()


def status_of(*words: str) -> object:
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    return ended.value.code


def test_the_command_writes_the_decoded_trace(
    tmp_path: Path, logged: LoggedRun, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    logged.history().save(folder / "history.jsonl")
    (folder / LOG).write_bytes(logged.log())
    assert status_of("trace", str(folder), str(tmp_path / "messages.jsonl")) == 0
    head, *lines = (tmp_path / "messages.jsonl").read_bytes().splitlines()
    assert json.loads(head)["total"] == len(lines)
    assert f"{len(lines):,} messages written to" in capsys.readouterr().out
    assert status_of("trace", str(folder)) == 0
    assert (folder / TRACE).read_bytes() == pack_messages(logged.trace())
    assert load_trace(folder) == logged.trace()


def test_the_command_wants_a_run_with_messages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    History().save(tmp_path / "history.jsonl")
    for words, message in (([], "were not logged"), ([str(tmp_path / "x.csv")], "expected a name that ends in")):
        assert status_of("trace", str(tmp_path), *words) == USAGE
        assert message in capsys.readouterr().err
