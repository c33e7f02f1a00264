"""The page of a hunt: the verdict first, then the story, what was never reached, and links that move with the
store."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from harness import hunt
from harness.documents import DocumentError, load_hunt
from harness.reports import hunt_report
from harness.search.walk import PHASES
from tests.reports import axe, hunted
from tests.reports.test_run_page import Page
from tests.reports.watched import watched


def page_of(store: Path, document: hunted.Json, *, run: bool = True) -> Page:
    return Page(hunt_report.write(hunted.stored(store, document, run=run)).read_text())


def view_of(store: Path, document: hunted.Json) -> hunt_report.HuntView:
    folder = hunted.stored(store, document)
    return hunt_report.read(load_hunt(folder / "hunt.json"), folder)


def text_of(page: Page) -> str:
    return " ".join(page.words)


@pytest.mark.parametrize(
    ("document", "tone", "headline"),
    [
        (hunted.hunt(hunted.finding()), "invalid", "A failure was found in redlock"),
        (hunted.hunt(hunted.finding(), interrupted=True), "invalid", "A failure was found in redlock"),
        (hunted.hunt(hunted.finding(), hunted.finding()), "invalid", "2 failures were found in redlock"),
        (
            hunted.hunt(hunted.finding(known=True)),
            "invalid",
            "No failure was found in redlock, but a known limit of it was reached",
        ),
        (
            hunted.hunt(hunted.finding(known=True), asked={"accept": ["known-limits"]}),
            "valid",
            "No failure was found in redlock, but a known limit of it was reached",
        ),
        (
            hunted.hunt(hunted.finding(), hunted.finding(known=True), hunted.finding(known=True)),
            "invalid",
            "A failure was found in redlock, and 2 known limits of it were reached",
        ),
        (hunted.hunt(), "valid", "No failure was found in redlock"),
        (hunted.hunt(interrupted=True), "unknown", "No failure was found in redlock"),
        (hunted.hunt(judged=0), "unknown", "No failure was found in redlock"),
    ],
)
def test_the_verdict_comes_first(tmp_path: Path, document: hunted.Json, tone: str, headline: str) -> None:
    page = page_of(tmp_path, document)
    assert page.words[0] == headline
    assert page.headings[0] == "h1"
    assert f"verdict {tone}" in page.values("class")
    assert ("Interrupted." in page.words) == document["interrupted"]
    assert ("No schedule could be judged, so the result is unknown." in page.words) == (document["judged"] == 0)


def test_a_finding_shows_its_story_and_how_it_was_found(tmp_path: Path) -> None:
    page = page_of(tmp_path, hunted.hunt(hunted.finding(), hunted.finding(broken=["fencing"], round=0)))
    story = ["0.008 s", "c0 acquires k0 on n1, n2 and n5", "0.243 s", "c1 acquires k0 on n1, n2, n3, n4 and n5"]
    first = page.words.index("mutual-exclusion, resource")
    begin = page.words.index("0.008 s")
    assert first < begin < page.words.index("fencing")
    assert page.words[begin : begin + 5] == [*story, "Both hold k0 from 0.243 s to 1.008 s."]
    assert "Found in schedule 6 of round 1, then shrunk in 1,010 more executions: 2 clients, 1 fault." in page.words
    assert "Known from an earlier hunt; it still fails: 2 clients, 1 fault." in page.words


def test_a_finding_shows_its_commands_and_its_plan(tmp_path: Path) -> None:
    page = page_of(tmp_path, hunted.hunt(hunted.finding(folder=f"my store/{hunted.RUN}")))
    path = f"'my store/{hunted.RUN}/counterexample.toml'"
    assert f"harness replay {path} --cluster docker\nharness scenario run {path}" in page.words
    assert hunted.TOML.strip() in page.words


def test_each_step_leads_to_the_messages_of_the_run_if_they_are_kept(tmp_path: Path) -> None:
    report = f"../../{hunted.RUN}/report.html"
    folder = hunted.stored(tmp_path, hunted.hunt(hunted.finding()))
    assert Page(hunt_report.write(folder).read_text()).values("href") == [report]
    (tmp_path / hunted.RUN / "trace.log.gz").write_bytes(b"")
    steps = [f"{report}#t=0.008000", f"{report}#t=0.243000"]
    assert Page(hunt_report.write(folder).read_text()).values("href") == [*steps, report]


@pytest.mark.parametrize("given", ["store", "/elsewhere/my store"])
def test_links_stay_valid_when_the_store_moves(tmp_path: Path, given: str) -> None:
    folder = hunted.stored(tmp_path / "moved", hunted.hunt(hunted.finding(folder=f"{given}/{hunted.RUN}")))
    path = hunt_report.write(folder)
    (link,) = Page(path.read_text()).values("href")
    assert link == f"../../{hunted.RUN}/report.html"
    assert (folder / link).is_file()
    (tmp_path / "moved" / hunted.RUN / "report.html").unlink()
    assert Page(hunt_report.write(folder).read_text()).values("href") == [f"../../{hunted.RUN}"]


@pytest.mark.parametrize(
    "given", [None, "", "store/redlock/gone", "secret", "store/../..", "store/redlock/..", "store/out/secret"]
)
def test_files_outside_the_store_are_neither_linked_nor_read(tmp_path: Path, given: str | None) -> None:
    for outside in (tmp_path, tmp_path / "secret"):
        outside.mkdir(exist_ok=True)
        (outside / "counterexample.toml").write_text("the secret")
    folder = hunted.stored(tmp_path / "store", hunted.hunt(hunted.finding(folder=given)))
    (tmp_path / "store" / "counterexample.toml").write_text("the secret")
    (tmp_path / "store" / "redlock" / "counterexample.toml").write_text("the secret")
    (tmp_path / "store" / "out").symlink_to(tmp_path)
    page = Page(hunt_report.write(folder).read_text())
    assert page.values("href") == []
    assert "the secret" not in text_of(page)
    assert ("harness replay" in text_of(page)) == bool(given)


def test_matrices_show_reached_cells_and_each_pair_once(tmp_path: Path) -> None:
    view = view_of(tmp_path, hunted.hunt())
    moments, pairs = view.moments, view.pairs
    assert moments is not None
    assert pairs is not None
    assert moments.columns == (
        "free",
        "requested",
        "held",
        "held and requested",
        "being released",
        "in an unknown state",
    )
    assert moments.rows == (
        ("clock-jump", (False, False, True, False, False, False)),
        ("kill", (True, False, False, False, False, True)),
    )
    assert (moments.reached, moments.total) == (3, 12)
    assert pairs.rows == (("clock-jump", (True, None)), ("kill", (True, False)))
    assert (pairs.reached, pairs.total) == (2, 3)


def test_impossible_combinations_have_no_cell(tmp_path: Path) -> None:
    asked = {"faults": ["kill"], "clients": 1, "most_faults": 1}
    view = view_of(tmp_path / "alone", hunted.hunt(asked=asked, moments=[["kill", "a new phase"]], pairs=[]))
    assert view.moments is not None
    assert "held and requested" not in view.moments.columns
    assert view.moments.columns[-1] == "a new phase"
    assert view.pairs is None
    view = view_of(tmp_path / "faultless", hunted.hunt(asked={"faults": ["none"]}, moments=[], pairs=[]))
    assert (view.moments, view.pairs) == (None, None)
    older = hunted.hunt()
    del older["moments"], older["pairs"]
    view = view_of(tmp_path / "older", older)
    assert (view.moments, view.pairs) == (None, None)


def test_matrix_cells_have_text_for_screen_readers(tmp_path: Path) -> None:
    page = page_of(tmp_path, hunted.hunt())
    assert page.words.count("●") == page.words.count("reached") == page.values("class").count("reached") == 5
    assert page.words.count("○") == page.words.count("never") == 10
    assert "Faults injected in each state of the lock: 3 of 12" in page.words


def test_the_page_shows_figures_and_unreached_parts_of_the_search(tmp_path: Path) -> None:
    page = page_of(tmp_path, hunted.hunt())
    text = text_of(page)
    for said in (
        "1,160 20.0 a second",
        "1,020 schedules with a verdict",
        "Took 58 s",
        "Nearest miss 1.46",
        "131 combined states ",
    ):
        assert said in text
    assert "Never failed: check (1 of 3 calls of the lock)." in page.words
    assert "UsageError: no 138" in text
    assert "Given up: round 2: a worker was lost" in page.words


def test_settings_are_shown_in_words(tmp_path: Path) -> None:
    view = view_of(tmp_path, hunted.hunt())
    assert view.options == (
        ("faults", "clock-jump, kill"),
        ("maximum faults in a schedule", "2"),
        ("checkers that count", "all"),
        ("maximum clients", "2"),
        ("ttl, seconds", "chosen by the search"),
        ("seed", "7"),
        ("continue after a failure", "no"),
        ("stop at the first failure", "no"),
    )
    assert view.versions == (("python", "3.11.7"),)


def test_a_known_failure_is_shown_without_a_search(tmp_path: Path) -> None:
    known = hunted.hunt(hunted.finding(round=0), rounds=0, schedules=0, judged=1, moments=[], pairs=[], never=[])
    page = page_of(tmp_path, known)
    assert "Nothing: the failure is known from an earlier hunt, which was tried first." in page.words
    assert "What was never reached" not in page.words
    assert "reached" not in page.words


def test_the_page_fetches_nothing_and_escapes_foreign_text(tmp_path: Path) -> None:
    evil = hunted.EVIL
    story = {"steps": [{"at": 0.1, "text": evil}], "ending": evil}
    document = hunted.hunt(
        hunted.finding(broken=[evil], summary=evil, story=story, folder=f"{evil}/{hunted.RUN}"),
        **dict.fromkeys(("lock", "command", "started_at"), evil),
        errors={evil: 1},
        never=[evil],
        given_up=[evil],
        asked={evil: evil},
        versions={evil: evil},
        moments=[[evil, evil]],
    )
    text = hunt_report.write(hunted.stored(tmp_path, document)).read_text()
    assert not re.search(r"https?://|@import|<link|<img|<iframe|<script|\bsrc=", text)
    assert text.count("&lt;b&gt;&#34;two&#34;") > 12
    assert '<b>"two"' not in text


@pytest.mark.parametrize(
    ("document", "told"),
    [
        ("", "expected a JSON object"),
        ("[]", r"expected a JSON object, got \[\]"),
        ({"schema": 2}, "schema: expected 1, got 2"),
        ({"lock": "redlock"}, "expected the key 'schema'"),
        ({"schema": 1}, "expected the key 'findings'"),
        (hunted.hunt(findings=["found"]), r"findings\[0\]: expected an object"),
        (hunted.hunt(hunted.finding(round="one")), r"findings\[0\].round: expected a whole number"),
        (hunted.hunt(pairs=[["kill"]]), r"pairs\[0\]: expected a list of 2, got one of 1"),
        (hunted.hunt(moments="all"), 'moments: expected a list, got "all"'),
        (hunted.hunt(errors={"a": "often"}), "errors.a: expected a whole number"),
    ],
)
def test_a_malformed_document_is_refused_with_its_place(tmp_path: Path, document: hunted.Json | str, told: str) -> None:
    folder = hunted.stored(tmp_path, document)
    with pytest.raises(DocumentError, match=rf"hunt\.json.*{told}"):
        hunt_report.write(folder)
    assert not (folder / "hunt.html").exists()


def test_a_folder_without_a_hunt_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match=r"hunt\.json: cannot read it"):
        hunt_report.write(tmp_path)


@pytest.mark.slow
def test_a_hunt_writes_its_page_and_prints_its_path(tmp_path: Path) -> None:
    found = hunt("redlock", faults="clock-jump", rounds=1, store=tmp_path, stop_at_first=True)
    assert found.folder is not None
    assert str(found).endswith(f"\nhunt: {found.folder}/hunt.html")
    page = Page((found.folder / "hunt.html").read_text())
    assert page.words[0] == "No failure was found in redlock, but a known limit of it was reached"
    files = [link.partition("#")[0] for link in page.values("href")]
    assert all((found.folder / link).is_file() for link in files)
    assert len(set(files)) == len(found.findings) == 1
    assert len(files) == 1 + len(found.document["findings"][0]["story"]["steps"])
    view = hunt_report.read(load_hunt(found.folder / "hunt.json"), found.folder)
    assert view.moments is not None
    assert view.pairs is not None
    coverage = found.document["coverage"]
    assert (view.moments.reached, view.pairs.reached) == (coverage["moments"], coverage["pairs"])
    assert set(view.moments.columns) == set(hunt_report.PHASES.values())
    assert set(hunt_report.PHASES) == set(PHASES)
    assert "hunt:" not in str(hunt("redlock", faults="clock-jump", rounds=1, stop_at_first=True))


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 400])
def test_the_page_opens_and_fits_every_width(browser: Browser, tmp_path: Path, width: int) -> None:
    address = hunt_report.write(hunted.stored(tmp_path / "usual", hunted.hunt(hunted.finding()))).as_uri()
    asked = {"faults": [f"a-family-of-faults-{number}" for number in range(12)], "look_for": ["resource"] * 20}
    long = hunted.hunt(hunted.finding(), asked=asked, lock="x.y" * 60, command="x" * 300)
    other = hunt_report.write(hunted.stored(tmp_path / "long", long)).as_uri()
    with watched(browser) as (open_page, requests):
        page = open_page(address, width)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        first = page.locator(".ending").bounding_box()
        assert first is not None
        assert first["y"] < 800
        page.get_by_text("The plan, counterexample.toml").click()
        assert page.get_by_label("counterexample.toml").inner_text().strip() == hunted.TOML.strip()
        assert open_page(other, width).evaluate("document.documentElement.scrollWidth") <= width
    assert requests == [address, other]


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.parametrize("document", [hunted.hunt(hunted.finding()), hunted.hunt(interrupted=True), hunted.hunt()])
def test_the_page_has_no_serious_accessibility_fault_in_any_look(
    browser: Browser, tmp_path: Path, document: hunted.Json
) -> None:
    assert axe.in_every_look(browser, hunt_report.write(hunted.stored(tmp_path, document)).as_uri()) == []
