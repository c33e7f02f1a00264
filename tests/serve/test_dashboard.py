"""The status of locks over nightly runs, and two runs side by side."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import pytest

from harness.serve.app import application
from tests.reports import nights
from tests.serve import stores
from tests.serve.asking import request

EVIL = "<script>alert(1)</script>\"'&"


def night(day: int, *outcomes: dict[str, object]) -> dict[str, object]:
    return {**nights.explored(), "started_at": f"2026-11-{day}T02:00:00Z", "outcomes": list(outcomes)}


@pytest.fixture
def dashboard(tmp_path: Path) -> Path:
    """A store of three nightly runs: redlock broke in the second one, and a cure stayed safe."""
    kept = nights.outcome("clock-jump-redlock.safe")
    broken = nights.outcome("clock-jump-redlock", reason="Two clients held k0.")
    limit = nights.outcome("ttl-pause-write", states={"resource": "known-limit"}, valid=False)
    before = {**broken, "states": {"mutual-exclusion": "kept"}, "valid": True}
    for day, outcomes in ((20, (kept, before)), (21, (kept, broken)), (22, (kept, broken, limit))):
        nights.add(tmp_path / "results.db", night(day, *outcomes))
    return tmp_path


def text_of(page: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", page).split())


def test_the_status_says_what_is_broken_and_since_when(dashboard: Path) -> None:
    answer = request(application(dashboard), "/status")
    assert answer.status == 200
    said = text_of(answer.text)
    assert "1 of 3 locks broke a promise" in said
    assert "clock-jump: broken since 2026-11-21 02:00" in said
    assert "2 nightly runs, before: kept · Two clients held k0." in said
    assert "clock-jump: kept since 2026-11-20" in said
    assert "client-pause: known limit since 2026-11-22" in said
    assert "locks of the catalogue are in no nightly run" in said


def test_nightly_runs_are_bars_the_graver_the_higher(dashboard: Path) -> None:
    page = request(application(dashboard), "/status?text=redlock").text
    found = [
        (match["words"], re.findall(r'<rect class="([^"]+)" x="(\d+)" y="(\d+)"[^>]* height="(\d+)"/>', match["bars"]))
        for match in re.finditer(r'<svg class="strip"[^>]*aria-label="(?P<words>[^"]*)">(?P<bars>.*?)</svg>', page)
    ]
    assert found == [
        (
            "the latest 3 nightly runs: kept 1 time, then broken 2 times",
            [("kept", "0", "10", "2"), ("broken", "5", "0", "12"), ("broken", "10", "0", "12")],
        ),
        ("the latest 3 nightly runs: kept 3 times", [("kept", str(x), "10", "2") for x in (0, 5, 10)]),
    ]
    limit = request(application(dashboard), "/status?state=known-limit").text
    assert "client-pause" in limit
    assert '<svg class="strip"' not in limit, "it has one nightly run"


def test_a_fenced_lock_has_a_state_of_its_own(tmp_path: Path) -> None:
    """Elsewhere, too, this outcome is neither safe nor a known limit: see the comparison's cells."""
    reason = "Safe with fencing: two clients held the lock at the same time once."
    fenced = nights.outcome("x", states={"mutual-exclusion": "known-limit"}, valid=True, reason=reason)
    nights.add(tmp_path / "results.db", night(20, fenced))
    page = request(application(tmp_path), "/status?state=fenced").text
    assert "partition: fenced since 2026-11-20" in text_of(page)
    assert '<li class="fenced"><span class="state">' in page


def test_the_status_is_filtered_by_the_address(dashboard: Path) -> None:
    app = application(dashboard)
    for query, locks in (
        ("", ["redis-token", "redlock", "redlock-fenced"]),
        ("?state=broken", ["redlock"]),
        ("?state=kept&cluster=sim", ["redlock-fenced"]),
        ("?text=pause", ["redis-token"]),
        ("?cluster=docker", []),
    ):
        page = request(app, f"/status{query}").text
        assert re.findall(r'<h2 id="lock-\d+"><a href="[^"]*">([^<]*)</a>', page) == locks, query
    assert "No combination of lock and family matches." in request(app, "/status?text=nothing").text


@pytest.mark.parametrize("query", ["state=bad", "cluster=cloud"])
def test_an_invalid_filter_of_the_status_is_refused_with_its_name(dashboard: Path, query: str) -> None:
    answer = request(application(dashboard), f"/status?{query}")
    assert answer.status == 400
    assert f"{query.partition('=')[0]}: expected one of" in answer.text


def test_a_store_without_nightly_runs_says_how_to_make_one(tmp_path: Path) -> None:
    page = request(application(tmp_path), "/status")
    assert page.status == 200
    assert "harness nightly" in page.text
    (tmp_path / "results.db").write_bytes(b"no database" * 100)
    assert request(application(tmp_path), "/status").status == 200


