"""The contents of the pages, requested like a browser without scripts does."""

from __future__ import annotations

import html
import io
import json
import os
import random
import re
import zipfile
from pathlib import Path

import pytest

from harness.history import HistoryWriter
from harness.run.store import new_bisection, new_comparison, new_fidelity, new_hunt, new_sweep, new_versions
from harness.serve.app import application
from harness.serve.guard import Guard
from harness.serve.index import TURNS, Index
from tests.reports import nights
from tests.serve import stores
from tests.serve.asking import Answer, request

FIRST = f"/runs/redlock/{stores.name(0)}/"
BISECTION = "/store/bisections/20261121T230000Z-redis-py-lock/"
RELEASES = "/store/versions/20261121T233000Z-redis-py-lock/"


def rows(answer: Answer) -> list[str]:
    """Return the addresses of the runs in the table, in order."""
    assert answer.status == 200, answer.text
    return re.findall(r'<td class="when"><a href="([^"]+)">', answer.text)


def address(number: int) -> str:
    return f"/runs/{stores.LOCKS[number % len(stores.LOCKS)]}/{stores.name(number)}/"


def test_runs_come_in_pages_of_a_hundred_the_newest_first(app: Guard) -> None:
    pages = [rows(request(app, f"/?page={page}")) for page in (1, 2, 3)]
    assert [len(page) for page in pages] == [100, 100, 50]
    assert [*pages[0], *pages[1], *pages[2]] == [address(number) for number in range(249, -1, -1)]
    first = request(app, "/").text
    assert "1 to 100 of 250 runs" in first
    assert 'href="/?page=2"' in first
    assert "the last is 3" in request(app, "/?page=4").text


@pytest.mark.parametrize(
    ("query", "fits"),
    [
        ("lock=redlock", lambda n: n % 5 == 0),
        ("fault=clock-skew", lambda n: n % 4 == 0 and n % 7),
        ("fault=none", lambda n: n % 7 == 0),
        ("cluster=docker", lambda n: n % 2 == 1),
        ("verdict=invalid", lambda n: n % 3 == 1),
        ("verdict=unknown&lock=redlock", lambda n: n % 3 == 2 and n % 5 == 0),
        ("text=REDLOCK+clock-sk", lambda n: n % 5 == 0 and n % 4 == 0 and n % 7),
        ("text=nobody+competed", lambda n: n % 3 == 2),
        ("since=2026-11-02", lambda n: n >= 206),
        ("until=2026-11-01", lambda n: n <= 205),
        ("since=2026-11-01T07:00&until=2026-11-01T08:00", lambda n: 60 <= n <= 68),
        ("lock=nobody", lambda n: False),
    ],
)
def test_filters_select_the_matching_runs(app: Guard, query: str, fits: object) -> None:
    assert callable(fits)
    expected = [address(number) for number in range(249, -1, -1) if fits(number)]
    assert rows(request(app, f"/?{query}")) == expected[:100]


@pytest.mark.parametrize("key", ["when", "verdict", "lock", "faults", "cluster", "operations", "seed", "summary"])
def test_every_column_sorts_both_ways(app: Guard, key: str) -> None:
    values = {
        "when": lambda n: n, "seed": lambda n: n, "lock": lambda n: stores.LOCKS[n % 5],
        "cluster": lambda n: n % 2 == 0,
        "verdict": lambda n: (2, 0, 1)[n % 3], "operations": lambda n: n * 37 % 1000,
        "faults": lambda n: [stores.FAULTS[n % 4]] if n % 7 else [],
        "summary": lambda n: stores.WORDS[(True, False, None)[n % 3]],
    }[key]  # fmt: skip
    for sort, reverse in ((key, False), (f"-{key}", True)):
        expected = sorted(range(249, -1, -1), key=values, reverse=reverse)
        assert rows(request(app, f"/?sort={sort}")) == [address(number) for number in expected[:100]]
        assert f'aria-sort="{"descending" if reverse else "ascending"}"' in request(app, f"/?sort={sort}").text


def test_a_column_heading_toggles_the_order(app: Guard) -> None:
    assert 'href="/?lock=redlock&amp;sort=seed"' in request(app, "/?lock=redlock").text
    assert 'href="/?lock=redlock&amp;sort=-seed"' in request(app, "/?lock=redlock&sort=seed").text


def test_the_page_of_a_run_counts_its_hosts_and_belongs_to_the_runs(app: Guard) -> None:
    text = request(app, FIRST).text
    assert "sim, 1 server, 2 clients" in text
    assert '<a href="/" aria-current="page">Runs</a>' in text


