"""The store: one folder per run, never overwritten, and a link to the latest."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from harness.errors import UsageError, unknown_name
from harness.history import History, HistoryError, HistoryWriter, Op
from harness.run.store import LATEST, NOT_LOCKS, find_run, new_run, write_results

NOON = datetime(2026, 1, 2, 12, 0, 0, tzinfo=UTC)


def test_folders_are_named_by_lock_time_and_seed(tmp_path: Path) -> None:
    first = new_run(tmp_path, "redlock", 7, NOON)
    assert first == tmp_path / "redlock" / "20260102T120000Z-7"
    again = new_run(tmp_path, "redlock", 7, NOON)
    assert again.name == "20260102T120000Z-7-2"
    assert (tmp_path / LATEST).resolve() == again
    assert new_run(tmp_path, "package.module:Class", 1, NOON).parent.name == "package.module.Class"


def test_a_lock_has_no_folder_of_other_results(tmp_path: Path) -> None:
    for name in NOT_LOCKS:
        assert new_run(tmp_path, name, 7, NOON).parent.name == f"{name}.lock"


def test_a_lock_name_cannot_escape_the_store(tmp_path: Path) -> None:
    folder = new_run(tmp_path / "s", "../../evil", 1, NOON)
    assert (tmp_path / "s") in folder.resolve().parents


def test_results_are_replaced_in_one_step(tmp_path: Path) -> None:
    write_results(tmp_path, {"valid": True})
    write_results(tmp_path, {"valid": False})
    assert json.loads((tmp_path / "results.json").read_text()) == {"valid": False}
    assert [path.name for path in tmp_path.iterdir()] == ["results.json"]


def test_a_run_is_found_by_folder_file_or_link(tmp_path: Path) -> None:
    folder = new_run(tmp_path, "redlock", 7, NOON)
    (folder / "history.jsonl").write_text("")
    for given in (folder, folder / "history.jsonl", tmp_path / LATEST):
        assert find_run(given) == folder
    with pytest.raises(UsageError, match=r"it has no history\.jsonl"):
        find_run(tmp_path)


def test_a_history_survives_a_round_trip_with_and_without_gzip(tmp_path: Path) -> None:
    ops = [
        Op(0, 5, 7, -1, "info", "start", None, {"clients": ["c0"]}),
        Op(1, 6, 8, 0, "invoke", "acquire", "k", {"timeout": 1.0}, None, "c0"),
        Op(2, 9, 9, 0, "info", "acquire", "k", None, "TimeoutError: ü", "c0"),
    ]
    for name in ("h.jsonl", "h.jsonl.gz"):
        History(ops).save(tmp_path / name)
        assert list(History.load(tmp_path / name)) == ops


def test_a_history_refuses_gaps_and_unmatched_completions() -> None:
    with pytest.raises(HistoryError, match="entry 5 appended at position 0"):
        History([Op(5, 0, 0, 0, "ok", "acquire")])
    with pytest.raises(HistoryError, match="entry 0: process 0 completed 'acquire' but never invoked it"):
        History([Op(0, 0, 0, 0, "ok", "acquire")]).calls()


def test_each_entry_is_on_disk_at_once(tmp_path: Path) -> None:
    writer = HistoryWriter(tmp_path / "h.jsonl")
    writer.write(Op(0, 1, 1, 0, "invoke", "acquire"))
    assert len(History.load(tmp_path / "h.jsonl")) == 1
    writer.close()


def test_an_unknown_name_is_reported_with_the_nearest_known_one() -> None:
    assert str(unknown_name("colour", "gren", ["green", "blue"])) == "unknown colour 'gren': did you mean green?"
    assert str(unknown_name("colour", "xyz", ["green", "red"])) == "unknown colour 'xyz': known: green, red"
