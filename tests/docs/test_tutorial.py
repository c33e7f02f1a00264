"""The tutorial, executed in an empty folder as a reader would."""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def run_page() -> ModuleType:
    spec = spec_from_file_location("run_page", ROOT / "docs" / "run_page.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def executed(run_page: ModuleType, text: str, tmp_path: Path) -> tuple[list[tuple[str, list[str]]], int, str]:
    folder, programs = tmp_path / "folder", tmp_path / "programs"
    folder.mkdir()
    programs.mkdir()
    page = run_page.Page(text, folder, run_page.environment_with(programs))
    result = page.execute()
    return [tuple(one) for one in page.differences], page.executed, result


@pytest.mark.slow
def test_every_output_of_the_tutorial_is_the_programs(run_page: ModuleType, tmp_path: Path) -> None:
    """``python docs/run_page.py docs/tutorial.md --write`` replaces the outputs on the page."""
    text = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    differences, count, _ = executed(run_page, text, tmp_path)
    assert differences == []
    assert count >= 6


PAGE = """
```python title="said.py"
print("a", 1)
print("b")
```

```console
$ python said.py
{output}
$ exit 3
$ echo $?
3
```
"""


@pytest.mark.parametrize("output", ["a 1\nb", "...\nb", "a 1\n..."])
def test_an_output_as_on_the_page_is_accepted(run_page: ModuleType, tmp_path: Path, output: str) -> None:
    text = PAGE.format(output=output)
    assert executed(run_page, text, tmp_path) == ([], 3, text)


@pytest.mark.parametrize("output", ["a 1", "a 2\nb", "b\na 1", "...\nc"])
def test_another_output_is_noticed_and_can_be_written(run_page: ModuleType, tmp_path: Path, output: str) -> None:
    differences, _, result = executed(run_page, PAGE.format(output=output), tmp_path)
    assert [command for command, _ in differences] == ["python said.py"]
    assert result == PAGE.format(output="a 1\nb")


def test_times_and_names_of_runs_do_not_count(run_page: ModuleType) -> None:
    assert run_page.matches(
        "repeat: store/20261126T205552Z-0 (0.8 s real)\n", "repeat: store/20261127T000000Z-0 (9 s real)"
    )
    assert not run_page.matches("found 2 (0.8 s real)\n", "found 3 (0.8 s real)\n")
