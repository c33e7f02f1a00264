"""Published statements about locks: a violation is never shown as kept, and nothing untested as safe."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.documents.heads import RunHead
from harness.documents.nightly import ScenarioOutcome
from harness.documents.publication import (
    PublicationDocument,
    PublishedEvidence,
    PublishedFamily,
    PublishedLock,
    PublishedState,
    load_publication,
)
from harness.errors import UsageError
from harness.reports import publication
from harness.studies.publication import publish
from harness.studies.publication.copies import Copies
from harness.studies.publication.folder import write_folder
from harness.studies.publication.gathering import gather
from harness.studies.publication.nights import latest, outcome_state
from harness.studies.publication.runs import head_state
from harness.studies.publication.verdicts import families, family, needs, questions, worst
from tests.reports import nights, publications

VIOLATED = ("broken", "violated", "known-limit")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return publications.make(tmp_path_factory.mktemp("published") / "store")


@pytest.fixture(scope="module")
def site(store: Path) -> Path:
    publish(store.parent / "site", store=store)
    return store.parent / "site"


@pytest.fixture(scope="module")
def document(site: Path) -> PublicationDocument:
    return load_publication(site / "locks.json")


def gathered(store: Path) -> tuple[PublicationDocument, Copies]:
    return gather(store, lambda _fraction, _text: None)


def lock_of(document: PublicationDocument, name: str) -> PublishedLock:
    return next(lock for lock in document.locks if lock.name == name)


def family_of(lock: PublishedLock, fault: str) -> PublishedFamily:
    return next(one for one in lock.families if one.fault == fault)


# The state of one result.


def outcome(**changed: Any) -> ScenarioOutcome:
    document = nights.night(21, [nights.outcome("x.safe", **changed)])
    return nights.read(document).outcomes[0]


FENCED = {"valid": True, "states": {"mutual-exclusion": "known-limit", "fencing": "kept"}}
OUTCOMES: dict[str, tuple[PublishedState, dict[str, Any]]] = {
    "a broken property": ("broken", {"valid": False, "states": {"a": "kept", "b": "broken", "c": "known-limit"}}),
    "a known limit": ("known-limit", {"valid": False, "states": {"a": "kept", "c": "known-limit"}}),
    "a violation in an old document": ("violated", {"valid": False, "states": {}}),
    "a violation that is not required": ("broken", {"valid": True, "states": {"fairness": "broken"}}),
    "fenced": ("fenced", FENCED | {"reason": "Safe with fencing: two clients held the lock."}),
    "two holders without fencing": ("known-limit", FENCED | {"reason": "No violation."}),
    "a stale write beside fencing": (
        "broken", {"valid": True, "states": {"resource": "broken"}, "reason": "Safe with fencing: x."},
    ),
    "no verdict": ("not-tested", {"valid": None, "states": {"a": "not-tested"}}),
    "an error": ("not-tested", {"state": "error", "valid": True, "states": {"a": "kept"}}),
    "not run": ("not-tested", {"state": "not-run", "valid": None, "states": {}}),
    "a known failure that was not found": ("not-tested", {"state": "missed", "valid": True, "states": {"a": "kept"}}),
    "kept": ("kept", {"valid": True, "states": {"a": "kept", "b": "not-applicable"}}),
}  # fmt: skip


@pytest.mark.parametrize("name", OUTCOMES)
def test_the_state_of_an_outcome(name: str) -> None:
    state, changed = OUTCOMES[name]
    assert outcome_state(outcome(**changed)) == state


@pytest.mark.parametrize(
    ("state", "head"),
    [
        ("kept", {"valid": True, "verdict": "valid", "checkers": {"a": {"state": "kept"}}}),
        ("fenced", {"valid": True, "verdict": "safe with fencing", "checkers": {"a": {"state": "known-limit"}}}),
        ("known-limit", {"valid": True, "verdict": "valid except for known limits",
                         "checkers": {"a": {"state": "known-limit"}}}),
        ("broken", {"valid": False, "checkers": {"a": {"state": "broken"}}}),
        ("violated", {"valid": False, "checkers": {"a": {"valid": False}}}),
        ("not-tested", {"valid": None, "checkers": {"a": {"state": "kept"}}}),
    ],
)  # fmt: skip
def test_the_state_of_a_stored_run(state: str, head: Any) -> None:
    assert head_state(msgspec.convert(head, RunHead)) == state


# The verdict under a family of faults.


def evidence(state: PublishedState, **changed: Any) -> PublishedEvidence:
    given: dict[str, Any] = {
        "source": "nightly", "state": state, "why": f"It is {state}.", "faults": ("kill",),
        "judged": int(state != "not-tested"), "failed": int(state in (*VIOLATED, "fenced")),
        "undecided": int(state == "not-tested"),
    } | changed  # fmt: skip
    return PublishedEvidence(**given)


def test_the_worst_state_decides() -> None:
    order: list[PublishedState] = ["broken", "violated", "known-limit", "fenced", "kept"]
    for number, state in enumerate(order):
        assert worst([*reversed(order[number:]), "not-tested"]) == state
    assert worst(["not-tested"]) == worst([]) == "not-tested"


def test_a_violation_in_one_of_many_results_is_shown() -> None:
    found = family("kill", [*[evidence("kept")] * 50, evidence("known-limit", scenario="x"), evidence("not-tested")])
    assert (found.state, found.why) == ("known-limit", "Scenario x: It is known-limit.")
    assert found.sure.startswith("Proved")
    assert found.evidence[0].state == "known-limit"


def test_runs_without_a_verdict_do_not_count_as_kept() -> None:
    found = family("kill", [evidence("kept", judged=3), evidence("not-tested", undecided=2)])
    assert (found.state, found.why) == ("kept", "No violation in 3 runs of 1 test. 2 runs gave no verdict.")
    assert "3 runs, no failure: below 63.2 %" in found.sure
    found = family("kill", [evidence("not-tested")])
    assert (found.state, found.why) == ("not-tested", "Nothing stored has a verdict. It is not-tested.")
    assert family("kill", []).state == "not-tested"


def test_a_known_failure_that_no_run_shows_is_not_outvoted() -> None:
    missed = evidence("not-tested", scenario="x", known_failure=True, why="It was not found.")
    found = family("kill", [evidence("kept"), missed])
    assert found.state == "not-tested"
    assert "the scenario x documents a failure" in found.why

    other = evidence("kept", faults=("power-loss",))
    answers = {one.name: one for one in needs(families([missed, other], {"kill": "", "power-loss": ""}))}
    assert answers["server crash"].state == "not-tested"
    assert "It was not found." in answers["server crash"].why


def test_each_family_has_a_verdict_and_those_with_one_come_first() -> None:
    found = families([evidence("kept"), evidence("broken", faults=("latency", "odd"))], {"kill": "", "latency": ""})
    assert [(one.fault, one.state) for one in found] == [
        ("latency", "broken"), ("odd", "broken"), ("kill", "kept"), ("no fault", "not-tested"),
    ]  # fmt: skip


def test_an_answer_is_the_worst_of_its_families() -> None:
    faults = dict.fromkeys(["kill", "power-loss", "clock-jump"], "")
    kept = evidence("kept", faults=("power-loss",))
    answers = {one.name: one for one in needs(families([evidence("broken"), kept], faults))}
    assert set(answers) == set(questions())
    assert (answers["server crash"].state, answers["server crash"].families) == ("broken", ("kill", "power-loss"))
    assert answers["clock jump"].state == "not-tested"
    alone = {one.name: one for one in needs(families([kept], faults))}["server crash"]
    assert (alone.state, alone.families, alone.judged) == ("kept", ("power-loss",), 1)
    assert alone.why.endswith("Not tested: kill.")


# Which nightly run counts.


def test_the_latest_outcomes_of_each_scenario_count(tmp_path: Path) -> None:
    path = tmp_path / "results.db"
    nights.add(path, nights.night(20, [nights.outcome("a"), nights.outcome("b"), nights.outcome("a", "docker")]))
    nights.add(path, nights.night(21, [nights.outcome("a", seed=7), nights.outcome("b", state="not-run")]))
    nights.add(path, nights.night(22, [nights.outcome("mutants/m")], suite="mutants"))
    found = {(one.outcomes[0].scenario, one.outcomes[0].cluster): one.night.started_at[8:10] for one in latest(path)}
    assert found == {("a", "docker"): "20", ("a", "sim"): "21", ("b", "sim"): "20"}


# A whole store.


def contradictions(document: PublicationDocument) -> Iterator[str]:
    """Yield each verdict that the evidence beside it contradicts."""
    for lock in document.locks:
        for one in lock.families:
            shown = [it.state for it in one.evidence]
            if one.state in ("kept", "not-tested", "fenced") and any(state in VIOLATED for state in shown):
                yield f"{lock.name} under {one.fault}: violated, shown as {one.state}"
            if one.state == "kept" and not any(it.state == "kept" and it.judged for it in one.evidence):
                yield f"{lock.name} under {one.fault}: not tested, shown as kept"
        for need in lock.needs:
            members = [one for one in lock.families if one.fault in questions()[need.name]]
            expected = worst(one.state for one in members)
            untested = [it for one in members if one.state == "not-tested" for it in one.evidence]
            if need.state != (
                "not-tested" if expected == "kept" and any(it.known_failure for it in untested) else expected
            ):
                yield f"{lock.name}, {need.name}: {need.state} is not the worst"


CELL = re.compile(
    r'<td class="[^"]*"><a class="state" href="([^"]*)#need-([^"]*)"[^>]*>.*?<span class="word">([^<]*)<', re.S
)


def cells(page: str) -> dict[tuple[str, str], str]:
    """Return the words of the index by page of the lock and need."""
    return {(path, need): word for path, need, word in CELL.findall(page)}


def expected_cells(document: PublicationDocument) -> dict[tuple[str, str], str]:
    return {
        (lock.page, need.name.replace(" ", "-")): need.state.replace("-", " ")
        for lock in document.locks
        for need in lock.needs
        if lock.catalogued or not lock.name.startswith("harness.")
    }


def test_no_verdict_contradicts_its_evidence(document: PublicationDocument, site: Path) -> None:
    assert list(contradictions(document)) == []
    assert cells((site / "index.html").read_text()) == expected_cells(document)


def changed(document: PublicationDocument, name: str, fault: str, state: PublishedState) -> PublicationDocument:
    """Return the document with another verdict of a lock under a family of faults."""
    replace = msgspec.structs.replace
    lock = lock_of(document, name)
    found = tuple(replace(one, state=state) if one.fault == fault else one for one in lock.families)
    lock = replace(lock, families=found, needs=needs(found))
    return replace(document, locks=tuple(lock if one.name == name else one for one in document.locks))


@pytest.mark.parametrize(
    ("name", "fault", "state"),
    [
        ("redis-token", "client-pause", "kept"),
        ("redis-token", "client-pause", "fenced"),
        ("redis-token", "client-pause", "not-tested"),
        ("redis-token", "kill", "kept"),
    ],
)
def test_a_false_verdict_is_found_in_the_document_and_on_the_page(
    document: PublicationDocument, name: str, fault: str, state: PublishedState
) -> None:
    """The control: the two tests of a whole store can fail."""
    false = changed(document, name, fault, state)
    assert list(contradictions(false)) != []
    assert cells(publication.index_page(false)) != expected_cells(document)


def test_a_real_nightly_run_is_published(document: PublicationDocument) -> None:
    assert [night.scenarios for night in document.nights] == [3]
    violated = family_of(lock_of(document, "redis-token-getdel"), "client-pause")
    assert violated.state == "broken"
    assert violated.evidence[0].command == "harness scenario run get-del-gap --cluster sim --seed 0"
    (story,) = lock_of(document, "redis-token-getdel").stories
    assert (story.state, story.command) == ("broken", violated.evidence[0].command)
    assert story.about.startswith("c0 reads the key and finds its own token.")
    assert lock_of(document, "redis-getset").stories == ()
    assert family_of(lock_of(document, "redis-token"), "client-pause").state == "known-limit"
    kept = family_of(lock_of(document, "redis-getset"), "no fault")
    assert (kept.state, kept.sure) == (
        "kept", "The test with the most runs: 1 run says little: up to 95 % of such runs might still fail.",
    )  # fmt: skip
    nothing = lock_of(document, "nats-kv")
    assert {one.state for one in nothing.families} == {one.state for one in nothing.needs} == {"not-tested"}


def test_the_run_of_a_cell_tells_whether_its_violation_is_documented(document: PublicationDocument) -> None:
    found = family_of(lock_of(document, "redis-token"), "client-pause").evidence
    (compared,) = [one for one in found if one.source == "comparison"]
    assert (compared.state, compared.report) == ("known-limit", f"runs/{publications.COMPARED_RUN}/report.html")
    (gone,) = family_of(lock_of(document, "redlock"), "client-pause").evidence
    assert (gone.state, gone.report) == ("violated", "")


def test_a_lock_has_its_promises_and_references(document: PublicationDocument) -> None:
    lock = lock_of(document, "redlock")
    assert (lock.safety, [limit.name for limit in lock.limits]) == ("E", ["late-client", "clock", "server-fault"])
    assert lock.failures
    assert any("rl-restart" in one.scenarios for one in lock.references)
    assert lock_of(document, "kazoo-read-write-lock").property("read-write").claimed is True
    assert lock_of(document, "redis-token").property("read-write").claimed is False
    fencing = lock_of(document, "zookeeper-sequential").property("fencing")
    assert (fencing.claimed, fencing.state) == (True, "not-tested")


def test_a_hunt_is_published_with_its_counterexample(document: PublicationDocument, site: Path) -> None:
    lock = lock_of(document, "redlock")
    (story,) = lock.stories
    assert story.steps
    assert story.command == f"harness replay runs/{publications.RUN}/counterexample.toml"
    for path in (story.counterexample, story.report, story.trace):
        assert path.startswith(f"runs/{publications.RUN}/")
        assert (site / path).is_file()
    assert family_of(lock, "clock-jump").state == "broken"
    (search,) = lock.searches
    assert search.findings == 1


def test_releases_and_costs_are_published(document: PublicationDocument, site: Path) -> None:
    bisection, versions = lock_of(document, "redis-py-lock").releases
    assert (bisection.affected, bisection.unaffected, bisection.undecided) == (
        ("2.10.6",), ("3.0.0", "3.2.0"), ("3.0.1",),
    )  # fmt: skip
    assert (versions.affected, versions.unaffected, versions.undecided) == (("2.10.6",), ("3.5.3",), ("9.9",))
    assert (site / bisection.report).read_text() == "<title>bisect</title>"
    (costs,) = lock_of(document, "redis-token").costs
    alone = costs.named("alone")
    assert alone is not None
    assert alone.acquire_p50_s
    assert alone.run is None


def test_the_page_of_a_lock_has_each_part(site: Path) -> None:
    page = (site / "locks" / "redlock.html").read_text()
    for heading in ("promises", "needs", "families", "stories", "versions", "cost", "references"):
        assert f'<h2 id="{heading}">' in page
    assert f'href="../runs/{publications.RUN}/report.html"' in page
    assert "Not tested: no bisection or comparison of releases with this lock is stored." in page


def test_all_links_of_the_pages_lead_to_files_and_anchors(site: Path) -> None:
    dead = []
    pages = {path: path.read_text() for path in [site / "index.html", *(site / "locks").iterdir()]}
    ids = {path: set(re.findall(r'id="([^"]+)"', path.read_text())) for path in site.rglob("*.html")}
    for path, text in pages.items():
        for link in set(re.findall(r'href="([^"]+)"', text)):
            if link.startswith("https://"):
                continue
            file, _, anchor = link.partition("#")
            target = Path(os.path.normpath(path.parent / file)) if file else path
            if not target.is_file() or (anchor and anchor not in ids[target]):
                dead.append(f"{path.name}: {link}")
    assert dead == []


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_the_same_store_gives_the_same_bytes_anywhere(
    store: Path, site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(store, tmp_path / "elsewhere" / "copy")
    monkeypatch.chdir(tmp_path)
    publish(Path("deep/down/site"), store=Path("elsewhere/copy"))
    assert bytes_of(tmp_path / "deep/down/site") == bytes_of(site)


def test_exploration_is_published(tmp_path: Path) -> None:
    publications.explored(tmp_path / "store")
    document = gathered(tmp_path / "store")[0]
    found = family_of(lock_of(document, "redis-token"), "client-pause")
    assert {one.source for one in found.evidence} == {"nightly", "exploration"}
    assert found.state == "broken"
    titles = [story.title for story in lock_of(document, "redis-token").stories]
    assert titles.count("Exploration found a violation of mutual-exclusion") == 3  # the fourth does not happen any more
    assert len(titles) == 4  # a scenario on two clusters is one story


def test_runs_with_another_release_do_not_count(tmp_path: Path) -> None:
    folder = tmp_path / "store" / "redlock" / "20261121T020000Z-0"
    publications.run(folder, "results-violation", lock="redlock")
    document = gathered(tmp_path / "store")[0]
    (counted,) = [one for one in lock_of(document, "redlock").families if one.evidence]
    assert counted.state in VIOLATED
    (folder / "plan.toml").write_text('lock = "redlock"\nrequires = ["redis==5.2.1"]\n')
    document = gathered(tmp_path / "store")[0]
    lock = lock_of(document, "redlock")
    assert [one for one in lock.families if one.evidence] == []
    assert [one.release for one in lock.other_releases] == ["redis==5.2.1"]


def test_a_run_of_an_earlier_nightly_run_does_not_count(tmp_path: Path) -> None:
    """The latest nightly run made the same scenario, and found no violation."""
    store, names = tmp_path / "store", "redis-token/20261120T020000Z-0"
    publications.run(store / names, "results-violation", lock="redis-token")
    same: dict[str, Any] = {"lock": "redis-token", "safe": True, "faults": ["kill"], "workload": "mutex"}
    violated: dict[str, Any] = {
        "valid": False,
        "states": {"resource": "broken"},
        "state": "violated",
        "folder": f"store/{names}",
    }
    nights.add(store / "results.db", nights.night(20, [nights.outcome("x", **same, **violated)]))
    assert family_of(lock_of(gathered(store)[0], "redis-token"), "kill").state == "broken"
    kept: dict[str, Any] = {"valid": True, "states": {"resource": "kept"}, "state": "as-expected"}
    nights.add(store / "results.db", nights.night(21, [nights.outcome("x", **same, **kept)]))
    found = family_of(lock_of(gathered(store)[0], "redis-token"), "kill")
    assert (found.state, len(found.evidence)) == ("kept", 1)
    assert all(one.state != "broken" for one in lock_of(gathered(store)[0], "redis-token").families)


def test_a_document_cannot_publish_other_files(tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "report.html").write_text("secret")
    for number, folder in enumerate((str(tmp_path / "secret"), "../secret", "x/../../secret")):
        night = nights.night(20 + number, [nights.outcome(f"a{number}", folder=folder)])
        nights.add(tmp_path / "store" / "results.db", night)
    assert gathered(tmp_path / "store")[1].sources == {}


def test_a_damaged_study_is_left_out_and_named(tmp_path: Path) -> None:
    nights.add(tmp_path / "store" / "results.db", nights.night(20, [nights.outcome("a")]))
    for folder, name in (("hunts", "hunt.json"), ("redlock", "results.json")):
        (tmp_path / "store" / folder / "x").mkdir(parents=True)
        (tmp_path / "store" / folder / "x" / name).write_text("{")
    document = gathered(tmp_path / "store")[0]
    assert [text.partition(",")[0].partition(":")[0] for text in document.unreadable] == [
        "hunts/x/hunt.json", "redlock/x/results.json",
    ]  # fmt: skip
    assert "hunts/x/hunt.json" in publication.index_page(document)


# The folder.


def test_files_of_others_stay(tmp_path: Path) -> None:
    write(tmp_path, {"index.html": b"1", "locks/old.html": b"old", "locks/edited.html": b"old"})
    (tmp_path / "locks/edited.html").write_text("edited")
    (tmp_path / "locks/mine.html").write_text("mine")
    (tmp_path / "CNAME").write_text("example.org")
    write(tmp_path, {"index.html": b"2"})
    assert {name: content for name, content in bytes_of(tmp_path).items() if name != "published.json"} == {
        "index.html": b"2", "CNAME": b"example.org", "locks/mine.html": b"mine", "locks/edited.html": b"edited",
    }  # fmt: skip
    assert list(json.loads((tmp_path / "published.json").read_bytes())["files"]) == ["index.html"]


def test_a_strange_file_in_the_way_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("mine")
    with pytest.raises(UsageError, match=r"index\.html: exists, and 'harness publish' did not write it"):
        write(tmp_path, {"a.html": b"a", "index.html": b"ours"})
    assert bytes_of(tmp_path) == {"index.html": b"mine"}
    write(tmp_path, {"a.html": b"a", "index.html": b"mine"})  # the same bytes: the list may have been lost


def test_a_list_of_files_cannot_remove_others(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("old")
    digest = hashlib.sha256(b"old").hexdigest()
    listed = {"schema": 1, "files": {"../victim": digest, str(tmp_path / "victim"): digest}}
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "published.json").write_text(json.dumps(listed))
    write(tmp_path / "site", {"index.html": b"1"})
    assert (tmp_path / "victim").read_text() == "old"


def write(folder: Path, files: dict[str, bytes | Path]) -> None:
    write_folder(folder, files, lambda _fraction, _text: None)
