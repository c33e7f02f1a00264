"""A store with every kind of damage: each run reports its own, and none affects others."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.serve.app import application
from harness.serve.guard import Guard
from harness.serve.index import Index, Run
from tests.serve import stores
from tests.serve.asking import request


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> tuple[Guard, dict[str, Path], dict[Path, Run]]:
    """Return the application, the folders by kind of damage, and the rows of the table by folder."""
    store = tmp_path_factory.mktemp("store")
    made = stores.damaged(store)
    return application(store), made, {store.joinpath(*run.folder): run for run in Index(store).runs()}


@pytest.mark.parametrize("what", stores.DAMAGE)
def test_a_broken_run_reports_its_damage(broken: tuple[Guard, dict[str, Path], dict[Path, Run]], what: str) -> None:
    app, made, found = broken
    said = stores.DAMAGE[what][1]
    run = found[made[what]]
    assert said in run.trouble
    assert (run.state == "broken") == bool(said)
    page = request(app, f"/runs/{made[what].parent.name.replace(' ', '%20')}/{made[what].name}/")
    if what == "a file for a folder":
        assert page.status == 404
    else:
        assert page.status == 200
        assert html.escape(said, quote=False) in html.unescape(page.text) or not said


@pytest.mark.slow
def test_broken_and_whole_runs_are_all_listed(
    broken: tuple[Guard, dict[str, Path], dict[Path, Run]],
) -> None:
    app, made, found = broken
    page = request(app, "/")
    assert page.status == 200
    links = re.findall(r'<td class="when"><a href="([^"]+)">', page.text)
    assert (
        len(links) == len(found) == len(made) + 6 + 1 + 2
    )  # strange names (one with a line break), invalid UTF-8, whole
    assert any("%FF" in link for link in links)
    for link in map(html.unescape, links):
        for target in (link, link[:-1], f"{link[:-1]}.zip", link.replace("/runs/", "/store/")):
            assert request(app, target).status in (200, 307, 404), target
    for target in ("/comparisons/", "/sweeps/", "/hunts/", "/bisections/", "/versions/", "/trends"):
        assert request(app, target).status == 200
    assert "cannot be read" in request(app, "/comparisons/").text
    assert "cannot be read" in request(app, "/hunts/").text
    assert "not a database" in request(app, "/trends").text


def test_stored_text_is_escaped(broken: tuple[Guard, dict[str, Path], dict[Path, Run]]) -> None:
    app, made, _ = broken
    folders = [made["tags in all texts"], made["plan with tags"]]
    pages = [
        "/",
        "/sweeps/",
        "/bisections/",
        "/versions/",
        *(f"/runs/{path.parent.name.replace(' ', '%20')}/{path.name}/" for path in folders),
    ]
    for target in pages:
        text = request(app, target).text
        assert "onerror" in text
        assert stores.HTML not in text
        assert "<i>" not in text


def test_a_run_without_results_shows_the_report_command(broken: tuple[Guard, dict[str, Path], dict[Path, Run]]) -> None:
    app, made, _ = broken
    run = made["no results"]
    assert (
        f"harness report &#39;{run}&#39;"
        in request(app, f"/runs/{run.parent.name.replace(' ', '%20')}/{run.name}/").text
    )


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_pages_are_shown_for_arbitrarily_damaged_results(tmp_path: Path, data: st.DataObject) -> None:
    """Bytes of a results file are replaced, left out or truncated. The pages are shown, and the other run with
    them."""
    store = tmp_path / str(len(list(tmp_path.iterdir())))
    stores.add(store, 1)
    path = stores.add(store, 0) / "results.json"
    whole = path.read_bytes()
    start = data.draw(st.integers(0, len(whole)))
    end = data.draw(st.integers(start, len(whole)))
    path.write_bytes(whole[:start] + data.draw(st.binary(max_size=8)) + whole[end:])
    app = application(store)
    page = request(app, "/")
    assert page.status == 200
    assert page.text.count('<td class="when">') == 2
    assert request(app, f"/runs/redlock/{stores.name(0)}/").status == 200
