"""The diagrams of the page "Ten failures in pictures" name the cause of each failure, in the order of time."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from harness.reports import model, sequence, timeline
from harness.run.runs import run
from harness.scenarios import catalogue

ROOT: Final = Path(__file__).parents[2]
CAUSES: Final = {
    "ttl-pause-write": [
        "c0 holds k0", "c0 is paused", "c0's lease ends", "c0's k0 on n1 expires", "c1 holds k0", "Violation",
    ],
    "rl-clock-jump": ["c0 holds k0", "n3's wall clock jumps", "c0's k0 on n3 is gone", "c1 holds k0", "Violation"],
    "redis-async-failover": [
        "n1 is cut off from n2", "c0 holds k0", "the primary n1 dies", "c2 holds k0", "Violation",
    ],
    "redis-restart-empty": ["c2 holds k0", "n1 is killed", "n1 answers again, without k0", "c1 holds k0", "Violation"],
    "lost-reply-acquire": ["an answer from n1 to c0 is lost", "Violation", "SETNX k0 1 (reply lost)"],
    "del-foreign": ["c0 holds k0", "c0's k0 on n1 expires", "c1 holds k0", "Violation", "c0 removes c1's k0 on n1"],
    "redis-split-brain": ["c0 and n1 are cut off", "c1 holds k0", "c0 holds k0", "Violation"],
    "zk-pause": ["c0 holds k0", "c0 is paused", "c0's k0 on n1 expires", "c1 holds k0", "Violation"],
    "fu-conn-lost": [
        "c0 holds k0", "connections of c0 are reset", "c0's k0 on n1 is gone, its hold", "c2 holds k0", "Violation",
    ],
    "mc-evict": ["c2 holds k0", "n1 runs out of memory", "c2's k0 on n1 is gone", "c0 holds k0", "Violation"],
}  # fmt: skip
"""Texts that the diagram of each scenario shows, from top to bottom."""


def lines(data: timeline.Data, view: model.RunView) -> list[str]:
    """Return the texts of the first violation's diagram, or of the first overlap's, in the order of time."""
    groups: list[dict[str, Any]] = data["groups"]
    group = next((one for one in groups if one["kind"] == "overlap"), groups[0])
    texts = [
        (time, text)
        for time, _, kind, text, part_of in data["events"]
        if time <= group["last"] and (kind != "violation" or part_of == group["number"])
    ]
    assert view.trace is not None
    for message in (view.trace.messages[i] for i in group["decisive"]):
        if message.sent is not None and message.executed is not None and message.replied is None:
            texts.append(((message.executed - view.history.origin) // 1000, f"{message.request} (reply lost)"))
    return [text for _, text in sorted(texts, key=lambda one: one[0])]


@pytest.mark.few(1)
@pytest.mark.parametrize("name", CAUSES)
def test_the_diagram_names_the_cause(name: str, tmp_path: Path) -> None:
    result = run(msgspec.structs.replace(catalogue.find(name).plan, cluster="sim"), store=tmp_path, trace="on")
    assert result.folder is not None
    view = model.load(result.folder)
    facts = timeline.find_facts(view)
    data = sequence.build(view, facts, timeline.build(view, facts)["offsets"])
    assert data is not None
    shown = lines(data, view)
    at = 0
    for wanted in CAUSES[name]:
        at = next((i for i in range(at, len(shown)) if wanted in shown[i]), -1)
        assert at >= 0, f"{wanted!r} does not follow in {shown}"


def test_the_page_has_a_picture_of_each() -> None:
    page = (ROOT / "docs" / "failures.md").read_text(encoding="utf-8")
    for name in CAUSES:
        assert f"`{name}`: " in page
        assert f"](failures/{name}.png)" in page
        assert (ROOT / "docs" / "failures" / f"{name}.png").is_file()
