"""Reading our histories into calls by column gives the calls of the history in memory, for every block size."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.checkers.view import View
from harness.history import History, HistoryError, Op
from harness.history.calls import NEVER, NO_FENCE, Wants
from harness.history.clients import distinct_names, take_over
from harness.history.files import calls_of, read_calls
from harness.history.jsonl import frozen_lists
from tests.history.drawn import assert_same, draw_history, plain

GOLDEN = sorted((Path(__file__).parents[1] / "checkers" / "golden").glob("*/*.jsonl"))
WANTS: tuple[Wants, ...] = ("nothing", "leases", "grants", "values")


def oracle(history: History) -> list[dict[str, Any]]:
    """Return the calls by the slow ways: :meth:`History.calls` and :class:`View`."""
    history = history.in_order()
    view = View(history)
    first: dict[int, int] = {}
    for client, process in zip(view.client.tolist(), history.process, strict=True):
        first.setdefault(client, process)
    names = distinct_names((name, str(first[client])) for client, name in enumerate(view.names))
    rows = []
    for call in history.calls():
        known, done = call.outcome == "ok", call.done
        if call.outcome == "fail":
            continue
        client = int(view.client[call.invoke.index])
        rows.append(
            {
                "f": call.invoke.f,
                "key": call.invoke.key,
                "client": (client, names[client]),
                "process": call.invoke.process,
                "known": known,
                "invoked": call.invoke.index,
                "returned": done.index if done and known else None,
                "began": call.invoke.time,
                "ended": done.time if done and known else None,
                "argument": frozen_lists(call.invoke.value),
                "result": frozen_lists(done.value) if done and known else None,
            }
        )
    return rows


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("histories")


@given(st.integers(0, 10**6), st.integers(1, 3), st.integers(1, 400), st.booleans())
@settings(max_examples=20)
def test_calls_equal_those_of_the_history(folder: Path, seed: int, keys: int, block: int, tidy: bool) -> None:
    compare(folder, seed, keys, block, tidy)


@pytest.mark.slow
@given(st.integers(0, 10**9), st.integers(1, 3), st.integers(1, 6000), st.booleans())
@settings(max_examples=700)
def test_calls_equal_those_of_many_histories(folder: Path, seed: int, keys: int, block: int, tidy: bool) -> None:
    compare(folder, seed, keys, block, tidy)


def compare(folder: Path, seed: int, keys: int, block: int, tidy: bool) -> None:
    history = draw_history(seed, keys=keys, tidy=tidy)
    path = folder / "h.jsonl"
    history.save(path)
    calls = read_calls(path, "values", block=block)
    assert plain(calls) == oracle(history)
    assert (calls.entries, calls.complete, calls.settings["ttl"]) == (len(history), True, 2.0)
    assert calls.failed == sum(call.outcome == "fail" for call in history.in_order().calls())
    assert (np.diff(calls.invoked) > 0).all()
    for wants in WANTS:
        assert_same(read_calls(path, wants, block=block), calls_of(history, wants))


@pytest.mark.few(114)
@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_calls_of_golden_histories_equal_the_oracle(path: Path) -> None:
    history = History.load(path)
    calls = calls_of(history, "values")
    assert plain(calls) == oracle(history)
    assert_same(read_calls(path, "values", block=1000), calls)
    without = read_calls(path, "nothing", block=1000)
    assert without.invoked.tolist() == calls.invoked.tolist()
    assert (without.values, without.result.max(initial=-1), len(without.fence)) == ([], -1, 0)


def line(process: int, kind: str, f: str, value: Any = None, **more: Any) -> str:
    return json.dumps({"time": 5, "process": process, "type": kind, "f": f, "value": value, **more})


def lines(tmp_path: Path, *text: str, end: str = "\n") -> Path:
    path = tmp_path / "h.jsonl"
    path.write_text("\n".join(text) + end)
    return path


def test_tokens_and_leases_of_grants_are_read(tmp_path: Path) -> None:
    answers = [
        ("acquire", {"fence": 2**63 - 1, "valid_for": 1.5}, (2**63 - 1, 1_500_000_000, -1)),
        ("acquire", {"fence": None, "valid_for": -1}, (NO_FENCE, -1_000_000_000, -1)),
        ("acquire", 12, (12, NEVER, -1)),
        ("lock", None, (NO_FENCE, NEVER, -1)),
        ("extend", {"extended": False}, (NO_FENCE, NEVER, 0)),
        ("extend", {"extended": True, "valid_for": 1e300}, (NO_FENCE, NEVER, 1)),
        ("check", {"valid": True}, (NO_FENCE, NEVER, 1)),
        ("read", {"fence": "not looked at"}, (NO_FENCE, NEVER, -1)),
    ]
    text = [entry for f, value, _ in answers for entry in (line(0, "invoke", f), line(0, "ok", f, value))]
    calls = read_calls(lines(tmp_path, *text), "grants")
    found = zip(calls.fence.tolist(), calls.lease.tolist(), calls.good.tolist(), strict=True)
    assert list(found) == [grant for _, _, grant in answers]
    assert calls.values == []


@pytest.mark.parametrize("fence", ["ff01", 2**63, 1.5, True])
def test_a_token_that_is_no_whole_number_is_refused_with_its_line(tmp_path: Path, fence: Any) -> None:
    good = [line(0, "invoke", "acquire"), line(0, "ok", "acquire", {"fence": 1})]
    path = lines(tmp_path, *good, line(0, "invoke", "acquire"), line(0, "ok", "acquire", {"fence": fence}))
    with pytest.raises(HistoryError, match="line 4: tokens of this model must be whole numbers"):
        read_calls(path, "grants")
    assert [len(read_calls(path, wants)) for wants in ("nothing", "leases", "values")] == [2, 2, 2]


def test_equal_values_are_stored_once_with_lists_as_tuples(tmp_path: Path) -> None:
    asked = [[1, [2]], {"a": [3]}, [1, [2]], None]
    text = [entry for v in asked for entry in (line(0, "invoke", "cas", v), line(0, "ok", "cas"))]
    calls = read_calls(lines(tmp_path, line(-1, "info", "start", {"ttl": 2}), *text), "values")
    assert calls.settings == {"ttl": 2}
    assert calls.values == [(1, (2,)), {"a": (3,)}]
    assert calls.argument.tolist() == [0, 1, 0, -1]


WRONG = {
    "nobody invoked": ([line(3, "ok", "read")], "line 2: process 3 completed 'read' but never invoked it"),
    "another function": (
        [line(3, "invoke", "read"), "", line(3, "ok", "cas")],
        "line 4: process 3 completed 'cas' but never invoked it",
    ),
    "busy": ([line(3, "invoke", "read"), line(3, "invoke", "cas")], "line 3: process 3 invoked 'cas' while its 'read'"),
    "no JSON": (["{]"], r"line 2: expected one history entry as a JSON object, got '\{\]'"),
    "no entry": (["[1]"], "line 2: expected one history entry"),
    "no process": (['{"type":"ok","f":"x","time":1}'], "line 2: .* missing required field `process`"),
    "a type that is none": ([line(1, "okay", "read")], "line 2: .*Invalid enum value 'okay'"),
    "a large number": ([line(2**63, "invoke", "read")], "line 2: expected one history entry"),
    "a late time": ([line(2, "invoke", "read", time=2**63)], "line 2: expected one history entry"),
    "two on a line": (['{"process":1}{"process":2}'], "line 2: expected one history entry"),
    "on two lines": (['{"process":1,', '"time":2}'], "line 2: expected one history entry"),
    "deep": ([line(1, "invoke", "read") + "[" * 5000], "line 2: expected one history entry"),
}


@pytest.mark.parametrize("block", [1, 1 << 20])
@pytest.mark.parametrize("name", WRONG)
def test_an_error_names_its_line(tmp_path: Path, name: str, block: int) -> None:
    text, message = WRONG[name]
    path = lines(tmp_path, line(0, "invoke", "read"), *text, line(0, "ok", "read"))
    with pytest.raises(HistoryError, match=rf"h\.jsonl, {message}"):
        read_calls(path, "values", block=block)


def test_an_error_in_memory_names_the_index() -> None:
    history = History()
    history.append(Op(0, 0, 0, 2, "ok", "x"))
    with pytest.raises(HistoryError, match="the history, entry 0: process 2 completed 'x'"):
        calls_of(history, "nothing")


@pytest.mark.parametrize("block", [1, 60, 1 << 20])
def test_a_truncated_last_line_is_left_out(tmp_path: Path, block: int) -> None:
    path = lines(tmp_path, line(0, "invoke", "read"), line(0, "ok", "read")[:-9], end="")
    calls = read_calls(path, "values", block=block)
    assert (len(calls), calls.complete, calls.known.tolist()) == (1, False, [0])
    whole = lines(tmp_path, line(0, "invoke", "read"), line(0, "ok", "read"), end="")
    assert read_calls(whole, "values", block=block).complete
    with pytest.raises(HistoryError, match=r"line 1: .*the file is truncated here"):
        read_calls(lines(tmp_path, '{"process":', end=""), "nothing", block=block)


def test_empty_files_and_blank_lines_are_accepted(tmp_path: Path) -> None:
    for wants in WANTS:
        assert len(read_calls(lines(tmp_path, end=""), wants)) == 0
        calls = read_calls(lines(tmp_path, "", line(0, "invoke", "read"), "  ", "", line(0, "ok", "read")), wants)
        assert calls.returned.tolist() == [1]


def test_calls_without_hosts_and_keys_get_default_names(tmp_path: Path) -> None:
    calls = read_calls(lines(tmp_path, line(7, "invoke", "acquire"), line(7, "info", "acquire")), "nothing")
    assert (calls.clients, calls.keys, calls.settings, calls.known.tolist()) == (["process 7"], [""], {}, [0])


def test_a_new_process_continues_the_client_that_waits_longest() -> None:
    """After a crash of the host no client continues, and never one of another host."""
    owner, names = take_over(
        [
            (0, "begin", 0, "a"),
            (1, "begin", 1, "a"),
            (2, "retire", 1, "a"),
            (3, "retire", 0, "a"),
            (4, "begin", 2, "b"),
            (5, "begin", 3, "a"),
            (6, "crash", -1, "a"),
            (7, "begin", 4, "a"),
            (8, "begin", 5, None),
        ]
    )
    assert owner == {0: 0, 1: 1, 2: 2, 3: 1, 4: 3, 5: 4}
    assert names == ["a", "a", "b", "a", "process 5"]


def test_gzip_files_are_read_and_progress_is_reported(tmp_path: Path) -> None:
    history = draw_history(4)
    for name in ("h.jsonl", "h.jsonl.gz"):
        history.save(tmp_path / name)
        seen: list[int] = []
        totals: list[int] = []

        def heard(at: int, total: int, seen: list[int] = seen, totals: list[int] = totals) -> None:
            seen.append(at)
            totals.append(total)

        calls = read_calls(tmp_path / name, "values", block=500, progress=heard)
        assert_same(calls, calls_of(history, "values"))
        size = (tmp_path / name).stat().st_size
        assert (seen[-1], set(totals)) == (size, {size})
        assert seen == sorted(seen)


def test_unreadable_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match=r"ends in one of \.jsonl, \.edn, \.jsonl\.gz, \.edn\.gz"):
        read_calls(tmp_path / "h.csv", "nothing")
    with pytest.raises(HistoryError, match="cannot read the history"):
        read_calls(tmp_path / "none.jsonl", "nothing")
    (tmp_path / "h.jsonl.gz").write_bytes(gzip.compress(b"{}\n" * 99)[:-9])
    with pytest.raises(HistoryError, match=r"h\.jsonl\.gz"):
        read_calls(tmp_path / "h.jsonl.gz", "nothing")
