"""Reading a run folder, and one clear message when it cannot be read."""

from __future__ import annotations

import html
import json
import re
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

from harness.checkers.holds import holds as checked_holds
from harness.documents import DocumentError
from harness.history import History, Op
from harness.reports import holds, model, run_report, timeline, timeline_text, words
from harness.reports.document import pairs
from harness.reports.timeline_servers import ENDS
from tests.reports import sample
from tests.reports.packed import unpacked


def change(folder: Path, **entries: Any) -> None:
    path = folder / "results.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | entries))


def test_violations_are_ordered_by_time(folder: Path) -> None:
    run = model.load(folder)
    assert run.judgement == "invalid"
    assert [(found.number, found.kind) for found in run.evidence[2:]] == [(3, "overlap"), (4, "interleaved")]
    starts = [found.start for found in run.evidence]
    assert starts == sorted(starts, key=lambda start: start or 0)
    assert run.interrupted == ""


@pytest.mark.slow
def test_the_page_gives_the_number_of_shown_and_of_all_overlaps(folder: Path) -> None:
    checkers = json.loads((folder / "results.json").read_text())["checkers"]
    checkers["mutual-exclusion"]["stats"]["violations"] = 37
    change(folder, checkers=checkers)
    run = model.load(folder)
    assert (timeline.build(run)["found"], len(run.evidence)) == (38, 4)
    page = run_report.render(run)
    assert "3 of 37 overlaps are shown" in page
    assert page.count("are shown: the first two of each cause") == 1


def test_holds_are_read_in_either_form(folder: Path) -> None:
    hold = {"client": "c1", "start_ns": 5, "end_ns": None, "fence": 0, "acquire_index": 3, "release_index": None}
    finding = {"kind": "overlap", "sentence": "x", "from_ns": sample.START_NS, "holds": [hold]}
    change(folder, checkers={"mutual-exclusion": {"valid": False, "evidence": [finding]}})
    (one,) = model.load(folder).evidence[0].involved
    assert (one.f, one.start, one.end, one.fence, one.indices) == ("hold", 5, None, "0", (3,))


def test_evidence_of_a_valid_check_is_no_violation(folder: Path) -> None:
    note = {"kind": "note", "sentence": "close", "from_ns": sample.START_NS}
    change(folder, checkers={"liveness": {"valid": True, "evidence": [note]}})
    assert model.load(folder).evidence == []


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("results.json", None, "results.json: cannot read it"),
        ("results.json", '{"schema": 1', "results.json, line 1, column"),
        ("results.json", "[]", "results.json: expected a JSON object, got []"),
        ("results.json", '{"valid": true}', "expected the key 'schema'"),
        ("results.json", '{"schema": 3, "valid": true}', "schema: expected 1 or 2, got 3"),
        ("results.json", '{"schema": 1}', "expected the key 'valid'"),
        ("results.json", '{"schema": 1, "valid": 3}', "valid: expected true, false or null, got 3"),
        ("results.json", '{"schema": 1, "valid": null, "faults": [7]}', "faults[0]: expected an object, got 7"),
        (
            "results.json",
            '{"schema": 1, "valid": null, "faults": [{"injected_ns": "x"}]}',
            'faults[0].injected_ns: expected a whole number or null, got "x"',
        ),
        ("history.jsonl", None, "history.jsonl: expected the history of the run"),
        ("history.jsonl", "nonsense\nnonsense\n", "history.jsonl, line 1: expected one history entry"),
    ],
)
def test_damage_is_reported_with_its_file(folder: Path, name: str, content: str | None, expected: str) -> None:
    path = folder / name
    path.unlink() if content is None else path.write_text(content)
    with pytest.raises(DocumentError) as caught:
        run_report.write(folder)
    assert expected in str(caught.value)
    assert str(folder) in str(caught.value)


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match="expected a run folder"):
        model.load(tmp_path / "none")


def test_damage_in_the_middle_of_a_history_names_the_line(folder: Path) -> None:
    path = folder / "history.jsonl"
    lines = path.read_bytes().split(b"\n")
    lines[41] = b"{}"
    path.write_bytes(b"\n".join(lines))
    with pytest.raises(DocumentError, match=r"history\.jsonl, line 42"):
        model.load(folder)