def test_another_nightly_run_changes_the_status(dashboard: Path) -> None:
    app = application(dashboard)
    assert "clock-jump: broken" in text_of(request(app, "/status?text=redlock").text)
    healed = nights.outcome("clock-jump-redlock", states={"mutual-exclusion": "kept"}, valid=True)
    nights.add(dashboard / "results.db", night(23, healed))
    assert "clock-jump: kept since 2026-11-23 02:00:00, before: broken" in text_of(request(app, "/status").text)


def test_stored_text_of_nights_is_escaped(tmp_path: Path) -> None:
    evil = nights.outcome("x", lock=EVIL, faults=[EVIL], reason=EVIL)
    nights.add(tmp_path / "results.db", night(20, evil))
    page = request(application(tmp_path), "/status").text
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page


def test_the_run_of_a_status_is_linked_if_the_store_has_it(tmp_path: Path) -> None:
    stores.add(tmp_path, 0)
    place = f"redlock/{stores.name(0)}"
    nights.add(tmp_path / "results.db", night(20, nights.outcome("x", folder=f"/elsewhere/store/{place}")))
    assert f'href="/runs/{place}/"' in request(application(tmp_path), "/status").text
    nights.add(tmp_path / "results.db", night(21, nights.outcome("x", folder="store/../../etc")))
    assert 'href="/runs/' not in request(application(tmp_path), "/status").text


def test_runs_of_a_status_are_linked_if_the_list_has_any_and_can_be_made_otherwise(tmp_path: Path) -> None:
    """A nightly run keeps no folder of a run that ends as expected."""
    stores.add(tmp_path, 5)  # redlock with client-pause
    stores.add(tmp_path, 0)  # redlock without a fault
    faults: tuple[list[str], ...] = (["client-pause"], [], ["clock-jump"])
    outcomes = [nights.outcome(f"row-{number}", lock="redlock", faults=one) for number, one in enumerate(faults)]
    nights.add(tmp_path / "results.db", night(20, *outcomes))
    app = application(tmp_path)
    page = request(app, "/status").text
    links = [html.unescape(link) for link in re.findall(r'<a href="([^"]*)" aria-label="Runs of', page)]
    assert links == ["/?lock=redlock&fault=client-pause", "/?lock=redlock&fault=none"]
    for link in links:
        assert "1 to 1 of 1 run" in text_of(request(app, link).text)
    assert re.findall("no stored run: <code>([^<]*)</code>", page) == [f"harness scenario run row-2 --out {tmp_path}"]


def pair(store: Path) -> str:
    """Add two runs of redlock with different verdicts, seeds and versions; return the address that compares them."""
    for number, version in ((0, "5.0.0"), (5, "8.1.0")):
        folder = stores.add(store, number)
        document = json.loads((folder / "results.json").read_text())
        document["plan"] = {"workload": "mutex", "title": EVIL if number else ""}
        document["versions"] = {"redis": version, "python": "3.11.7"}
        (folder / "results.json").write_text(json.dumps(document))
    return f"/compare?a=redlock/{stores.name(0)}&b=redlock/{stores.name(5)}"


def test_two_runs_are_compared_with_measurements_apart_from_verdicts(tmp_path: Path) -> None:
    page = request(application(tmp_path), pair(tmp_path)).text
    verdicts, settings, measured = (
        text_of(page[page.index(f'<h2 id="{name}">') :].partition("</section>")[0])
        for name in ("verdicts", "settings", "measured")
    )
    assert "The verdicts differ on mutual-exclusion" in text_of(page)
    assert "mutual-exclusion kept not tested" in verdicts
    assert re.search(r"Second run seed 0 5 cluster sim docker title none .* version of redis 5.0.0 8.1.0", settings)
    assert "python" not in settings
    both = [text_of(one) for one in page.split("<article")[1:]]
    assert ["Versions that differ: redis 5.0.0" in one for one in both] == [True, False]
    assert "Versions that differ: redis 8.1.0" in both[1]
    assert "operations" not in verdicts
    assert "operations 100 285" in measured
    assert "<script>alert" not in page


def test_only_the_seed_differs_between_two_runs_of_one_plan(tmp_path: Path) -> None:
    for number in (0, 1):
        folder = stores.add(tmp_path, 0, tmp_path / "redlock" / stores.name(number))
        (folder / "results.json").write_text(json.dumps(stores.results(0) | {"seed": number}))
    app = application(tmp_path)
    address = "/compare?a=redlock/{}&b=redlock/{}"
    page = text_of(request(app, address.format(stores.name(0), stores.name(1))).text)
    assert "Name First run Second run seed 0 1 Measurements" in page
    page = text_of(request(app, address.format(stores.name(0), stores.name(0))).text)
    assert "None: the two runs have the same seed, lock, cluster, plan and versions." in page


@pytest.mark.parametrize(
    "query", ["", "?a=redlock", "?a=redlock/{}&b=../../etc/passwd", "?a=redlock/{}&b=redlock/nothing", "?a=/&b=/"]
)
def test_a_comparison_without_two_runs_is_refused(tmp_path: Path, query: str) -> None:
    stores.add(tmp_path, 0)
    answer = request(application(tmp_path), f"/compare{query.format(stores.name(0))}")
    assert answer.status == 404
    assert "expected a run of this store as lock/run" in answer.text


