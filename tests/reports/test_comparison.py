"""The page of a comparison and its texts: they contain all of the document and nothing else, and fetch nothing."""

from __future__ import annotations

import csv
import io
import re
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from harness.documents import ComparisonDocument, DocumentError, convert
from harness.reports import comparison, comparison_answer, comparison_plots, comparison_text
from harness.reports.comparison_view import STATES, ComparisonView, read, sound_first
from tests.reports import comparisons
from tests.reports.comparisons import EVIL, cell, document, lock
from tests.reports.test_run_page import Page

FILES = (
    "comparison.csv", "comparison.html", "comparison.md", "costs.csv", "costs.png", "costs.svg", "ranking.png",
    "ranking.svg",
)  # fmt: skip


def view_of(found: dict[str, Any]) -> ComparisonView:
    return read(convert(found, ComparisonDocument, "comparison.json"))


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the sample, with its page."""
    folder = comparisons.write(tmp_path_factory.mktemp("store") / "comparisons" / "x", comparisons.sample())
    assert comparison.write(folder) == folder / "comparison.html"
    return folder


@cache
def hostile() -> ComparisonView:
    """Return a comparison in which every foreign text needs escaping."""
    one = lock(EVIL, "su", faults=("kill", EVIL), title=EVIL, algorithm=EVIL, source=EVIL, family=EVIL, costs=[])
    for name in ("kill", EVIL):
        one["cells"][name] |= {"why": EVIL, "command": EVIL, "fault": EVIL, "run": f"../{EVIL}"}
    one["properties"]["fence"] |= {"measured": False, "found": EVIL, "claim": EVIL}
    ranks = comparisons.ranking()
    ranks["measures"][0] |= {"name": EVIL, "unit": EVIL}
    return view_of(
        document(one, faults=("kill", EVIL), command=EVIL, versions={EVIL: EVIL}, ranking=ranks | {"source": EVIL},
                 left_out=[{"lock": EVIL, "why": EVIL}])
    )  # fmt: skip


def bare(name: str, states: str, faults: tuple[str, ...] = tuple(comparisons.FAULTS), **changed: Any) -> Any:
    """Return a lock without costs, so that no figure is drawn, which would take most of the time."""
    return lock(name, states, faults=faults, costs=[], **changed)


def undrawn(*locks: Any, **changed: Any) -> ComparisonView:
    return view_of(document(*locks, ranking={}, **changed))


def table_of(markdown: str, number: int) -> list[list[str]]:
    """Return the rows of a Markdown table without the row of dashes; each is as wide as the head."""
    blocks = [block.splitlines() for block in markdown.split("\n\n") if block.startswith("|")]
    rows = [re.split(r" (?<!\\)\| ", line[2:-2]) for line in blocks[number]]
    assert all(len(row) == len(rows[0]) for row in rows)
    assert set(rows.pop(1)) == {"---"}
    return rows


def paragraphs(text: str, kind: str) -> list[str]:
    """Return the texts of the paragraphs of that class."""
    return [re.sub("<.*?>", "", words) for words in re.findall(rf'class="{kind}">(.*?)</p>', text)]


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_every_file_is_written_and_the_answer_comes_first(written: Path) -> None:
    assert sorted(path.name for path in written.iterdir()) == sorted((*FILES, "comparison.json"))
    page = Page((written / "comparison.html").read_text())
    assert page.words[0] == "4 of 12 locks kept the resource safe under all 6 faults, by their fences"
    assert page.headings[:2] == ["h1", "h2"]
    assert paragraphs((written / "comparison.html").read_text(), "pick") == ["redis-fenced", "no lock", "redis-token"]
    assert "broken even without faults, by its own description" in " ".join(page.words)
    assert "Started 2026-11-21 20:00:00 UTC" in " ".join(page.words)


def test_the_page_states_the_rules_of_the_answer(written: Path) -> None:
    told = " ".join(Page((written / "comparison.html").read_text()).words)
    assert all(rule in told for rule in comparison_answer.RULES)


def test_every_cell_names_its_state_and_links_to_its_run(written: Path) -> None:
    text = (written / "comparison.html").read_text()
    rows = re.findall(r'<tr data-text=.*?<span class="name"><a [^>]*>(.*?)</a>(.*?)</tr>', text, re.DOTALL)
    found = {name: re.findall(r'<td class="(.*?)"><a class="state" href="(.*?)".*?"word">(.*?)<', row, re.DOTALL)
             for name, row in rows}  # fmt: skip
    for one in comparisons.sample()["locks"]:
        for (state, link, word), wanted in zip(found[one["name"]], one["cells"].values(), strict=True):
            assert (state, word) == (wanted["state"], wanted["state"].replace("-", " "))
            assert link.startswith("#why-") if wanted["run"] is None else link == f"{wanted['run']}/report.html"


def test_each_lock_has_its_findings_and_commands(written: Path) -> None:
    text = (written / "comparison.html").read_text()
    sheets = dict(re.findall(r"<details><summary><strong>(.*?)</strong>(.*?)</details>", text, re.DOTALL))
    for one in comparisons.sample()["locks"]:
        assert all(each["command"] in sheets[one["name"]] for each in one["cells"].values())
    assert "this service has one server: there is nothing to promote" in sheets["mysql-ttl"]


def test_the_safest_locks_come_first() -> None:
    names = [one.name for one in sound_first(view_of(comparisons.sample()).locks)]
    assert names[:3] == ["etcd-mutex", "kazoo-lock", "zookeeper-sequential"]
    assert names[-1] == "redis-setnx"


def test_a_cell_gives_the_share_of_runs_with_its_state() -> None:
    one = bare("one", "us", faults=("kill", "clock-jump"))
    one["cells"]["kill"] = cell("one", "kill", "unsafe", runs=5, counts={"unsafe": 2, "safe": 3})
    view = undrawn(one, faults=("kill", "clock-jump"), runs=5)
    assert [each.share for each in view.locks[0].cells] == ["2 of 5", ""]
    assert "In 2 of 5 runs." in comparison.render(view)
    assert "| one | ❌ unsafe 2 of 5 | ✅ safe |" in comparison_text.markdown(view)


def test_only_a_few_of_many_equal_or_next_best_locks_are_named() -> None:
    alike = comparison.render(undrawn(*(bare(f"lock-{i}", "s" * 6) for i in range(9))))
    assert paragraphs(alike, "pick") == ["lock-0 or lock-1 or lock-2 or 6 more"] * 3
    dearer = (bare(f"lock-{i}", "sssss-") for i in range(8))
    text = comparison.render(undrawn(bare("first", "ssssss"), *dearer))
    assert paragraphs(text, "pick") == ["first"] * 3
    also = "Also: lock-0, lock-1, lock-2, lock-3, lock-4, lock-5 and 2 more"
    assert paragraphs(text, "small muted also") == [also] * 3


def test_a_lock_that_was_not_fully_tested_is_unknown() -> None:
    one = bare("one", "ss", faults=("kill", "clock-jump"))
    del one["cells"]["clock-jump"]
    view = undrawn(one, faults=("kill", "clock-jump"), interrupted=True)
    assert view.locks[0].cells[1].state == "unknown"
    assert "Interrupted." in Page(comparison.render(view)).words
    assert "**Interrupted:**" in comparison_text.markdown(view)


@pytest.mark.parametrize(
    ("claimed", "measured", "told"),
    [
        (True, True, "kept"),
        (True, False, "not kept"),
        (True, None, "not measured"),
        (False, True, "more than claimed"),
        (False, False, "not claimed"),
        (None, None, "no claim"),
        (None, True, "observed, no claim"),
        (None, False, "not observed, no claim"),
    ],
)
def test_claims_are_compared_with_measurements(claimed: bool | None, measured: bool | None, told: str) -> None:
    told_properties = comparisons.properties("one", fence=(claimed, measured, "seen so"))
    view = view_of(document(lock("one", "s" * 6, properties=told_properties)))
    one = view.locks[0].properties[-1]
    assert comparison.property_text(one)[1] == told
    assert (one.broken, one.exceeded) == (told == "not kept", told == "more than claimed")


def test_mutual_exclusion_is_kept_by_the_fence_where_two_clients_held_the_lock() -> None:
    for states, told in (("fs", ("fenced", "kept by the fence")), ("ss", ("safe", "kept")), ("us", ("safe", "kept"))):
        one = undrawn(bare("one", states, faults=("client-pause", "kill")), faults=("client-pause", "kill"))
        found = {each.name: comparison.property_text(each) for each in one.locks[0].properties}
        assert found["mutual-exclusion"] == told
        assert found["released"] == ("safe", "kept")


def test_broken_claims_are_listed_with_their_evidence(written: Path) -> None:
    text = " ".join(Page((written / "comparison.html").read_text()).words)
    assert "redis-setnx , freed when its holder dies: no client acquired k0 for 22 s" in text
    assert "redlock , mutual exclusion: two holders in the run under client-pause" in text
    assert "1 property held without a claim" in text


def test_a_ranking_names_the_pairs_in_reverse_order() -> None:
    view = view_of(comparisons.sample())
    assert [comparison.since(view.claimed, measure) for measure in view.measures] == [
        "differs: mysql (0.81 ms) comes before zookeeper (1.9 ms), and 1 more pair is reversed",
        "agrees",
    ]
    ranks = comparisons.ranking()
    ranks["measures"][0] |= {"agrees": True}
    close = view_of(document(ranking=ranks))
    told = "agrees (etcd and mysql; zookeeper and mysql are equal)"
    assert comparison.since(close.claimed, close.measures[0]) == told
    others = comparison.since(("zookeeper",), close.measures[0])
    assert others == "has no two of the services that the claim ranks"


def test_recoveries_are_sorted_and_never_differs_from_not_measured() -> None:
    never, unknown = bare("never", "s" * 6, recovers=None), bare("mute", "s" * 6, recovery={"seconds": None})
    view = undrawn(unknown, never, bare("late", "s" * 6, recovers=9.0), bare("soon", "s" * 6, recovers=1.0))
    assert [one.name for one in comparison.recoveries(view)] == ["soon", "late", "never", "mute"]
    words = Page(comparison.render(view)).words
    assert "never" in words
    assert "not measured" in words


def test_only_virtual_times_are_called_virtual() -> None:
    one = bare("one", "s" * 6)
    for cluster, virtual in (("sim", True), ("docker", False)):
        view = undrawn(one, cluster=cluster)
        assert ("Times are virtual" in comparison.render(view)) is virtual
        assert ("Times are virtual" in comparison_text.markdown(view)) is virtual


def test_a_minimal_document_gives_a_page() -> None:
    least = {"schema": 1, "nemeses": [{"name": "kill"}], "locks": [{"name": "one", "cells": {}}]}
    page = Page(comparison.render(view_of(least)))
    assert page.words[0] == "Interrupted before one was fully tested"
    assert "No lock broke a claim in these runs." in page.words
    assert comparison.render(view_of({"schema": 1, "nemeses": [], "locks": []}))


@pytest.mark.slow
def test_the_same_document_gives_the_same_bytes(written: Path, tmp_path: Path) -> None:
    comparison.write(comparisons.write(tmp_path, comparisons.sample()))
    for name in FILES:
        assert (tmp_path / name).read_bytes() == (written / name).read_bytes(), name


def test_the_page_fetches_nothing_and_its_links_are_relative(written: Path) -> None:
    page = Page((written / "comparison.html").read_text())
    links = page.values("href")
    assert not [link for link in links if not link.startswith(("#", "../../"))]
    anchors = set(page.values("id"))
    assert {link[1:] for link in links if link.startswith("#")} <= anchors
    assert set(page.values("aria-describedby", "aria-labelledby")) <= anchors
    assert not page.values("src", "srcset", "action", "data")
    assert not re.search(r"https?://|@import|<link|<img|<iframe", (written / "comparison.html").read_text())


@pytest.mark.filterwarnings("ignore:Glyph")  # the picture's font has no padlock
def test_foreign_text_is_escaped() -> None:
    text = comparison.render(hostile())
    assert "<b>" not in text
    assert "&lt;b&gt;&#34;two&#34;" in text
    links = [unquote(link) for link in Page(text).values("href") if link.startswith("..")]
    assert f"../{EVIL}/report.html" in links
    assert not [link for link in Page(text).values("href") if re.search(r"[^\w%./#~-]", link)]


def test_hostile_text_does_not_break_markdown_tables() -> None:
    text = comparison_text.markdown(hostile())
    assert not re.search(r"(?<!\\)<b>", re.sub("`[^`]*`", "", text.replace(r"\`", "")))
    (head, row), (_, costs) = table_of(text, 0), table_of(text, 1)
    assert len(head) == 3
    assert row[1:] == ["✅ safe", "❌ unsafe"]
    assert row[0] == costs[0] == comparison_text._plain(EVIL)


def test_csv_texts_cannot_be_formulas() -> None:
    one = lock("=1+1", "s", faults=("kill",))
    one["cells"]["kill"] |= {"why": "@SUM(A1)", "command": "-x", "run": "+run"}
    view = view_of(document(one, faults=("kill",)))
    for text in comparison_text.files(view).values():
        assert "\n=1" not in text
    (row,) = rows_of(comparison_text.cells_csv(view))
    assert (row["lock"], row["why"], row["command"], row["run"]) == ("'=1+1", "'@SUM(A1)", "'-x", "'+run")


def test_the_markdown_has_the_cells_of_the_document(written: Path) -> None:
    head, *rows = table_of((written / "comparison.md").read_text(), 0)
    assert head[1:] == list(comparisons.FAULTS)
    found = {name: [text.split(" ", 1)[1].replace(" ", "-") for text in cells] for name, *cells in rows}
    wanted = {one["name"]: [each["state"] for each in one["cells"].values()] for one in comparisons.sample()["locks"]}
    assert found == wanted
    signs = {text.split(" ")[0] for row in rows for text in row[1:]}
    assert signs == set(comparison_text.SIGNS.values())


def test_the_csv_has_the_cells_of_the_document(written: Path) -> None:
    rows = rows_of((written / "comparison.csv").read_text())
    wanted = [(one, fault, each) for one in comparisons.sample()["locks"] for fault, each in one["cells"].items()]
    for row, (one, fault, each) in zip(rows, wanted, strict=True):
        assert (row["lock"], row["nemesis"], row["state"]) == (one["name"], fault, each["state"])
        assert (row["why"], row["run"] or None, row["command"]) == (each["why"], each["run"], each["command"])
        assert {state: int(row[state]) for state in STATES if int(row.get(state) or 0)} == each["counts"]


def test_the_csv_has_the_costs_of_the_document(written: Path) -> None:
    rows = rows_of((written / "costs.csv").read_text())
    wanted = [(one, each) for one in comparisons.sample()["locks"] for each in one["costs"]]
    names = ("acquires_per_second", "acquire_p50_s", "acquire_p99_s", "release_p50_s", "availability")
    for row, (one, each) in zip(rows, wanted, strict=True):
        assert (row["lock"], row["cost"], int(row["clients"])) == (one["name"], each["name"], each["clients"])
        assert [float(row[name]) for name in names] == [each[name] for name in names]
        assert (float(row["recovery_s"]) if row["recovery_s"] else None) == one["recovery"]["seconds"]


def document_with(**changed: Any) -> dict[str, Any]:
    found = document(lock("one", "s" * 6))
    found["locks"][0] |= changed
    return found


@pytest.mark.parametrize(
    ("found", "told"),
    [
        ({"schema": 2}, "schema: expected 1, got 2"),
        ({"schema": 1, "nemeses": []}, "expected the key 'locks'"),
        (document_with(cells={"kill": {"state": "fine"}}), r"locks\[0\]\.cells\.kill\.state: expected one of fenced"),
        (document_with(cells={"kill": {"why": "so"}}), r"locks\[0\]\.cells\.kill: expected the key 'state'"),
        (
            document_with(costs=[{"name": "alone", "acquire_p50_s": "1"}]),
            r"costs\[0\]\.acquire_p50_s: expected a number",
        ),
        (document_with(costs=[{"clients": 1}]), r"costs\[0\]: expected the key 'name'"),
        (document_with(recovery={"seconds": 1.0, "run": "/etc"}), r"recovery\.run: expected a folder relative"),
    ],
)
def test_a_malformed_document_is_refused_with_its_place(found: dict[str, Any], told: str, tmp_path: Path) -> None:
    comparisons.write(tmp_path, found)
    with pytest.raises(DocumentError, match=told):
        comparison.write(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["comparison.json"]


def test_a_folder_without_a_document_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match=r"comparison\.json: cannot read it"):
        comparison.write(tmp_path)


def test_the_pictures_name_every_lock_and_value(written: Path) -> None:
    costs, ranking = ((written / f"{name}.svg").read_text() for name in ("costs", "ranking"))
    assert all(f">{one['name']}</text>" in costs for one in comparisons.sample()["locks"])
    assert all(f">{told}</text>" in ranking for told in ("claimed", "mysql", "mysql  0.81 ms", "etcd  212 /s"))
    assert comparison_plots._short("my.long.package.module:ClassOfALock") == "…ckage.module:ClassOfALock"


@pytest.mark.parametrize(
    ("name", "pieces"),
    [
        ("redis-token", ["redis-token"]),
        ("a.b:My.Lock", ["a.", "b:", "My.", "Lock"]),
        ("odd:", ["odd:"]),
    ],
)
def test_a_name_may_wrap_after_points_and_colons(name: str, pieces: list[str]) -> None:
    assert comparison.pieces(name) == pieces
    assert f">{'<wbr>'.join(pieces)}</a>" in comparison.render(undrawn(bare(name, "s" * 6)))