@pytest.mark.parametrize(
    ("entry", "value", "flaw"),
    [
        ("acquire", {"timeout": 1e308}, r"entry \d+ \(acquire\): value: Expected `float` <= 1000000000\.0 .*timeout"),
        ("acquire", {"timeout": "2 s"}, r"\(acquire\): value: Expected `float \| null`, got `str`"),
        ("read", {"arrival": None}, r"\(read\): value: Expected `int`, got `null`"),
        ("start", {"clients": 5}, r"entry 0 \(start\): value: Expected `array`, got `int`"),
        ("stop", None, r"the times of its entries are more than 2,592,000 s apart"),
    ],
    ids=["huge", "text", "null", "clients", "late"],
)
def test_a_field_that_no_run_writes_is_refused(folder: Path, entry: str, value: Any, flaw: str) -> None:
    path = folder / "history.jsonl"
    ops = [json.loads(line) for line in path.read_text().splitlines()]
    found = next(op for op in ops if op["f"] == entry)
    found.update({"value": found.get("value", {}) | value} if value else {"time": 2**62})
    path.write_text("".join(f"{json.dumps(op)}\n" for op in ops))
    with pytest.raises(DocumentError, match=flaw) as caught:
        run_report.write(folder)
    assert str(path) in str(caught.value)


def test_entries_out_of_order_are_sorted(folder: Path) -> None:
    path = folder / "history.jsonl"
    ops = [json.loads(line) for line in path.read_text().splitlines()]
    next(op for op in ops if op["f"] == "acquire" and op["type"] == "invoke")["time"] -= 10**12
    path.write_text("".join(f"{json.dumps(op)}\n" for op in ops))
    run_report.write(folder)
    assert model.load(folder).history[0].f == "acquire"


def test_damage_before_a_truncation_names_the_original_file(folder: Path) -> None:
    path = folder / "history.jsonl"
    path.write_bytes(b"nonsense\n" + path.read_bytes()[:-20])
    with pytest.raises(DocumentError, match=r"line 1") as caught:
        model.load(folder)
    assert str(path) in str(caught.value)


def test_a_truncated_history_is_shown_up_to_its_end(tmp_path: Path) -> None:
    run = model.load(sample.write(tmp_path, "interrupted"))
    assert "truncated at line" in run.interrupted
    assert len(run.history) > 1000
    assert "Interrupted." in run_report.render(run)


def test_a_run_without_a_stop_entry_was_interrupted(folder: Path) -> None:
    path = folder / "history.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    assert "no stop entry" in model.load(folder).interrupted


@pytest.mark.slow
def test_a_run_that_left_its_containers_frozen_says_so(folder: Path) -> None:
    assert "Frozen for inspection." not in run_report.render(model.load(folder))
    results = json.loads((folder / "results.json").read_text())
    hosts = {name: {"container": f"lock-harness-1-{name}"} for name in ("n1", "c0")}
    results["cluster"]["frozen"] = {"id": "1", "seconds": 0.234, "hosts": hosts}
    (folder / "results.json").write_text(json.dumps(results))
    run = model.load(folder)
    assert "2 containers (n1, c0) were frozen 0.23 s after the violation was found" in run_report.render(run)
    assert "frozen" not in dict(run.cluster)