@pytest.mark.parametrize("query", ["page=0", "page=x", "page=1e3", "sort=size", "verdict=good", "since=1", "until=%00",
                                   "until=2026-13-45", "since=2026-02-30", "until=2026-11-21T24:61"])  # fmt: skip
def test_an_invalid_parameter_is_refused_with_its_name(app: Guard, query: str) -> None:
    answer = request(app, f"/?{query}")
    assert answer.status == 400
    assert f"{query.partition('=')[0]}: expected" in answer.text


def test_a_run_shows_its_verdict_and_links_to_its_files(app: Guard) -> None:
    page = request(app, address(1)).text
    assert "Violation found" in page
    assert html.escape(stores.results(1)["summary"]) in page
    assert "what deadlock found in 1" in page
    links = re.findall(r'href="([^"]+)"', page)
    for name in ("report.html", "results.json", "history.jsonl", "plan.toml"):
        assert f"/store/redis-token/{stores.name(1)}/{name}" in links
    assert f"/runs/redis-token/{stores.name(1)}.zip" in links
    for link in links:
        if link.startswith("/"):
            assert request(app, html.unescape(link)).status in (200, 307), link


def test_title_and_unusual_workload_of_a_run_are_shown(tmp_path: Path) -> None:
    asked = "Can its holder acquire it again?"
    for number, plan in enumerate(({"workload": "reentrant", "title": asked}, {"workload": "mutex"}, {})):
        path = stores.add(tmp_path, number) / "results.json"
        path.write_text(json.dumps({**stores.results(number), "plan": plan}))
    app = application(tmp_path)
    table = request(app, "/").text
    assert f'<span class="purpose">Run for: {asked} · workload reentrant</span>' in table
    assert table.count('class="purpose"') == 1
    assert rows(request(app, "/?text=holder+reentrant")) == [address(0)]
    assert f"Run for: {asked}" in request(app, address(0)).text
    assert "Run for:" not in request(app, address(1)).text


def test_title_and_workload_are_shown_during_the_run(tmp_path: Path) -> None:
    folder = stores.add(tmp_path, 0)
    (folder / "results.json").unlink()
    (folder / "plan.toml").write_text('lock = "redlock"\ntitle = "what for"\n')
    assert '<span class="purpose">Run for: what for</span>' in request(application(tmp_path), "/").text


def test_a_run_without_start_time_shows_a_dash_and_its_folder(tmp_path: Path) -> None:
    folder = stores.add(tmp_path, 0, tmp_path / "redlock" / "my run")
    path = folder / "results.json"
    path.write_text(json.dumps({**stores.results(0), "started_at": ""}))
    assert '>–<span class="folder">my run</span></a>' in request(application(tmp_path), "/").text


def test_files_are_served_as_stored(app: Guard, store: Path) -> None:
    folder = store / "redlock" / stores.name(0)
    text = "text/plain; charset=utf-8"
    kinds = {"report.html": "text/html; charset=utf-8", "results.json": "application/json", "history.jsonl": text}
    for name, kind in (kinds | {"plan.toml": text}).items():
        answer = request(app, f"/store/redlock/{folder.name}/{name}")
        assert answer.body == (folder / name).read_bytes()
        assert answer.headers["content-type"] == kind
        again = request(app, f"/store/redlock/{folder.name}/{name}", headers={"if-none-match": answer.headers["etag"]})
        assert (again.status, again.body) == (304, b"")


def test_folders_redirect_to_their_page(app: Guard) -> None:
    for target, page in (
        (f"/store/redlock/{stores.name(0)}/", FIRST),
        ("/store/latest/", FIRST),
        ("/store/comparisons/20261121T200000Z/", "/store/comparisons/20261121T200000Z/comparison.html"),
        ("/store/hunts/20261121T220000Z-redlock/", "/store/hunts/20261121T220000Z-redlock/hunt.html"),
        ("/store/bisections/20261121T230000Z-redis-py-lock/", f"{BISECTION}bisect.html"),
        ("/store/versions/20261121T233000Z-redis-py-lock/", f"{RELEASES}versions.html"),
        ("/runs/", "/"),
        ("/runs", "/"),
        (FIRST[:-1], FIRST),
        ("/comparisons", "/comparisons/"),
    ):
        answer = request(app, target)
        assert (answer.status, answer.headers["location"]) == (307, page)
    assert request(app, "/store/latest/report.html").status == 200
    assert request(app, "/store/redlock/").status == 404


