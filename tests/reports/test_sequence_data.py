"""The data of the message viewer: the decisive messages of a violation, its events, and the encoding."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.documents.messages import TracedMessage
from harness.plan import FaultSpec, Plan
from harness.reports import model, run_report, sequence, timeline
from harness.reports.columns import compress
from harness.run.runs import run
from tests.reports.packed import unpacked


@pytest.mark.parametrize(
    ("values", "letter"),
    [([], "b"), ([-128, 127], "b"), ([128], "h"), ([-40_000, 3], "i"), ([70_000, -1], "i"), ([2**31], "d")],
)
def test_compressed_columns_have_their_values_in_the_smallest_number_type(values: list[int], letter: str) -> None:
    data = {"a": np.array([5], dtype=np.int64), "text": "é\ud800<", "b": np.array(values, dtype=np.int64)}
    packed = unpacked(compress(data))
    assert packed.column(packed.data["a"]) == [5]
    assert packed.column(packed.data["b"]) == values
    assert packed.data["b"].partition(":")[0] == letter
    assert packed.data["text"] == "é?<"


@pytest.fixture(scope="module")
def paused(tmp_path_factory: pytest.TempPathFactory) -> model.RunView:
    """A run in which the holder is paused until its lease is over and another client holds the lock."""
    fault = FaultSpec("client-pause", on="acquire", nth=2, for_=3.0)
    plan = Plan(lock="redis-token", clients=3, seed=1, time_limit=6.0, ttl=2.0, hold=0.05, faults=(fault,))
    result = run(plan, store=tmp_path_factory.mktemp("store"), trace="on")
    assert result.folder is not None
    assert result.valid is False
    return model.load(result.folder)


@pytest.fixture(scope="module")
def data(paused: model.RunView) -> timeline.Data:
    facts = timeline.find_facts(paused)
    found = sequence.build(paused, facts, timeline.build(paused, facts)["offsets"])
    assert found is not None
    return found


def decisive(paused: model.RunView, group: dict[str, Any]) -> list[TracedMessage]:
    assert paused.trace is not None
    return [paused.trace.messages[i] for i in np.cumsum(group["decisive"])]


def test_all_kept_messages_are_in_the_data(paused: model.RunView, data: timeline.Data) -> None:
    assert paused.trace is not None
    assert np.cumsum(data["messages"]["number"]).tolist() == [one.number for one in paused.trace.messages]
    first, row = paused.trace.messages[0], {name: column[0] for name, column in data["messages"].items()}
    assert data["texts"][row["request"]] == first.request
    assert data["hosts"][row["server"]] == first.server


def test_grants_and_the_late_release_are_decisive_and_refused_tries_are_not(
    paused: model.RunView, data: timeline.Data
) -> None:
    group = next(one for one in data["groups"] if one["kind"] == "overlap")
    found = decisive(paused, group)
    late, other = group["clients"]
    assert [(one.client, one.name, one.reply) for one in found[:2]] == [(late, "SET", "+OK"), (other, "SET", "+OK")]
    assert (found[-1].client, found[-1].name, found[-1].reply) == (late, "EVALSHA", ":0")
    assert not any(one.name == "SET" and one.reply != "+OK" for one in found)
    assert paused.trace is not None
    assert len(found) < len(paused.trace.messages) / 4


def test_the_events_name_the_pause_the_lease_and_the_expiry_in_this_order(data: timeline.Data) -> None:
    group = next(one for one in data["groups"] if one["kind"] == "overlap")
    late, other = group["clients"]
    inside = [(kind, text) for time, _, kind, text, *_ in data["events"] if group["first"] <= time <= group["last"]]
    wanted = [
        ("hold", f"{late} holds k0"),
        ("fault", f"client-pause: {late} is paused"),
        ("lease", f"{late}'s lease ends"),
        ("gone", f"{late}'s k0 on n1 expires"),
        ("hold", f"{other} holds k0"),
        ("violation", "both hold k0"),
        ("heal", "client-pause ends"),
        ("release", f"{late} releases k0"),
    ]
    places = [next(i for i, (kind, text) in enumerate(inside) if kind == one and said in text) for one, said in wanted]
    assert places == sorted(places), inside


def test_a_run_without_messages_has_no_viewer(paused: model.RunView, tmp_path: Path) -> None:
    facts = timeline.find_facts(paused)
    assert sequence.build(dataclasses.replace(paused, trace=None), facts, {}) is None


def test_the_steps_of_a_story_are_events_and_lead_to_the_messages(paused: model.RunView) -> None:
    time = paused.history.origin + 1_500_000_000
    steps = ("1.500 s", "c1 <waits>"), ("", "undated")
    view = dataclasses.replace(paused, steps=steps, moments=(time, None), addresses=("#t=1.5", ""))
    facts = timeline.find_facts(view)
    found = sequence.build(view, facts, {})
    assert found is not None
    assert [event[:4] for event in found["events"] if event[2] == "story"] == [
        [1_500_000, "", "story", "Story 1: c1 <waits>"]
    ]
    page = run_report.render(view)
    assert '<a href="#t=1.5">1.500 s</a> c1 &lt;waits&gt;' in page
    assert page.count('href="#t=') == 1
    assert 'href="#t=' not in run_report.render(dataclasses.replace(view, trace=None))