def test_minimal_results_give_a_report(tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text('{"schema": 1, "valid": null}')
    (tmp_path / "history.jsonl").write_text("")
    assert "Unknown" in run_report.write(tmp_path).read_text()


def test_a_completion_without_an_invocation_is_an_error(folder: Path) -> None:
    History([Op(0, 1, 1, 0, "ok", "acquire", node="c0")]).save(folder / "history.jsonl")
    with pytest.raises(DocumentError, match="never invoked it"):
        run_report.write(folder)


def entry(index: int, at: float, kind: str, f: str, **rest: Any) -> Op:
    return Op(index, round(at * 1e9), 0, rest.pop("process", 0), kind, f, rest.pop("key", "k"), node="c0", **rest)  # type: ignore[arg-type]


def history_from_start(discipline: str, *entries: Op) -> History:
    return History([entry(0, 0, "info", "start", process=-1, value={"discipline": discipline}), *entries])


GRANT = {"fence": 4, "valid_for": 2.0}


def test_a_trusting_client_holds_until_it_releases() -> None:
    history = history_from_start(
        "trusting", entry(1, 1, "ok", "acquire", value=GRANT), entry(2, 9, "invoke", "release")
    )
    (hold,) = holds.find_holds(history)
    assert (hold.start, hold.end, hold.lease_end, hold.fence) == (10**9, 9 * 10**9, 3 * 10**9, "4")


def test_a_checking_client_holds_until_its_lease_runs_out() -> None:
    history = history_from_start(
        "checking", entry(1, 1, "ok", "acquire", value=GRANT), entry(2, 9, "invoke", "release")
    )
    assert holds.find_holds(history)[0].end == 3 * 10**9


def test_an_extended_lease_lasts_longer_and_a_lost_one_ends() -> None:
    history = history_from_start(
        "checking",
        entry(1, 1, "ok", "acquire", value=GRANT),
        entry(2, 2, "invoke", "extend"),
        entry(3, 2, "ok", "extend", value={"extended": True}),
        entry(4, 3.5, "invoke", "check"),
        entry(5, 3.5, "ok", "check", value={"valid": False}),
        entry(6, 8, "invoke", "release"),
    )
    (hold,) = holds.find_holds(history)
    assert (hold.end, hold.lease_end) == (3_500_000_000, 4 * 10**9)


@pytest.mark.parametrize(("ends", "seen"), [(1.5, False), (4, True), (None, True)])
def test_only_leases_not_released_in_time_are_shown(folder: Path, ends: float | None, seen: bool) -> None:
    entries = [entry(1, 1, "invoke", "acquire"), entry(2, 1.1, "ok", "acquire", value=GRANT)]
    entries += [] if ends is None else [entry(3, ends, "invoke", "release"), entry(4, ends, "ok", "release")]
    history_from_start("trusting", *entries).save(folder / "history.jsonl")
    assert timeline_text.canvas_text(timeline.build(model.load(folder)))["leases"] is seen


def test_a_crash_ends_the_holds_of_its_host() -> None:
    crash = entry(2, 5, "info", "crash", process=-1, value={"host": "c0"})
    assert (
        holds.find_holds(history_from_start("trusting", entry(1, 1, "ok", "acquire", value=GRANT), crash))[0].end
        == 5 * 10**9
    )


def test_a_nested_acquire_needs_one_more_release() -> None:
    grants = [entry(i, i, "ok", "acquire", value=GRANT) for i in (1, 2)]
    releases = [entry(i, i, "invoke", "release") for i in (3, 4)]
    (hold,) = holds.find_holds(history_from_start("trusting", *grants, *releases))
    assert hold.end == 4 * 10**9


def test_a_client_under_a_new_process_releases_its_hold() -> None:
    grant, lost = entry(1, 1, "ok", "acquire", value=GRANT), entry(2, 2, "info", "write", error="timeout")
    history = history_from_start("trusting", grant, lost, entry(3, 3, "invoke", "release", process=7))
    assert holds.find_holds(history)[0].end == 3 * 10**9


@pytest.mark.slow
def test_shared_holds_are_drawn_and_labelled_as_shared(folder: Path) -> None:
    run = model.load(folder)
    assert "shared" not in timeline.build(run)["holds"]
    assert "holds it shared" not in run_report.render(run)
    text = (folder / "history.jsonl").read_text().splitlines()
    grant = next(i for i, line in enumerate(text) if '"fence"' in line and '"ok"' in line and '"acquire"' in line)
    text[grant] = text[grant].replace('{"fence"', '{"shared":true,"fence"')
    (folder / "history.jsonl").write_text("\n".join(text) + "\n")
    run = model.load(folder)
    assert timeline.build(run)["holds"]["shared"].tolist().count(1) == 1
    assert [hold.shared for hold in holds.find_holds(run.history)] == [
        hold.shared for hold in checked_holds(run.history)
    ]
    assert "holds it shared" in run_report.render(run)


@pytest.mark.parametrize("kind", ["violation", "interrupted"])
def test_the_report_draws_the_holds_that_the_checkers_judge(tmp_path: Path, kind: str) -> None:
    history = model.load(sample.write(tmp_path, kind)).history
    last = history.time[-1]
    drawn = [(hold.client, hold.start, hold.end or last, hold.lease_end) for hold in holds.find_holds(history)]
    judged = [(hold.client, hold.start_ns, hold.end_ns, hold.lease_end_ns) for hold in checked_holds(history)]
    assert drawn == judged


def test_the_timeline_columns_agree_with_the_history(folder: Path) -> None:
    run = model.load(folder)
    data = timeline.build(run)
    calls = run.history.calls()
    assert len({len(column) for column in data["calls"].values()}) == 1
    assert sum(data["calls"]["invoked"]) == calls[-1].invoke.index
    assert sum(data["calls"]["start"]) == (calls[-1].invoke.time - run.history.origin) // 1000
    assert data["offsets"]["n3"][-2:] == [[13_502_000, 12_000_000], [17_400_000, 0]]
    activity = timeline_text.canvas_text(data)["activity"]
    assert sum(line.outcomes[0] for line in activity) == run.stats.acquires_ok
    assert sum(line.holds for line in activity) == len(data["holds"]["lane"])


def test_the_timeline_has_the_keys_of_servers(folder: Path) -> None:
    """In the first overlap c3's key disappears from the three servers whose clocks jumped, and c1's key replaces
    it."""
    run = model.load(folder)
    data = timeline.build(run)
    stays = {name: column.tolist() for name, column in data["stays"].items()}
    start = list(accumulate(stays["start"]))
    early = [i for i, ended in enumerate(stays["ended"]) if ENDS[ended] == "early"][:3]
    assert sorted(data["servers"][stays["lane"][i]] for i in early) == ["n2", "n3", "n5"]
    assert {data["texts"][stays["who"][i]] for i in early} == {"c3"}
    assert {start[i] + stays["took"][i] for i in early} == {14_568_744}
    assert all(stays["until"][i] == 2_000_000 for i in early)
    after = [i for i, at in enumerate(start) if 14_568_744 < at < 14_600_000]
    assert [data["texts"][stays["who"][i]] for i in after] == ["c1"] * 3


def test_a_run_without_recorded_keys_shows_no_keys(folder: Path) -> None:
    (folder / "keys.jsonl").unlink()
    data = timeline.build(model.load(folder))
    assert len(data["stays"]["lane"]) == 0
    assert timeline_text.canvas_text(data)["servers"] == []


def shorten_keys(folder: Path, lines: int, then: bytes) -> float:
    """Keep this many lines of a run's keys, then append ``then``. Return when (s) the last key was recorded."""
    path = folder / "keys.jsonl"
    kept = path.read_bytes().splitlines(keepends=True)[:lines]
    path.write_bytes(b"".join(kept) + then)
    return (json.loads(kept[-1])["time"] - sample.START_NS) / 1e9 if kept else 0.0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("then", "why"),
    [
        (b'{"time":50014', ": keys.jsonl is truncated at line 801"),
        (b"{}\n{}\n", ": keys.jsonl, line 801: expected a key"),
        (b"\xff\n\x00", ": keys.jsonl, line 801: expected a key"),
        (b"", "."),
    ],
)
def test_unrecorded_keys_are_shown_as_unknown(folder: Path, then: bytes, why: str) -> None:
    """After the last recorded state no lane shows a key, or the absence of one."""
    known = shorten_keys(folder, 800, then)
    run = model.load(folder)
    data = timeline.build(run)
    stays = {name: column.tolist() for name, column in data["stays"].items()}
    assert f"was not recorded after {known:.3f} s{why}" in html.unescape(run_report.render(run))
    assert data["known"] == round(known * 1e6)
    unknown = [i for i, who in enumerate(stays["who"]) if who < 0]
    assert [(stays["lane"][i], ENDS[stays["ended"][i]], stays["took"][i]) for i in unknown] == [
        (lane, "not recorded", -1) for lane in range(5)
    ]
    start = list(accumulate(stays["start"]))
    assert {start[i] for i in unknown} == {data["known"]}
    assert all(took >= 0 for i, took in enumerate(stays["took"]) if i not in unknown)
    assert all(server.silent == 0 for server in timeline_text.canvas_text(data)["servers"])


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, "was not recorded."),
        (b"", "was not recorded."),
        (b"nonsense\n", "is not known: keys.jsonl, line 1: expected a key"),
        (b"{", "is not known: keys.jsonl is truncated at line 1."),
    ],
)
def test_a_run_with_missing_keys_states_that_they_are_unknown(
    folder: Path, content: bytes | None, expected: str
) -> None:
    path = folder / "keys.jsonl"
    path.unlink() if content is None else path.write_bytes(content)
    page = html.unescape(run_report.render(model.load(folder)))
    assert f"The servers' state of the lock's key {expected}" in page