def test_head_is_answered_without_a_body(app: Guard) -> None:
    for target in (f"/store/redlock/{stores.name(0)}/report.html", f"{FIRST[:-1]}.zip"):
        answer = request(app, target, "HEAD")
        assert (answer.status, answer.body) == (200, b"")


def test_the_zip_has_every_file_of_the_folder(app: Guard, store: Path) -> None:
    answer = request(app, f"{FIRST[:-1]}.zip")
    assert answer.headers["content-type"] == "application/zip"
    assert answer.headers["content-disposition"].endswith(f"redlock-{stores.name(0)}.zip")
    with zipfile.ZipFile(io.BytesIO(answer.body)) as archive:
        assert archive.testzip() is None
        found = {info.filename: archive.read(info) for info in archive.infolist()}
    folder = store / "redlock" / stores.name(0)
    assert found == {f"{folder.name}/{path.name}": path.read_bytes() for path in folder.iterdir()}


def test_a_zip_with_a_picture_warns_of_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run = stores.add(tmp_path, 0)
    (run / "picture.png").write_bytes(b"compressed already")
    answer = request(application(tmp_path), f"{FIRST[:-1]}.zip")
    with zipfile.ZipFile(io.BytesIO(answer.body)) as archive:
        found = {info.filename.rpartition("/")[2]: info.compress_type for info in archive.infolist()}
    assert (found["picture.png"], found["results.json"]) == (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
    assert caplog.messages == []


def test_a_large_zip_is_made_while_it_is_sent(tmp_path: Path) -> None:
    run = stores.add(tmp_path, 0)
    large = random.Random(1).randbytes(3_000_000)
    (run / "history.jsonl").write_bytes(large)
    (run / "logs").mkdir()
    (run / "logs" / "n1.log").write_text("a line")
    (run / "gone").symlink_to("/etc/passwd")
    answer = request(application(tmp_path), f"{FIRST[:-1]}.zip")
    assert answer.most < 600_000 < len(large)
    with zipfile.ZipFile(io.BytesIO(answer.body)) as archive:
        assert archive.read(f"{run.name}/history.jsonl") == large
        assert archive.read(f"{run.name}/logs/n1.log") == b"a line"
        assert f"{run.name}/gone" not in archive.namelist()


def test_every_list_begins_with_what_it_contains(app: Guard, tmp_path: Path) -> None:
    texts = {
        "/": "250 runs: 83 violations, 84 safe, 83 unknown.",
        "/comparisons/": "1 comparison: 1 complete.",
        "/sweeps/": "1 sweep: 1 complete.",
        "/hunts/": "1 hunt: 1 complete; 1 found a failure.",
        "/bisections/": "1 bisection: 1 complete.",
        "/versions/": "1 comparison of releases: 1 complete.",
    }
    for address, text in texts.items():
        page = request(app, address).text
        assert re.search(r"</h1>\s*<p[^>]*>([^<]*)</p>", page)[1] == text  # type: ignore[index]
    known = stores.HUNT | {"findings": [{"broken": ["a"], "known": True}], "interrupted": True}
    stores.study(tmp_path, "hunts", "20261121T220000Z-redlock", known)
    stores.study(tmp_path, "hunts", "20261121T230000Z-redlock", stores.HUNT)
    assert "2 hunts: 1 complete, 1 incomplete; 1 found a failure." in request(application(tmp_path), "/hunts/").text


def test_comparisons_sweeps_and_hunts_are_listed(app: Guard) -> None:
    assert "2 locks under 1 fault" in request(app, "/comparisons/").text
    sweeps = request(app, "/sweeps/").text
    assert "1 point" in sweeps
    link = "/store/sweeps/20261121T210000Z-redis-token/sweep.html"
    assert f'href="{link}"' in sweeps
    assert request(app, link).status == 200
    hunts = request(app, "/hunts/").text
    assert "1 failure in 1,160 schedules" in hunts
    link = "/store/hunts/20261121T220000Z-redlock/hunt.html"
    assert f'href="{link}"' in hunts
    assert "sandbox allow-scripts" in request(app, link).headers["content-security-policy"]


def test_comparisons_of_releases_are_listed_with_their_conclusion(app: Guard) -> None:
    page = request(app, "/versions/").text
    assert "exit: redis 2.10.6 fails, and 3.0.0 holds." in page
    assert f'href="{RELEASES}versions.html"' in page
    assert request(app, f"{RELEASES}versions.html").status == 200


def test_bisections_are_listed_with_their_conclusion(app: Guard, tmp_path: Path) -> None:
    page = request(app, "/bisections/").text
    assert "redis 3.0.0 fixed the failure; 2.10.6 is the last release before it." in page
    assert f'href="{BISECTION}bisect.html"' in page
    assert f'href="{BISECTION}bisect.json"' in page
    assert request(app, f"{BISECTION}bisect.html").status == 200
    new_bisection(tmp_path, "redlock", stores.BEGAN)
    unfinished = request(application(tmp_path), "/bisections/").text
    assert "There is no bisect.json: the command is still running, or was killed." in unfinished


def test_studies_are_not_listed_as_runs(tmp_path: Path) -> None:
    stores.add(tmp_path, 0)
    for make in (new_sweep, new_hunt, new_bisection, new_versions):
        make(tmp_path, "redlock", stores.BEGAN)
    for make_one in (new_comparison, new_fidelity):
        folder = make_one(tmp_path, stores.BEGAN)
        assert request(application(tmp_path), f"/runs/{folder.parent.name}/{folder.name}/").status == 404
    assert rows(request(application(tmp_path), "/")) == [FIRST]


def test_every_page_links_to_all_others(app: Guard) -> None:
    titles = {
        "/": "Runs",
        "/status": "Status",
        "/comparisons/": "Comparisons",
        "/sweeps/": "Sweeps",
        "/hunts/": "Hunts",
        "/bisections/": "Bisections",
        "/versions/": "Releases",
        "/trends": "Trends",
    }
    for here, title in titles.items():
        page = request(app, here).text
        assert re.findall(r'<li><a href="([^"]+)"', page)[: len(titles)] == list(titles)
        assert f'<a href="{here}" aria-current="page">{title}</a>' in page


def test_trends_equal_those_of_the_command(tmp_path: Path) -> None:
    app = application(tmp_path)
    assert "harness nightly" in request(app, "/trends").text
    for day in (20, 21):
        nights.add(tmp_path / "results.db", {**nights.mixed(), "started_at": f"2026-11-{day}T02:00:00Z"})
    page = request(app, "/trends").text
    assert "2026-11-21 02:00 compared with 2026-11-20 02:00" in page
    assert 'aria-current="page">Trends' in page
    nights.add(tmp_path / "results.db", {**nights.mixed(), "suite": "full", "started_at": "2026-11-22T02:00:00Z"})
    newer = request(app, "/trends").text
    assert "2026-11-21 02:00 compared with 2026-11-20 02:00" in newer, "the latest suite has nothing to compare"
    link = re.search(r'href="(/trends\?suite=[^"]+)"', newer)
    assert link
    single = request(app, html.unescape(link.group(1))).text
    assert "Only one nightly run of the suite full on docker, sim is stored; a comparison needs two." in single


def test_added_changed_and_removed_runs_show_without_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.serve.index.FRESH_S", 0.0)
    app = application(tmp_path / "store")
    empty = request(app, "/").text
    assert "This store has no runs yet" in empty
    assert f"harness run redlock --nemesis clock-skew --out {tmp_path / 'store'}" in empty
    folder = stores.add(tmp_path / "store", 0)
    results = (folder / "results.json").read_text()
    (folder / "results.json").unlink()
    with HistoryWriter(folder / "history.jsonl"):
        assert '<tr class="running">' in request(app, "/").text
        page = request(app, FIRST).text
        assert "This run is in progress." in page
        assert f'href="/live/redlock/{stores.name(0)}/"' in page
    assert '<tr class="broken">' in request(app, "/").text
    (folder / "results.json").write_text(results)
    assert '<tr class="valid">' in request(app, "/").text
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    assert "This store has no runs yet" in request(app, "/").text


def test_unchanged_results_are_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.serve.index.FRESH_S", 0.0)
    index = Index(stores.fill(tmp_path, 3))
    assert len(index.runs()) == 3
    monkeypatch.setattr("harness.serve.index.read_results", None)
    assert len(index.runs()) == 3


def test_changed_results_of_an_old_run_are_read_again_soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.serve.index.FRESH_S", 0.0)
    index = Index(stores.fill(tmp_path, 3))
    results = tmp_path / "redlock" / stores.name(0) / "results.json"
    os.utime(results, ns=(0, 0))
    assert index.run("redlock", stores.name(0)) == index.runs()[-1]
    results.write_text(results.read_text().replace("k0", "another"))
    os.utime(results, ns=(1, 1))
    seen = [index.runs()[-1].sentence for _ in range(TURNS + 1)]
    assert "k0" in seen[0]
    assert "another" in seen[-1]
