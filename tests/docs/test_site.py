"""The built site: strictly built, readable and searchable from ``file:``, accessible, and found by ``harness docs``."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import unquote, urldefrag

import pytest

from harness.cli import docs
from harness.cli.main import main
from harness.documents.publication import load_publication
from harness.errors import MISSING, USAGE, VALID
from tests.reports import publications

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ROOT = Path(__file__).parents[2]
FOLDERS = (".", "concepts", "fidelity", "findings", "how-to", "reference")
"""Where the site has pages."""


# harness docs


@pytest.fixture
def small_site(tmp_path: Path) -> Path:
    (tmp_path / "index.html").write_text("<h1>harness</h1>")
    (tmp_path / "folder").mkdir()
    return tmp_path


def run_docs(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["docs", *arguments])
    return int(ended.value.code or 0)


def test_docs_prints_an_address_that_a_browser_opens(small_site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_docs("--site", str(small_site)) == VALID
    with urllib.request.urlopen(capsys.readouterr().out.strip()) as page:
        assert page.read() == b"<h1>harness</h1>"


@pytest.mark.parametrize("arguments", [("--site", "nowhere"), ("--port", "70000")])
def test_docs_refuses_wrong_arguments(arguments: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run_docs(*arguments) == USAGE
    assert capsys.readouterr().err.startswith("harness: ")


def test_docs_without_a_site_says_how_to_build_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(docs, "PLACES", (tmp_path,))
    assert run_docs() == MISSING
    assert "mkdocs build --strict" in capsys.readouterr().err


@pytest.fixture
def served(small_site: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    command = [sys.executable, "-m", "harness", "docs", "--site", str(small_site), "--serve", "--port", "0"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip(), process
        finally:
            process.kill()


def test_docs_serves_the_site_on_the_loopback_until_ctrl_c(served: tuple[str, subprocess.Popen[str]]) -> None:
    address, process = served
    assert address.startswith("http://127.0.0.1:")
    with urllib.request.urlopen(address) as page:
        assert page.read() == b"<h1>harness</h1>"
    for path in ("folder/", "../../etc/passwd"):
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(address + path)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == VALID


# The site itself


def built(folder: Path, **variables: str) -> Path:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environment = {**os.environ, **variables}
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return folder


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("site"))


def test_programs_of_the_folder_are_no_files_of_the_site() -> None:
    """Programs of ``docs/`` leave compiled files when they are imported."""
    from mkdocs.config import load_config

    config: Any = load_config(str(ROOT / "mkdocs.yml"))
    paths = ("index.md", "style.py", "__pycache__/style.cpython-311.pyc")
    assert [config.exclude_docs.match_file(path) for path in paths] == [False, True, True]


class Links(HTMLParser):
    """Collects the targets of links, pictures and scripts, and the ids of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.targets: set[str] = set()
        self.ids: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src") and value and not (tag == "link" and ("rel", "canonical") in attrs):
                self.targets.add(value)
            if name == "id" and value:
                self.ids.add(value)


def dead_links(site: Path) -> list[str]:
    """Return the links of the site that lead nowhere; each begins with its page."""
    pages = {path: Links(path.read_text(encoding="utf-8")) for path in site.rglob("*.html") if path.name != "404.html"}
    assert len(pages) > 50
    dead = []
    for page, links in pages.items():
        for target in links.targets:
            path, anchor = urldefrag(target)
            if "://" in path or path.startswith(("mailto:", "data:")):
                continue
            file = (page.parent / unquote(path)).resolve() if path else page
            if not file.is_file() or (anchor and file in pages and unquote(anchor) not in pages[file].ids | {"__"}):
                dead.append(f"{page.relative_to(site)}: {target}")
    return dead


@pytest.mark.slow
def test_no_link_of_the_site_is_dead_and_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    assert dead_links(site) == []
    assert not (site / "locks").exists()


@pytest.mark.slow
def test_a_site_that_is_built_with_a_store_has_a_report_for_each_lock(tmp_path: Path) -> None:
    store = publications.make(tmp_path / "store")
    folder = built(tmp_path / "site", LOCK_HARNESS_STORE=str(store))
    assert "../locks/index.html" in Links((folder / "findings" / "index.html").read_text(encoding="utf-8")).targets
    names = {one.name for one in load_publication(folder / "locks" / "locks.json").locks}
    assert {path.stem for path in (folder / "locks" / "locks").glob("*.html")} == names
    assert dead_links(folder) == []


@pytest.mark.slow
@pytest.mark.browser
def test_the_search_works_from_file(site: Path, browser: Browser) -> None:
    page = browser.new_page()
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.goto((site / "index.html").as_uri())
    page.locator("input.md-search__input").press_sequentially("fencing token")  # the page listens to keys
    page.wait_for_selector(".md-search-result__item a", timeout=120_000)
    assert page.locator(".md-search-result__item").count() > 3
    page.close()
    assert [url for url in requests if not url.startswith(("file:", "data:", "blob:"))] == []


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.parametrize("colours", ["light", "dark"])
@pytest.mark.parametrize("folder", FOLDERS)
def test_each_page_is_accessible(site: Path, browser: Browser, folder: str, colours: Literal["light", "dark"]) -> None:
    from axe_playwright_python.sync_playwright import Axe

    # A server gives 404.html for any path, so it names its styles from the root, and they are not loaded here.
    pages = [path for path in sorted((site / folder).glob("*.html")) if path.name != "404.html"]
    assert len(pages) > 5
    problems = []
    for path in pages:
        page: Any = browser.new_page(color_scheme=colours)
        page.goto(path.as_uri())
        found = Axe().run(page, options={"runOnly": ["wcag2a", "wcag2aa"]}).response["violations"]
        page.close()
        problems += [f"{path.name}: {one['id']}: {one['nodes'][0]['html'][:200]}" for one in found]
    assert problems == []


@pytest.mark.slow
def test_each_folder_of_the_site_is_looked_at(site: Path) -> None:
    folders = {path.parent.relative_to(site).as_posix() for path in site.rglob("*.html")}
    assert folders == set(FOLDERS)