@pytest.mark.slow
def test_keys_that_end_after_a_whole_line_are_truncated_if_the_run_wrote_more(folder: Path) -> None:
    results = json.loads((folder / "results.json").read_bytes())
    results["stats"]["key_states"] = (folder / "keys.jsonl").read_bytes().count(b"\n")
    (folder / "results.json").write_text(json.dumps(results))
    assert model.load(folder).keys_trouble == ""
    known = shorten_keys(folder, 800, b"")
    page = html.unescape(run_report.render(model.load(folder)))
    assert f"was not recorded after {known:.3f} s: keys.jsonl is truncated after line 800 of " in page


def test_complete_keys_need_no_remark(folder: Path) -> None:
    assert "What servers had under the lock's key was" not in html.unescape(run_report.render(model.load(folder)))


def test_the_timeline_counts_stale_and_refused_writes(tmp_path: Path, folder: Path) -> None:
    accepted = timeline_text.canvas_text(timeline.build(model.load(folder)))["tokens"]
    refused = timeline_text.canvas_text(timeline.build(model.load(sample.write(tmp_path / "f", "fenced"))))["tokens"]
    assert (accepted.stale, accepted.refused) == (3, 0)
    assert (refused.stale, refused.refused) == (0, 3)
    assert accepted.granted == refused.granted > 200


