"""Recordings of several processes and machines are judged as one history, whatever their clocks and gaps allow."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from harness import check
from harness.errors import UsageError
from tests.record.drawn import MS, ORIGIN_NS, DrawnCall, Gap, draw_calls, recorded, write_recordings

MODELS = ("owner-mutex", "fenced-mutex", "lease-mutex", "mutex", "rw-lock")
ERROR_NS = 8 * MS


def drawn(seed: int, model: str) -> list[DrawnCall]:
    return draw_calls(Random(seed), leased=model == "lease-mutex", fenced=model == "fenced-mutex")


def verdict(paths: list[Path], model: str, **options: Any) -> bool | None:
    return check(paths, model, **options).verdict.valid


def holds(*times: tuple[int, int, int]) -> list[DrawnCall]:
    """Return the calls of holds: machine, and the true times (ms) of the grant and of the release."""
    found = []
    for machine, granted, released in times:
        at, until = ORIGIN_NS + granted * MS, ORIGIN_NS + released * MS
        found.append(DrawnCall(machine, 0, "acquire", at - MS, at, "ok"))
        found.append(DrawnCall(machine, 0, "release", until, until + MS, "ok"))
    return found


OVERLAP = holds((0, 0, 50), (1, 30, 80))


def test_processes_of_one_machine_need_no_wall_clock(tmp_path: Path) -> None:
    paths = write_recordings(tmp_path, OVERLAP, shifts=[0, 10**15], error_ns=None, one_clock=True)
    assert verdict(paths, "owner-mutex") is False
    paths = write_recordings(tmp_path, holds((0, 0, 50), (1, 60, 80)), shifts=[0, 0], error_ns=None, one_clock=True)
    assert verdict(paths, "owner-mutex") is True


def test_a_folder_of_recordings_is_one_history(tmp_path: Path) -> None:
    write_recordings(tmp_path, OVERLAP, shifts=[0, 0], one_clock=True)
    assert check(tmp_path, "owner-mutex").verdict.valid is False


@pytest.mark.parametrize(("error_ms", "expected"), [(1, False), (8, False), (11, None)])
def test_an_overlap_counts_if_it_is_longer_than_the_errors_of_the_clocks(
    tmp_path: Path, error_ms: int, expected: bool | None
) -> None:
    """The overlap lasts for 20 ms, and each clock has this error, and one of 1 ms for the drift of a second."""
    paths = write_recordings(tmp_path, OVERLAP, shifts=[0, 0], error_ns=error_ms * MS)
    assert verdict(paths, "owner-mutex") is expected


def test_holds_of_one_machine_are_compared_exactly(tmp_path: Path) -> None:
    calls = [*holds((0, 0, 50)), *(DrawnCall(0, 1, c.f, c.began, c.ended, c.kind) for c in holds((0, 49, 60)))]
    paths = write_recordings(tmp_path, [*calls, *holds((1, 500, 510))], shifts=[0, 0], error_ns=ERROR_NS)
    assert verdict(paths, "owner-mutex") is False
    assert verdict(paths, "mutex") is None


def test_clocks_without_a_stated_error_need_the_option(tmp_path: Path) -> None:
    paths = write_recordings(tmp_path, OVERLAP, shifts=[0, 0], error_ns=None)
    with pytest.raises(UsageError, match="clock-error"):
        check(paths, "owner-mutex")
    assert verdict(paths, "owner-mutex", clock_error=0.001) is False


def test_a_wall_clock_that_is_set_meanwhile_is_uncertain_by_as_much(tmp_path: Path) -> None:
    paths = write_recordings(tmp_path, OVERLAP, shifts=[0, 0], error_ns=MS)
    lines = paths[1].read_text().splitlines(keepends=True)
    stepped = lines[-1].replace('"f":"stop","value":{"reason":"done"}', '"f":"clock","value":{"error_ns":0}')
    before, wall = stepped.rsplit('"wall":', 1)
    ahead = int(wall.rstrip("}\n")) + 100 * MS
    paths[1].write_text("".join([*lines[:-1], f'{before}"wall":{ahead}}}\n', lines[-1]]))
    assert verdict(paths, "owner-mutex") is None


def test_a_lost_release_may_explain_an_overlap(tmp_path: Path) -> None:
    """The first holder may have released the lock, and acquired it again after the second one."""
    calls = holds((0, 0, 50), (1, 20, 40))
    gap = Gap(0, ORIGIN_NS + 10 * MS, ORIGIN_NS + 15 * MS)
    paths = write_recordings(tmp_path, calls, shifts=[0, 0], gaps=[gap], one_clock=True)
    assert verdict(paths, "owner-mutex") is None
    late = Gap(0, ORIGIN_NS + 60 * MS, ORIGIN_NS + 70 * MS)
    paths = write_recordings(tmp_path, calls, shifts=[0, 0], gaps=[late], one_clock=True)
    assert verdict(paths, "owner-mutex") is False


def test_no_recording_with_a_loss_is_valid(tmp_path: Path) -> None:
    calls = holds((0, 0, 50), (1, 60, 80))
    gap = Gap(0, ORIGIN_NS + 10 * MS, ORIGIN_NS + 20 * MS)
    report = check(write_recordings(tmp_path, calls, shifts=[0, 0], gaps=[gap], one_clock=True), "owner-mutex")
    assert report.verdict.valid is None
    assert "1 call of " in report.verdict.explanation


def test_a_killed_process_may_have_released_after_its_last_entry(tmp_path: Path) -> None:
    gap = Gap(0, ORIGIN_NS + 20 * MS, None)
    calls = recorded(OVERLAP, [gap])
    paths = write_recordings(tmp_path, calls, shifts=[0, 0], gaps=[gap], one_clock=True)
    assert verdict(paths, "owner-mutex") is None
    gap = Gap(0, ORIGIN_NS + 40 * MS, None)
    paths = write_recordings(tmp_path, recorded(OVERLAP, [gap]), shifts=[0, 0], gaps=[gap], one_clock=True)
    assert verdict(paths, "owner-mutex") is False


def test_another_history_is_not_merged_with_a_recording(tmp_path: Path) -> None:
    paths = write_recordings(tmp_path, OVERLAP, shifts=[0, 0], one_clock=True)
    other = tmp_path / "other.jsonl"
    other.write_text('{"index":0,"time":1,"wall":1,"process":0,"type":"invoke","f":"acquire"}\n')
    with pytest.raises(UsageError, match="not a recording"):
        check([*paths, other], "owner-mutex")


@pytest.mark.few(1)
@pytest.mark.parametrize("seeds", [range(30), pytest.param(range(30, 150), marks=pytest.mark.slow)], ids=str)
@pytest.mark.parametrize("model", MODELS)
def test_a_violation_is_one_under_every_clock_and_with_the_missing_calls(
    tmp_path: Path, model: str, seeds: range
) -> None:
    """The property: a violation of the recordings is one of the true history, and of the history under other clocks
    within their errors. The control: violations are found, and fewer than without errors and gaps."""
    found = true = 0
    for seed in seeds:
        random = Random(seed)
        calls = drawn(seed, model)
        gaps = draw_gaps(random, calls)
        shifts = [random.randint(-ERROR_NS, ERROR_NS) for _ in range(2)]
        paths = write_recordings(tmp_path / "r", recorded(calls, gaps), shifts=shifts, error_ns=ERROR_NS, gaps=gaps)
        really = verdict(write_recordings(tmp_path / "t", calls, shifts=[0, 0], one_clock=True), model)
        true += really is False
        if verdict(paths, model) is not False:
            continue
        found += 1
        assert really is False, seed
        for _ in range(3):
            others = [shift + random.randint(-ERROR_NS, ERROR_NS) for shift in shifts]
            shifted = write_recordings(tmp_path / "s", calls, shifts=others, error_ns=0)
            assert verdict(shifted, model) is False, (seed, others)
    print(f"{model}: {true} violations, of which {found} were found in spite of clocks and gaps")
    assert 2 < found < true


def draw_gaps(random: Random, calls: list[DrawnCall]) -> list[Gap]:
    since = random.choice(calls).began - 2 * MS
    machine = random.randint(0, 1)
    return random.choice([[], [], [Gap(machine, since, since + 5 * MS)], [Gap(machine, since, None)]])
