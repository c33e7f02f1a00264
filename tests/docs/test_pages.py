"""The pages: command lines that the program accepts, links that lead somewhere, and commands that end as pages say."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
import yaml

from .command_lines import in_markdown, problems
from .scripts import script

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")])
CONCEPTS: Final = sorted((ROOT / "docs" / "concepts").glob("*.md"))
VIOLATED: Final = {
    "harness run redis-setnx --nemesis client-crash",
    "harness run redis-fenced --nemesis client-pause --fencing off",
    "harness run redis-token --nemesis clock-jump",
    "harness run zookeeper-sequential --nemesis client-pause --fencing off",
    "harness hunt redlock --faults clock-jump --stop-at-first",
}
"""Commands of concept pages that end with a violation; all others end with exit status 0."""
FENCED: Final = re.compile(r"^(```|~~~).*?^\1[ \t]*$", re.DOTALL | re.MULTILINE)
LINK: Final = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_command_lines_are_accepted_by_the_program(page: Path) -> None:
    lines = in_markdown(page.read_text(encoding="utf-8"))
    assert [problem for line in lines for problem in problems(line)] == []


def test_command_lines_are_found_in_blocks_and_in_text() -> None:
    page = "Text `harness list locks`.\n\n```sh\nharness run redlock --seed 1 \\\n  --runs 2 # twice\n```\n"
    assert list(in_markdown(page)) == ["harness run redlock --seed 1    --runs 2 # twice", "harness list locks"]


def anchors(text: str) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and MkDocs make them."""
    found: set[str] = set()
    for heading in re.findall(r"^#+ (.+)$", FENCED.sub("", text), re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        found.add(re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", plain.lower()).strip()))
    return found


def dead_links(page: Path) -> Iterator[str]:
    for target in LINK.findall(re.sub(r"`[^`]*`", "", FENCED.sub("", page.read_text(encoding="utf-8")))):
        if "://" in target or target.startswith("mailto:"):
            continue
        path, _, anchor = target.partition("#")
        file = page.parent / path if path else page
        if not file.exists() or (
            anchor and file.suffix == ".md" and anchor not in anchors(file.read_text(encoding="utf-8"))
        ):
            yield target


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_to_files_and_headings(page: Path) -> None:
    assert list(dead_links(page)) == []


def test_a_dead_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Title\n\n[a](#title) [b](#other) [c](page.md#title) [d](nothing.md) `[e](x)`\n")
    assert list(dead_links(page)) == ["#other", "nothing.md"]


def test_every_page_is_in_the_navigation() -> None:
    navigation = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    pages = set(re.findall(r"[\w/.-]+\.md", str(navigation)))
    assert pages == {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")}


def test_the_reference_of_the_command_line_is_the_programs() -> None:
    """``python docs/make_cli.py`` writes it again."""
    page = (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    assert page == script("make_cli").page()
    assert "| `--nemesis` | `none` |" in page


def test_the_table_of_schemas_has_each_schema_once() -> None:
    page = (ROOT / "docs" / "reference" / "schemas.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[(\w+)\]\(\.\./schemas/(\S+)\) \|", page, re.MULTILINE)
    published = sorted(path.name for path in (ROOT / "docs" / "schemas").iterdir())
    assert rows == [(name.removesuffix(".schema.json"), name) for name in published]


def commands(page: Path) -> list[str]:
    """Return the commands of a concept page's blocks."""
    blocks = re.findall(r"^```sh\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    return [line for block in blocks for line in block.splitlines()]


def test_the_violations_are_commands_of_concept_pages() -> None:
    assert {line for page in CONCEPTS for line in commands(page)} >= VIOLATED


@pytest.mark.slow
def test_the_sql_lock_of_the_how_to_runs(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "how-to" / "own-lock.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```python\n(import pymysql.*?)^```$", page, re.DOTALL | re.MULTILINE)
    (tmp_path / "sqllock.py").write_text(code, encoding="utf-8")
    command = [sys.executable, "-m", "harness", "run", "sqllock:SqlLock", "--time-limit", "4s"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=600)
    assert ran.returncode == 0, f"{ran.stdout}{ran.stderr}"


@pytest.mark.slow
def test_the_output_in_the_readme_is_that_of_its_first_command(tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (output,) = re.findall(r"^```\n(VIOLATION.*?)^```$", readme, re.DOTALL | re.MULTILINE)
    (line,) = re.findall(r"bin/(harness run .*)$", readme, re.MULTILINE)
    ran = subprocess.run(
        [sys.executable, "-m", *line.split()], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stdout[: len(output)]) == (1, output)


@pytest.mark.slow
@pytest.mark.parametrize("line", [line for page in CONCEPTS for line in commands(page)])
def test_a_command_of_a_concept_page_ends_as_the_page_says(line: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", *line.split()]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=600)
    assert ran.returncode == (line in VIOLATED), f"{ran.stdout}{ran.stderr}"