def test_a_lock_without_tokens_has_no_token_lane(folder: Path) -> None:
    grants = [entry(0, 1, "invoke", "acquire"), entry(1, 2, "ok", "acquire", value={"fence": None})]
    History(grants).save(folder / "history.jsonl")
    data = timeline.build(model.load(folder))
    assert data["tokens"] is None
    assert timeline_text.canvas_text(data)["tokens"] is None


def test_the_page_has_the_columns_of_the_timeline_and_the_same_run_gives_the_same_page(folder: Path) -> None:
    run = model.load(folder)
    page = run_report.render(run)
    embedded = re.search('id="run-data">([^<]*)<', page)
    assert embedded is not None
    packed, data = unpacked(embedded[1]), timeline.build(run)
    tables = [(packed.data[name], data[name]) for name in ("calls", "holds", "stays")]
    tables += [(packed.data["tokens"][name], data["tokens"][name]) for name in ("grants", "shown")]
    for texts, columns in tables:
        assert {name: packed.column(text) for name, text in texts.items()} == {
            name: column.tolist() for name, column in columns.items()
        }
    assert packed.data["texts"] == data["texts"]
    assert run_report.render(model.load(folder)) == page


def test_concurrent_holds_of_two_keys_have_separate_rows(folder: Path) -> None:
    asks = [entry(i, i, "invoke", "acquire", process=i, key=f"k{i}") for i in range(2)]
    grants = [entry(2 + i, 3, "ok", "acquire", process=i, key=f"k{i}", value=GRANT) for i in range(2)]
    History([*asks, *grants]).save(folder / "history.jsonl")
    assert timeline.build(model.load(folder))["holds"]["level"].tolist() == [0, 1]


def test_values_are_formatted_in_words() -> None:
    assert words.span(103_000_000) == "103 ms"
    assert words.span(1_234_567_000_000) == "1,235 s"
    assert words.offset(-3 * 10**9) == "−3 s"
    assert words.offset(0) == "correct"
    assert words.at(14_593_000_000, 0) == "14.593 s"
    told = {"clock_ns": {"n2": 12 * 10**9, "n3": 0}, "after_heal": {"clock_ns": {"n2": 0}}, "state": {"c4": "T"}}
    assert words.observed(told) == "clock: n2 +12 s, n3 correct; after heal: clock: n2 correct; state: c4 T"
    assert pairs({"a": [1, "b"], "n": None}) == (("a", "1, b"), ("n", "null"))