def test_a_damaged_run_can_be_compared(tmp_path: Path) -> None:
    address = pair(tmp_path)
    (tmp_path / "redlock" / stores.name(5) / "results.json").write_text("{")
    page = request(application(tmp_path), address)
    assert page.status == 200
    assert "results.json cannot be read" in text_of(page.text)


def test_every_page_with_a_conclusion_says_how_sure_it_is(tmp_path: Path) -> None:
    pair_of_runs, app = pair(tmp_path), application(tmp_path)
    for day in (20, 21):
        nights.add(tmp_path / "results.db", night(day, nights.outcome("x")))
    for address, sure in (
        (pair_of_runs, "A violation is proved by its run. One run of each does not show"),
        ("/status", "A broken promise, a known limit and a fenced lock are proved by a run."),
        ("/trends", "A failure is proved by its run."),
        (f"/runs/redlock/{stores.name(0)}/", "1 run says little: up to 95 %"),
    ):
        beginning = request(app, address).text.partition("<h2")[0]
        assert f"How sure: {sure}" in text_of(beginning), address


def test_checkers_of_a_run_have_violations_first_and_no_state_twice(tmp_path: Path) -> None:
    folder = stores.add(tmp_path, 0)
    checkers = {
        "fencing": {"valid": True, "state": "not-applicable", "explanation": "not applicable: the lock has no tokens"},
        "liveness": {"valid": True, "state": "kept", "explanation": "every key was granted"},
        "resource": {"valid": False, "state": "broken", "explanation": "2 updates were lost"},
    }
    (folder / "results.json").write_text(json.dumps(stores.results(0) | {"checkers": checkers}))
    page = request(application(tmp_path), f"/runs/redlock/{stores.name(0)}/").text
    told = text_of(page[page.index("<tbody>") :].partition("</tbody>")[0])
    assert told == (
        "resource broken 2 updates were lost liveness kept every key was granted "
        "fencing not applicable the lock has no tokens"
    )


@pytest.mark.parametrize("number", [0, 5])
def test_measurements_of_a_run_are_called_virtual_only_in_the_simulator(tmp_path: Path, number: int) -> None:
    folder = stores.add(tmp_path, number)
    document = json.loads((folder / "results.json").read_text())
    document["stats"]["seconds"] = 30.0
    (folder / "results.json").write_text(json.dumps(document))
    page = request(application(tmp_path), f"/runs/redlock/{stores.name(number)}/").text
    measured = text_of(page[page.index('<h2 id="measured">') :].partition("</section>")[0])
    virtual = document["cluster"]["backend"] == "sim"
    assert ("Times are virtual: they count round trips" in measured) == virtual
    assert ("seconds (virtual) 30" in measured) == virtual


def test_a_run_offers_other_runs_of_its_lock_and_shows_measurements_apart(tmp_path: Path) -> None:
    pair(tmp_path)
    stores.add(tmp_path, 1)
    page = request(application(tmp_path), f"/runs/redlock/{stores.name(0)}/").text
    assert re.findall(r'<option value="([^"]*)">', page) == [f"redlock/{stores.name(5)}"]
    assert "operations 100" in text_of(page[page.index('<h2 id="measured">') :])
    assert "Operations" not in page.partition('<h2 id="measured">')[0]


def test_runs_of_the_same_plan_with_other_versions_are_offered_first(tmp_path: Path) -> None:
    """Run 3 is older than 5, which has another seed, and than 4, which has another plan. Run 2 has equal versions."""
    plans = {
        0: ("5.0.0", 'requires = ["redis==5.0.0"]\n'),
        3: ("8.1.0", 'requires = ["redis==8.1.0"]\ntitle = "newer"\n'),
        2: ("5.0.0", ""),
        4: ("8.1.0", "ttl = 5.0\n"),
        5: ("8.1.0", ""),
    }
    for number, (version, more) in plans.items():
        folder = stores.add(tmp_path, number, tmp_path / "redlock" / stores.name(number))
        document = stores.results(0) | {"started_at": stores.results(number)["started_at"], "seed": number // 5}
        document["versions"] = {"redis": version, "commit": str(number)}
        (folder / "results.json").write_text(json.dumps(document))
        (folder / "plan.toml").write_text(f'lock = "redlock"\nseed = {number // 5}\n{more}')
    page = request(application(tmp_path), f"/runs/redlock/{stores.name(0)}/").text
    offered = re.findall(r'<option value="redlock/([^"]*)">([^<]*)<', page)
    assert [name for name, _ in offered] == [stores.name(number) for number in (3, 5, 4, 2)]
    assert offered[0][1].startswith("redis 8.1.0, 2026-")
    assert re.findall(r'<optgroup label="([^"]*)">', page) == ["Same plan, other versions", "Other runs"]
