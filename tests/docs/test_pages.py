"""The pages: command lines that the program accepts, and links that lead somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
import yaml

from .command_lines import complete, in_markdown, problems
from .page_commands import PAGES, ROOT
from .scripts import script

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


def test_code_in_another_language_hides_no_command() -> None:
    page = "```python\nharness = 1\n```\n\nText `harness list locks`.\n\n```python\nx = 2\n```\n"
    assert list(in_markdown(page)) == ["harness list locks"]


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("harness run redlock --seed 1   three spaces begin a remark ABOUT it", "harness run redlock --seed 1"),
        ("harness check --follow recordings --model mutex [--out kept]",
         "harness check --follow recordings --model mutex --out kept"),
        ("harness run redis-token --servers 'redis://:$PASSWORD@db1'",
         "harness run redis-token --servers 'redis://:$PASSWORD@db1'"),
        ("harness doctor", "harness doctor"),
        ("harness run LOCK", ""),
        ("harness hunt redlock --scheduler tcp://SCHEDULER:8786", ""),
        ("harness compare --locks redis-token,...", ""),
        ("harness run", ""),
        ("harness scenario", ""),
        ("harness run redlock --runs", ""),
        ("harness run redlock --runs n", ""),
    ],
)  # fmt: skip
def test_a_command_is_complete_if_the_program_would_begin_with_it(line: str, command: str) -> None:
    assert complete(line) == command


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


@pytest.mark.slow
def test_the_output_in_the_readme_is_that_of_its_first_command(tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (output,) = re.findall(r"^```\n(VIOLATION.*?)^```$", readme, re.DOTALL | re.MULTILINE)
    (line,) = re.findall(r"bin/(harness run .*)$", readme, re.MULTILINE)
    ran = subprocess.run(
        [sys.executable, "-m", *line.split()], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stdout[: len(output)]) == (1, output)
