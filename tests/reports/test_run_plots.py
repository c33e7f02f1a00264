"""The figures and pictures of a run: what is measured and drawn, and that the files stay small."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib import rc_context

from harness.checkers.availability import Recovery, Served
from harness.history import History, Op
from harness.reports import measures, model, plots, run_plots, run_report
from harness.reports.measures import Measures, Timed, TimedOperation
from tests.reports import sample

Reported = Callable[[str], Path]
MS = 1_000_000
START = {"clients": ["c0", "c1"], "servers": ["n1"], "discipline": "trusting", "ttl": 2.0, "hold": 0.1, "slack": 1.0}


def history(*calls: tuple[int, int, int | None, str, str]) -> History:
    """Return a history of calls after a start entry at 0. A call is process, begin and end (ms; None: no answer),
    outcome and name."""
    entries: list[tuple[int, int, str, str]] = []
    for process, begin, end, outcome, f in calls:
        entries += [(begin, process, "invoke", f), *([(end, process, outcome, f)] if end is not None else [])]
    found = History([Op(0, 0, 0, -1, "info", "start", value=START)])
    for index, (at, process, kind, f) in enumerate(sorted(entries, key=lambda entry: entry[0]), 1):
        node = f"c{process}"
        found.append(Op(index, at * MS, at * MS, process, kind, f, "k0", {"timeout": 1.0}, node=node))  # type: ignore[arg-type]
    return found


def timed_calls(count: int) -> Timed:
    return Timed(np.linspace(0.0, 9.9, count), np.geomspace(1e-3, 1.0, count) if count else np.zeros(0))


def measures_of(count: int, recoveries: tuple[Recovery, ...] = ()) -> Measures:
    operation = TimedOperation("acquire", timed_calls(count), timed_calls(count // 9), timed_calls(0), 0)
    return Measures(0, 10.0, 2.0, (operation,), (), recoveries)


def draw_svg(figure: run_plots.Painter, run: Measures, bands: tuple[run_plots.Band, ...] = ()) -> str:
    with rc_context(plots.STYLE):
        return plots.inline(plots.save(figure(run, bands), None, "one"), "one")


def test_calls_are_counted_by_operation_and_outcome() -> None:
    run = measures.measure(
        history(
            (0, 10, 30, "ok", "acquire"), (0, 40, 41, "ok", "release"), (1, 15, 1015, "fail", "acquire"),
            (0, 50, 60, "ok", "acquire"), (0, 70, 90, "info", "release"), (1, 1100, None, "", "acquire"),
        )
    )  # fmt: skip
    acquire, release = run.operations
    assert (acquire.f, release.f) == ("acquire", "release")
    assert acquire.ok.took.tolist() == pytest.approx([0.02, 0.01])
    assert acquire.ok.done.tolist() == pytest.approx([0.03, 0.06])
    assert (len(acquire.fail), len(acquire.info), acquire.open) == (1, 0, 1)
    assert (len(release.ok), len(release.info), release.open) == (1, 1, 0)
    assert acquire.ok.quantile(0.5) == 15 * MS
    assert acquire.info.quantile(0.5) is None


def test_the_headline_figures_have_the_expected_values() -> None:
    run = measures.measure(
        history((0, 0, 10, "ok", "acquire"), (0, 500, 501, "ok", "release"), (1, 400, 1000, "ok", "acquire"))
    )
    told = {figure.name: (figure.value, figure.note) for figure in measures.figures(run)}
    assert told["Granted a second"] == ("2", "2 in 1 s")
    assert told["Acquire, 99 % within"] == ("594 ms", "half of them within 305 ms")
    assert told["Available"][0] == "75 %"  # of four quarter seconds, [0.5 s, 0.75 s) had no grant
    assert told["Longest gap"] == ("500 ms", "wanted but not granted, from 0.500 s")
    simulated = [figure.name for figure in measures.figures(run, virtual=True)]
    assert simulated[:2] == ["Granted a virtual second", "Acquire, 99 % within (virtual)"]
    assert simulated[2:] == ["Available", "Longest gap (virtual)"]


def test_the_page_shows_the_headline_figures(reported: Reported) -> None:
    text = reported("violation").read_text()
    head = text[text.index('<dl class="figures">') : text.index('id="checkers"')]
    for figure in measures.figures(measures.measure(model.load(reported("violation").parent).history), virtual=True):
        assert figure.name in head
        assert figure.value in head


def test_a_run_without_acquires_has_no_headline_figures() -> None:
    run = measures.measure(history((0, 10, 30, "ok", "write")))
    assert measures.figures(run) == []
    assert [one.f for one in run.operations] == ["write"]
    assert (run.keys, run.recoveries) == ((), ())


def test_an_empty_run_has_a_page_without_pictures(folder: Path) -> None:
    (folder / "history.jsonl").write_text("")
    assert run_plots.draw(model.load(folder), measures.measure(History())) == {}
    assert 'id="plots"' not in run_report.write(folder).read_text()


def test_the_pictures_use_the_colours_of_the_page(reported: Reported) -> None:
    run = model.load(reported("violation").parent)
    found = run_plots.draw(run, measures.measure(run.history))
    assert set(found) == {"latency", "rate", "recovery"}
    for plot in found.values():
        assert "currentColor" in plot.svg
        assert "xmlns" not in plot.svg
        assert not re.search(r"#[0-9a-f]{6}\b", plot.svg)


def test_every_operation_has_a_panel_and_a_row(reported: Reported) -> None:
    text = reported("violation").read_text()
    picture = text[text.index('id="plot-latency"') :]
    picture = picture[: picture.index("</figure>")]
    for f in ("acquire", "release", "read", "write"):
        assert f'<th scope="row">{f}</th>' in picture
        assert re.search(rf">{f}</text>", picture)


def test_many_calls_are_one_small_bitmap() -> None:
    few, many = (draw_svg(run_plots._latency, measures_of(count)) for count in (1_000, 20_000))
    assert few.count("<use") > 1_000
    assert "<image" not in few
    assert many.count("<use") < 200
    assert len(many) < 120_000


def test_a_missing_recovery_is_marked_and_reported() -> None:
    heal = Recovery("kill", ("n1",), "", 0, 500 * MS, disturbs=True, held=False)
    death = Recovery("its holder died", ("c1",), "k0", 0, None, disturbs=False, held=False)
    run = measures_of(9, (heal, death))
    assert run_plots.recovery_text(run) == "The longest took 500 ms; after 1 of 2 there was no further grant."
    assert run_plots.recovery_text(measures_of(9, (death,))) == "After 1 of 1 there was no further grant."
    both, one = (draw_svg(run_plots._recovery, measures_of(9, some)) for some in ((heal, death), (heal,)))
    assert ">never<" in both
    assert ">never<" not in one


@pytest.mark.slow
def test_recoveries_are_listed_in_a_table(folder: Path) -> None:
    lines = (folder / "history.jsonl").read_text().splitlines()
    crash = '{"index":%d,"time":%d,"wall":0,"process":-1,"type":"info","f":"crash","value":{"host":"%s"},"node":"%s"}'
    grants = [i for i, line in enumerate(lines) if '"type":"ok","f":"acquire"' in line]
    host = re.findall(r'"node":"(c\d)"', lines[grants[-1]])[0]
    cut = lines[: grants[-1] + 1]
    time = int(re.findall(r'"time":(\d+)', cut[-1])[0]) + MS
    (folder / "history.jsonl").write_text("\n".join([*cut, crash % (len(cut), time, host, host)]) + "\n")
    text = run_report.render(model.load(folder))
    assert '<th scope="row">its holder died, k0</th>' in text
    assert ">never</strong>" in text
    assert '<th scope="row">clock-jump healed</th>' in text


def test_adjacent_faults_are_drawn_as_one_band(folder: Path) -> None:
    run = model.load(folder)
    bands = run_plots.fault_bands(run, 30.0)
    assert [name for _, _, name in bands] == [
        "clock-jump n2", "clock-jump n2, n3, n5", "clock-jump n4", "client-pause c4",
    ]  # fmt: skip
    close = [(1.0, 2.0, "kill n1"), (1.1, 2.0, "cut n2"), (2.0, 3.0, "kill n3"), (20.0, 21.0, "kill n4")]
    assert run_plots._names(close, 30.0) == [(1.0, "kill n1 + cut n2"), (20.0, "kill n4")]


@pytest.mark.parametrize(
    ("low", "high", "marks"),
    [
        (0.00011, 0.0009, [0.0002, 0.0005]),
        (0.0007, 0.003, [0.001, 0.002]),
        (0.0007, 7.0, [0.001, 0.01, 0.1, 1.0]),
        (0.00002, 900.0, [0.0001, 0.01, 1.0, 100.0]),
    ],
)
def test_a_scale_has_two_to_four_marks(low: float, high: float, marks: list[float]) -> None:
    assert run_plots._marks(low, high) == pytest.approx(marks)


def test_only_the_least_available_of_many_keys_are_drawn() -> None:
    missed = [Served(f"k{i}", np.arange(40) >= i, np.arange(40) < i, None) for i in range(20)]
    run = replace(measures_of(9), keys=tuple(missed))
    svg = draw_svg(run_plots._service, run)
    assert re.findall(r">(k\d+)<", svg) == [f"k{i}" for i in range(12, 20)]
    assert run_plots.service_text(run).endswith("The 8 least available of 20 keys are drawn.")
    assert "drawn" not in run_plots.service_text(replace(run, keys=run.keys[:8]))


@pytest.mark.slow
def test_the_strip_is_hatched_while_the_lock_was_unavailable() -> None:
    def strip(missed: bool) -> str:
        one = Served("k0", np.arange(40) >= 20 * missed, np.arange(40) < 20 * missed, None)
        return draw_svg(run_plots._service, replace(measures_of(9), keys=(one,)))

    assert strip(missed=True).count("url(#one-h") == 2  # the strip and the legend
    assert strip(missed=False).count("url(#one-h") == 1
    assert run_plots._runs(np.array([True, True, False, True]), 0.9) == [(0.0, 0.5), (0.75, pytest.approx(0.15))]


def test_the_lock_of_the_sample_is_always_available() -> None:
    script = sample._script("valid", 30.0)
    keys = measures.measure(script.history()).keys
    assert [one.key for one in keys] == ["k0"]
    assert not keys[0].missed.any()
